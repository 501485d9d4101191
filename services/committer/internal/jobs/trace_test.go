package jobs_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// parents is a tracer that remembers under which span each one was begun.
type parents struct {
	noop.Tracer
	mu    sync.Mutex
	begun []string
}

func (p *parents) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	p.mu.Lock()
	p.begun = append(p.begun, name+" under "+bus.Traceparent(trace.SpanContextFromContext(ctx)))
	p.mu.Unlock()
	return p.Tracer.Start(ctx, name, o...)
}

// The commit of a document belongs under what was resolved, be its text staged before or behind it.
func TestCommitIsUnderWhatWasResolved(t *testing.T) {
	const id = "00-0af7651916cd43dd8448eb211c80319c-"
	under := map[string]string{"staged": id + "00f067aa0ba902b7-01", "resolved": id + "00f067aa0ba902b8-01"}
	for i, first := range []string{"staged", "resolved"} {
		w := newWorld(t)
		tracer := &parents{}
		w.cfg.Tracer = tracer
		w.restart()
		job := w.accept("one", uint64(i+1))
		var in []bus.Delivery
		for _, e := range append(document(job, "a", "a", "Ada"), sealed(job, "a")) {
			b, err := events.Encode(e)
			require.NoError(t, err)
			d := bus.Delivery{Event: e, Body: b}
			switch e.(type) {
			case *events.Staged:
				d.Traceparent = under["staged"]
			case *events.Resolved:
				d.Traceparent = under["resolved"]
			}
			in = append(in, d)
		}
		slices.SortStableFunc(in, func(a, b bus.Delivery) int {
			is := func(d bus.Delivery) int {
				if d.Traceparent == under[first] {
					return 0
				}
				return 1
			}
			return is(a) - is(b)
		})
		for _, d := range in { // one by one, as they arrive
			for _, r := range w.m.HandleBatch(t.Context(), []bus.Delivery{d}) {
				require.NoError(t, r.Err)
			}
		}
		w.wait("one", api.JobCommitted)
		tracer.mu.Lock()
		require.Equal(t, []string{"committer commit under " + under["resolved"]}, tracer.begun, "%s first", first)
		tracer.mu.Unlock()
	}
}
