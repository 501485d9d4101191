package milvus

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
	"github.com/factmill/factmill/services/committer/internal/vectors/vectorstest"
)

// route is a copy with its position.
type route struct {
	*vectors.Copied
	copy *Copy
}

func (r route) Search(ctx context.Context, k vectors.Kind, label string, v []float32, top int, drop float64) ([]vectors.Hit, error) {
	return r.copy.Search(ctx, k, label, v, top, drop)
}

func (r route) Count(ctx context.Context, k vectors.Kind) (int64, error) { return r.copy.Count(ctx, k) }

func openStore(t *testing.T) *store.Store {
	st, err := store.Open(context.Background(), store.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	_, ok := st.Graph("default", true)
	require.True(t, ok)
	return st
}

// conform runs the suite; open makes a copy, each time as a new process would.
func conform(t *testing.T, open func() *Copy) {
	vectorstest.Conformance(t, func(t *testing.T) (vectorstest.Route, func() vectorstest.Route) {
		st := openStore(t)
		c := open()
		require.NoError(t, c.Drop(t.Context()))
		make := func(c *Copy) vectorstest.Route { return route{vectors.NewCopied(c, st, "default", "milvus"), c} }
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return make(c), func() vectorstest.Route {
			again := open()
			t.Cleanup(func() {
				require.NoError(t, again.Drop(context.Background()))
				require.NoError(t, again.Close())
			})
			return make(again)
		}
	})
}

// realMilvus is the server at FACTMILL_REAL_MILVUS, which `make real/milvus` sets up.
func realMilvus(t *testing.T) (address string) {
	t.Helper()
	address = os.Getenv("FACTMILL_REAL_MILVUS")
	if address == "" {
		t.Skip("NOT RUN: no Milvus; `make real/milvus` starts one, then set FACTMILL_REAL_MILVUS=127.0.0.1:19630")
	}
	if conn, err := net.DialTimeout("tcp", address, 5*time.Second); err != nil {
		t.Skipf("NOT RUN: nobody listens at %s (%v); `make real/milvus` starts a Milvus", address, err)
	} else {
		require.NoError(t, conn.Close())
	}
	return address
}

func openReal(t *testing.T, address string, timeout time.Duration) *Copy {
	t.Helper()
	c, err := New(Config{Address: address, Graph: "test " + t.Name(), Embedder: "hash-1", Size: 256, Timeout: timeout})
	require.NoError(t, err)
	return c
}

// TestRealMilvus runs the suite.
func TestRealMilvus(t *testing.T) {
	address := realMilvus(t)
	conform(t, func() *Copy { return openReal(t, address, 30*time.Second) })
}

// growing is a graph of names, of which each commit touches one; all of them are there from the beginning.
type growing struct {
	mu    sync.Mutex
	items []vectors.Item
	head  uint64 // commits so far: that of items[i] is i+1
}

func (g *growing) Head(context.Context) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.head, nil
}

func (g *growing) After(ctx context.Context, seq uint64, _, limit int) (p vectors.Page, err error) {
	head, err := g.Head(ctx)
	p.Through = min(head, seq+uint64(limit))
	for _, it := range g.items[seq:p.Through] {
		p.Touched = append(p.Touched, it.Ref)
	}
	return p, err
}

func (g *growing) All(ctx context.Context, after vectors.Ref, limit int) (out []vectors.Ref, err error) {
	head, err := g.Head(ctx)
	for _, it := range g.items[:head] {
		if it.ID > after.ID {
			out = append(out, it.Ref)
		}
	}
	slices.SortFunc(out, func(a, b vectors.Ref) int { return strings.Compare(a.ID, b.ID) })
	return out[:min(limit, len(out))], err
}

func (g *growing) Load(_ context.Context, refs []vectors.Ref) (out []*vectors.Text, err error) {
	for _, r := range refs {
		i := slices.IndexFunc(g.items, func(it vectors.Item) bool { return it.Ref == r })
		out = append(out, &vectors.Text{Label: g.items[i].Label, Text: g.items[i].Text})
	}
	return out, nil
}

// TestRealMilvusStopsInMidFeed: the server is killed while vectors are sent, and started again: the copy says that it does not answer and how far behind it
// is, goes on when a query is answered, and holds each vector once. It needs the script that started the server: FACTMILL_REAL_MILVUS_SCRIPT.
func TestRealMilvusStopsInMidFeed(t *testing.T) {
	address, script := realMilvus(t), os.Getenv("FACTMILL_REAL_MILVUS_SCRIPT")
	if script == "" {
		t.Skip("NOT RUN: FACTMILL_REAL_MILVUS_SCRIPT names no script that stops and starts the server; `make real/milvus` sets it")
	}
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	server := func(what string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), script, what, cmp.Or(os.Getenv("FACTMILL_REAL_MILVUS_DIR"), ".real/milvus"), port).CombinedOutput()
		require.NoError(t, err, "%s: %s", what, out)
	}
	g := &growing{}
	for i := range 2000 {
		g.items = append(g.items, vectorstest.Item(i, "Person", fmt.Sprintf("Name %d of Many", i)))
	}
	commit := func(n uint64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.head = n
	}
	c := openReal(t, address, 10*time.Second)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Drop(t.Context()))
	st := openStore(t)
	f := vectors.NewFollower(vectors.FollowerConfig{Graph: "default", Name: "milvus", Batch: 50}, vectors.FollowerDeps{
		Feed: g, Texts: g, Embedder: embed.NewHash(), Sink: vectors.NewCopied(c, st, "default", "milvus")})
	commit(500)
	require.NoError(t, f.CatchUp(t.Context()))

	commit(2000)
	done := make(chan error, 1)
	go func() { done <- f.CatchUp(t.Context()) }()
	testkit.AwaitFor(t, time.Minute, "the middle of the feed", func() bool { return f.Status().Position >= 800 })
	server("stop")
	err = <-done
	require.ErrorIs(t, err, vectors.ErrCopyDown)
	at := f.Status()
	require.True(t, at.Position >= 800 && at.Position < 2000, at.Position)
	require.Equal(t, 2000-at.Position, at.Lag())
	require.ErrorIs(t, f.CatchUp(t.Context()), vectors.ErrCopyDown)

	begun := time.Now()
	server("start")
	testkit.AwaitFor(t, 5*time.Minute, "a real query", func() bool {
		hits, err := c.Search(t.Context(), vectors.Entity, "Person", g.items[0].Vector, 1, 0.9)
		return err == nil && len(hits) == 1 && hits[0].ID == g.items[0].ID
	})
	answers := time.Since(begun)
	require.NoError(t, f.CatchUp(t.Context()))
	t.Logf("stopped at %d of 2000, %d behind; a query was answered %s after the start, caught up %s after it", at.Position, at.Lag(), answers.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	require.Zero(t, f.Status().Lag())
	n, err := c.Count(t.Context(), vectors.Entity)
	require.NoError(t, err)
	require.Equal(t, int64(2000), n, "each once, also those that were sent again")
	hits, err := c.Search(t.Context(), vectors.Entity, "Person", g.items[1999].Vector, 1, 0.9)
	require.NoError(t, err)
	require.Equal(t, g.items[1999].ID, hits[0].ID)
	require.NoError(t, c.Drop(t.Context()))
}
