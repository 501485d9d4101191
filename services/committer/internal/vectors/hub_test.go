package vectors

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
)

// renamed is hash under another name.
type renamed struct{ *counted }

func (renamed) Name() string { return "other-1" }

// hubbed is a hub over one world, and what its settings name.
type hubbed struct {
	*Hub
	world *world
	names embed.Embedder
	fail  error
}

func openHub(t *testing.T) *hubbed {
	t.Helper()
	st := openStore(t, t.TempDir())
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	h := &hubbed{world: newWorld(), names: &counted{}}
	m, err := NewFollowerMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	h.Hub = NewHub(HubDeps{
		Store:    st,
		Embedder: func(context.Context, string) (embed.Embedder, error) { return h.names, h.fail },
		Feed:     func(string) Feed { return h.world }, Texts: func(string) Texts { return h.world }, Metrics: m,
	})
	return h
}

func TestHubCatchesUpAndSearches(t *testing.T) {
	h := openHub(t)
	_, ok := h.Status(g)
	require.False(t, ok)
	h.world.commit(map[int]string{1: "Person Charles Babbage", 2: "Person Ada Lovelace", 3: "Place Babbage House"})
	s, err := h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, FollowerStatus{Position: 1, Head: 1, Embedded: 3}, s)
	h.world.commit(map[int]string{4: "Place Lovelace House"})
	s, err = h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, uint64(4), s.Embedded, "one text more")
	s, ok = h.Status(g)
	require.True(t, ok)
	require.Equal(t, uint64(2), s.Position)
	require.Zero(t, testutil.ToFloat64(h.deps.Metrics.lag.WithLabelValues(g, "native")))
	h.Committed("another", 9)
	h.Committed(g, 5)
	require.Equal(t, 3.0, testutil.ToFloat64(h.deps.Metrics.lag.WithLabelValues(g, "native")))

	x, err := h.Index(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, []string{"Person", "Place"}, x.Labels(Entity))
	again, err := h.Index(t.Context(), g)
	require.NoError(t, err)
	require.Same(t, x, again)
	hits, err := h.Search(t.Context(), g, Entity, nil, "babbage", 10)
	require.NoError(t, err)
	require.Equal(t, []string{idOf(3), idOf(1)}, []string{hits[0].ID, hits[1].ID})
	require.Equal(t, embed.Cosine(hashed("babbage"), hashed("Charles Babbage")), hits[1].Score)
	for _, hit := range hits {
		require.Positive(t, hit.Score)
	}
	hits, err = h.Search(t.Context(), g, Entity, []string{"Place", "None"}, "babbage", 1)
	require.NoError(t, err)
	require.Equal(t, []string{idOf(3)}, []string{hits[0].ID})
	hits, err = h.Search(t.Context(), g, Chunk, nil, "babbage", 1)
	require.NoError(t, err)
	require.Empty(t, hits)
}

func TestHubRefusesAnotherEmbedderUntilReset(t *testing.T) {
	h := openHub(t)
	h.world.commit(map[int]string{1: "Person Charles Babbage"})
	_, err := h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	c := &counted{}
	h.names = renamed{c}
	for _, err := range []error{
		func() error { _, err := h.Index(t.Context(), g); return err }(),
		func() error { _, err := h.CatchUp(t.Context(), g); return err }(),
		func() error { _, err := h.Search(t.Context(), g, Entity, nil, "a", 1); return err }(),
	} {
		require.ErrorIs(t, err, ErrEmbedder)
		require.ErrorContains(t, err, "vectors of hash-1 with 256 numbers, the embedder is other-1 with 256")
	}
	require.NoError(t, h.Reset(t.Context(), g))
	s, err := h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, uint64(1), s.Position)
	require.Equal(t, []string{"Charles Babbage"}, c.take())
	hits, err := h.Search(t.Context(), g, Entity, nil, "babbage", 5)
	require.NoError(t, err)
	require.Len(t, hits, 1)
}

func TestHubWithoutAnEmbedder(t *testing.T) {
	h := openHub(t)
	down := errors.New("no model server")
	h.fail = down
	_, err := h.CatchUp(t.Context(), g)
	require.ErrorIs(t, err, ErrAway)
	require.ErrorIs(t, err, down)
	h.fail = nil
	c := &counted{}
	h.names = c
	h.world.commit(map[int]string{1: "Person Charles Babbage"})
	c.fail = down
	_, err = h.CatchUp(t.Context(), g)
	require.ErrorIs(t, err, down)
	_, err = h.Search(t.Context(), g, Entity, nil, "a", 1)
	require.ErrorIs(t, err, ErrAway)
	c.fail = nil
	s, err := h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, uint64(1), s.Position)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Search(ctx, g, Entity, nil, "a", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrAway)
}

// TestHubSearchesWhileItFollows: an index that is open is searched while a CatchUp waits for its embedder.
func TestHubSearchesWhileItFollows(t *testing.T) {
	h := openHub(t)
	h.world.commit(map[int]string{1: "Person Charles Babbage"})
	_, err := h.CatchUp(t.Context(), g)
	require.NoError(t, err)
	inside, free := make(chan struct{}), make(chan struct{})
	h.deps.Embedder = func(context.Context, string) (embed.Embedder, error) { return embed.Hash{}, nil }
	entry := h.graphs[g]
	done := make(chan error, 1)
	go func() {
		entry.gate <- struct{}{} // as CatchUp does
		close(inside)
		<-free
		entry.leave()
		done <- nil
	}()
	<-inside
	hits, err := h.Search(t.Context(), g, Entity, nil, "babbage", 5)
	require.NoError(t, err)
	require.Len(t, hits, 1)
	close(free)
	require.NoError(t, <-done)
	h.Close()
	_, err = h.Index(t.Context(), g)
	require.ErrorIs(t, err, ErrHubClosed)
	_, err = h.CatchUp(t.Context(), g)
	require.ErrorIs(t, err, ErrHubClosed)
}
