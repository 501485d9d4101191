package vectors

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// cities is a document whose chunks are lines, each with a mention of a Place as its first word.
func cities(key string, lines ...string) store.DocChange {
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key}, SchemaFP: "s", SchemaRevision: 1, ChunkerFP: "c", ExtractionFP: "e", Job: "j"}
	for i, l := range lines {
		name, _, _ := strings.Cut(l, " ")
		k := fingerprint.Fold(name)
		c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: fingerprint.EntityID("Place", k), Label: "Place", Key: k})
		start := len(c.Text)
		c.Text += l + "\n"
		c.Chunks = append(c.Chunks, graph.Chunk{Start: start, End: len(c.Text), Content: "text", Tokens: 1})
		c.Assertions.Chunks = append(c.Assertions.Chunks, graph.ChunkAssertions{Index: i, Mentions: []graph.Mention{
			{Entity: i, Name: name, Start: start, End: start + len(name), Confidence: 0.9, Extractor: "rules"}}})
	}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return c
}

func indexOf(t *testing.T, st *store.Store) *Index {
	t.Helper()
	x, err := Open(t.Context(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(t, err)
	return x
}

func applied(t *testing.T, st *store.Store, order int64, changes ...store.DocChange) {
	t.Helper()
	txn, err := st.Begin(t.Context(), g)
	require.NoError(t, err)
	for _, c := range changes {
		c.Order = graph.Order{Time: order}
		_, err := txn.Apply(t.Context(), c)
		require.NoError(t, err)
	}
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
}

// The follower over the facts of a store: what commits touch is embedded, what they leave alone is not, what goes goes; and a feed that was
// trimmed leads to the same.
func TestFacts(t *testing.T) {
	st := openStore(t, t.TempDir())
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	st.Graph(g, true)
	facts, e, x := NewFacts(st, g), &counted{}, indexOf(t, st)
	f := NewFollower(FollowerConfig{Graph: g, Name: "native", Batch: 2}, FollowerDeps{Feed: facts, Texts: facts, Embedder: e, Sink: x})
	require.NoError(t, f.CatchUp(t.Context()))
	applied(t, st, 1, cities("a", "Oslo is cold.", "Rome is warm."), cities("b", "Bonn is small."))
	require.NoError(t, f.CatchUp(t.Context()))
	require.ElementsMatch(t, []string{"Oslo", "Rome", "Bonn", "Oslo is cold.\n", "Rome is warm.\n", "Bonn is small.\n"}, e.take())

	again := cities("a", "Oslo is cold.", "Rome is warm.")
	again.Decision = graph.InPlace
	meta := cities("b", "Bonn is small.")
	meta.Decision, meta.Meta.Title = graph.MetadataOnly, "Cities"
	applied(t, st, 2, again, meta)
	require.NoError(t, f.CatchUp(t.Context()))
	require.Empty(t, e.take(), "in place and metadata only embed nothing")
	require.Zero(t, f.Status().Deleted)

	applied(t, st, 3, cities("a", "Oslo is cold.", "Pisa leans."), store.DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "b"}})
	require.NoError(t, f.CatchUp(t.Context()))
	require.ElementsMatch(t, []string{"Pisa", "Oslo is cold.\n", "Pisa leans.\n"}, e.take(), "chunks are those of their version")
	entities, err := x.Count(t.Context(), Entity)
	require.NoError(t, err)
	chunks, err := x.Count(t.Context(), Chunk)
	require.NoError(t, err)
	require.Equal(t, [2]int64{2, 2}, [2]int64{entities, chunks})
	require.Equal(t, []string{fingerprint.EntityID("Place", "pisa")}, found1(t, x, "Place", "Pisa"))

	require.NoError(t, st.TrimFeed(t.Context(), g, 3))
	_, err = facts.After(t.Context(), 1, 0, 10)
	require.ErrorIs(t, err, ErrGone)
	require.NoError(t, x.Clear(t.Context()))
	require.NoError(t, f.CatchUp(t.Context()))
	require.Len(t, e.take(), 4)
	require.Equal(t, []string{fingerprint.EntityID("Place", "pisa")}, found1(t, x, "Place", "Pisa"))
	require.Equal(t, uint64(3), f.Status().Position)
}
