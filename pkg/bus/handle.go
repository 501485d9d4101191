package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
)

const (
	// panicTries before a message whose handler panics is parked: a panic seldom passes.
	panicTries = 3
	// goneTries before a message whose body is not kept is parked: a replica of the bucket may lag.
	goneTries = 3
	// startUp is how long after its own start a runner takes it for normal that a dependency does not answer yet: services that
	// start together wait for each other.
	startUp = 10 * time.Second
	// unservedDelay of a message that this service's settings cannot serve: another replica may.
	unservedDelay = 2 * time.Second
	// costly is a handler's time from which its acknowledgement is sent before the next message is begun: a process that is killed
	// then has at most the messages in its workers' hands to do again.
	costly = 5 * time.Millisecond
)

// bodyWeight is about how many times its size a body needs from its fetch to the publishing of what was made of it: the body, its
// decoded form, what the handler makes of it, and that encoded.
const bodyWeight = 8

// task is a message on its way through the runner.
type task struct {
	item  *item
	in    Delivery
	ctx   context.Context // with the traceparent of this hop, and its span
	bytes int64           // held of r.bodies
	hop   hop
}

// log names a message in each line about it.
func (t *task) log(r *runner) *slog.Logger {
	at, err := events.ParseSubject(t.item.msg.Subject)
	if err != nil {
		return r.cfg.Log.With("subject", t.item.msg.Subject, "stage", r.cfg.Service, "seq", t.in.Seq, "attempt", t.in.Attempt, "trace_id", t.in.Trace)
	}
	if at.Kind == events.KindIngest {
		at.Job, at.Item = jobOf(t.item.msg, t.in.Seq), "event"
	}
	return r.cfg.Log.With("graph", at.Graph, "job", at.Job, "doc", at.Item, "stage", r.cfg.Service, "seq", t.in.Seq, "attempt", t.in.Attempt, "trace_id", t.in.Trace)
}

// one handles one message to its answer.
func (r *runner) one(it *item) {
	t, ok := r.take(it)
	if !ok {
		return
	}
	defer r.release(t)
	failpoint.Hit(r.points.received)
	begin := time.Now()
	out, err := r.call(t)
	took := time.Since(begin)
	failpoint.Hit(r.points.computed)
	r.settle(t, out, err)
	if took >= costly {
		r.flush()
	}
}

// take decodes a message. When it cannot be handled it is answered here and ok is false.
func (r *runner) take(it *item) (*task, bool) {
	t := &task{item: it}
	t.in = Delivery{Seq: it.meta.Sequence.Stream, Time: it.meta.Timestamp, Attempt: it.meta.NumDelivered}
	t.in.Emit = func(ctx context.Context, out ...events.Event) error {
		return r.conn.publishTraced(ctx, r.cfg.Service, out, func(i int) string { return r.trace(t, out[i]) })
	}
	begun := time.Now()
	body, err := r.body(t)
	if err == nil {
		t.in.Event, err = r.decode(t, body)
	}
	ctx := t.hop.begin(r.work, r.conn.tracer, r.cfg.Service, it.msg.Header.Get(events.HeaderTrace), t.in.Event, it, begun)
	t.in.Trace, t.in.Traceparent, t.ctx = t.hop.id(), t.hop.next, WithTrace(ctx, t.hop.next)
	switch {
	case err == nil && t.in.Attempt > r.cfg.MaxAttempts:
		// Whoever handled it never answered: it may be what kills its handlers.
		r.park(t, "gave_up", fmt.Errorf("delivered %d times and never answered", t.in.Attempt-1))
	case err == nil:
		return t, true
	default:
		r.untaken(t, err)
	}
	r.release(t)
	return nil, false
}

// untaken answers a message that could not be read.
func (r *runner) untaken(t *task, err error) {
	if errors.Is(err, events.ErrNewer) {
		r.cfg.Status.hinder(r.name, "newer", err.Error())
		r.handBack(t, unservedDelay*4, err)
		return
	}
	if errors.Is(err, ErrBodyGone) && t.in.Attempt >= goneTries {
		r.park(t, "body_gone", err)
		return
	}
	switch f := fault.Of(err); f.Class {
	case fault.Interrupted:
		r.handBack(t, 0, err)
	case fault.Document, fault.Permanent:
		r.park(t, f.Code, err)
	default:
		r.retry(t, f, err)
	}
}

// body returns a message's body, fetched when it travels by reference.
func (r *runner) body(t *task) ([]byte, error) {
	ref := refOf(t.item.msg.Header)
	if ref == "" {
		return t.item.msg.Data, nil
	}
	at, err := events.ParseSubject(t.item.msg.Subject)
	if err != nil {
		return nil, fault.Fatal("undecodable", "%w", err)
	}
	if _, job, _, err := parseRef(ref); err != nil || job != at.Job {
		return nil, fault.Fatal("undecodable", "the reference %q does not belong to %s", ref, at)
	}
	t.bytes = min(bodyWeight*refSize(t.item.msg.Header), maxRefBytes)
	if err := r.bodies.Acquire(r.work, t.bytes); err != nil {
		t.bytes = 0
		return nil, err
	}
	return r.conn.GetBody(r.work, at.Graph, ref, MaxBody)
}

// refSize is the size of a body by reference, a guess when its sender did not say.
func refSize(h nats.Header) int64 {
	if n, err := strconv.ParseInt(h.Get(HeaderBodySize), 10, 64); err == nil && n > 0 && n <= MaxBody {
		return n
	}
	return 1 << 20
}

func (r *runner) release(t *task) {
	if t.bytes > 0 {
		r.bodies.Release(t.bytes)
		t.bytes = 0
	}
}

func (r *runner) decode(t *task, body []byte) (events.Event, error) {
	m := t.item.msg
	t.in.Body = body
	at, err := events.ParseSubject(m.Subject)
	if err != nil {
		return nil, fault.Fatal("undecodable", "%w", err)
	}
	if at.Kind == events.KindIngest {
		return &Document{Graph: at.Graph, Seq: t.in.Seq, Time: t.in.Time, Header: m.Header.Get, Body: body}, nil
	}
	e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), body)
	if err != nil && !errors.Is(err, events.ErrNewer) {
		return nil, fault.Fatal("undecodable", "%w", err)
	}
	return e, err
}

// call calls the handler, again while a dependency of it is down: the message stays here, alive, and nothing else is pulled.
func (r *runner) call(t *task) ([]events.Event, error) {
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		start := time.Now()
		out, err := r.guard(t)
		r.metrics.took(time.Since(start))
		f := fault.Of(err)
		if err == nil || !f.Pause || f.Class != fault.Transient {
			r.cfg.Status.hinder(r.name, "down", "") // whatever else is wrong, the dependency answered
			return out, err
		}
		if !r.pause(f, err, pause) {
			return nil, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
		}
	}
}

// guard turns a panic of the handler into an error.
func (r *runner) guard(t *task) (out []events.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, r.panicked(t, p)
		}
	}()
	return r.handler.Handle(t.ctx, t.in)
}

func (r *runner) panicked(t *task, p any) error {
	t.log(r).Error("a handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if t.in.Attempt >= panicTries {
		return fault.Fatal("panic", "the handler panicked: %v", p)
	}
	return fault.Retry("panic", 0, fmt.Errorf("the handler panicked: %v", p))
}

// pause stops pulling and waits; false when the service stops meanwhile. When the last worker has waited, pulling goes on: a
// dependency that is still down pauses it again.
func (r *runner) pause(f *fault.Error, err error, d time.Duration) bool {
	r.metrics.faults.WithLabelValues(f.Class.String()).Inc()
	r.mu.Lock()
	r.paused++
	first := r.paused == 1
	r.mu.Unlock()
	if first {
		r.cfg.Status.hinder(r.name, "down", f.Code+": "+err.Error())
		level := slog.LevelWarn
		if r.cfg.Now().Sub(r.began) < startUp {
			level = slog.LevelInfo
		}
		r.cfg.Log.Log(r.work, level, "paused, a dependency is down", "code", f.Code, "error", err)
		r.pump.close(false)
		r.pump.backAll(time.Second)
	}
	t := time.NewTimer(max(d, f.Delay))
	defer t.Stop()
	ok := true
	select {
	case <-t.C:
	case <-r.work.Done():
		ok = false
	}
	r.mu.Lock()
	r.paused--
	r.mu.Unlock()
	return ok
}

// served says that the handler worked: whatever hindered it is over.
func (r *runner) served() {
	r.cfg.Status.hinder(r.name, "unserved", "")
	r.cfg.Status.hinder(r.name, "newer", "")
}

// resume pulls again unless a worker still waits for a dependency.
func (r *runner) resume() {
	r.mu.Lock()
	paused := r.paused > 0
	r.mu.Unlock()
	if paused {
		return
	}
	if err := r.pump.open(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.pump.fail(err)
	}
}

// settle publishes what a handler returned and answers its message. Never an ack before the outputs are acknowledged.
func (r *runner) settle(t *task, out []events.Event, err error) {
	if err == nil {
		err = r.deliver(t, out)
		failpoint.Hit(r.points.published)
	}
	r.answer(t, err)
}

// deliver publishes what a handler returned, again while nobody answers: a stream without a leader burns no deliveries, and what was made is
// not made anew.
func (r *runner) deliver(t *task, out []events.Event) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := r.conn.publishTraced(r.pub, r.cfg.Service, out, func(i int) string { return r.trace(t, out[i]) })
		f := fault.Of(err)
		if err == nil || f.Class != fault.Transient || !f.Pause {
			r.cfg.Status.hinder(r.name, "down", "")
			return err
		}
		if !r.pause(f, err, pause) {
			return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: err}
		}
	}
}

// answer decides by an error's class what happens to its message.
func (r *runner) answer(t *task, err error) {
	f := fault.Of(err)
	if err == nil || f.Class != fault.Transient || !f.Pause {
		defer r.resume()
	}
	if err != nil {
		r.metrics.faults.WithLabelValues(f.Class.String()).Inc()
	}
	switch {
	case err == nil:
		r.served()
		r.count(t, outcomeHandled, "")
		r.pump.ack(t.item)
	case f.Class == fault.Document:
		r.endDocument(t, f, err)
	case f.Class == fault.Permanent:
		r.park(t, f.Code, err)
	case f.Class == fault.Interrupted || r.work.Err() != nil:
		r.handBack(t, 0, err)
	case f.Class == fault.Unserved:
		r.cfg.Status.hinder(r.name, "unserved", err.Error())
		r.handBack(t, unservedDelay, err)
	default:
		r.retry(t, f, err)
	}
}

// retry hands a message back for another attempt, or parks it after too many.
func (r *runner) retry(t *task, f *fault.Error, err error) {
	if t.in.Attempt >= r.cfg.MaxAttempts {
		r.park(t, f.Code, fmt.Errorf("after %d attempts: %w", t.in.Attempt, err))
		return
	}
	d := f.Delay
	if d <= 0 {
		d = r.delay(t.in.Attempt)
	}
	t.log(r).Warn("will try again", "code", f.Code, "delay", d, "error", err)
	r.count(t, outcomeRetried, f.Code)
	r.pump.back(t.item, d)
}

// count counts what became of a message and ends its span. code is empty when nothing was wrong.
func (r *runner) count(t *task, outcome, code string) {
	r.metrics.count(outcome)
	t.hop.ended(outcome, code)
}

// endDocument ends the document as its job's policy says; a document event has no job yet, so it is parked.
func (r *runner) endDocument(t *task, f *fault.Error, err error) {
	fail := graph.Failure{Stage: r.cfg.Service, Code: f.Code, Message: clip(err.Error(), 2000), TraceID: t.in.Trace}
	job := JobOf(t.in.Event)
	outcome := events.OutcomeFailed
	if job != nil && job.ErrorPolicy == events.PolicySkip {
		outcome = events.OutcomeSkipped
	}
	if job != nil && job.ErrorPolicy == events.PolicyQuarantine {
		outcome = events.OutcomeQuarantined
	}
	end := EndedFor(t.in.Event, outcome, fail)
	if end == nil {
		r.park(t, f.Code, err)
		return
	}
	ctx := WithTrace(r.pub, traceOf(t.ctx))
	if outcome == events.OutcomeQuarantined {
		ref, perr := r.keep(ctx, t, job)
		if perr != nil {
			r.retry(t, fault.Of(perr), perr)
			return
		}
		end.Body, end.BodyKind, end.Items = ref, t.in.Event.Where().Kind, f.Items
	}
	if perr := r.conn.publish(ctx, r.cfg.Service, []events.Event{end}); perr != nil {
		r.unpublished(t, perr)
		return
	}
	t.log(r).Info("a document ended", "outcome", outcome, "code", f.Code, "error", err)
	r.served()
	r.count(t, outcomeFailed, f.Code)
	r.pump.ack(t.item)
}

// keep puts the message's body where a quarantine record can refer to it.
func (r *runner) keep(ctx context.Context, t *task, job *events.Job) (string, error) {
	if ref := refOf(t.item.msg.Header); ref != "" {
		return ref, nil
	}
	return r.conn.PutBody(ctx, job.Graph, job.ID, t.item.msg.Data)
}

// unpublished hands a message back whose end could not be published.
func (r *runner) unpublished(t *task, err error) {
	f := fault.Of(err)
	if f.Class == fault.Interrupted {
		r.handBack(t, 0, err)
		return
	}
	d := r.delay(t.in.Attempt)
	t.log(r).Error("the end of a message could not be published", "error", err)
	r.count(t, outcomeRetried, f.Code)
	r.pump.back(t.item, d)
}
