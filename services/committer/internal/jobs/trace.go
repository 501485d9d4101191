package jobs

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// The trace of a document ends with the commit of its job, long after its last message was answered. So the traceparent of what was
// staged is kept with the staged rows (only of traces that are recorded), and the commit begins a span under each.

// maxLinks of the job's own span to those of its documents.
const maxLinks = 100

// traced remembers the span under which a document's commit belongs: that of its text, or better, of what was resolved, whichever comes first;
// an empty token is the job. Callers hold mu.
func (m *Machine) traced(l *live, k key, part byte, token, traceparent string) []store.Op {
	if m.cfg.Tracer == nil || !bus.SpanContext(traceparent).IsSampled() || part == partStaged && l.traces[token] != "" {
		return nil
	}
	l.traces[token] = traceparent
	return []store.Op{{Graph: k.graph, Space: spaceStaged, Key: stagedKey(k.job, l.rec.Job.Attempt, partTrace, token), Value: []byte(traceparent)}}
}

// tracedAs are the spans of documents and, as "", the job's.
func (m *Machine) tracedAs(l *live) map[string]string {
	if m.cfg.Tracer == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(l.traces)
}

// spans records how documents were committed, or the job was rolled back (reason): a span of the job, and one in the trace of each document.
func (m *Machine) spans(k key, traces map[string]string, tokens []string, name string, seq uint64, reason string, began time.Time) {
	if len(traces) == 0 {
		return
	}
	ended := time.Now()
	start := func(under string, links ...trace.Link) trace.Span {
		_, s := m.cfg.Tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), bus.SpanContext(under)), "committer "+name,
			trace.WithTimestamp(began), trace.WithLinks(links...), trace.WithAttributes(bus.AttrGraph.String(k.graph), bus.AttrJob.String(k.job)))
		if seq > 0 {
			s.SetAttributes(bus.AttrSeq.Int64(int64(seq)))
		}
		if reason != "" {
			s.SetStatus(codes.Error, "")
		}
		return s
	}
	var ofJob []trace.Link
	if at := traces[""]; at != "" {
		var links []trace.Link
		for _, t := range slices.Sorted(slices.Values(tokens)) {
			if of := traces[t]; of != "" && len(links) < maxLinks {
				links = append(links, trace.Link{SpanContext: bus.SpanContext(of)})
			}
		}
		s := start(at, links...)
		ofJob = []trace.Link{{SpanContext: s.SpanContext()}}
		s.End(trace.WithTimestamp(ended))
	}
	for _, t := range tokens {
		if of := traces[t]; of != "" {
			s := start(of, ofJob...)
			s.SetAttributes(bus.AttrDoc.String(t))
			s.End(trace.WithTimestamp(ended))
		}
	}
}
