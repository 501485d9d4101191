// Package bus is Factmill's way over NATS JetStream: connecting, the table of streams and consumers, acknowledged publishing,
// bodies by reference, the stage runner that every service shares, and the request-reply verbs.
//
// A stage sees none of it: it gets a Delivery and returns outputs or a classified error. Only the runner publishes and acks.
package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/factmill/factmill/pkg/events"
)

// Delivery is one event handed to a stage.
type Delivery struct {
	// Event is the decoded event; for a document event a *Document.
	Event events.Event
	// Body is the event as it was encoded (fetched, when it travelled by reference). Shared: do not change it.
	Body []byte
	// Seq is the message's sequence in its stream.
	Seq uint64
	// Time is when the stream stored it.
	Time time.Time
	// Attempt counts deliveries from 1.
	Attempt uint64
	// Trace is the trace id (32 hex digits) of the incoming traceparent, or a new one.
	Trace string
	// Traceparent of what is published for it: whoever goes on with the work later begins its spans under it.
	Traceparent string
	// Emit publishes acknowledged now, as Publish does; it waits while a stream is full. For stages with many outputs. Its error
	// is classified: return it.
	Emit func(ctx context.Context, out ...events.Event) error
}

// Handler is a stage: decoded event in, outputs or a classified error (pkg/fault) out. The outputs are published and
// acknowledged, as by Publish, before the message is.
//
// The context ends when the service stops: return its error to hand the message back, or finish; what was finished is still
// published.
type Handler interface {
	Handle(ctx context.Context, in Delivery) ([]events.Event, error)
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, in Delivery) ([]events.Event, error)

// Handle implements Handler.
func (f HandlerFunc) Handle(ctx context.Context, in Delivery) ([]events.Event, error) {
	return f(ctx, in)
}

// BatchHandler is a stage that works on many events at once. It returns one Result a delivery, in order.
type BatchHandler interface {
	HandleBatch(ctx context.Context, in []Delivery) []Result
}

// BatchHandlerFunc makes a function a BatchHandler.
type BatchHandlerFunc func(ctx context.Context, in []Delivery) []Result

// HandleBatch implements BatchHandler.
func (f BatchHandlerFunc) HandleBatch(ctx context.Context, in []Delivery) []Result { return f(ctx, in) }

// Result of one delivery of a batch.
type Result struct {
	Out []events.Event
	Err error
}

// Document is a document event as it lies in the ingest stream: not decoded, so that the loader can refuse it with a reason.
type Document struct {
	Graph string
	// Seq and Time are those of the stream: they order the versions of a key, and name the job of an event that names none.
	Seq  uint64
	Time time.Time
	// Header returns a header of the message, empty when it has none.
	Header func(string) string
	Body   []byte
}

// Where implements events.Event.
func (d *Document) Where() events.Subject {
	return events.Subject{Graph: d.Graph, Kind: events.KindIngest}
}

// ID implements events.Event.
func (d *Document) ID() string {
	return d.Graph + ":ingest:" + strconv.FormatUint(d.Seq, 10)
}
