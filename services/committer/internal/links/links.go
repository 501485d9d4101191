// Package links keeps the matches of graphs up with their commits: right behind each commit it compares the names that came or changed
// with all others of their label, and writes what it finds in a commit of its own (decision 5). What it finds about a pair depends on the
// two names, the embedder, what the registry declares and what a model said about that pair: never on what came first.
package links

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/candidates"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Vectors are the candidates that vectors find, behind the feed of the store.
type Vectors interface {
	// CatchUp brings the vectors of a graph to its last commit.
	CatchUp(ctx context.Context, graph string) error
	// Source is where entities are looked for whose cosine to a name is drop or more.
	Source(ctx context.Context, graph string, drop float64) (candidates.CandidateSource, error)
	// Thresholds of the graph's embedder.
	Thresholds(ctx context.Context, graph string) (link, drop float64, err error)
	// Needed is the commit behind which the feed is still read; 0 when nothing is.
	Needed(graph string) uint64
}

// Judge asks a model about pairs; *api.Error 503 or 429: not now.
type Judge interface {
	Judge(ctx context.Context, graph string, req api.JudgeRequest) (api.JudgeReply, error)
}

// Config of a Linker.
type Config struct {
	// Page is how many entries of the feed are linked in one commit. Defaults to 512.
	Page int
	// MaxBlock is how many names of one blocking key are compared with a new one. Defaults to 5000.
	MaxBlock int
	// RetryMin and RetryMax bound the pause after an error, which doubles. Default to 100 ms and 15 s.
	RetryMin, RetryMax time.Duration
	// After is time.After, for tests.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Page <= 0 {
		c.Page = 512
	}
	if c.MaxBlock <= 0 {
		c.MaxBlock = 5000
	}
	if c.RetryMin <= 0 {
		c.RetryMin = 100 * time.Millisecond
	}
	if c.RetryMax < c.RetryMin {
		c.RetryMax = max(15*time.Second, c.RetryMin)
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Deps of a Linker; Store and Settings are required.
type Deps struct {
	Store    *store.Store
	Settings func(graph string) (settings.Pipeline, error)
	Vectors  Vectors
	// Aliases that the registry declares for the entity of a label and folded name.
	Aliases func(graph, label, key string) ([]string, error)
	// Known says whether the registry has an entry of that name: two entries are two things.
	Known func(graph, label, key string) (bool, error)
	// Ambiguous says whether the registry knows several entities by a name: then its alias links nothing.
	Ambiguous func(graph, label, key string) (bool, error)
	Judge     Judge
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Metrics   prometheus.Registerer
}

// Linker follows the commits of all graphs. Run must be running for anything to be found.
type Linker struct {
	cfg  Config
	deps Deps
	met  *metrics

	stopping chan struct{} // closed when Run stops: who waits then gets what there is

	mu     sync.Mutex
	graphs map[string]*follower // guarded by mu
	start  func(*follower)      // guarded by mu; nil unless running
}

// New makes a linker.
func New(cfg Config, deps Deps) (*Linker, error) {
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	if deps.Committed == nil {
		deps.Committed = func(string) {}
	}
	return &Linker{cfg: cfg.withDefaults(), deps: deps, met: m, stopping: make(chan struct{}), graphs: map[string]*follower{}}, nil
}

// Run links until ctx is done; it may be called once. Errors are logged, shown by Status, and tried again; only a store that is broken or closed ends it.
func (l *Linker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := sync.OnceFunc(func() { close(l.stopping) })
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	var wg sync.WaitGroup
	run := func(f *follower) {
		for _, part := range []func(context.Context) error{f.run, f.judge} {
			wg.Go(func() {
				if err := part(ctx); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("links of graph %s: %w", f.graph, err))
				}
			})
		}
	}
	l.mu.Lock()
	l.start = run
	for _, f := range l.graphs {
		run(f)
	}
	l.mu.Unlock()
	for _, g := range l.deps.Store.Graphs() {
		l.Notify(g)
	}
	<-ctx.Done()
	l.mu.Lock()
	l.start = nil
	l.mu.Unlock()
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Notify tells that a graph was committed to. It never waits.
func (l *Linker) Notify(graph string) { l.of(graph).notify() }

func (l *Linker) of(graph string) *follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.graphs[graph]
	if f == nil {
		f = newFollower(l, graph)
		l.graphs[graph] = f
		if l.start != nil {
			l.start(f)
		}
	}
	return f
}

// Status says where the links of a graph are.
type Status struct {
	// Linked is the commit up to which names are compared.
	Linked uint64
	// Err hinders it now; nil when nothing does.
	Err error
	// Waiting pairs of the job, if one was asked for, else of the graph, are to be put before a model; of a graph's
	// those that a budget postpones are among them, of a job's they are not; they are Postponed. JudgeErr hinders that.
	Waiting, Postponed int
	JudgeErr           error
}

// Status of a graph, as it concerns a job ("" for all).
func (l *Linker) Status(graph, job string) Status {
	st, _ := l.of(graph).watch(job)
	return st
}

// Wait returns when the names of a commit are compared and no pair of its job waits for a model that could be asked, when something hinders
// that, when the linker stops, or when ctx is done.
func (l *Linker) Wait(ctx context.Context, graph, job string, seq uint64) Status {
	f := l.of(graph)
	for {
		st, changed := f.watch(job)
		if st.Err != nil || st.Linked >= seq && (st.Waiting == 0 || st.JudgeErr != nil) {
			return st
		}
		select {
		case <-ctx.Done():
			return st
		case <-l.stopping:
			return st
		case <-changed:
		}
	}
}

// Stats is what linking the commits of a job came to.
func (l *Linker) Stats(graph, job string) (s api.Resolution, err error) {
	return l.of(graph).rows.stats(job)
}

// RelinkOps are the rows that have entities compared anew, to be written with what changed; Notify must follow.
func RelinkOps(graph string, entities []string) []store.Op {
	var ops []store.Op
	for _, e := range entities {
		if v, ok := store.ParseID(e); ok {
			ops = append(ops, rows{graph: graph}.op(relinkKey(v), []byte{1}))
		}
	}
	return ops
}

// Relink has entities compared anew, whatever was found about them: what is declared about their names changed.
func (l *Linker) Relink(ctx context.Context, graph string, entities []string) error {
	if err := l.deps.Store.Write(ctx, RelinkOps(graph, entities), false); err != nil {
		return err
	}
	l.Notify(graph)
	return nil
}

// Reset has every entity of a graph compared anew: what decides about all of them changed. Decisions stay.
func (l *Linker) Reset(ctx context.Context, graph string) error {
	f := l.of(graph)
	if err := f.rows.reset(ctx); err != nil {
		return err
	}
	f.restart()
	return nil
}
