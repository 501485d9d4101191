// Package extractor is the stage that reads items out of chunks: doc.chunked in, doc.extracted out. How a mode finds items is
// behind internal/extract; what becomes of an item is decided by internal/validate, whatever found it.
package extractor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/validate"
)

// Name of the service, of its durable consumer, and of the stage in failures.
const Name = "extractor"

// Modes: without a model, with one, and with one where the rules leave something unclear.
const (
	ModeRules  = "rules"
	ModeLLM    = "llm"
	ModeHybrid = "hybrid"
)

// Schemas gives the schema that a job runs under; *schemacache.Cache does.
type Schemas interface {
	Get(ctx context.Context, graph string, revision uint64) (*schema.Schema, error)
}

// Stage is the extractor without a broker. Its methods are safe for concurrent use.
type Stage struct {
	schemas Schemas
	pinned  []pin
	metrics *metrics
	models  *models
	plans   plans
}

// NewStage makes a stage. The error names the setting of cfg that is wrong.
func NewStage(cfg Config, deps app.Deps, schemas Schemas) (*Stage, error) {
	pinned, err := cfg.pins()
	if err != nil {
		return nil, app.Misconfigured(err)
	}
	deps = deps.WithDefaults()
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	mod, err := newModels(cfg.WithDefaults(), deps)
	if err != nil {
		return nil, err
	}
	return &Stage{schemas: schemas, pinned: pinned, metrics: m, models: mod}, nil
}

// Close ends what the stage holds.
func (s *Stage) Close() { s.models.close() }

// Handle reads one document. Its output is one *events.Extracted; none when its job ended while a model was being asked.
//
// Errors are classified: a job whose settings, model or schema this build or this operator does not serve is handed back; while nobody
// answers for the schema, or no model server is there for a job that needs one, the stage pauses; a chunk that cannot be read fails the
// document under the policy raise, and is a counted failure under the others.
func (s *Stage) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	e, ok := in.Event.(*events.Chunked)
	if !ok {
		return nil, fault.Fatal("wrong_event", "the extractor takes doc.chunked, not %T", in.Event)
	}
	if err := s.serves(e.Job); err != nil {
		return nil, err
	}
	sch, err := s.schema(ctx, e.Job)
	if err != nil {
		return nil, err
	}
	p, err := s.plans.of(sch, e.Job.Settings, s.models)
	if err != nil {
		return nil, fault.Fatal("settings_invalid", "job %s: %w", e.Job.ID, err)
	}
	if p.fingerprint != e.Job.ExtractionFP {
		return nil, fault.CannotServe("job %s of graph %s has the extraction fingerprint %s, this build makes %s of its settings",
			e.Job.ID, e.Job.Graph, e.Job.ExtractionFP, p.fingerprint)
	}
	if p.settings.Asks() {
		var leave func()
		ctx, leave = s.models.hand.take(ctx, &e.Job)
		defer leave()
	}
	out, err := s.read(ctx, e, p, in.Trace)
	if errors.Is(context.Cause(ctx), errEnded) {
		return nil, nil // whatever became of it
	}
	if err != nil {
		return nil, err
	}
	s.metrics.count(out)
	return []events.Event{out}, nil
}

// serves refuses a job whose mode or settings this service does not work with.
func (s *Stage) serves(j events.Job) error {
	if err := cmp.Or(j.Settings.Validate(), j.Settings.Complete()); err != nil {
		return fault.Fatal("settings_invalid", "job %s: %w", j.ID, err)
	}
	for _, p := range s.pinned {
		if got := j.Settings.Get(p.name); got != p.value {
			return fault.CannotServe("job %s of graph %s has %s %q, this extractor is pinned to %q", j.ID, j.Graph, p.name, got, p.value)
		}
	}
	return nil
}

// schema returns the job's schema, and refuses one that this build reads as another.
func (s *Stage) schema(ctx context.Context, j events.Job) (*schema.Schema, error) {
	sch, err := s.schemas.Get(ctx, j.Graph, j.SchemaRevision)
	if err == nil {
		if own := sch.Fingerprint(); own != j.SchemaFP {
			return nil, fault.CannotServe("job %s of graph %s has the schema fingerprint %s, this build reads revision %d as %s",
				j.ID, j.Graph, j.SchemaFP, j.SchemaRevision, own)
		}
		return sch, nil
	}
	err = fmt.Errorf("job %s: %w", j.ID, err)
	var answer *api.Error
	switch {
	case errors.Is(err, schemacache.ErrUnreadable):
		return nil, fault.CannotServe("%w", err)
	case ctx.Err() != nil:
		return nil, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	case errors.As(err, &answer) && answer.Status != 503 && answer.Status != 429:
		return nil, fault.Retry(answer.Code, 0, err)
	}
	return nil, fault.Down("schema_unreachable", err)
}

// read runs the mode and the validator over the chunks of one document.
func (s *Stage) read(ctx context.Context, e *events.Chunked, p *plan, trace string) (*events.Extracted, error) {
	out := &events.Extracted{Job: e.Job, Doc: e.Doc, DocID: fingerprint.DocumentID(e.Doc.Key)}
	doc := extract.Document{Graph: e.Job.Graph, Job: e.Job.ID, Title: e.Title, Text: e.Text, Chunks: e.Chunks}
	for i, c := range e.Chunks {
		if c.Start < 0 || c.End < c.Start || c.End > len(e.Text) {
			return nil, fault.Fatal("bad_chunk", "document %q: chunk %d is %d…%d of a text of %d bytes", e.Doc.Key, i, c.Start, c.End, len(e.Text))
		}
	}
	r, err := p.extractor.Open(ctx, doc)
	if err != nil {
		return nil, fmt.Errorf("read document %q: %w", e.Doc.Key, err)
	}
	defer r.Close()
	s.models.takes(p.settings)
	v := validate.New(p.schema, p.settings, validate.Options{Extractor: p.extractor.Name(), NoCandidates: e.Job.NoCandidates})
	out.Extraction.Chunks = []graph.ChunkItems{}
	for i := range e.Chunks {
		items, err := r.Read(ctx, i)
		out.Stats.Processed++
		got := graph.ChunkItems{State: graph.Failed}
		if err != nil {
			f, partial, err := failure(ctx, e, i, err, trace)
			if err != nil {
				return nil, err
			}
			out.Stats.Failures = append(out.Stats.Failures, *f)
			if partial {
				items.Incomplete = true
				got = v.Chunk(doc.Chunk(i), e.Chunks[i].Start, items)
				tally(&out.Stats, got)
			}
			got.Failure = f
		} else {
			got = v.Chunk(doc.Chunk(i), e.Chunks[i].Start, items)
			tally(&out.Stats, got)
		}
		got.Index = i
		if got.State != "" || len(got.Entities)+len(got.Relations)+len(got.Candidates) > 0 {
			out.Extraction.Chunks = append(out.Extraction.Chunks, got)
		}
	}
	if c, ok := r.(extract.Counter); ok {
		n := c.Counts()
		out.Escalation = &n
	}
	out.Extraction.Dropped = v.Dropped()
	n := v.Items()
	out.Stats.Discarded, out.Stats.Undecided, out.Stats.Reasons = n.Dropped, n.Undecided, n.Reasons
	return out, nil
}

// failure is what becomes of a chunk that could not be read as it should be: a counted failure, or the error of its document. partial
// says that what was read of it counts.
func failure(ctx context.Context, e *events.Chunked, i int, err error, trace string) (f *graph.Failure, partial bool, _ error) {
	if ctx.Err() != nil {
		return nil, false, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
	}
	chunk := &extract.Failure{Code: "chunk_failed", Err: err}
	var dependency *fault.Error
	if !errors.As(err, &chunk) && errors.As(err, &dependency) {
		return nil, false, fmt.Errorf("document %q: %w", e.Doc.Key, err)
	}
	f = &graph.Failure{
		Stage: cmp.Or(chunk.Stage, Name), Item: fmt.Sprintf("%s#%d", e.Doc.Key, i), Code: chunk.Code, Message: chunk.Error(), TraceID: trace,
		Reply: chunk.Reply, Attempt: chunk.Attempt,
	}
	if e.Job.ErrorPolicy == events.PolicyRaise && !chunk.Tolerated {
		said := ""
		if chunk.Reply != "" {
			said = fmt.Sprintf(" (after %d requests, the last reply: %.300q)", chunk.Attempt, chunk.Reply)
		}
		return nil, false, fault.Bad(chunk.Code, "document %q, chunk %d: %w%s", e.Doc.Key, i, chunk.Err, said)
	}
	return f, chunk.Partial, nil
}

func tally(st *events.ExtractionStats, c graph.ChunkItems) {
	if c.State == graph.Incomplete {
		st.Incomplete++
	}
	st.Entities += len(c.Entities)
	st.Relations += len(c.Relations)
	for i := range c.Entities {
		st.Properties += len(c.Entities[i].Properties)
	}
	for i := range c.Relations {
		st.Properties += len(c.Relations[i].Properties)
	}
}

// Service is the stage on the bus.
type Service struct {
	*Stage
	cfg    Config
	deps   app.Deps
	status bus.Status
}

var _ app.Service = (*Service)(nil)

// New makes the service. deps.Conn is needed to run it.
func New(cfg Config, deps app.Deps) (*Service, error) {
	s := &Service{cfg: cfg.WithDefaults(), deps: deps.WithDefaults()}
	stage, err := NewStage(s.cfg, s.deps, schemacache.New(s.fetch, s.cfg.Schemas))
	if err != nil {
		return nil, err
	}
	s.Stage = stage
	return s, nil
}

// fetch asks the committer for a revision of a graph's schema.
func (s *Service) fetch(ctx context.Context, graph string, revision uint64) ([]byte, error) {
	if err := events.CheckGraph(graph); err != nil { // it becomes a subject token
		return nil, err
	}
	var reply api.SchemaReply
	err := s.deps.Conn.Consult(ctx, events.Root+"."+graph+".schema.get", api.SchemaGet{Revision: revision}, &reply)
	return reply.Schema, err
}

// Name implements app.Service.
func (s *Service) Name() string { return Name }

// Ready implements app.Service.
func (s *Service) Ready() error { return s.status.Ready() }

// Run implements app.Service: the stage, and the service's entry in the fleet (nats micro ls). Either ends the other.
func (s *Service) Run(ctx context.Context) error {
	if s.deps.Conn == nil {
		return errors.New("run the extractor: there is no connection")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer s.Close()
	fleet := make(chan error, 2)
	go func() { // ends with ctx; its error is waited for below
		defer stop()
		fleet <- s.models.hand.watch(ctx, s.models.probe)
	}()
	go func() { // as above
		defer stop()
		info := bus.ServiceInfo{Name: Name, Version: s.cfg.Version, Description: "reads entities, relations and properties out of chunks"}
		fleet <- s.deps.Conn.Serve(ctx, info, nil, bus.ServeOptions{Workers: 1, Ready: s.Ready, Note: s.models.note, Log: s.deps.Log})
	}()
	err := s.deps.Conn.Run(ctx, bus.RunConfig{
		Service: Name, Stream: bus.StreamChunked, Durable: bus.DurableExtractor, Concurrency: max(s.cfg.Concurrency, s.cfg.Slots+1),
		Gate: &s.models.gate, Status: &s.status, Log: s.deps.Log, Metrics: s.deps.Metrics, Now: s.deps.Now,
	}, s.Stage)
	stop()
	return errors.Join(err, <-fleet, <-fleet)
}
