// Package candidates finds the entities that a mention may be: in its own batch, and among all stored ones. It says who is worth comparing and
// decides nothing.
package candidates

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/embed"
)

// TopK is the most others that a global search finds. One more is asked for: a stored name lies nearest to itself.
const TopK = 50

// Mention is a name of a label that stands for an entity.
type Mention struct {
	Label string
	Name  string
}

// Candidate is another mention of the same batch.
type Candidate struct {
	Index   int // in the batch
	Mention Mention
}

// Entity is a stored one.
type Entity struct {
	ID      string
	Label   string
	Name    string   // as displayed
	Aliases []string // declared ones
}

// Hit is a stored entity and its similarity to the mention: the cosine of their names, -1…1.
type Hit struct {
	Entity Entity
	Score  float64
}

// CandidateSource says whom a mention may be compared with. Native and Copied are the two routes.
type CandidateSource interface {
	// InBatch returns every other mention of the label of mentions[index], in the batch's order. An index outside has none.
	InBatch(index int, mentions []Mention) []Candidate
	// Global returns the stored entities of the mention's label that are near it, at most TopK and itself, in hit order. An empty list says: searched, found
	// nothing. Whatever went wrong is an error.
	Global(ctx context.Context, m Mention) ([]Hit, error)
}

// ErrRoute says that a route answered with what cannot be.
var ErrRoute = errors.New("malformed answer of a vector search")

// InBatch is that of both routes.
func InBatch(index int, mentions []Mention) []Candidate {
	if index < 0 || index >= len(mentions) {
		return nil
	}
	var out []Candidate
	for i, m := range mentions {
		if i != index && m.Label == mentions[index].Label {
			out = append(out, Candidate{i, m})
		}
	}
	return out
}

// Found is what a vector search gives: an id and its score.
type Found struct {
	ID    string
	Score float64
}

// Scores are kept by id, never by position.
type Scores map[string]float64

// ScoresOf hits; of an id that comes twice the first, which is the best, counts.
func ScoresOf(found []Found) Scores {
	out := make(Scores, len(found))
	for _, f := range found {
		if _, ok := out[f.ID]; !ok {
			out[f.ID] = f.Score
		}
	}
	return out
}

// Of is the score of an id, 0 for one without a hit.
func (s Scores) Of(id string) float64 { return s[id] }

// EntitySearch is the native route's: the committer answers with the stored entities, at most top of drop and more, best first.
type EntitySearch interface {
	Entities(ctx context.Context, m Mention, vector []float32, top int, drop float64) ([]Hit, error)
}

// IDSearch is a copy's: ids of the label and their scores, best first.
type IDSearch interface {
	IDs(ctx context.Context, label string, vector []float32, top int, drop float64) ([]Found, error)
}

// Loader gives the stored entities of ids, in any order; one that is gone is left out.
type Loader interface {
	Load(ctx context.Context, ids []string) ([]Entity, error)
}

// Native is the graph-native route: what is found is the stored entity.
type Native struct {
	embedder embed.Embedder
	search   EntitySearch
}

// NewNative makes the route; hits are from the embedder's drop threshold on.
func NewNative(e embed.Embedder, s EntitySearch) *Native { return &Native{e, s} }

// InBatch implements CandidateSource.
func (*Native) InBatch(index int, mentions []Mention) []Candidate { return InBatch(index, mentions) }

// Global implements CandidateSource.
func (n *Native) Global(ctx context.Context, m Mention) ([]Hit, error) {
	v, drop, err := vector(ctx, n.embedder, m)
	if err != nil {
		return nil, err
	}
	hits, err := n.search.Entities(ctx, m, v, TopK+1, drop)
	if err != nil {
		return nil, fmt.Errorf("search %s %q: %w", m.Label, m.Name, err)
	}
	out := make([]Hit, 0, min(len(hits), TopK+1))
	for _, h := range hits {
		if !whole(h.Entity, m.Label) || math.IsNaN(h.Score) {
			return nil, fmt.Errorf("search %s %q: %w: entity %q of %q", m.Label, m.Name, ErrRoute, h.Entity.ID, h.Entity.Label)
		}
		if out = append(out, h); len(out) == TopK+1 {
			break
		}
	}
	return out, nil
}

// Copied is the route through a copy elsewhere (Milvus), which knows labels and texts alone: entities are loaded from the graph by hit id. One that is gone,
// malformed, or of another label meanwhile is skipped; the others keep their own scores.
type Copied struct {
	embedder embed.Embedder
	search   IDSearch
	load     Loader
}

// NewCopied makes the route; hits are from the embedder's drop threshold on.
func NewCopied(e embed.Embedder, s IDSearch, l Loader) *Copied { return &Copied{e, s, l} }

// InBatch implements CandidateSource.
func (*Copied) InBatch(index int, mentions []Mention) []Candidate { return InBatch(index, mentions) }

// Global implements CandidateSource.
func (c *Copied) Global(ctx context.Context, m Mention) ([]Hit, error) {
	v, drop, err := vector(ctx, c.embedder, m)
	if err != nil {
		return nil, err
	}
	found, err := c.search.IDs(ctx, m.Label, v, TopK+1, drop)
	if err != nil {
		return nil, fmt.Errorf("search %s %q: %w", m.Label, m.Name, err)
	}
	found = found[:min(len(found), TopK+1)]
	scores := ScoresOf(found)
	ids := make([]string, 0, len(found))
	asked := make(map[string]bool, len(found))
	for _, f := range found {
		if f.ID != "" && !asked[f.ID] && !math.IsNaN(f.Score) {
			asked[f.ID] = true
			ids = append(ids, f.ID)
		}
	}
	out := []Hit{}
	if len(ids) == 0 {
		return out, nil
	}
	stored, err := c.load.Load(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("load %d entities near %s %q: %w", len(ids), m.Label, m.Name, err)
	}
	byID := make(map[string]Entity, len(stored))
	for _, e := range stored {
		if whole(e, m.Label) {
			byID[e.ID] = e
		}
	}
	for _, id := range ids {
		if e, ok := byID[id]; ok {
			out = append(out, Hit{e, scores.Of(id)})
		}
	}
	return out, nil
}

// whole says whether an entity can be compared with mentions of a label.
func whole(e Entity, label string) bool {
	return e.ID != "" && e.Label == label && e.Name != "" && utf8.ValidString(e.Name)
}

func vector(ctx context.Context, e embed.Embedder, m Mention) (v []float32, drop float64, err error) {
	vs, err := e.Embed(ctx, []string{m.Name})
	if err == nil {
		err = embed.Check(e, 1, vs)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("embed %s %q: %w", m.Label, m.Name, err)
	}
	_, drop = e.Thresholds()
	return vs[0], drop, nil
}
