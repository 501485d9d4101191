// Package eval scores an extraction against a gold set: precision, recall and F1 per type and relation.
package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/chunker"
	"github.com/factmill/factmill/services/extractor"
	"github.com/factmill/factmill/services/loader"
)

// Item is one text of a gold set, or one file of a corpus, with everything that it states.
type Item struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Document is the file below the corpus's directory that holds the text, in place of ID and Text.
	Document string `json:"document"`
	Entities []struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"entities"`
	Relations []struct {
		Type   string `json:"type"`
		Source string `json:"source"`
		Target string `json:"target"`
	} `json:"relations"`
}

// Read reads a gold set, one JSON object a line.
func Read(r io.Reader) ([]Item, error) {
	var out []Item
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if len(sc.Bytes()) == 0 {
			continue
		}
		var it Item
		if err := json.Unmarshal(sc.Bytes(), &it); err != nil {
			return nil, fmt.Errorf("gold item %d: %w", len(out)+1, err)
		}
		out = append(out, it)
	}
	return out, sc.Err()
}

// Count of what was found and what was there.
type Count struct{ Right, Found, Gold int }

// Precision is Right / Found; 1 when nothing was found.
func (c Count) Precision() float64 { return share(c.Right, c.Found) }

// Recall is Right / Gold; 1 when nothing was there.
func (c Count) Recall() float64 { return share(c.Right, c.Gold) }

// F1 is the harmonic mean of both.
func (c Count) F1() float64 {
	p, r := c.Precision(), c.Recall()
	if p+r == 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

func share(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// Score is the counts per label, and of all entities and relations together.
type Score struct {
	Entities, Relations       map[string]*Count
	AllEntities, AllRelations Count
	// Misses and Extras are lines for a person to read.
	Misses, Extras []string
}

// fixed is one schema for every graph.
type fixed struct{ s *schema.Schema }

func (f fixed) Get(context.Context, string, uint64) (*schema.Schema, error) { return f.s, nil }

// Without returns the schema without its `rules:` section.
func Without(s *schema.Schema) (*schema.Schema, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(s.Marshal(), &m); err != nil {
		return nil, fmt.Errorf("schema %s without rules: %w", s.Name(), err)
	}
	delete(m, "rules")
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("schema %s without rules: %w", s.Name(), err)
	}
	return schema.Parse(b, s.Name()+".json", nil)
}

// stages read documents in this process.
type stages struct {
	cut  *chunker.Stage
	read *extractor.Stage
	job  events.Job
}

func newStages(s *schema.Schema) (*stages, error) {
	cut, err := chunker.NewStage(chunker.Config{}, app.Deps{})
	if err != nil {
		return nil, err
	}
	read, err := extractor.NewStage(extractor.Config{}, app.Deps{}, fixed{s})
	if err != nil {
		return nil, err
	}
	p := settings.Default()
	return &stages{cut, read, events.Job{Graph: "eval", ID: "eval", Attempt: 1, SchemaRevision: 1, SchemaFP: s.Fingerprint(), Settings: p,
		ChunkerFP: p.ChunkerFingerprint(), ExtractionFP: p.ExtractionFingerprint(s), ErrorPolicy: events.PolicyRaise}}, nil
}

// document chunks and reads one document.
func (st *stages) document(ctx context.Context, d loader.Document) (*events.Extracted, error) {
	made, err := st.cut.Handle(ctx, bus.Delivery{Event: &events.Loaded{
		Job: st.job, Doc: events.DocRef{Key: d.Meta.Key, Token: fingerprint.Token(d.Meta.Key)}, Meta: d.Meta, Text: d.Text, Markup: d.Markup,
	}})
	if err != nil {
		return nil, err
	}
	out, err := st.read.Handle(ctx, bus.Delivery{Event: made[0]})
	if err != nil {
		return nil, err
	}
	return out[0].(*events.Extracted), nil
}

// Run reads every item in mode rules and scores what became facts. A text is a document of its own; a file of a corpus lies below dir
// and is loaded and chunked as the pipeline does it, all its documents counting as one.
func Run(ctx context.Context, items []Item, s *schema.Schema, dir string) (*Score, error) {
	st, err := newStages(s)
	if err != nil {
		return nil, err
	}
	score := &Score{Entities: map[string]*Count{}, Relations: map[string]*Count{}}
	for _, it := range items {
		data := []byte(it.Text)
		name, format := it.ID, "text"
		if it.Document != "" {
			name, format = it.Document, ""
			if data, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(it.Document))); err != nil {
				return nil, fmt.Errorf("gold item: %w", err)
			}
		}
		it.ID = name
		var read []*events.Extracted
		err := loader.Read(ctx, loader.Config{}, name, data, format, func(d loader.Document) error {
			x, err := st.document(ctx, d)
			read = append(read, x)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("gold item %s: %w", name, err)
		}
		score.add(it, read)
	}
	return score, nil
}

type relation struct{ label, source, target string }

// add compares one item. Entities count once by type and name, a short form as the name it is of; relations by type and ends.
func (s *Score) add(it Item, read []*events.Extracted) {
	found, foundRel := map[[2]string]bool{}, map[relation]bool{}
	name := func(e graph.EntityItem) string {
		if e.Of != "" {
			return fingerprint.Fold(e.Of)
		}
		return fingerprint.Fold(e.Name)
	}
	for _, x := range read {
		for _, c := range x.Extraction.Chunks {
			for _, e := range c.Entities {
				found[[2]string{e.Type, name(e)}] = true
			}
			for _, r := range c.Relations {
				foundRel[relation{r.Type, name(c.Entities[r.Source]), name(c.Entities[r.Target])}] = true
			}
		}
	}
	gold, goldRel := map[[2]string]bool{}, map[relation]bool{}
	for _, e := range it.Entities {
		gold[[2]string{e.Type, fingerprint.Fold(e.Name)}] = true
	}
	for _, r := range it.Relations {
		goldRel[relation{r.Type, fingerprint.Fold(r.Source), fingerprint.Fold(r.Target)}] = true
	}
	compare(s, found, gold, s.Entities, &s.AllEntities, it, func(k [2]string) (string, string) { return k[0], k[0] + " " + k[1] })
	compare(s, foundRel, goldRel, s.Relations, &s.AllRelations, it, func(k relation) (string, string) {
		return k.label, k.source + " " + k.label + " " + k.target
	})
}

func compare[K comparable](s *Score, found, gold map[K]bool, by map[string]*Count, all *Count, it Item, describe func(K) (label, text string)) {
	count := func(label string) *Count {
		if by[label] == nil {
			by[label] = &Count{}
		}
		return by[label]
	}
	for k := range found {
		label, text := describe(k)
		c := count(label)
		c.Found++
		all.Found++
		if gold[k] {
			c.Right++
			all.Right++
		} else {
			s.Extras = append(s.Extras, it.ID+": "+text+"   | "+it.Text)
		}
	}
	for k := range gold {
		label, text := describe(k)
		count(label).Gold++
		all.Gold++
		if !found[k] {
			s.Misses = append(s.Misses, it.ID+": "+text+"   | "+it.Text)
		}
	}
}

// row is one line of a table.
type row struct {
	label     string
	this, old Count
}

// rows are the labels, then all, first of entities, then of relations; old may be nil.
func (s *Score) rows(old *Score) []row {
	if old == nil {
		old = &Score{}
	}
	var out []row
	part := func(as string, by, oldBy map[string]*Count, all, oldAll Count) {
		from := len(out)
		for label, c := range by {
			r := row{label: label, this: *c, old: Count{Gold: c.Gold}}
			if o := oldBy[label]; o != nil {
				r.old = *o
			}
			out = append(out, r)
		}
		for label, o := range oldBy {
			if by[label] == nil {
				out = append(out, row{label: label, this: Count{Gold: o.Gold}, old: *o})
			}
		}
		sort.Slice(out[from:], func(i, j int) bool { return out[from+i].label < out[from+j].label })
		out = append(out, row{as, all, oldAll})
	}
	part("all entities", s.Entities, old.Entities, s.AllEntities, old.AllEntities)
	part("all relations", s.Relations, old.Relations, s.AllRelations, old.AllRelations)
	return out
}

// Print writes a table.
func (s *Score) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-16s %5s %5s %5s   %5s  %5s  %5s\n", "label", "gold", "found", "right", "P", "R", "F1"); err != nil {
		return err
	}
	for _, r := range s.rows(nil) {
		c := r.this
		if _, err := fmt.Fprintf(w, "%-16s %5d %5d %5d   %.3f  %.3f  %.3f\n", r.label, c.Gold, c.Found, c.Right, c.Precision(), c.Recall(), c.F1()); err != nil {
			return err
		}
	}
	return nil
}

// Compare writes a table of s beside the same without `rules:`, and the differences.
func (s *Score) Compare(w io.Writer, without *Score) error {
	if _, err := fmt.Fprintf(w, "%-16s %5s   %-19s   %-19s   %s\n%-16s %5s   %5s  %5s  %5s   %5s  %5s  %5s   %6s  %6s  %6s\n",
		"", "", "with rules:", "without", "difference", "label", "gold", "P", "R", "F1", "P", "R", "F1", "P", "R", "F1"); err != nil {
		return err
	}
	for _, r := range s.rows(without) {
		a, b := r.this, r.old
		if _, err := fmt.Fprintf(w, "%-16s %5d   %.3f  %.3f  %.3f   %.3f  %.3f  %.3f   %+.3f  %+.3f  %+.3f\n", r.label, a.Gold, a.Precision(), a.Recall(), a.F1(),
			b.Precision(), b.Recall(), b.F1(), a.Precision()-b.Precision(), a.Recall()-b.Recall(), a.F1()-b.F1()); err != nil {
			return err
		}
	}
	return nil
}
