package held

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/jobs"
)

// Kinds of staged items besides those of candidates.
const (
	itemEntity    = graph.KindEntity
	itemProperty  = graph.KindProperty
	itemRelation  = graph.KindRelation
	itemMention   = "mention"
	itemCandidate = "candidate"
)

// spot is where an item stands in the assertions of its document.
type spot struct {
	kind  string
	chunk int // place in Chunks
	at    int // place in the list of its kind; of an entity in Entities, of a candidate in Candidates
}

// staged is a document of a held job with its items named.
type staged struct {
	jobs.StagedDocument
	key   string
	a     graph.Assertions
	text  string
	names map[spot]string // item ids
	spots map[string]spot
	order []spot
}

func newStaged(key string, d jobs.StagedDocument) *staged {
	s := &staged{StagedDocument: d, key: key, names: map[spot]string{}, spots: map[string]spot{}}
	if d.Staged != nil {
		s.text = d.Staged.Text
	}
	if d.Resolved == nil {
		return s
	}
	s.a = d.Resolved.Assertions
	said := s.said()
	for i, e := range s.a.Entities {
		if said[i] {
			s.name(spot{itemEntity, 0, i}, e.ID)
		}
	}
	id := func(n int) string {
		if n < 0 || n >= len(s.a.Entities) {
			return ""
		}
		return s.a.Entities[n].ID
	}
	for c, chunk := range s.a.Chunks {
		for i, x := range chunk.Mentions {
			s.name(spot{itemMention, c, i}, chunk.Index, id(x.Entity), x.Start, x.End)
		}
		for i, x := range chunk.Properties {
			s.name(spot{itemProperty, c, i}, chunk.Index, id(x.Entity), x.Name, x.Value, x.Start, x.End, x.Extractor)
		}
		for i, x := range chunk.Relations {
			s.name(spot{itemRelation, c, i}, chunk.Index, x.Type, id(x.Source), id(x.Target), x.Start, x.End, x.Assertion, x.Extractor, x.Properties)
		}
	}
	for i, x := range s.a.Candidates {
		s.name(spot{itemCandidate, 0, i}, x.Key)
	}
	return s
}

// name gives an item its id: a hash of what it says, so that it stays what it is while others are edited. Equal items are numbered.
func (s *staged) name(at spot, parts ...any) {
	b, err := json.Marshal(append([]any{at.kind}, parts...))
	if err != nil { // values come from JSON
		b = fmt.Append(nil, at.kind, parts)
	}
	sum := sha256.Sum256(b)
	id := at.kind[:1] + hex.EncodeToString(sum[:6])
	for n, base := 2, id; ; n++ {
		if _, taken := s.spots[id]; !taken {
			break
		}
		id = fmt.Sprintf("%s-%d", base, n)
	}
	s.names[at], s.spots[id] = id, at
	s.order = append(s.order, at)
}

// said are the entities that the document still says something of. Dropped ones keep their places, which the others are counted by.
func (s *staged) said() map[int]bool {
	out := map[int]bool{}
	for _, c := range s.a.Chunks {
		for _, m := range c.Mentions {
			out[m.Entity] = true
		}
		for _, p := range c.Properties {
			out[p.Entity] = true
		}
		for _, r := range c.Relations {
			out[r.Source], out[r.Target] = true, true
		}
	}
	return out
}

// called is the name of an entity: the first mention whose fold is its key as written, else the key.
func (s *staged) called(n int) string {
	if n < 0 || n >= len(s.a.Entities) {
		return ""
	}
	first := ""
	for _, c := range s.a.Chunks {
		for _, m := range c.Mentions {
			if m.Entity != n {
				continue
			}
			if foldsTo(m.Name, s.a.Entities[n].Key) {
				return m.Name
			}
			if first == "" {
				first = m.Name
			}
		}
	}
	if s.a.Entities[n].Key != "" {
		return s.a.Entities[n].Key
	}
	return first
}

func (s *staged) quote(start, end int) string {
	if start < 0 || start > end || end > len(s.text) {
		return ""
	}
	return clip(s.text[start:end])
}

const maxQuote = 500

func clip(t string) string {
	if len(t) <= maxQuote {
		return t
	}
	n := maxQuote
	for n > 0 && !utf8.RuneStart(t[n]) {
		n--
	}
	return t[:n] + "…"
}

// item is what is shown of one.
func (s *staged) item(at spot) api.StagedItem {
	x := api.StagedItem{Item: s.names[at], Kind: at.kind}
	end := func(n int) (name, item string) { return s.called(n), s.names[spot{itemEntity, 0, n}] }
	switch at.kind {
	case itemEntity:
		e := s.a.Entities[at.at]
		x.Label, x.Text, x.Entity = e.Label, s.called(at.at), e.ID
	case itemMention:
		m := s.a.Chunks[at.chunk].Mentions[at.at]
		x.Text, x.Start, x.End, x.Confidence = m.Name, m.Start, m.End, m.Confidence
		x.Source, x.SourceItem = end(m.Entity)
	case itemProperty:
		p := s.a.Chunks[at.chunk].Properties[at.at]
		x.Label, x.Value, x.Start, x.End, x.Confidence, x.Quote = p.Name, p.Value, p.Start, p.End, p.Confidence, s.quote(p.Start, p.End)
		x.Source, x.SourceItem = end(p.Entity)
	case itemRelation:
		r := s.a.Chunks[at.chunk].Relations[at.at]
		x.Label, x.Start, x.End, x.Confidence, x.Quote, x.Properties = r.Type, r.Start, r.End, r.Confidence, s.quote(r.Start, r.End), maps.Clone(r.Properties)
		x.Source, x.SourceItem = end(r.Source)
		x.Target, x.TargetItem = end(r.Target)
	case itemCandidate:
		c := s.a.Candidates[at.at]
		x.Label, x.Text, x.Source, x.Target, x.Start, x.End, x.Confidence = c.Label, clip(c.Text), c.SourceText, c.TargetText, c.Start, c.End, c.Confidence
	}
	return x
}

// shown is the order in which items are listed: what is said of a place together, entities first.
func (s *staged) shown() []api.StagedItem {
	out := make([]api.StagedItem, 0, len(s.order))
	for _, at := range s.order {
		out = append(out, s.item(at))
	}
	rank := map[string]int{itemEntity: 0, itemRelation: 1, itemProperty: 2, itemMention: 3, itemCandidate: 4}
	slices.SortStableFunc(out, func(a, b api.StagedItem) int {
		return rank[a.Kind] - rank[b.Kind]
	})
	return out
}

// documents adds the items of one document, or of the first ones that fit, to a job that is shown.
func (d *Desk) documents(ctx context.Context, graphName, wanted string, job *api.JobItem) error {
	if wanted != "" {
		i := slices.IndexFunc(job.Documents, func(x api.JobDocument) bool { return x.Key == wanted })
		one := api.JobDocument{Key: wanted, Items: []api.StagedItem{}}
		if i >= 0 {
			one = job.Documents[i]
		}
		job.Documents = []api.JobDocument{one}
	}
	used := 0
	for i := range job.Documents {
		x := &job.Documents[i]
		if used > itemsBudget {
			break
		}
		read, err := d.deps.Jobs.Read(ctx, graphName, job.Job, []string{x.Key})
		var e *api.Error
		if errors.As(err, &e) && e.Code == "job_not_held" { // it was decided meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		items := newStaged(x.Key, read[0]).shown()
		x.ItemsTotal = len(items)
		for _, it := range items {
			if used += 300 + 6*(len(it.Text)+len(it.Quote)+len(it.Source)+len(it.Target)) + 40*len(it.Properties); used > itemsBudget && (i > 0 || len(x.Items) > 0) {
				break
			}
			x.Items = append(x.Items, it)
		}
	}
	return nil
}

// find is the item that an edit names.
func (s *staged) find(id string) (spot, error) {
	at, ok := s.spots[strings.TrimSpace(id)]
	if !ok {
		return at, api.Errorf(404, "item_not_found", "edits: document %.200q has no item %.60q: show lists them with their ids", s.key, id)
	}
	return at, nil
}
