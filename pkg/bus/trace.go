package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// The W3C traceparent: version, trace id, span id, flags. The trace id goes from the document event to the commit. With a tracer
// every hop is a span of its own; without one the traceparent goes on as it came, which costs nothing.
//
// An event that was published without one gets a trace id that is a function of where it lies: what is delivered again, or listed
// again, goes on in the same trace. Of an event with several sources the first keeps the event's trace, and each other one has a
// trace of its own, linked to it; so has each document of a source but the first: one trace a document. A publisher's own traceparent
// is the parent of all of them.

type traceKey struct{}

// WithTrace gives what is published under ctx this traceparent.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

func traceOf(ctx context.Context) string {
	s, _ := ctx.Value(traceKey{}).(string)
	return s
}

type rootKey struct{}

// RootTraceID is the trace id that a span which is begun under ctx and has no parent must take; ok is false when any will do. The
// tracer's generator of ids asks it.
func RootTraceID(ctx context.Context) (id trace.TraceID, ok bool) {
	id, ok = ctx.Value(rootKey{}).(trace.TraceID)
	return id, ok
}

// parent says whether a traceparent is well formed: only then the trace goes on.
func parent(s string) bool {
	return len(s) >= 55 && s[2] == '-' && s[35] == '-' && s[52] == '-' && isHex(s[:2]) && s[:2] != "ff" && (len(s) == 55 || s[:2] != "00" && s[55] == '-') &&
		isHex(s[3:35]) && strings.Trim(s[3:35], "0") != "" && isHex(s[36:52]) && strings.Trim(s[36:52], "0") != "" && isHex(s[53:55])
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// derived is a traceparent that is a function of parts, of a trace that nobody has begun; nobody records it.
func derived(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	id := hex.EncodeToString(h[:24])
	return "00-" + id[:32] + "-" + id[32:] + "-00"
}

// eventTrace is that of a document event which was published without one; its redeliveries and a new attempt of its job are in it too.
func eventTrace(name string, at graph.Order) string {
	return derived("event", name, strconv.FormatUint(at.Seq, 10), strconv.FormatInt(at.Time, 10))
}

// partTrace is that of a source which is not the first of its event, or of a document which is not the first of its source.
func partTrace(whole, token string) string { return derived("part", whole, token) }

// ours says whether no publisher named the trace of a source.
func ours(e *events.Found, id string) bool {
	event := eventTrace(e.Job.Graph, e.Job.At)[3:35]
	return id == event || id == partTrace(event, e.Source.Token)[3:35]
}

// rootOf is the traceparent of a message without one. begun: its sources begin traces of their own. remote: there is a span with its id.
func rootOf(e events.Event, stream string, seq uint64, at int64) (traceparent string, begun, remote bool) {
	switch e := e.(type) {
	case *Document:
		return eventTrace(e.Graph, graph.Order{Seq: e.Seq, Time: e.Time.UnixNano()}), true, false
	case *events.Found: // from the outbox: decided anew, or listed anew
		event := eventTrace(e.Job.Graph, e.Job.At)
		if parent(e.Trace) {
			return e.Trace, e.Source.Relist && e.Trace[3:35] == event[3:35], true
		}
		return event, e.Source.Relist, !e.Source.Relist
	default:
		return derived("message", stream, strconv.FormatUint(seq, 10), strconv.FormatInt(at, 10)), false, false
	}
}

// spanContext reads a well formed traceparent.
func spanContext(traceparent string) trace.SpanContext {
	c := trace.SpanContextConfig{Remote: true}
	c.TraceID, _ = trace.TraceIDFromHex(traceparent[3:35])
	c.SpanID, _ = trace.SpanIDFromHex(traceparent[36:52])
	if b, err := hex.DecodeString(traceparent[53:55]); err == nil {
		c.TraceFlags = trace.TraceFlags(b[0])
	}
	return trace.NewSpanContext(c)
}

// SpanContext reads a traceparent; it is not valid when that is not well formed.
func SpanContext(traceparent string) trace.SpanContext {
	if !parent(traceparent) {
		return trace.SpanContext{}
	}
	return spanContext(traceparent)
}

// Traceparent writes the traceparent of a span.
func Traceparent(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// WithRootTrace has a span that is begun under ctx, and has no parent, take this trace id.
func WithRootTrace(ctx context.Context, id trace.TraceID) context.Context {
	return context.WithValue(ctx, rootKey{}, id)
}
