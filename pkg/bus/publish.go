package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
)

const (
	// ackTimeout of one publish. A stream that is full answers at once.
	ackTimeout = 10 * time.Second
	// A batch has at most maxBatchMsgs messages (the server's limit) and about maxBatchBytes.
	maxBatchMsgs  = 1000
	maxBatchBytes = 8 << 20
	// minBatchMsgs from which several events to one stream are an atomic batch. For every batch a file-backed stream makes a
	// directory and syncs files, 3 to 10 ms during which it takes nothing else; fewer messages sent together cost a hundredth.
	// Nothing relies on a batch being whole: ids are deterministic, a retry completes what is there, and every reader takes
	// events in any order.
	minBatchMsgs = 64
	// publishTries of a message whose acknowledgement did not come. Its id is deterministic, so that again is safe.
	publishTries = 4

	codeStoreFailed      = jetstream.ErrorCode(10077) // among others: the stream is full
	codeStorageExceeded  = jetstream.ErrorCode(10047)
	codeMessageTooLarge  = jetstream.ErrorCode(10054)
	codeBatchDuplicateID = jetstreamext.JSErrCodeBatchPublishDuplicateMsgID
)

// Publish publishes events and returns when all are acknowledged. 64 and more events to one stream go as one atomic batch (cut at
// 1000 messages or 8 MiB); fewer are sent together and then awaited. Their ids are deterministic: what was published before is dropped by the
// broker. Bodies over 256 KiB go by reference. While a stream is full it waits, until ctx is done.
//
// Errors are classified: an event over the server's payload limit is of class document, too_large; anything else is transient, and asks for a
// pause when nobody answers.
func (c *Conn) Publish(ctx context.Context, out ...events.Event) error {
	return c.publish(ctx, c.name, out)
}

func (c *Conn) publish(ctx context.Context, source string, out []events.Event) error {
	trace := traceOf(ctx)
	return c.publishTraced(ctx, source, out, func(int) string { return trace })
}

// publishTraced publishes events that each may belong to another trace.
func (c *Conn) publishTraced(ctx context.Context, source string, out []events.Event, trace func(i int) string) error {
	if len(out) == 0 {
		return nil
	}
	var order []string
	groups := map[string][]*nats.Msg{}
	now := c.now().UTC().Format(time.RFC3339Nano)
	for i, e := range out {
		stream, m, err := c.message(ctx, e, source, now, trace(i))
		if err != nil {
			return err
		}
		if groups[stream] == nil {
			order = append(order, stream)
		}
		groups[stream] = append(groups[stream], m)
	}
	// What needs no batch is sent first and awaited last, so that its acknowledgements come while the batches go out.
	var singles []*sent
	for _, stream := range order {
		if g := groups[stream]; len(g) < minBatchMsgs {
			for _, m := range g {
				singles = append(singles, c.send(stream, m))
			}
		}
	}
	var errs []error
	for _, stream := range order {
		if g := groups[stream]; len(g) >= minBatchMsgs {
			errs = append(errs, c.publishBatches(ctx, stream, g))
		}
	}
	for _, s := range singles {
		errs = append(errs, c.await(ctx, s))
	}
	return errors.Join(errs...)
}

// message builds the message of an event and refuses what the server would not take.
func (c *Conn) message(ctx context.Context, e events.Event, source, now, trace string) (string, *nats.Msg, error) {
	at := e.Where()
	stream := StreamOf(at.Kind)
	if stream == "" {
		return "", nil, fault.Fatal("no_stream", "no stream holds %s", at)
	}
	if _, ok := e.(*Document); ok {
		return "", nil, fault.Fatal("no_stream", "a document event is published by Ingest")
	}
	m := &nats.Msg{Subject: at.String(), Header: nats.Header{}}
	for k, v := range events.Headers(e, source, now, trace) {
		m.Header[k] = []string{v}
	}
	body, err := events.Encode(e)
	if err != nil {
		return "", nil, fault.Fatal("encode", "%w", err)
	}
	if len(body) > InlineBody && byReference(stream) {
		ref, err := c.PutBody(ctx, at.Graph, at.Job, body)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", at.Kind, err)
		}
		m.Header[events.HeaderBody] = []string{ref}
		m.Header[HeaderBodySize] = []string{strconv.Itoa(len(body))}
		return stream, m, nil
	}
	m.Data = body
	return stream, m, c.fits(m)
}

// fits checks a message against max_payload, to which headers count.
func (c *Conn) fits(m *nats.Msg) error {
	n := len(m.Data) + 12
	for k, v := range m.Header {
		n += len(k) + len(v[0]) + 4
	}
	if max := c.NC.MaxPayload(); max > 0 && int64(n) > max {
		return fault.Bad("too_large", "the event on %s has %d bytes: the server takes %d", m.Subject, n, max)
	}
	return nil
}

// Ingest publishes a document event as it is and returns its sequence in the ingest stream. It waits while the stream is full.
// Headers may describe a plain text (Factmill-Key, …); a Nats-Msg-Id makes a repeated call harmless.
func (c *Conn) Ingest(ctx context.Context, graph string, body []byte, header map[string]string) (uint64, error) {
	if err := events.CheckGraph(graph); err != nil {
		return 0, fault.Bad("bad_name", "%w", err)
	}
	m := &nats.Msg{Subject: events.Subject{Graph: graph, Kind: events.KindIngest}.String(), Data: body, Header: nats.Header{}}
	for k, v := range header {
		m.Header[k] = []string{v}
	}
	if err := c.fits(m); err != nil {
		return 0, err
	}
	ctx, done := c.WhileAllowed(ctx, m.Subject)
	defer done()
	s := c.send(StreamIngest, m)
	if err := c.await(ctx, s); err != nil {
		return 0, Denied(ctx, err)
	}
	return s.ack.Sequence, nil
}

// Replay puts a dead letter's message on its stream again. id is its new message id: under the old one it would be dropped as a
// duplicate.
func (c *Conn) Replay(ctx context.Context, d *events.Dead, id string) error {
	at, err := events.ParseSubject(d.Subject)
	if err != nil {
		return fault.Bad("bad_name", "replay %s: %w", d.ID(), err)
	}
	m := &nats.Msg{Subject: d.Subject, Data: d.Body, Header: nats.Header{}}
	for k, v := range d.Headers {
		if !strings.HasPrefix(k, "Nats-") {
			m.Header[k] = []string{v}
		}
	}
	m.Header[events.HeaderMsgID] = []string{id}
	if err := c.fits(m); err != nil {
		return err
	}
	return c.await(ctx, c.send(StreamOf(at.Kind), m))
}

// sent is a message on its way to one stream.
type sent struct {
	stream string
	msg    *nats.Msg
	fut    jetstream.PubAckFuture
	err    error
	ack    *jetstream.PubAck
}

func (c *Conn) send(stream string, m *nats.Msg) *sent {
	s := &sent{stream: stream, msg: m}
	s.fut, s.err = c.JS.PublishMsgAsync(m)
	return s
}

// await waits for a message's acknowledgement, and sends it again while the stream is full or silent.
func (c *Conn) await(ctx context.Context, s *sent) error {
	tries := 0
	err := c.whileFull(ctx, "stream "+s.stream, func() error {
		for {
			if s.fut == nil && s.err == nil {
				s.fut, s.err = c.JS.PublishMsgAsync(s.msg)
			}
			err := s.wait(ctx)
			if err == nil {
				return nil
			}
			s.fut, s.err = nil, nil // what comes next is a new try
			if tries++; !silent(err) || ctx.Err() != nil || tries >= publishTries {
				return err
			}
		}
	})
	if err != nil {
		return published(ctx, s.msg.Subject, err)
	}
	return nil
}

func (s *sent) wait(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	select {
	case s.ack = <-s.fut.Ok():
		return nil
	case err := <-s.fut.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silent says that no answer came: the message may or may not be stored.
func silent(err error) bool {
	return errors.Is(err, jetstream.ErrAsyncPublishTimeout) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, jetstream.ErrTooManyStalledMsgs)
}

// isFull says that a stream has reached its limits and discards what is new.
func isFull(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode == codeStorageExceeded ||
		api.ErrorCode == codeStoreFailed && (strings.Contains(api.Description, "maximum bytes") || strings.Contains(api.Description, "maximum messages"))
}

// published classifies the error of a publish.
func published(ctx context.Context, what string, err error) error {
	var f *fault.Error
	var api *jetstream.APIError
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: fmt.Errorf("publish %s: %w", what, err)}
	case errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge:
		return fault.Bad("too_large", "publish %s: %w", what, err)
	case silent(err): // no leader, no quorum, no connection: nothing is wrong with the event
		return fault.Down("publish", fmt.Errorf("publish %s: %w", what, err))
	default:
		return fault.Retry("publish", 0, fmt.Errorf("publish %s: %w", what, err))
	}
}

// publishBatches publishes messages to one stream in atomic batches.
func (c *Conn) publishBatches(ctx context.Context, stream string, msgs []*nats.Msg) error {
	for len(msgs) > 0 {
		n, bytes := 0, 0
		for n < len(msgs) && n < maxBatchMsgs && (n == 0 || bytes+len(msgs[n].Data) <= maxBatchBytes) {
			bytes += len(msgs[n].Data)
			n++
		}
		if err := c.publishBatch(ctx, stream, msgs[:n]); err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

func (c *Conn) publishBatch(ctx context.Context, stream string, msgs []*nats.Msg) error {
	if len(msgs) < minBatchMsgs {
		return c.publishEach(ctx, stream, msgs)
	}
	err := c.whileFull(ctx, "stream "+stream, func() error { return c.tryBatch(ctx, msgs) })
	if err == nil {
		return nil
	}
	// A duplicate inside, or a stream without batches: each alone is as good, since the ids are deterministic. A batch that
	// got no answer may be stored: its messages are then duplicates.
	if ctx.Err() == nil && (batchRefused(err) || silent(err)) {
		return c.publishEach(ctx, stream, msgs)
	}
	return published(ctx, fmt.Sprintf("%d events to %s", len(msgs), stream), err)
}

func batchRefused(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeBatchDuplicateID, jetstreamext.JSErrCodeBatchPublishNotEnabled, jetstreamext.JSErrCodeBatchPublishIncomplete,
		jetstreamext.JSErrCodeAtomicPublishTooManyInflight, jetstreamext.JSErrCodeBatchPublishTooManyInflight:
		return true
	}
	return false
}

func (c *Conn) tryBatch(ctx context.Context, msgs []*nats.Msg) error {
	select {
	case c.batches <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.batches }()
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	try := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		try[i] = &nats.Msg{Subject: m.Subject, Data: m.Data, Header: cloneHeader(m.Header)}
	}
	// The acknowledgement of the commit says everything: none is awaited before.
	_, err := jetstreamext.PublishMsgBatch(ctx, c.JS, try, jetstreamext.BatchFlowControl{AckTimeout: ackTimeout})
	return err
}

// publishEach sends all and then awaits all.
func (c *Conn) publishEach(ctx context.Context, stream string, msgs []*nats.Msg) error {
	on := make([]*sent, len(msgs))
	for i, m := range msgs {
		on[i] = c.send(stream, m)
	}
	var errs []error
	for _, s := range on {
		errs = append(errs, c.await(ctx, s))
	}
	return errors.Join(errs...)
}

func cloneHeader(h nats.Header) nats.Header {
	out := make(nats.Header, len(h)+3)
	for k, v := range h {
		out[k] = v
	}
	return out
}

// fullCounter counts how often a full stream made a publisher wait, and remembers which one was reported.
type fullCounter struct {
	mu      sync.Mutex
	waits   uint64          // guarded by mu
	waiting map[string]bool // streams that were reported; guarded by mu
}

// FullWaits is how often this connection waited because a stream was full.
func (c *Conn) FullWaits() uint64 {
	c.full.mu.Lock()
	defer c.full.mu.Unlock()
	return c.full.waits
}

// whileFull calls do again, with growing pauses, while it says that what is full. That is the back-pressure: it goes up stage by
// stage to the lister.
func (c *Conn) whileFull(ctx context.Context, what string, do func() error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if err == nil || !isFull(err) {
			c.noteFull(what, false)
			return err
		}
		c.noteFull(what, true)
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%s is full: %w", what, ctx.Err())
		case <-t.C:
		}
	}
}

// noteFull counts a wait, and logs once when something becomes full and once when it is not any more.
func (c *Conn) noteFull(what string, full bool) {
	c.full.mu.Lock()
	was := c.full.waiting[what]
	if full {
		c.full.waits++
		if c.full.waiting == nil {
			c.full.waiting = map[string]bool{}
		}
		c.full.waiting[what] = true
	} else if was {
		delete(c.full.waiting, what)
	}
	c.full.mu.Unlock()
	switch {
	case full && !was:
		c.log.Warn("full, waiting for its readers", "what", what)
	case !full && was:
		c.log.Info("no longer full", "what", what)
	}
}
