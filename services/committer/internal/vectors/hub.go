package vectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// ErrAway says that the embedder of a graph cannot be had or does not answer; what is stored is not touched.
var ErrAway = errors.New("the embedder does not answer")

// ErrHubClosed is returned by everything but Close after Close.
var ErrHubClosed = errors.New("the vectors are closed")

// HubDeps is what a hub works with; all but Group, Groups, MaxVectors, Batch, Metrics and Log are required.
type HubDeps struct {
	Store *store.Store
	// Embedder gives the one that a graph's settings name, with its size known. It is asked before each use and should answer from memory.
	Embedder func(ctx context.Context, graph string) (embed.Embedder, error)
	// Feed and Texts of a graph. They are asked for once, when the graph's index is opened.
	Feed  func(graph string) Feed
	Texts func(graph string) Texts
	// Group and Groups are those of Options; both may be left out.
	Group  func(label, text string) string
	Groups string
	// MaxVectors of one graph, and Batch of its follower; 0: the defaults.
	MaxVectors, Batch int
	Metrics           *FollowerMetrics
	Log               *slog.Logger
}

// Hub keeps the native indexes of a process, each opened when its graph is first asked for. It runs nothing by itself: whoever follows the commits calls
// CatchUp. It is safe for concurrent use; what concerns one graph waits for its opening, its CatchUp and its Reset.
type Hub struct {
	deps HubDeps

	mu     sync.Mutex
	graphs map[string]*hubGraph // guarded by mu
	closed bool                 // guarded by mu
}

// hubGraph is one graph. gate is held by what opens, writes or resets; searches hold use for reading, so that nothing is reset beneath them.
type hubGraph struct {
	name string
	gate chan struct{}
	use  sync.RWMutex

	// Both are changed by who holds the gate, and use for writing.
	index    *Index
	follower *Follower
}

// NewHub makes a hub that has opened nothing.
func NewHub(deps HubDeps) *Hub {
	if deps.Metrics == nil {
		deps.Metrics, _ = NewFollowerMetrics(nil) // nothing to register: cannot fail
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Hub{deps: deps, graphs: map[string]*hubGraph{}}
}

// enter takes the gate of a graph; leave gives it back.
func (h *Hub) enter(ctx context.Context, graph string) (*hubGraph, error) {
	h.mu.Lock()
	g := h.graphs[graph]
	if g == nil {
		g = &hubGraph{name: graph, gate: make(chan struct{}, 1)}
		h.graphs[graph] = g
	}
	h.mu.Unlock()
	select {
	case g.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		g.leave()
		return nil, ErrHubClosed
	}
	return g, nil
}

func (g *hubGraph) leave() { <-g.gate }

// Embedder is the one that a graph's settings name. Errors are ErrAway.
func (h *Hub) Embedder(ctx context.Context, graph string) (embed.Embedder, error) {
	e, err := h.deps.Embedder(ctx, graph)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil && e.Size() == 0 {
		err = fmt.Errorf("%s has no size yet", e.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: graph %s: %w", ErrAway, graph, err)
	}
	return e, nil
}

// Index of a graph, opened if it is not yet; the first opening reads every row. Vectors of another embedder than the settings name are an *EmbedderError. An index
// that was got before a Reset must not be used after it.
func (h *Hub) Index(ctx context.Context, graph string) (*Index, error) {
	e, err := h.Embedder(ctx, graph)
	if err != nil {
		return nil, err
	}
	x, _, err := h.ready(ctx, graph, e)
	return x, err
}

// ready returns an index that is open already, without waiting for what writes it, or opens it.
func (h *Hub) ready(ctx context.Context, graph string, e embed.Embedder) (*Index, *hubGraph, error) {
	h.mu.Lock()
	g, closed := h.graphs[graph], h.closed
	h.mu.Unlock()
	if closed {
		return nil, nil, ErrHubClosed
	}
	if g != nil {
		g.use.RLock()
		x := g.index
		g.use.RUnlock()
		if x != nil && x.isOf(e) {
			return x, g, nil
		}
	}
	g, err := h.enter(ctx, graph)
	if err != nil {
		return nil, nil, err
	}
	defer g.leave()
	x, err := h.open(ctx, g, e)
	return x, g, err
}

func (x *Index) isOf(e embed.Embedder) bool {
	return x.opt.Embedder == e.Name() && x.opt.Size == e.Size()
}

// open is called with the gate held.
func (h *Hub) open(ctx context.Context, g *hubGraph, e embed.Embedder) (*Index, error) {
	if x := g.index; x != nil && x.isOf(e) {
		return x, nil
	}
	x, err := Open(ctx, h.deps.Store, g.name, h.options(e))
	if err != nil {
		return nil, err
	}
	g.use.Lock()
	defer g.use.Unlock()
	g.index = x
	g.follower = NewFollower(FollowerConfig{Graph: g.name, Name: "native", Batch: h.deps.Batch}, FollowerDeps{
		Feed: h.deps.Feed(g.name), Texts: h.deps.Texts(g.name), Embedder: e, Sink: x, Metrics: h.deps.Metrics, Log: h.deps.Log,
	})
	return x, nil
}

// CatchUp brings a graph's index to the head of its feed, and says where it is then. Calls for one graph run one behind the other.
func (h *Hub) CatchUp(ctx context.Context, graph string) (FollowerStatus, error) {
	e, err := h.Embedder(ctx, graph)
	if err != nil {
		return FollowerStatus{}, err
	}
	g, err := h.enter(ctx, graph)
	if err != nil {
		return FollowerStatus{}, err
	}
	defer g.leave()
	if _, err := h.open(ctx, g, e); err != nil {
		return FollowerStatus{}, err
	}
	err = g.follower.CatchUp(ctx)
	return g.follower.Status(), err
}

// Committed tells that a commit became visible, so that the lag is right before the next CatchUp. It never waits for one.
func (h *Hub) Committed(graph string, seq uint64) {
	h.mu.Lock()
	g := h.graphs[graph]
	h.mu.Unlock()
	if g == nil {
		return
	}
	g.use.RLock()
	defer g.use.RUnlock()
	if g.follower != nil {
		g.follower.Committed(seq)
	}
}

// Status says where a graph's index is, and false when it is not open.
func (h *Hub) Status(graph string) (FollowerStatus, bool) {
	h.mu.Lock()
	g := h.graphs[graph]
	h.mu.Unlock()
	if g == nil {
		return FollowerStatus{}, false
	}
	g.use.RLock()
	defer g.use.RUnlock()
	if g.follower == nil {
		return FollowerStatus{}, false
	}
	return g.follower.Status(), true
}

// Reset empties a graph's index and makes it that of the embedder which the settings name: the next CatchUp embeds everything anew. Copies start anew, too.
func (h *Hub) Reset(ctx context.Context, graph string) error {
	e, err := h.Embedder(ctx, graph)
	if err != nil {
		return err
	}
	g, err := h.enter(ctx, graph)
	if err != nil {
		return err
	}
	defer g.leave()
	g.use.Lock()
	defer g.use.Unlock()
	g.index, g.follower = nil, nil
	return Reset(ctx, h.deps.Store, graph, h.options(e))
}

func (h *Hub) options(e embed.Embedder) Options {
	o := OptionsFor(e)
	o.MaxVectors, o.Group, o.Groups = h.deps.MaxVectors, h.deps.Group, h.deps.Groups
	return o
}

// Search embeds a text and returns the best top vectors of a kind, best first, of equal scores the least id first. Labels are those of entities; none: all of
// them. Only scores above 0 are hits. It looks at every vector of the labels: with no threshold there is nothing to leave out.
func (h *Hub) Search(ctx context.Context, graph string, k Kind, labels []string, text string, top int) ([]Hit, error) {
	e, err := h.Embedder(ctx, graph)
	if err != nil {
		return nil, err
	}
	_, g, err := h.ready(ctx, graph, e)
	if err != nil {
		return nil, err
	}
	vs, err := e.Embed(ctx, []string{text})
	if err == nil {
		err = embed.Check(e, 1, vs)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: graph %s: %w", ErrAway, graph, err)
	}
	g.use.RLock()
	defer g.use.RUnlock()
	x := g.index
	if x == nil || !x.isOf(e) {
		return nil, fmt.Errorf("%w: graph %s is being embedded anew", ErrAway, graph)
	}
	switch {
	case k == Chunk:
		labels = []string{""}
	case len(labels) == 0:
		labels = x.Labels(k)
	}
	var out []Hit
	for _, l := range labels {
		hits, err := x.Search(ctx, k, l, vs[0], top, minSearch)
		if err != nil {
			return nil, err
		}
		out = append(out, hits...)
	}
	slices.SortFunc(out, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out[:min(top, len(out))], nil
}

// minSearch is the least score of a hit of Hub.Search.
const minSearch = 1e-6

// Close waits for what opens, writes or resets, and lets go of all indexes.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	var all []*hubGraph
	for _, g := range h.graphs {
		all = append(all, g)
	}
	h.mu.Unlock()
	for _, g := range all {
		g.gate <- struct{}{}
		g.use.Lock()
		g.index, g.follower = nil, nil
		g.use.Unlock()
		g.leave()
	}
}
