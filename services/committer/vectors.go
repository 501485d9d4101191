package committer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/candidates"
	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/embed/ollama"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
	"github.com/factmill/factmill/services/committer/internal/vectors/milvus"
)

// embedders are those of a process, by name: one of a model holds its cache for all graphs.
type embedders struct {
	url     string
	slots   int
	timeout time.Duration
	hash    embed.Embedder

	mu     sync.Mutex
	models map[string]*model // guarded by mu
}

type model struct {
	mu     sync.Mutex // held while the model is asked for its size
	asks   *ollama.Embedder
	cached *embed.Cache // nil: its size is not known
}

// of returns the embedder that settings name, with its size known.
func (e *embedders) of(ctx context.Context, p settings.Pipeline) (embed.Embedder, error) {
	if p.Embedder != "ollama" {
		return e.hash, nil
	}
	e.mu.Lock()
	m := e.models[p.EmbedModel]
	if m == nil {
		asks, err := ollama.New(ollama.Config{URL: e.url, Model: p.EmbedModel, Slots: e.slots, Timeout: min(e.timeout, time.Minute)})
		if err != nil {
			e.mu.Unlock()
			return nil, err
		}
		m = &model{asks: asks}
		e.models[p.EmbedModel] = m
	}
	e.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cached != nil {
		return m.cached, nil
	}
	if err := m.asks.Probe(ctx); err != nil {
		return nil, err
	}
	var err error
	m.cached, err = embed.NewCache(m.asks, 0)
	return m.cached, err
}

// forget has a model asked for its size anew: it may have been pulled anew.
func (e *embedders) forget(p settings.Pipeline) {
	e.mu.Lock()
	m := e.models[p.EmbedModel]
	delete(e.models, p.EmbedModel)
	e.mu.Unlock()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cached != nil {
		m.cached.Close()
	}
}

func (e *embedders) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.models {
		if m.cached != nil {
			m.cached.Close()
		}
	}
}

// space is the vectors of all graphs: the native indexes, and the copies in Milvus where one is configured.
type space struct {
	cfg       Config
	st        *store.Store
	settings  func(graph string) (settings.Pipeline, error)
	embedders *embedders
	hub       *vectors.Hub
	metrics   *vectors.FollowerMetrics
	log       *slog.Logger
	now       func() time.Time // nil: time.Now

	mu     sync.Mutex
	copies map[string]*mirror // by graph; guarded by mu
	start  func(*mirror)      // guarded by mu; nil unless running
}

// mirror is one graph's copy.
type mirror struct {
	embedder string
	copy     *milvus.Copy
	sink     *vectors.Copied
	follower *vectors.Follower
	driving  sync.Mutex         // held by the linker while it brings it up to date, when it is the route
	stop     context.CancelFunc // ends what follows; nil: nothing does
}

// end gives a copy up; the collection stays.
func (m *mirror) end(log *slog.Logger) {
	if m.stop != nil {
		m.stop()
	}
	m.driving.Lock()
	defer m.driving.Unlock()
	if err := m.copy.Close(); err != nil {
		log.Warn("close milvus", "error", err)
	}
}

func newSpace(cfg Config, st *store.Store, set func(string) (settings.Pipeline, error), m *vectors.FollowerMetrics, log *slog.Logger) *space {
	s := &space{cfg: cfg, st: st, settings: set, metrics: m, log: log, copies: map[string]*mirror{},
		embedders: &embedders{url: cfg.ModelURL, slots: cfg.Slots, timeout: cfg.ModelTimeout, hash: embed.NewHash(), models: map[string]*model{}}}
	s.hub = vectors.NewHub(vectors.HubDeps{
		Store: st, Embedder: s.embedder, Metrics: m, Log: log,
		Feed:  func(g string) vectors.Feed { return vectors.NewFacts(st, g) },
		Texts: func(g string) vectors.Texts { return vectors.NewFacts(st, g) },
		Group: numbers, Groups: fmt.Sprintf("numbers/%d", linkage.Version),
	})
	return s
}

// numbers are the group of a name: names with other numbers are never one thing, whatever their cosine.
func numbers(label, name string) string {
	n := linkage.Prepare(label, name, nil)
	return n.Numbers()
}

func (s *space) embedder(ctx context.Context, graph string) (embed.Embedder, error) {
	p, err := s.settings(graph)
	if err != nil {
		return nil, err
	}
	return s.embedders.of(ctx, p)
}

// Run feeds the copies until ctx is done, then lets go of everything.
func (s *space) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	run := func(m *mirror) {
		if s.cfg.Route != RouteMilvus {
			of, stop := context.WithCancel(ctx)
			m.stop = stop
			wg.Go(func() { m.follower.Run(of) })
		}
	}
	s.mu.Lock()
	s.start = run
	for _, m := range s.copies {
		run(m)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	wg.Wait()
	s.hub.Close()
	s.embedders.close()
	for _, m := range s.copies {
		m.end(s.log)
	}
	return nil
}

// Notify tells the copy of a graph that there is another commit.
func (s *space) Notify(graph string) {
	if s.cfg.MilvusAddress == "" || s.cfg.Route == RouteMilvus {
		return
	}
	s.mu.Lock()
	m := s.copies[graph]
	s.mu.Unlock()
	if m == nil { // the linker makes it, once the graph's embedder answers
		return
	}
	if seq, err := s.st.Seq(graph); err == nil {
		m.follower.Committed(seq)
	}
}

// mirror returns a graph's copy, made anew when the embedder is another one.
func (s *space) mirror(ctx context.Context, graph string) (*mirror, error) {
	e, err := s.hub.Embedder(ctx, graph)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.copies[graph]; m != nil && m.embedder == e.Name() {
		return m, nil
	} else if m != nil {
		m.end(s.log)
		delete(s.copies, graph)
	}
	c, err := milvus.New(milvus.Config{Address: s.cfg.MilvusAddress, Collection: s.cfg.MilvusCollection, Graph: graph, Embedder: e.Name(), Size: e.Size(), Now: s.now})
	if err != nil {
		return nil, err
	}
	facts := vectors.NewFacts(s.st, graph)
	sink := vectors.NewCopied(c, s.st, graph, "milvus")
	m := &mirror{embedder: e.Name(), copy: c, sink: sink, follower: vectors.NewFollower(vectors.FollowerConfig{Graph: graph, Name: "milvus"}, vectors.FollowerDeps{
		Feed: facts, Texts: facts, Embedder: e, Sink: sink, Memory: memory{s.hub, graph},
		Metrics: s.metrics, Log: s.log, After: s.cfg.After,
	})}
	s.copies[graph] = m
	if s.start != nil {
		s.start(m)
	}
	return m, nil
}

// memory is what the native index of a graph knows, whichever that is now.
type memory struct {
	hub   *vectors.Hub
	graph string
}

// Lookup implements vectors.Memory.
func (m memory) Lookup(ctx context.Context, refs []vectors.Ref) ([]*vectors.Known, error) {
	x, err := m.hub.Index(ctx, m.graph)
	if err != nil {
		return nil, err
	}
	return x.Lookup(ctx, refs)
}

// CatchUp implements links.Vectors. A copy beside the native route is only told: it follows at its own pace.
func (s *space) CatchUp(ctx context.Context, graph string) error {
	if _, err := s.hub.CatchUp(ctx, graph); err != nil {
		return err
	}
	if s.cfg.MilvusAddress == "" {
		return nil
	}
	m, err := s.mirror(ctx, graph)
	if err != nil {
		return err
	}
	if s.cfg.Route != RouteMilvus {
		s.Notify(graph)
		return nil
	}
	m.driving.Lock()
	defer m.driving.Unlock()
	return m.follower.CatchUp(ctx)
}

// Thresholds implements links.Vectors.
func (s *space) Thresholds(ctx context.Context, graph string) (link, drop float64, err error) {
	e, err := s.hub.Embedder(ctx, graph)
	if err != nil {
		return 0, 0, err
	}
	link, drop = e.Thresholds()
	return link, drop, nil
}

// NameVectors implements query.Names.
func (s *space) NameVectors(ctx context.Context, graph string, names []string) (v [][]float32, drop float64, err error) {
	p, err := s.settings(graph)
	if err != nil {
		return nil, 0, err
	}
	e, err := s.hub.Embedder(ctx, graph)
	if err != nil {
		return nil, 0, err
	}
	if v, err = e.Embed(ctx, names); err == nil {
		err = embed.Check(e, len(names), v)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: graph %s: %w", vectors.ErrAway, graph, err)
	}
	_, drop = p.Resolver.WithDefaults().Thresholds(e.Thresholds())
	return v, drop, nil
}

// Needed implements links.Vectors.
func (s *space) Needed(graph string) uint64 {
	st, ok := s.hub.Status(graph)
	if !ok {
		return 1
	}
	return st.Position
}

// from is an embedder with another threshold to search from.
type from struct {
	embed.Embedder
	drop float64
}

// Thresholds implements embed.Embedder.
func (f from) Thresholds() (link, drop float64) {
	link, _ = f.Embedder.Thresholds()
	return link, f.drop
}

// Source implements links.Vectors.
func (s *space) Source(ctx context.Context, graph string, drop float64) (candidates.CandidateSource, error) {
	e, err := s.hub.Embedder(ctx, graph)
	if err != nil {
		return nil, err
	}
	e = from{e, drop}
	look := found{s, graph}
	if s.cfg.Route != RouteMilvus {
		return candidates.NewNative(e, look), nil
	}
	return candidates.NewCopied(e, look, look), nil
}

// found searches the vectors of a graph and loads what they are of.
type found struct {
	s     *space
	graph string
}

// Entities implements candidates.EntitySearch.
func (f found) Entities(ctx context.Context, m candidates.Mention, vector []float32, top int, drop float64) ([]candidates.Hit, error) {
	x, err := f.s.hub.Index(ctx, f.graph)
	if err != nil {
		return nil, err
	}
	hits, err := x.SearchGroup(ctx, m.Label, m.Name, vector, top, drop)
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	ids := make([]string, len(hits))
	scores := candidates.Scores{}
	for i, h := range hits {
		ids[i], scores[h.ID] = h.ID, h.Score
	}
	stored, err := f.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]candidates.Hit, 0, len(stored))
	for _, e := range stored {
		if e.Label == m.Label {
			out = append(out, candidates.Hit{Entity: e, Score: scores.Of(e.ID)})
		}
	}
	return out, nil
}

// IDs implements candidates.IDSearch.
func (f found) IDs(ctx context.Context, label string, vector []float32, top int, drop float64) ([]candidates.Found, error) {
	m, err := f.s.mirror(ctx, f.graph)
	if err != nil {
		return nil, err
	}
	hits, err := m.copy.Search(ctx, vectors.Entity, label, vector, top, drop)
	if err != nil {
		return nil, err
	}
	out := make([]candidates.Found, len(hits))
	for i, h := range hits {
		out[i] = candidates.Found{ID: h.ID, Score: h.Score}
	}
	return out, nil
}

// Load implements candidates.Loader.
func (f found) Load(ctx context.Context, ids []string) (out []candidates.Entity, err error) {
	sn, err := f.s.st.Snapshot(f.graph, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, ok, err := sn.Entity(id)
		if err != nil {
			return nil, err
		}
		if ok && e.Documents > 0 {
			out = append(out, candidates.Entity{ID: e.ID, Label: e.Label, Name: e.Display()})
		}
	}
	return out, nil
}

// vectorsStatus answers vectors.status.
func (s *Service) vectorsStatus(ctx context.Context, graph string) (r api.VectorsReply, err error) {
	r.Graph, r.Route = graph, s.cfg.Route
	e, err := s.space.hub.Embedder(ctx, graph)
	if err != nil {
		return r, asVectors(err)
	}
	r.Embedder, r.Size = e.Name(), e.Size()
	x, err := s.space.hub.Index(ctx, graph)
	if err != nil {
		return r, asVectors(err)
	}
	n, memory := x.Size()
	r.Vectors, r.Memory = n, memory
	at, err := x.Position(ctx)
	if err != nil {
		return r, err
	}
	seq, err := s.st.Seq(graph)
	if err != nil && !errors.Is(err, store.ErrNoGraph) {
		return r, err
	}
	r.Seq, r.Position, r.Behind = seq, at, seq-min(at, seq)
	if s.cfg.MilvusAddress != "" {
		r.Copy, err = s.space.copyStatus(ctx, graph, seq)
	}
	return r, err
}

// copyPatience is how long a copy may take to say where it is.
const copyPatience = 3 * time.Second

func (s *space) copyStatus(ctx context.Context, graph string, seq uint64) (*api.VectorsCopy, error) {
	m, err := s.mirror(ctx, graph)
	if err != nil {
		return nil, err
	}
	ask, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	at, err := m.sink.Position(ask)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		at = m.follower.Status().Position
	}
	c := &api.VectorsCopy{Position: at, Behind: seq - min(at, seq)}
	if err = cmp.Or(err, m.follower.Status().Err); err != nil {
		c.Error = err.Error()
	}
	return c, nil
}

// reembed answers vectors.reembed: every vector anew, by the embedder that the settings name, and every name compared anew.
func (s *Service) reembed(ctx context.Context, graph string) (api.VectorsReply, error) {
	if _, err := s.st.Seq(graph); errors.Is(err, store.ErrNoGraph) {
		return api.VectorsReply{}, api.Errorf(404, "graph_not_found", "there is no graph %s", graph)
	}
	set, err := s.graphs.Settings(graph)
	if err != nil {
		return api.VectorsReply{}, err
	}
	// Before anything goes the model must have answered, as it is now.
	s.space.embedders.forget(set)
	if e, err := s.space.hub.Embedder(ctx, graph); err != nil {
		return api.VectorsReply{}, asVectors(err)
	} else if _, err := e.Embed(ctx, []string{"probe"}); err != nil {
		return api.VectorsReply{}, asVectors(fmt.Errorf("%w: graph %s: %w", vectors.ErrAway, graph, err))
	}
	if err := s.space.hub.Reset(ctx, graph); err != nil {
		return api.VectorsReply{}, asVectors(err)
	}
	if _, err := s.space.hub.CatchUp(ctx, graph); err != nil {
		return api.VectorsReply{}, asVectors(err)
	}
	if err := s.links.Reset(ctx, graph); err != nil {
		return api.VectorsReply{}, err
	}
	return s.vectorsStatus(ctx, graph)
}

func asVectors(err error) error {
	switch {
	case errors.Is(err, vectors.ErrEmbedder):
		return api.Errorf(412, "embedder_mismatch", "%v", err)
	case errors.Is(err, vectors.ErrAway), errors.Is(err, vectors.ErrHubClosed):
		return api.Errorf(503, "no_vectors", "%v", err)
	}
	return err
}
