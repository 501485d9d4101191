// Package desk is what the answers about review items have in common: pages in the order of the review list, and quotes with the text
// around them.
package desk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// MaxLimit is how many groups a page has.
	MaxLimit = 1000
	// ReplyBudget is about how many bytes of groups a reply has.
	ReplyBudget = 700 << 10
	// MaxDistinct is how many documents are looked at to count one that is named twice once.
	MaxDistinct = 1000
	surrounding = 200 // bytes of text on either side of a quote
)

// With calls fn on a snapshot of the graph's current sequence; nil where the graph does not exist.
func With(st *store.Store, graphName string, fn func(sn *store.Snapshot) error) error {
	sn, err := st.Snapshot(graphName, 0)
	if errors.Is(err, store.ErrNoGraph) {
		return fn(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(sn), sn.Close())
}

// Placed is an item and where it stands in a list.
type Placed[T any] struct {
	Item  T
	Place api.Place
}

// Top keeps the first few of many items, whatever order they come in.
type Top[T any] struct {
	limit int
	list  []Placed[T]
}

// NewTop keeps the first limit items.
func NewTop[T any](limit int) *Top[T] { return &Top[T]{limit: limit} }

// Add takes an item.
func (t *Top[T]) Add(item T, place api.Place) {
	if t.list = append(t.list, Placed[T]{item, place}); len(t.list) >= 2*t.limit+64 {
		t.cut()
	}
}

// List is what was kept, in order.
func (t *Top[T]) List() []Placed[T] {
	t.cut()
	return t.list
}

func (t *Top[T]) cut() {
	slices.SortFunc(t.list, func(a, b Placed[T]) int {
		switch {
		case a.Place.Before(b.Place):
			return -1
		case b.Place.Before(a.Place):
			return 1
		}
		return 0
	})
	t.list = t.list[:min(len(t.list), t.limit)]
}

// Fill makes groups of the first limit items, up to about ReplyBudget bytes; more says that items are left.
func Fill[T any](list []Placed[T], limit int, group func(T) (api.Group, error)) (groups []api.Group, more bool, err error) {
	groups = []api.Group{}
	used := 0
	for i, x := range list {
		if i == limit {
			return groups, true, nil
		}
		g, err := group(x.Item)
		if err != nil {
			return groups, false, err
		}
		if used += groupSize(g); used > ReplyBudget && i > 0 {
			return groups, true, nil
		}
		groups = append(groups, g)
	}
	return groups, false, nil
}

// groupSize is the most bytes, about, that a group takes in a reply.
func groupSize(g api.Group) int {
	return 800 + 6*(len(g.Text)+len(g.SourceText)+len(g.TargetText)+len(g.Sample.Quote)+len(g.Sample.Document)+len(g.Label))
}

// Span is a place in a document version.
type Span struct {
	Doc               string // id
	Version           int
	Chunk, Start, End int
	Confidence        float64
	Extractor         string
}

// Quote reads a place with the text around it.
func Quote(sn *store.Snapshot, x Span) (q api.Surrounded, err error) {
	corrupt := func(what string) error {
		return fmt.Errorf("%w: a place in version %d of document %s: %s", store.ErrCorrupt, x.Version, x.Doc, what)
	}
	d, ok, err := sn.Doc(x.Doc)
	if err != nil || !ok {
		return q, cmp.Or(err, corrupt("no such document"))
	}
	v, ok, err := sn.Version(x.Doc, x.Version)
	if err != nil || !ok {
		return q, cmp.Or(err, corrupt("no such version"))
	}
	text, ok, err := sn.Text(x.Doc, x.Version)
	if err != nil || !ok {
		return q, cmp.Or(err, corrupt("no text"))
	}
	if x.Start < 0 || x.Start > x.End || x.End > len(text) {
		return q, corrupt("it is outside the text")
	}
	q.Evidence = graph.Evidence{
		Assertion: "explicit", Chunk: fingerprint.ChunkID(x.Doc, v.ContentHash, v.ChunkerFP, x.Chunk), Confidence: graph.Round6(x.Confidence),
		Document: d.Meta.Key, Start: x.Start, End: x.End, Quote: text[x.Start:x.End],
	}
	if x.Extractor != "" {
		q.Extractors = []string{x.Extractor}
	}
	q.Before = text[border(text, max(0, x.Start-surrounding)):x.Start]
	q.After = text[x.End:border(text, min(len(text), x.End+surrounding))]
	return q, nil
}

// border moves an offset to the next start of a rune.
func border(text string, at int) int {
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return at
}

// Spread takes up to limit places of some documents, the first of each before second ones.
func Spread(docs [][]Span, limit int, fn func(Span) error) error {
	n := 0
	for round, more := 0, true; more && n < limit; round++ {
		more = false
		for _, d := range docs {
			if round >= len(d) || n == limit {
				continue
			}
			more = true
			n++
			if err := fn(d[round]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Quotes reads what Spread takes.
func Quotes(sn *store.Snapshot, docs [][]Span, limit int) ([]api.Surrounded, error) {
	out := []api.Surrounded{}
	err := Spread(docs, limit, func(x Span) error {
		q, err := Quote(sn, x)
		out = append(out, q)
		return err
	})
	return out, err
}

// Mentions are the places of an entity in one document.
func Mentions(s store.MentionSupport) []Span {
	out := make([]Span, len(s.Spans))
	for i, m := range s.Spans {
		out[i] = Span{Doc: s.DocID, Version: s.Version, Chunk: m.Chunk, Start: m.Start, End: m.End, Confidence: m.Confidence, Extractor: m.Extractor}
	}
	return out
}
