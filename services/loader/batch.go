package loader

import (
	"context"
	"encoding/json"
	"sort"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
)

const (
	// Outputs are emitted when they reach maxBatch events or about maxBatchBytes.
	maxBatch      = 500
	maxBatchBytes = 512 << 10
	// maxSources of one job: their tokens travel in one event.
	maxSources = 1_000_000
)

// batch collects the outputs of one delivery and emits them as they fill it.
type batch struct {
	job    events.Job
	trace  string
	emit   func(context.Context, ...events.Event) error
	weight int // of an event without its content
	out    []events.Event
	size   int
	tokens map[string]struct{} // of the sources so far
}

func newBatch(job events.Job, in bus.Delivery) *batch {
	b := &batch{job: job, trace: in.Trace, emit: in.Emit, weight: 1 << 10, tokens: map[string]struct{}{}}
	if raw, err := json.Marshal(job); err == nil {
		b.weight = len(raw) + 256
	}
	return b
}

// add appends an event with about size bytes of content.
func (b *batch) add(ctx context.Context, e events.Event, size int) error {
	size += b.weight
	if len(b.out) > 0 && (len(b.out) == maxBatch || b.size+size > maxBatchBytes) {
		if err := b.emit(ctx, b.out...); err != nil {
			return err
		}
		b.out, b.size = nil, 0
	}
	b.out, b.size = append(b.out, e), b.size+size
	return nil
}

// take returns what was not emitted yet.
func (b *batch) take() []events.Event {
	out := b.out
	b.out, b.size = nil, 0
	return out
}

// source adds a found source. It is false when the source was added before.
func (b *batch) source(ctx context.Context, s events.Source) (bool, error) {
	if fresh, err := b.name(s.Token); !fresh || err != nil {
		return false, err
	}
	size := len(s.Data)*4/3 + len(s.Name) + len(s.Path)
	for _, d := range []*events.InputDocument{s.Document, s.Meta} {
		if d != nil {
			size += len(d.Text) + len(d.Title) + len(d.Key) + 256
		}
	}
	return true, b.add(ctx, &events.Found{Job: b.job, Source: s}, size)
}

// ended adds a source that is at fault already, as the job's error policy says.
func (b *batch) ended(ctx context.Context, token, called string, f *fault.Error) error {
	if fresh, err := b.name(token); !fresh || err != nil {
		return err
	}
	e := &events.Ended{
		Job: b.job, Source: token, Name: called, Outcome: outcome(b.job.ErrorPolicy),
		Failure: &graph.Failure{Stage: name, Item: called, Code: f.Code, Message: f.Error(), TraceID: b.trace},
	}
	return b.add(ctx, e, len(called)+len(e.Failure.Message))
}

func (b *batch) name(token string) (bool, error) {
	if _, have := b.tokens[token]; have {
		return false, nil
	}
	if len(b.tokens) == maxSources {
		return false, fault.Bad("too_many_sources", "the event names more than %d sources: use several jobs", maxSources)
	}
	b.tokens[token] = struct{}{}
	return true, nil
}

// names returns the sources' tokens, sorted.
func (b *batch) names() []string {
	out := make([]string, 0, len(b.tokens))
	for t := range b.tokens {
		out = append(out, t)
	}
	sort.Strings(out)
	return out
}

// check refuses an event whose number of sources does not fit what it says of them.
func (b *batch) check(event *events.Ingest) error {
	if event.Sources == nil || len(b.tokens) == 1 {
		return nil
	}
	if event.Op == events.OpUpdate {
		return fault.Bad(events.CodeUpdateOne, "update takes exactly one document: the source has %d files", len(b.tokens))
	}
	if event.Key != "" && len(b.tokens) > 1 {
		return fault.Bad("bad_value", "key names one document: the source has %d files", len(b.tokens))
	}
	return nil
}

// outcome of a failure under an error policy.
func outcome(policy string) string {
	switch policy {
	case events.PolicySkip:
		return events.OutcomeSkipped
	case events.PolicyQuarantine:
		return events.OutcomeQuarantined
	default:
		return events.OutcomeFailed
	}
}
