package bus

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// headerRenewed counts how often a message was put at the end of its stream again without having failed.
const headerRenewed = "Factmill-Renewed"

// parkTimeout of the dead letter: a full dead-letter stream must not hold a worker for ever.
const parkTimeout = 15 * time.Second

var subjectToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// park puts a message into the dead-letter stream, ends its document as failed, and takes it off its stream.
func (r *runner) park(t *task, code string, err error) {
	ctx, stop := context.WithTimeout(WithTrace(r.pub, traceOf(t.ctx)), parkTimeout)
	defer stop()
	if t.in.Event == nil {
		t.in.Event = r.reread(t)
	}
	dead, perr := r.dead(ctx, t, code, err)
	if perr == nil {
		// Before the end of its document: the clean-up after a job looks for the dead letters that name a body.
		perr = r.conn.publish(ctx, r.cfg.Service, []events.Event{dead})
	}
	if perr == nil {
		perr = r.conn.publish(ctx, r.cfg.Service, r.lost(t, dead, err))
	}
	if perr != nil {
		r.unpublished(t, perr)
		return
	}
	t.log(r).Error("parked as a dead letter", "code", code, "error", err)
	r.count(t, outcomeDead, code)
	r.pump.term(t.item)
}

// lost is what ends a parked message, when it can be told what it was about.
func (r *runner) lost(t *task, dead *events.Dead, err error) []events.Event {
	if t.in.Event == nil {
		return nil
	}
	fail := graph.Failure{Stage: r.cfg.Service, Code: dead.Code, Message: clip(err.Error(), 2000), TraceID: t.in.Trace}
	out := r.cfg.Lost(t.in.Event, fail)
	for _, e := range out {
		if end, ok := e.(*events.Ended); ok {
			end.Parked = dead.Message()
		}
	}
	return out
}

// reread decodes a message that could not be decoded as far as is needed to end its document: nil when that fails too.
func (r *runner) reread(t *task) events.Event {
	if refOf(t.item.msg.Header) != "" {
		return nil
	}
	e, err := events.Decode(t.item.msg.Subject, "", t.item.msg.Data)
	if err != nil {
		return nil
	}
	return e
}

// dead builds the dead letter. A body that would not fit goes by reference, named in its headers.
func (r *runner) dead(ctx context.Context, t *task, code string, err error) (*events.Dead, error) {
	m := t.item.msg
	d := &events.Dead{
		Graph: events.DefaultGraph, Stage: r.cfg.Service, Job: "unknown", Doc: "unknown", Subject: m.Subject, Stream: r.cfg.Stream,
		Seq: t.in.Seq, Attempts: t.in.Attempt, Code: code, Error: clip(err.Error(), 4000), TraceID: t.in.Trace,
		Headers: map[string]string{},
	}
	if at, perr := events.ParseSubject(m.Subject); perr == nil {
		d.Graph, d.Job, d.Doc = at.Graph, at.Job, at.Item
		if at.Kind == events.KindIngest {
			d.Job, d.Doc = jobOf(m, t.in.Seq), "event"
		}
	}
	if !subjectToken.MatchString(d.Job) {
		d.Job = "unknown"
	}
	if !subjectToken.MatchString(d.Doc) {
		d.Doc = "job"
	}
	if e := t.in.Event; e != nil {
		if end := EndedFor(e, events.OutcomeFailed, graph.Failure{}); end != nil {
			d.Item = end.Failure.Item
		}
	}
	for k, v := range m.Header {
		d.Headers[k] = strings.Join(v, ",")
	}
	if refOf(m.Header) != "" {
		return d, nil
	}
	if len(m.Data) <= InlineBody {
		d.Body = m.Data
		return d, nil
	}
	ref, perr := r.conn.PutBody(ctx, d.Graph, d.Job, m.Data)
	if perr != nil {
		return nil, perr
	}
	d.Headers[events.HeaderBody] = ref
	d.Headers[HeaderBodySize] = strconv.Itoa(len(m.Data))
	return d, nil
}

// jobOf is the job of a document event: the one that it names, else the one of its number.
func jobOf(m *nats.Msg, seq uint64) string {
	var named struct {
		Job string `json:"job"`
	}
	if json.Unmarshal(m.Data, &named) != nil { // a text, or nothing that can be read
		named.Job = m.Header.Get("Factmill-Job")
	}
	if events.CheckJob(named.Job) != nil {
		return events.SeqJob(seq)
	}
	return named.Job
}

// handBack returns a message that did not fail. The broker counts the delivery all the same: before the count says that it
// failed too often, a copy with a new id takes its place.
func (r *runner) handBack(t *task, delay time.Duration, why error) {
	r.count(t, outcomeHanded, "")
	if r.cfg.Log.Enabled(r.pub, slog.LevelDebug) {
		t.log(r).Debug("handed back", "why", why)
	}
	if t.in.Attempt+2 >= r.cfg.MaxAttempts && r.cfg.Stream != StreamIngest && r.pub.Err() == nil && r.renew(t) {
		return
	}
	r.pump.back(t.item, delay)
}

// renew publishes a copy of the message and acks the message.
func (r *runner) renew(t *task) bool {
	m := t.item.msg
	n, _ := strconv.Atoi(m.Header.Get(headerRenewed)) // absent: 0
	c := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header(maps.Clone(map[string][]string(m.Header)))}
	if c.Header == nil {
		c.Header = nats.Header{}
	}
	for k := range c.Header {
		if strings.HasPrefix(k, "Nats-") {
			delete(c.Header, k)
		}
	}
	n++
	c.Header.Set(headerRenewed, strconv.Itoa(n))
	c.Header.Set(events.HeaderMsgID, r.cfg.Stream+":"+strconv.FormatUint(t.in.Seq, 10)+":renewed:"+strconv.Itoa(n))
	ctx, stop := context.WithTimeout(r.pub, 2*time.Second)
	defer stop()
	if err := r.conn.await(ctx, r.conn.send(r.cfg.Stream, c)); err != nil {
		r.cfg.Log.Warn("renew a message", "seq", t.in.Seq, "error", err)
		return false
	}
	r.pump.ack(t.item)
	return true
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
