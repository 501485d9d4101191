// Package eval scores an extraction against a gold set: precision, recall and F1 per type and relation.
package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor"
)

// Item is one text of a gold set with everything that it states.
type Item struct {
	ID       string `json:"id"`
	Text     string `json:"text"`
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

// Run reads every text as a document of one chunk, in mode rules, and scores what became facts.
func Run(ctx context.Context, items []Item, s *schema.Schema) (*Score, error) {
	st, err := extractor.NewStage(extractor.Config{}, app.Deps{}, fixed{s})
	if err != nil {
		return nil, err
	}
	p := settings.Default()
	job := events.Job{Graph: "eval", ID: "eval", Attempt: 1, SchemaRevision: 1, SchemaFP: s.Fingerprint(), Settings: p,
		ChunkerFP: p.ChunkerFingerprint(), ExtractionFP: p.ExtractionFingerprint(s), ErrorPolicy: events.PolicyRaise}
	score := &Score{Entities: map[string]*Count{}, Relations: map[string]*Count{}}
	for _, it := range items {
		text := fingerprint.Normalize(it.Text)
		out, err := st.Handle(ctx, bus.Delivery{Event: &events.Chunked{Job: job, Doc: events.DocRef{Key: it.ID, Token: fingerprint.Token(it.ID)},
			Text: text, Chunks: []graph.Chunk{{Start: 0, End: len(text), Content: "text"}}}})
		if err != nil {
			return nil, fmt.Errorf("gold item %s: %w", it.ID, err)
		}
		score.add(it, out[0].(*events.Extracted))
	}
	return score, nil
}

type relation struct{ label, source, target string }

// add compares one item. Entities count once by type and name, a short form as the name it is of; relations by type and ends.
func (s *Score) add(it Item, x *events.Extracted) {
	found, foundRel := map[[2]string]bool{}, map[relation]bool{}
	name := func(e graph.EntityItem) string {
		if e.Of != "" {
			return fingerprint.Fold(e.Of)
		}
		return fingerprint.Fold(e.Name)
	}
	for _, c := range x.Extraction.Chunks {
		for _, e := range c.Entities {
			found[[2]string{e.Type, name(e)}] = true
		}
		for _, r := range c.Relations {
			foundRel[relation{r.Type, name(c.Entities[r.Source]), name(c.Entities[r.Target])}] = true
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

// Print writes a table.
func (s *Score) Print(w io.Writer) error {
	line := func(label string, c Count) error {
		_, err := fmt.Fprintf(w, "%-16s %5d %5d %5d   %.3f  %.3f  %.3f\n", label, c.Gold, c.Found, c.Right, c.Precision(), c.Recall(), c.F1())
		return err
	}
	if _, err := fmt.Fprintf(w, "%-16s %5s %5s %5s   %5s  %5s  %5s\n", "label", "gold", "found", "right", "P", "R", "F1"); err != nil {
		return err
	}
	for _, part := range []struct {
		by  map[string]*Count
		all Count
		as  string
	}{{s.Entities, s.AllEntities, "all entities"}, {s.Relations, s.AllRelations, "all relations"}} {
		labels := make([]string, 0, len(part.by))
		for l := range part.by {
			labels = append(labels, l)
		}
		sort.Strings(labels)
		for _, l := range labels {
			if err := line(l, *part.by[l]); err != nil {
				return err
			}
		}
		if err := line(part.as, part.all); err != nil {
			return err
		}
	}
	return nil
}
