// Package vectorstest is the suite that every route to vectors passes: the native index, and a copy elsewhere. For tests only.
package vectorstest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Route is what the suite needs of one.
type Route interface {
	vectors.Searcher
	vectors.Sink
	Count(ctx context.Context, k vectors.Kind) (int64, error)
}

// ID is a UUID made of a number.
func ID(n int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint("vector ", n)))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Item is a name's, by the embedder hash.
func Item(n int, label, name string) vectors.Item {
	return vectors.Item{Ref: vectors.Ref{Kind: vectors.Entity, ID: ID(n)}, Label: label, Text: name, Vector: Vector(name)}
}

// Vector of a text by the embedder hash.
func Vector(text string) []float32 {
	v, err := embed.NewHash().Embed(context.Background(), []string{text})
	if err != nil {
		panic(err) // hash fails with its context alone
	}
	return v[0]
}

// rounds of writing and reading.
const rounds = 40

// Conformance runs the suite against an empty route for the embedder hash; reopen returns the same route as a process that was started
// again sees it.
func Conformance(t *testing.T, open func(t *testing.T) (r Route, reopen func() Route)) {
	r, reopen := open(t)
	ctx := t.Context()
	search := func(label, name string, top int, drop float64) []vectors.Hit {
		t.Helper()
		hits, err := r.Search(ctx, vectors.Entity, label, Vector(name), top, drop)
		require.NoError(t, err)
		require.NotNil(t, hits, "searched and found nothing is an empty list")
		return hits
	}
	score := func(a, b string) float64 { return embed.Cosine(Vector(a), Vector(b)) }

	require.Empty(t, search("Person", "Charles Babbage", 50, 0.8), "an empty route answers")
	p, err := r.Position(ctx)
	require.NoError(t, err)
	require.Zero(t, p)

	people := []string{"Charles Babbage", "Charles Babage", "Ada Lovelace", "Augusta Ada King", "Charles Babbage Jr."}
	var b vectors.Batch
	for i, name := range people {
		b.Upserts = append(b.Upserts, Item(i, "Person", name))
	}
	b.Upserts = append(b.Upserts, Item(10, "Place", "Charles Babbage"),
		vectors.Item{Ref: vectors.Ref{Kind: vectors.Chunk, ID: ID(0)}, Text: "Charles Babbage built an engine.", Vector: Vector("Charles Babbage built an engine.")},
		Item(11, "Odd \" == '\\ label", "Charles Babbage"))
	b.Position = 3
	require.NoError(t, r.Apply(ctx, b))
	require.NoError(t, r.Apply(ctx, b), "what comes twice changes nothing")
	n, err := r.Count(ctx, vectors.Entity)
	require.NoError(t, err)
	require.Equal(t, int64(7), n)

	require.Equal(t, []vectors.Hit{{ID: ID(0), Score: score("Charles Babbage", "Charles Babbage")},
		{ID: ID(4), Score: score("Charles Babbage", "Charles Babbage Jr.")},
		{ID: ID(1), Score: score("Charles Babbage", "Charles Babage")}}, search("Person", "Charles Babbage", 50, 0.8), "by label, best first, from the drop on")
	require.Len(t, search("Person", "Charles Babbage", 2, 0.8), 2)
	require.Equal(t, []vectors.Hit{{ID: ID(10), Score: score("Charles Babbage", "Charles Babbage")}}, search("Place", "Charles Babbage", 50, 0.8))
	require.Equal(t, ID(11), search("Odd \" == '\\ label", "Charles Babbage", 50, 0.8)[0].ID, "a label is data")
	require.Empty(t, search("Thing", "Charles Babbage", 50, 0.8))
	chunks, err := r.Search(ctx, vectors.Chunk, "", Vector("engine"), 50, 0.1)
	require.NoError(t, err)
	require.Equal(t, []vectors.Hit{{ID: ID(0), Score: score("engine", "Charles Babbage built an engine.")}}, chunks, "one id in two kinds is two vectors")

	require.NoError(t, r.Apply(ctx, vectors.Batch{Upserts: []vectors.Item{Item(0, "Place", "Northpoint")}, Deletes: []vectors.Ref{
		{Kind: vectors.Entity, ID: ID(4)}, {Kind: vectors.Entity, ID: ID(999)}}, Position: 4}), "what is not there can be deleted")
	require.Equal(t, []vectors.Hit{{ID: ID(1), Score: score("Charles Babbage", "Charles Babage")}}, search("Person", "Charles Babbage", 50, 0.8), "a vector moves with its label")
	require.Len(t, search("Place", "Northpoint", 50, 0.8), 1)

	bad := vectors.Batch{Upserts: []vectors.Item{{Ref: vectors.Ref{Kind: vectors.Entity, ID: ID(5)}, Label: "A", Text: "a", Vector: []float32{1}}}}
	require.ErrorIs(t, r.Apply(ctx, bad), vectors.ErrBadItem)
	_, err = r.Search(ctx, vectors.Entity, "Person", []float32{1}, 50, 0.8)
	require.ErrorIs(t, err, vectors.ErrBadItem, "an error is an error")
	dead, cancel := context.WithCancel(ctx)
	cancel()
	_, err = r.Search(dead, vectors.Entity, "Person", Vector("Charles Babbage"), 50, 0.8)
	require.ErrorIs(t, err, context.Canceled)

	crowd := vectors.Batch{Position: 5}
	for i := range 700 {
		crowd.Upserts = append(crowd.Upserts, Item(1000+i, "Sensor", fmt.Sprintf("Sensor %d", 7000+i)))
	}
	require.NoError(t, r.Apply(ctx, crowd))
	got := search("Sensor", "Sensor 7123", 50, 0.9)
	require.Equal(t, ID(1123), got[0].ID)
	for i, h := range got {
		require.GreaterOrEqual(t, h.Score, 0.9)
		require.True(t, i == 0 || got[i-1].Score > h.Score || got[i-1].Score == h.Score && got[i-1].ID < h.ID)
	}

	r = reopen()
	p, err = r.Position(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(5), p, "the position outlives the process")
	n, err = r.Count(ctx, vectors.Entity)
	require.NoError(t, err)
	require.Equal(t, int64(706), n)
	require.Equal(t, got, search("Sensor", "Sensor 7123", 50, 0.9))

	for i := range rounds { // what was written is read, at once, by whoever wrote it and by a process that was started since
		here, there := []string{"Port", "Star"}[i%2], []string{"Port", "Star"}[1-i%2]
		require.NoError(t, r.Apply(ctx, vectors.Batch{Upserts: []vectors.Item{Item(20, here, "Castor"), Item(21, there, "Castor")}, Position: uint64(6 + 2*i)}))
		require.NoError(t, r.Apply(ctx, vectors.Batch{Deletes: []vectors.Ref{{Kind: vectors.Entity, ID: ID(21 - i%2*1000)}}, Position: uint64(7 + 2*i)}))
		if i%5 == 4 {
			r = reopen()
		}
		want := []vectors.Hit{{ID: ID(20), Score: score("Castor", "Castor")}}
		require.Equal(t, want, search(here, "Castor", 50, 0.8), "round %d", i)
		if want = want[:0]; i%2 == 1 { // 21 was left
			want = append(want, vectors.Hit{ID: ID(21), Score: score("Castor", "Castor")})
		}
		require.Equal(t, want, search(there, "Castor", 50, 0.8), "round %d", i)
	}

	require.NoError(t, r.Clear(ctx))
	require.Empty(t, search("Person", "Charles Babbage", 50, 0.8))
	p, err = r.Position(ctx)
	require.NoError(t, err)
	require.Zero(t, p, "what was emptied is filled from the beginning")
}
