package bus

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/events"
)

// Keys of span attributes, the same as those of the logs. None holds text of a document.
const (
	AttrGraph   = attribute.Key("factmill.graph")
	AttrJob     = attribute.Key("factmill.job")
	AttrDoc     = attribute.Key("factmill.doc") // the token of the key, or of the source
	AttrAttempt = attribute.Key("factmill.attempt")
	AttrOutcome = attribute.Key("factmill.outcome")
	AttrCode    = attribute.Key("factmill.code")
	AttrSeq     = attribute.Key("factmill.seq")
)

// hop is a message's place in its trace while it is handled.
type hop struct {
	next  string     // traceparent of what is published
	span  trace.Span // nil: not recorded
	begun bool       // no publisher named the trace of a document event or source: its parts have traces of their own

	mu    sync.Mutex
	first string // token of the part that keeps the trace; guarded by mu
}

// id of the trace.
func (h *hop) id() string { return h.next[3:35] }

// begin finds a message's place in its trace, and begins a span with a tracer. Without one it makes nothing.
func (h *hop) begin(ctx context.Context, tracer trace.Tracer, service, header string, e events.Event, it *item, since time.Time) context.Context {
	own := parent(header)
	if own {
		h.next = header
		if found, ok := e.(*events.Found); ok {
			h.begun = ours(found, h.id())
		}
	} else {
		h.next, h.begun, own = rootOf(e, it.meta.Stream, it.meta.Sequence.Stream, it.meta.Timestamp.UnixNano())
	}
	if tracer == nil {
		return ctx
	}
	name, where := kindOf(e, it)
	c := spanContext(h.next)
	if own {
		ctx = trace.ContextWithRemoteSpanContext(ctx, c)
	} else {
		ctx = WithRootTrace(ctx, c.TraceID())
	}
	ctx, h.span = tracer.Start(ctx, service+" "+name, trace.WithTimestamp(since), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		AttrGraph.String(where.Graph), AttrJob.String(where.Job), AttrDoc.String(where.Item), AttrAttempt.Int64(int64(it.meta.NumDelivered))))
	h.next = Traceparent(h.span.SpanContext())
	return ctx
}

// kindOf names what is done about a message: by its kind, "list" for the document event.
func kindOf(e events.Event, it *item) (string, events.Subject) {
	where, err := events.ParseSubject(it.msg.Subject)
	if err != nil {
		return "message", where
	}
	switch f, _ := e.(*events.Found); {
	case where.Kind == events.KindIngest, f != nil && f.Source.Relist:
		return "list", where
	case where.Kind == events.KindFound:
		return "fetch", where
	case where.Kind == events.KindLoaded:
		return "chunk", where
	case where.Kind == events.KindChunked:
		return "extract", where
	case where.Kind == events.KindExtracted:
		return "resolve", where
	}
	return "stage " + where.Kind, where
}

// trace is the traceparent of what is published for a message. Of the sources that a document event lists, and of the documents of a
// source, the first keeps its trace, the others have their own.
func (r *runner) trace(t *task, out events.Event) string {
	h := &t.hop
	if !h.begun {
		return h.next
	}
	job, token, name := partOf(out)
	if token == "" {
		return h.next
	}
	h.mu.Lock()
	if h.first == "" {
		h.first = token
	}
	own := h.first != token
	h.mu.Unlock()
	if !own {
		return h.next
	}
	next := partTrace(h.id(), token)
	if end, ok := out.(*events.Ended); ok && end.Failure != nil && end.Failure.TraceID == h.id() {
		end.Failure.TraceID = next[3:35]
	}
	if r.conn.tracer == nil {
		return next
	}
	c := spanContext(next)
	_, span := r.conn.tracer.Start(WithRootTrace(context.Background(), c.TraceID()), r.cfg.Service+" "+name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(trace.Link{SpanContext: h.span.SpanContext()}), trace.WithAttributes(AttrGraph.String(job.Graph),
			AttrJob.String(job.ID), AttrDoc.String(token), AttrAttempt.Int64(int64(t.in.Attempt))))
	span.End()
	return Traceparent(span.SpanContext())
}

// partOf is the source or document that an event is about; an empty token: neither. name is what was done to find it.
func partOf(e events.Event) (job events.Job, token, name string) {
	switch e := e.(type) {
	case *events.Found:
		return e.Job, e.Source.Token, "list"
	case *events.Loaded:
		return e.Job, e.Doc.Token, "fetch"
	case *events.Staged:
		return e.Job, e.Doc.Token, "fetch"
	case *events.Ended:
		if e.Doc != nil {
			return e.Job, e.Doc.Token, "fetch"
		}
	}
	return job, "", ""
}

// ended ends a message's span, by what became of the message.
func (h *hop) ended(outcome, code string) {
	if h.span == nil {
		return
	}
	h.span.SetAttributes(AttrOutcome.String(outcome))
	if code != "" {
		h.span.SetAttributes(AttrCode.String(code))
		h.span.SetStatus(codes.Error, code)
	}
	h.span.End()
}
