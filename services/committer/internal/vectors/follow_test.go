package vectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
)

// world is a feed and its texts.
type world struct {
	mu      sync.Mutex
	texts   map[Ref]Text
	commits [][]Ref // by sequence less one
	gone    uint64  // After knows nothing of what lies at or before it
	fail    error   // of every call
	perPage int     // commits; 0 is all
	cut     bool    // pages end within commits
}

func newWorld() *world { return &world{texts: map[Ref]Text{}} }

// commit sets names ("Label name") of entities, by number; an empty one takes the entity away.
func (w *world) commit(names map[int]string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var touched []Ref
	for n, name := range names {
		r := Ref{Entity, idOf(n)}
		touched = append(touched, r, r)
		label, text, _ := strings.Cut(name, " ")
		if delete(w.texts, r); name != "" {
			w.texts[r] = Text{label, text}
		}
	}
	w.commits = append(w.commits, touched)
	return uint64(len(w.commits))
}

func (w *world) Head(context.Context) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.commits)), w.fail
}

func (w *world) After(_ context.Context, seq uint64, offset, limit int) (Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq < w.gone {
		return Page{}, ErrGone
	}
	p := Page{Through: uint64(len(w.commits))}
	if w.perPage > 0 {
		p.Through = min(p.Through, seq+uint64(w.perPage))
	}
	for i, c := range w.commits[seq:p.Through] {
		if w.cut && len(c) > offset+limit {
			return Page{Touched: append(p.Touched, c[offset:offset+limit]...), Through: seq + uint64(i), Next: offset + limit}, w.fail
		}
		p.Touched = append(p.Touched, c[offset:]...)
		offset = 0
	}
	return p, w.fail
}

func (w *world) All(_ context.Context, after Ref, limit int) ([]Ref, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Ref
	for r := range w.texts {
		if r.ID > after.ID {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Ref) int { return strings.Compare(a.ID, b.ID) })
	return out[:min(limit, len(out))], w.fail
}

func (w *world) Load(_ context.Context, refs []Ref) ([]*Text, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*Text, len(refs))
	for i, r := range refs {
		if t, ok := w.texts[r]; ok {
			out[i] = &t
		}
	}
	return out, w.fail
}

// counted is hash that remembers what it was asked, and fails when told to.
type counted struct {
	embed.Hash
	mu    sync.Mutex
	asked []string
	fail  error
}

func (c *counted) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return nil, c.fail
	}
	c.asked = append(c.asked, texts...)
	return c.Hash.Embed(ctx, texts)
}

func (c *counted) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.asked
	c.asked = nil
	slices.Sort(out)
	return out
}

func found1(t *testing.T, x Searcher, label, name string) []string {
	t.Helper()
	hits, err := x.Search(t.Context(), Entity, label, hashed(name), 50, 0.99)
	require.NoError(t, err)
	out := []string{}
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

func TestFollower(t *testing.T) {
	w, e, x := newWorld(), &counted{}, openIndex(t)
	reg := prometheus.NewRegistry()
	m, err := NewFollowerMetrics(reg)
	require.NoError(t, err)
	f := NewFollower(FollowerConfig{Graph: g, Name: "native", Batch: 2}, FollowerDeps{Feed: w, Texts: w, Embedder: e, Sink: x, Metrics: m})
	w.commit(map[int]string{1: "Person Charles Babbage", 2: "Person Ada Lovelace", 3: "Place London"})
	f.Committed(w.commit(map[int]string{4: "Place Paris"}))
	require.Equal(t, 2.0, testutil.ToFloat64(m.lag.WithLabelValues(g, "native")))
	require.NoError(t, f.CatchUp(t.Context()))
	require.Equal(t, []string{"Ada Lovelace", "Charles Babbage", "London", "Paris"}, e.take(), "an empty index catches up")
	require.Equal(t, FollowerStatus{Position: 2, Head: 2, Embedded: 4}, f.Status())
	require.Zero(t, testutil.ToFloat64(m.lag.WithLabelValues(g, "native")))
	require.Equal(t, []string{idOf(1)}, found1(t, x, "Person", "Charles Babbage"))

	w.commit(map[int]string{1: "Person Charles Babbage", 2: "", 3: "City London", 9: ""})
	require.NoError(t, f.CatchUp(t.Context()))
	require.Empty(t, e.take(), "what did not change is not embedded, whatever its label")
	require.Equal(t, FollowerStatus{Position: 3, Head: 3, Embedded: 4, Unchanged: 2, Deleted: 1}, f.Status(), "what was never there is no deletion")
	require.Empty(t, found1(t, x, "Person", "Ada Lovelace"))
	require.Empty(t, found1(t, x, "Place", "London"))
	require.Equal(t, []string{idOf(3)}, found1(t, x, "City", "London"))
	require.NoError(t, f.CatchUp(t.Context()))
	require.Equal(t, uint64(2), f.Status().Unchanged, "nothing new, nothing counted")

	require.NoError(t, x.SetPosition(t.Context(), 2))
	require.NoError(t, f.CatchUp(t.Context()))
	require.Empty(t, e.take(), "a page that comes again changes nothing")
	require.Equal(t, uint64(1), f.Status().Deleted)

	w.gone = 4
	w.commit(map[int]string{4: "", 5: "Place Rome"})
	w.commit(nil)
	require.NoError(t, f.CatchUp(t.Context()))
	require.Equal(t, []string{"Rome"}, e.take(), "where the feed does not reach, all is compared")
	require.Empty(t, found1(t, x, "Place", "Paris"))
	require.Equal(t, []string{idOf(5)}, found1(t, x, "Place", "Rome"))
	require.Equal(t, uint64(5), f.Status().Position)
}

// TestFollowerWithinACommit: a commit that is larger than a page is followed page by page, and its position comes at its end.
func TestFollowerWithinACommit(t *testing.T) {
	w, e, x := newWorld(), &counted{}, openIndex(t)
	f := NewFollower(FollowerConfig{Graph: g, Name: "native", Batch: 2}, FollowerDeps{Feed: w, Texts: w, Embedder: e, Sink: x})
	w.commit(map[int]string{1: "Place Oslo"})
	require.NoError(t, f.CatchUp(t.Context()))
	e.take()
	w.cut = true
	w.commit(map[int]string{2: "Place Rome", 3: "Place Bonn", 4: "Place Bern", 5: "Place Lyon", 6: "Place Graz"})
	w.commit(map[int]string{7: "Place Pisa"})
	e.fail = errors.New("model is down")
	require.Error(t, f.CatchUp(t.Context()))
	require.Equal(t, uint64(1), f.Status().Position)
	e.fail = nil
	require.NoError(t, f.CatchUp(t.Context()))
	require.ElementsMatch(t, []string{"Rome", "Bonn", "Bern", "Lyon", "Graz", "Pisa"}, e.take())
	require.Equal(t, uint64(3), f.Status().Position)
	require.Equal(t, []string{idOf(6)}, found1(t, x, "Place", "Graz"))
}

// TestFollowerRuns: errors of the feed and the embedder are tried again, and a commit never waits.
func TestFollowerRuns(t *testing.T) {
	w, e, x := newWorld(), &counted{fail: errors.New("model is down")}, openIndex(t)
	w.perPage = 1
	pauses := make(chan time.Duration, 64)
	never := make(chan time.Time)
	f := NewFollower(FollowerConfig{Graph: g, Name: "native", Poll: time.Hour}, FollowerDeps{Feed: w, Texts: w, Embedder: e, Sink: x,
		After: func(d time.Duration) <-chan time.Time {
			if d == time.Hour {
				return never
			}
			pauses <- d // holds the follower up until the test has seen it
			c := make(chan time.Time, 1)
			c <- time.Time{}
			return c
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w.commit(map[int]string{1: "A one name"})
	go func() { f.Run(ctx); close(done) }()
	f.Committed(1)
	for _, least := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000} {
		d := <-pauses
		require.GreaterOrEqual(t, d, least*time.Millisecond, "pauses double, to a bound")
		require.LessOrEqual(t, d, 2*least*time.Millisecond)
	}
	for range 1000 {
		f.Committed(1) // waits for nobody
	}
	require.ErrorContains(t, f.Status().Err, "model is down")
	require.Equal(t, uint64(1), f.Status().Lag())
	e.mu.Lock()
	e.fail = nil
	e.mu.Unlock()
	require.Eventually(t, func() bool {
		for len(pauses) > 0 {
			<-pauses
		}
		return f.Status().Position == 1
	}, 10*time.Second, time.Millisecond)
	for i := range 20 {
		f.Committed(w.commit(map[int]string{1: fmt.Sprintf("A name %d", i), 2 + i: "A other"}))
	}
	require.Eventually(t, func() bool { f.Committed(21); return f.Status().Position == 21 && f.Status().Err == nil }, 10*time.Second, time.Millisecond)
	cancel()
	<-done
	require.Equal(t, []string{idOf(1)}, found1(t, x, "A", "name 19"))
	n, _ := x.Size()
	require.Equal(t, 21, n)
}

// memoryCopy is a Copy in memory that can be away and can be lost.
type memoryCopy struct {
	mu    sync.Mutex
	made  int
	items map[Ref]Item
	puts  int
	away  error
}

func (c *memoryCopy) Ensure(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items == nil && c.away == nil {
		c.items, c.made = map[Ref]Item{}, c.made+1
	}
	return fmt.Sprint(c.made), c.away
}

func (c *memoryCopy) Put(_ context.Context, items []Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range items {
		c.items[it.Ref] = it
	}
	c.puts += len(items)
	return c.away
}

func (c *memoryCopy) Delete(_ context.Context, refs []Ref) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range refs {
		delete(c.items, r)
	}
	return c.away
}

func (c *memoryCopy) Count(context.Context, Kind) (int64, error) { return int64(len(c.items)), c.away }
func (c *memoryCopy) Drop(context.Context) error                 { c.items = nil; return c.away }
func (c *memoryCopy) Close() error                               { return nil }
func (c *memoryCopy) Search(_ context.Context, k Kind, l string, v []float32, top int, drop float64) ([]Hit, error) {
	return brute(c.items, k, l, v, top, drop), c.away
}

// TestCopyCatchesUp: a copy that was away goes on where it was; one that was lost is filled anew, with the vectors that the index has.
func TestCopyCatchesUp(t *testing.T) {
	w, e, x := newWorld(), &counted{}, openIndex(t)
	c := &memoryCopy{}
	native := NewFollower(FollowerConfig{Graph: g, Name: "native"}, FollowerDeps{Feed: w, Texts: w, Embedder: e, Sink: x})
	f := NewFollower(FollowerConfig{Graph: g, Name: "copy"}, FollowerDeps{Feed: w, Texts: w, Embedder: e, Sink: NewCopied(c, x.st, g, "copy"), Memory: x})
	w.commit(map[int]string{1: "A one", 2: "A two"})
	require.NoError(t, native.CatchUp(t.Context()))
	require.NoError(t, f.CatchUp(t.Context()))
	require.Equal(t, []string{"one", "two"}, e.take(), "embedded once for both")
	require.Equal(t, 2, c.puts)

	c.away = ErrCopyDown
	w.commit(map[int]string{2: "", 3: "A three"})
	require.NoError(t, native.CatchUp(t.Context()), "a copy that is away holds nothing up")
	require.ErrorIs(t, f.CatchUp(t.Context()), ErrCopyDown)
	require.Equal(t, uint64(1), f.Status().Lag())
	c.away = nil
	require.NoError(t, f.CatchUp(t.Context()))
	require.Zero(t, f.Status().Lag())
	require.Equal(t, 3, c.puts, "only what changed is sent")
	require.Equal(t, []string{idOf(3)}, found1(t, c, "A", "three"))
	require.Empty(t, found1(t, c, "A", "two"))

	c.items = nil // the other side lost its data
	require.NoError(t, f.CatchUp(t.Context()))
	require.Len(t, c.items, 2)
	require.Equal(t, uint64(2), f.Status().Position)
	require.Equal(t, []string{"three"}, e.take())
	require.NoError(t, Reset(t.Context(), x.st, g, Options{Embedder: "other", Size: 3}))
	p, err := NewCopied(c, x.st, g, "copy").Position(t.Context())
	require.NoError(t, err)
	require.Zero(t, p, "after a reembed the copy is filled anew")
}
