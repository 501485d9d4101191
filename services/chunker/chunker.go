// Package chunker is the stage that cuts a loaded document into chunks: doc.loaded in, doc.chunked (for the extractor) and
// doc.staged (for the committer) out. How the text is cut is in internal/split.
package chunker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/chunker/internal/split"
)

// Name of the service, of its durable consumer, and of the stage in failures.
const Name = "chunker"

// Stage is the chunker without a broker. Its methods are safe for concurrent use.
type Stage struct {
	pinned  []pin
	metrics *metrics
	prints  prints
}

// NewStage makes a stage. The error names the setting of cfg that is wrong.
func NewStage(cfg Config, deps app.Deps) (*Stage, error) {
	deps = deps.WithDefaults()
	pinned, err := cfg.pins()
	if err != nil {
		return nil, app.Misconfigured(err)
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return &Stage{pinned: pinned, metrics: m}, nil
}

// Handle cuts one document. Its outputs are *events.Chunked and *events.Staged, also for a blank text, which has no chunks.
//
// Errors are classified: a job whose chunker settings this build or this operator does not serve is handed back; settings out of
// their bounds are permanent, since every writer of settings checks them.
func (s *Stage) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	e, ok := in.Event.(*events.Loaded)
	if !ok {
		return nil, fault.Fatal("wrong_event", "the chunker takes doc.loaded, not %T", in.Event)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("chunk %q of job %s: %w", e.Doc.Key, e.Job.ID, err)
	}
	if err := s.serves(e.Job); err != nil {
		return nil, err
	}
	c := e.Job.Settings.Chunker
	res, err := split.Split(e.Text, e.Markup, c.Size, c.MinSize)
	if err != nil {
		return nil, fault.Fatal("settings_invalid", "job %s: %w", e.Job.ID, err)
	}
	s.metrics.count(len(e.Text), res)
	if res.Chunks == nil {
		res.Chunks = []graph.Chunk{} // a list in JSON, not null
	}
	return []events.Event{
		&events.Chunked{Job: e.Job, Doc: e.Doc, Title: e.Meta.Title, Text: e.Text, Chunks: res.Chunks},
		&events.Staged{
			Job: e.Job, Doc: e.Doc, Meta: e.Meta, Decision: e.Decision, Base: e.Base, Text: e.Text,
			Chunks: res.Chunks, Sections: res.Sections, Tables: res.Tables,
		},
	}, nil
}

// serves refuses a job whose chunks this service would cut otherwise than the job's fingerprint says.
func (s *Stage) serves(j events.Job) error {
	if err := j.Settings.Validate(); err != nil {
		return fault.Fatal("settings_invalid", "job %s: %w", j.ID, err)
	}
	for _, p := range s.pinned {
		if got := j.Settings.Get(p.name); got != p.value {
			return fault.CannotServe("job %s of graph %s runs with %s %s, this service was started with %s", j.ID, j.Graph, p.name, got, p.value)
		}
	}
	if own := s.prints.of(j.Settings); own != j.ChunkerFP {
		return fault.CannotServe("job %s of graph %s has the chunker fingerprint %s, this build makes %s of its settings",
			j.ID, j.Graph, j.ChunkerFP, own)
	}
	return nil
}

// prints remembers the fingerprint of the settings that were seen last: nearly every document has the same.
type prints struct {
	mu  sync.Mutex
	in  settings.Chunker // guarded by mu
	out string           // guarded by mu; empty: nothing yet
}

func (p *prints) of(s settings.Pipeline) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == "" || p.in != s.Chunker {
		p.in, p.out = s.Chunker, s.ChunkerFingerprint()
	}
	return p.out
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
	deps = deps.WithDefaults()
	cfg = cfg.WithDefaults()
	stage, err := NewStage(cfg, deps)
	if err != nil {
		return nil, err
	}
	return &Service{Stage: stage, cfg: cfg, deps: deps}, nil
}

// Name implements app.Service.
func (s *Service) Name() string { return Name }

// Ready implements app.Service.
func (s *Service) Ready() error { return s.status.Ready() }

// Run implements app.Service: the stage, and the service's entry in the fleet (nats micro ls). When one ends, so does the other.
func (s *Service) Run(ctx context.Context) error {
	if s.deps.Conn == nil {
		return errors.New("run the chunker: no connection was given")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listed := make(chan error, 1)
	go func() {
		defer stop()
		info := bus.ServiceInfo{Name: Name, Version: s.cfg.Version, Description: "cuts documents into chunks"}
		listed <- s.deps.Conn.Serve(ctx, info, nil, bus.ServeOptions{Workers: 1, Ready: s.Ready, Log: s.deps.Log})
	}()
	err := s.deps.Conn.Run(ctx, bus.RunConfig{
		Service: Name, Stream: bus.StreamLoaded, Durable: bus.DurableChunker, Concurrency: s.cfg.Concurrency,
		Status: &s.status, Log: s.deps.Log, Metrics: s.deps.Metrics, Now: s.deps.Now,
	}, s.Stage)
	stop()
	return errors.Join(err, <-listed)
}
