// Package resolver is the stage that finds out which entities a document's mentions are: doc.extracted in, doc.resolved out.
// It knows exact names, and the known entities of the graph's registry; how is in internal/resolve.
package resolver

import (
	"context"
	"errors"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/services/resolver/internal/resolve"
)

// Name of the service, of its durable consumer, and of the stage in failures.
const Name = "resolver"

// Schemas gives the schema that a job runs under; *schemacache.Cache does.
type Schemas interface {
	Get(ctx context.Context, graph string, revision uint64) (*schema.Schema, error)
}

// Stage is the resolver without a broker. Its methods are safe for concurrent use.
type Stage struct {
	schemas  Schemas
	registry Registry // nil: only jobs of graphs without known entities are served
	pinned   []pin
	metrics  *metrics
}

// NewStage makes a stage. The error names the setting of cfg that is wrong.
func NewStage(cfg Config, deps app.Deps, schemas Schemas) (*Stage, error) {
	deps = deps.WithDefaults()
	pinned, err := cfg.pins()
	if err != nil {
		return nil, app.Misconfigured(err)
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return &Stage{schemas: schemas, pinned: pinned, metrics: m}, nil
}

// Handle resolves one document. Its output is one *events.Resolved.
//
// Errors are classified: a job whose schema or settings this build or this operator does not serve is handed back; while nobody
// answers for the schema or the registry the stage pauses; an extraction that contradicts itself is permanent.
func (s *Stage) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	e, ok := in.Event.(*events.Extracted)
	if !ok {
		return nil, fault.Fatal("wrong_event", "the resolver takes doc.extracted, not %T", in.Event)
	}
	if err := s.serves(e.Job); err != nil {
		return nil, err
	}
	sch, err := s.schema(ctx, e.Job)
	if err != nil {
		return nil, err
	}
	known, err := s.known(ctx, e.Job, e.Extraction)
	if err != nil {
		return nil, err
	}
	res, err := resolve.Document(e.Extraction, rules{sch}, known, !e.Job.NoCandidates)
	if err != nil {
		return nil, fault.Fatal("bad_extraction", "document %q of job %s: %w", e.Doc.Key, e.Job.ID, err)
	}
	s.metrics.count(res)
	return []events.Event{&events.Resolved{
		Job: e.Job, Doc: e.Doc, Assertions: res.Assertions, Dropped: res.Dropped,
		Extraction: e.Stats, Escalation: e.Escalation,
		Resolution: events.ResolutionStats{Exact: res.Mentions, Registry: res.Known, Ambiguous: res.Ambiguous, SelfLoop: res.SelfLoops},
	}}, nil
}

// serves refuses a job whose resolver settings are not those that the operator pinned.
func (s *Stage) serves(j events.Job) error {
	if err := j.Settings.Validate(); err != nil {
		return fault.Fatal("settings_invalid", "job %s: %w", j.ID, err)
	}
	for _, p := range s.pinned {
		if got := j.Settings.Get(p.name); got != p.value {
			return fault.CannotServe("job %s of graph %s runs with %s %s, this service was started with %s", j.ID, j.Graph, p.name, got, p.value)
		}
	}
	return nil
}

// schema returns the job's schema, and refuses one that this build reads otherwise than the job's fingerprint says.
func (s *Stage) schema(ctx context.Context, j events.Job) (*schema.Schema, error) {
	sch, err := s.schemas.Get(ctx, j.Graph, j.SchemaRevision)
	var refused *api.Error
	switch {
	case err == nil:
	case errors.Is(err, schemacache.ErrUnreadable):
		return nil, fault.CannotServe("job %s: %w", j.ID, err)
	case ctx.Err() != nil:
		return nil, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	case errors.As(err, &refused) && refused.Status != 503 && refused.Status != 429:
		return nil, fault.Retry(refused.Code, 0, fmt.Errorf("job %s: %w", j.ID, err))
	default:
		return nil, fault.Down("schema_unreachable", fmt.Errorf("job %s: %w", j.ID, err))
	}
	if got := sch.Fingerprint(); got != j.SchemaFP {
		return nil, fault.CannotServe("job %s of graph %s has the schema fingerprint %s, this build makes %s of revision %d",
			j.ID, j.Graph, j.SchemaFP, got, j.SchemaRevision)
	}
	return sch, nil
}

// rules asks a schema what the resolver wants to know.
type rules struct{ *schema.Schema }

// Symmetric implements resolve.Rules.
func (r rules) Symmetric(relation string) bool {
	rel, ok := r.Relation(relation)
	return ok && rel.Symmetric
}

// Service is the stage on the bus.
type Service struct {
	*Stage
	cfg    Config
	deps   app.Deps
	judge  *Judge
	status bus.Status
	names  *names
}

var _ app.Service = (*Service)(nil)

// New makes the service. deps.Conn is needed to run it.
func New(cfg Config, deps app.Deps) (*Service, error) {
	s := &Service{cfg: cfg.WithDefaults(), deps: deps.WithDefaults()}
	var err error
	s.Stage, err = NewStage(s.cfg, s.deps, schemacache.New(s.fetch, s.cfg.Schemas))
	if err != nil {
		return nil, err
	}
	if s.judge, err = NewJudge(s.cfg, s.deps); err != nil {
		return nil, err
	}
	s.names = newNames(s.lookup)
	s.registry = s.names
	return s, nil
}

// fetch asks the committer for a schema.
func (s *Service) fetch(ctx context.Context, graph string, revision uint64) ([]byte, error) {
	if err := events.CheckGraph(graph); err != nil { // it becomes part of a subject
		return nil, err
	}
	var reply api.SchemaReply
	if err := s.deps.Conn.Consult(ctx, events.Root+"."+graph+".schema.get", api.SchemaGet{Revision: revision}, &reply); err != nil {
		return nil, err
	}
	return reply.Schema, nil
}

// Name implements app.Service.
func (s *Service) Name() string { return Name }

// Ready implements app.Service.
func (s *Service) Ready() error { return s.status.Ready() }

// Run implements app.Service: the stage, and the service's entry in the fleet (nats micro ls). When one ends, so does the other.
func (s *Service) Run(ctx context.Context) error {
	if s.deps.Conn == nil {
		return errors.New("run the resolver: no connection was given")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer s.judge.Close()
	if err := s.names.open(s.cfg.Names); err != nil {
		return err
	}
	defer s.names.close()
	listed := make(chan error, 1)
	go func() {
		defer stop()
		info := bus.ServiceInfo{Name: Name, Version: s.cfg.Version, Description: "finds out which entities mentions are"}
		listed <- s.deps.Conn.Serve(ctx, info, []bus.Endpoint{s.judge.endpoint()},
			bus.ServeOptions{Workers: s.judge.workers() + 2, Nouns: []string{"match"}, Ready: s.Ready, Log: s.deps.Log})
	}()
	err := s.deps.Conn.Run(ctx, bus.RunConfig{
		Service: Name, Stream: bus.StreamExtracted, Durable: bus.DurableResolver, Concurrency: s.cfg.Concurrency,
		Status: &s.status, Log: s.deps.Log, Metrics: s.deps.Metrics, Now: s.deps.Now,
	}, s.Stage)
	stop()
	return errors.Join(err, <-listed)
}
