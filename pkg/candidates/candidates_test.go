package candidates

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
)

var person = Mention{"Person", "Charles Babbage"}

// route answers with what it holds and remembers what it was asked.
type route struct {
	hits     []Hit
	found    []Found
	stored   []Entity
	err      error
	loadErr  error
	label    string
	top      int
	drop     float64
	vector   []float32
	askedFor []string
}

func (r *route) Entities(_ context.Context, m Mention, v []float32, top int, drop float64) ([]Hit, error) {
	r.label, r.vector, r.top, r.drop = m.Label, v, top, drop
	return r.hits, r.err
}

func (r *route) IDs(_ context.Context, label string, v []float32, top int, drop float64) ([]Found, error) {
	r.label, r.vector, r.top, r.drop = label, v, top, drop
	return r.found, r.err
}

func (r *route) Load(_ context.Context, ids []string) ([]Entity, error) {
	r.askedFor = ids
	return r.stored, r.loadErr
}

func TestInBatch(t *testing.T) {
	all := []Mention{person, {"Place", "Charles Babbage"}, {"Person", "Ada"}, person}
	for _, s := range []CandidateSource{&Native{}, &Copied{}} {
		require.Equal(t, []Candidate{{2, all[2]}, {3, all[3]}}, s.InBatch(0, all), "every other one of the label, equal names too")
		require.Empty(t, s.InBatch(1, all))
		require.Empty(t, s.InBatch(4, all))
		require.Empty(t, s.InBatch(-1, all))
	}
}

func TestNativeGivesStoredEntities(t *testing.T) {
	r := &route{hits: []Hit{{Entity{ID: "b", Label: "Person", Name: "C. Babbage"}, 0.9}, {Entity{ID: "a", Label: "Person", Name: "Ch. Babbage"}, 0.85}}}
	s := NewNative(embed.NewHash(), r)
	got, err := s.Global(t.Context(), person)
	require.NoError(t, err)
	require.Equal(t, r.hits, got)
	require.Equal(t, []any{"Person", TopK + 1, 0.8}, []any{r.label, r.top, r.drop})
	want, err := embed.NewHash().Embed(t.Context(), []string{"Charles Babbage"})
	require.NoError(t, err)
	require.Equal(t, want[0], r.vector)

	r.hits = nil
	got, err = s.Global(t.Context(), person)
	require.NoError(t, err)
	require.Equal(t, []Hit{}, got, "searched, found nothing")
	r.hits = []Hit{{Entity{ID: "a", Label: "Place", Name: "x"}, 1}}
	_, err = s.Global(t.Context(), person)
	require.ErrorIs(t, err, ErrRoute)
	r.err = errors.New("no answer")
	_, err = s.Global(t.Context(), person)
	require.EqualError(t, err, `search Person "Charles Babbage": no answer`)
}

// TestScoresAreKeyedByID: the first hit fails to load, the others come in another order, and each has its own score.
func TestScoresAreKeyedByID(t *testing.T) {
	r := &route{
		found: []Found{{"gone", 0.99}, {"b", 0.95}, {"place", 0.94}, {"a", 0.9}, {"b", 0.1}, {"noname", 0.89}, {"bytes", 0.88}, {"nan", math.NaN()}, {"", 0.8}},
		stored: []Entity{{ID: "a", Label: "Person", Name: "A"}, {ID: "place", Label: "Place", Name: "P"}, {ID: "noname", Label: "Person"},
			{ID: "bytes", Label: "Person", Name: "\xff"}, {ID: "", Label: "Person", Name: "?"}, {ID: "stranger", Label: "Person", Name: "S"}, {ID: "b", Label: "Person", Name: "B", Aliases: []string{"BB"}}},
	}
	got, err := NewCopied(embed.NewHash(), r, r).Global(t.Context(), person)
	require.NoError(t, err)
	require.Equal(t, []Hit{{r.stored[6], 0.95}, {r.stored[0], 0.9}}, got)
	require.Equal(t, []string{"gone", "b", "place", "a", "noname", "bytes"}, r.askedFor)
	scores := ScoresOf(r.found)
	require.Equal(t, 0.95, scores.Of("b"))
	require.Zero(t, scores.Of("stranger"), "0 for an id without a hit")
}

func TestErrorsAreErrors(t *testing.T) {
	r := &route{found: []Found{{"a", 0.9}}, loadErr: errors.New("graph is away")}
	_, err := NewCopied(embed.NewHash(), r, r).Global(t.Context(), person)
	require.EqualError(t, err, `load 1 entities near Person "Charles Babbage": graph is away`)
	r.err = errors.New("down")
	_, err = NewCopied(embed.NewHash(), r, r).Global(t.Context(), person)
	require.EqualError(t, err, `search Person "Charles Babbage": down`)
	r.err, r.loadErr, r.found = nil, nil, nil
	got, err := NewCopied(embed.NewHash(), r, r).Global(t.Context(), person)
	require.NoError(t, err)
	require.Equal(t, []Hit{}, got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = NewCopied(embed.NewHash(), r, r).Global(ctx, person)
	require.ErrorIs(t, err, context.Canceled)
	for i := range 70 {
		r.found = append(r.found, Found{fmt.Sprint(i), 0.9})
		r.stored = append(r.stored, Entity{ID: fmt.Sprint(i), Label: "Person", Name: "n"})
	}
	got, err = NewCopied(embed.NewHash(), r, r).Global(t.Context(), person)
	require.NoError(t, err)
	require.Len(t, got, TopK+1)
}
