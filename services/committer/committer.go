// Package committer owns the graphs: it stages what the other stages send, commits jobs atomically, publishes what changed,
// and answers every question about jobs, schemas, settings and facts.
package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/backup"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/conflicts"
	"github.com/factmill/factmill/services/committer/internal/dead"
	"github.com/factmill/factmill/services/committer/internal/graphs"
	"github.com/factmill/factmill/services/committer/internal/held"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/links"
	"github.com/factmill/factmill/services/committer/internal/matches"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/outbox"
	"github.com/factmill/factmill/services/committer/internal/policy"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/registry"
	"github.com/factmill/factmill/services/committer/internal/replica"
	"github.com/factmill/factmill/services/committer/internal/stale"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Service is the committer.
type Service struct {
	cfg        Config
	conn       *bus.Conn
	log        *slog.Logger
	metrics    prometheus.Registerer
	st         *store.Store
	graphs     *graphs.Graphs
	known      *registry.Registry
	jobs       *jobs.Machine
	ops        *operations.Operations
	dead       *dead.Desk
	backup     *backup.Desk
	feed       replica.Desk
	outbox     *outbox.Sender
	query      *query.Queries
	status     bus.Status
	queues     *queues
	published  audit.Published
	links      *links.Linker
	matches    *matches.Desk
	candidates *candidates.Desk
	policy     *policy.Follower
	conflicts  *conflicts.Desk
	stale      *stale.Desk
	held       *held.Desk
	space      *space
	meters     *meters
	now        func() time.Time
	started    time.Time
}

// Errors of New that callers tell apart.
var (
	// ErrInUse: another process holds the data directory.
	ErrInUse = store.ErrInUse
	// ErrNewerFormat: a newer version wrote the data directory.
	ErrNewerFormat = store.ErrNewerFormat
)

// New opens the store and reads back the jobs that had not ended. Close must follow, or Run, which closes at its end.
func New(cfg Config, deps app.Deps) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, app.Misconfigured(err)
	}
	deps = deps.WithDefaults()
	s := &Service{cfg: cfg, conn: deps.Conn, log: deps.Log, metrics: deps.Metrics, now: deps.Now, queues: &queues{conn: deps.Conn, now: deps.Now}, started: deps.Now()}
	var err error
	if s.meters, err = newMeters(deps.Metrics); err != nil {
		return nil, err
	}
	st, err := store.Open(context.Background(), store.Options{
		Dir: cfg.Dir, CacheBytes: cfg.CacheBytes, ReserveBytes: cfg.ReserveBytes, BallastBytes: cfg.BallastBytes, Log: deps.Log, Now: deps.Now,
		Fatal: cfg.OnFatal, ShipBytes: cfg.FeedBytes,
	})
	if err != nil {
		return nil, err
	}
	s.st = st
	s.outbox = outbox.New(st, deps.Conn, deps.Log, deps.Now)
	s.graphs = graphs.New(st, deps.Now)
	s.query = query.New(st, s.graphs)
	out := &outside{conn: deps.Conn}
	s.published = out.Published
	s.jobs, err = jobs.New(st, s.graphs, out, jobs.Config{
		OnCommit: s.meters.committed, OnEnd: s.meters.ended, Lease: cfg.Lease, CacheBytes: cfg.StagedBytes, Tracer: tracer(deps.Conn), Log: deps.Log, Now: deps.Now,
	}, s.committed)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s.ops = operations.New(st)
	s.known = registry.New(st, s.graphs, s.ops, registry.Options{
		Now: deps.Now, Queue: links.RelinkOps, OnChange: func(graph string, _ []string) { s.links.Notify(graph) },
	})
	met, err := vectors.NewFollowerMetrics(deps.Metrics)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s.space = newSpace(cfg, st, s.graphs.Settings, met, deps.Log)
	s.space.now = deps.Now
	s.query.WithVectors(s.space.hub).WithNames(s.space).WithAliases(s.known)
	s.links, err = links.New(links.Config{After: cfg.After, Log: deps.Log}, links.Deps{
		Store: st, Settings: s.graphs.Settings, Vectors: s.space, Aliases: s.known.Aliases, Known: s.known.Has, Ambiguous: s.ambiguous, Judge: judge{deps.Conn},
		Committed: s.outbox.Notify, Metrics: deps.Metrics,
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s.matches = matches.New(matches.Deps{Store: st, Operations: s.ops, Committed: s.committed, Now: deps.Now})
	s.candidates = candidates.New(candidates.Deps{
		Store: st, Operations: s.ops, Schemas: s.graphs, Identify: s.known.Identify, Behind: s.behind, Published: out.Published, Committed: s.committed, Now: deps.Now,
	})
	s.stale = stale.New(stale.Deps{Store: st, Operations: s.ops, Committed: s.committed, Now: deps.Now})
	s.held = held.New(held.Deps{Store: st, Jobs: s.jobs, Schemas: s.graphs, Operations: s.ops, Committed: s.committed, Now: deps.Now})
	s.conflicts = conflicts.New(conflicts.Deps{Store: st, Schemas: s.graphs, Operations: s.ops, Committed: s.committed, Now: deps.Now})
	s.policy, err = policy.New(policy.Config{Log: deps.Log}, policy.Deps{Store: st, Schemas: s.graphs, Desk: s.candidates, Metrics: deps.Metrics})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if s.backup, err = backup.New(st, cfg.Dir+"-backups", deps.Log, deps.Now); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	s.feed = replica.Desk{Store: st, Backup: s.backup}
	s.dead = dead.New(st, s.jobs, s.ops, deps.Conn, dead.Config{Log: deps.Log, Now: deps.Now})
	out.desk = s.dead
	return s, nil
}

// tracer of a connection; nil without one.
func tracer(c *bus.Conn) trace.Tracer {
	if c == nil {
		return nil
	}
	return c.Tracer()
}

// Name implements app.Service.
func (s *Service) Name() string { return "committer" }

// Ready implements app.Service.
func (s *Service) Ready() error { return s.status.Ready() }

// Close closes the store of a service that never ran.
func (s *Service) Close() error { return s.st.Close() }

// Run stages, commits, publishes and answers until ctx is done, then closes the store.
func (s *Service) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.st.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.alone(ctx); err != nil {
		return err
	}
	if err := s.owns(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	parts := map[string]func(context.Context) error{
		"stage": func(ctx context.Context) error {
			return s.conn.RunBatch(ctx, bus.RunConfig{
				Service: "committer", Stream: bus.StreamCommit, Status: &s.status, Log: s.log, Metrics: s.metrics,
			}, s.jobs)
		},
		"jobs":    s.jobs.Run,
		"links":   s.links.Run,
		"policy":  s.decides,
		"vectors": s.space.Run,
		"outbox":  s.outbox.Run,
		"dead":    s.dead.Run,
		"backup":  s.backup.Run,
		"feed":    s.feed.Run,
		"numbers": s.numbers,
		"meters":  s.measure,
		"waits":   s.measureWaits,
		"verbs":   s.serve,
		"writer":  s.sayWriter,
	}
	errs := make(chan error, len(parts))
	for name, part := range parts {
		wg.Go(func() {
			err := part(ctx)
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s: %w", name, err)
				cancel(err)
				errs <- err
				return
			}
			if ctx.Err() == nil {
				cancel(fmt.Errorf("%s stopped by itself", name))
			}
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// decides runs the policy.
func (s *Service) decides(ctx context.Context) error {
	if s.cfg.PolicyOff {
		<-ctx.Done()
		return nil
	}
	return s.policy.Run(ctx)
}

// committed is told of every graph that has news: events to publish, and perhaps names to compare, and candidates to decide.
func (s *Service) committed(graph string) {
	s.outbox.Notify(graph)
	s.links.Notify(graph)
	s.space.Notify(graph)
	s.policy.Notify(graph)
}

// requestLimit of verbs; jobs.get may wait that long.
const requestLimit = 60 * time.Second
