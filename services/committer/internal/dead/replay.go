package dead

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// spaceReplay of the store: id of a letter or record → mark.
const spaceReplay = byte('X')

// mark remembers the job that a replay started: the letter goes when that job has committed.
type mark struct {
	Of    string    `json:"of"` // fingerprint of the letter: a stream made anew numbers from 1
	Job   string    `json:"job"`
	Tries int       `json:"tries"`
	At    time.Time `json:"at"`
}

// fingerprint tells a letter from another one of the same id.
func (e *entry) fingerprint() string {
	what := e.graph + "\x00" + e.id() + "\x00" + e.at.UTC().Format(time.RFC3339Nano)
	if e.dead != nil {
		what += "\x00" + e.dead.ID()
	}
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:8])
}

// replayJob is the id of the job of a replay: the same replay is the same job, however often it is asked for.
func (e *entry) replayJob(tries int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", e.fingerprint(), tries))
	return "replay-" + hex.EncodeToString(sum[:6])
}

// mark reads what is remembered of e's last replay; nil when there was none.
func (d *Desk) mark(e *entry) (*mark, error) {
	b, err := d.st.Get(e.graph, spaceReplay, []byte(e.id()))
	if err != nil || b == nil {
		return nil, err
	}
	m := &mark{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("replay of %s: %w", e.id(), err)
	}
	if m.Of != e.fingerprint() {
		return nil, nil
	}
	return m, nil
}

// replayOf says how the last replay of e went.
func (d *Desk) replayOf(ctx context.Context, e *entry) (*api.ReplayJob, error) {
	m, err := d.mark(e)
	if err != nil || m == nil {
		return nil, err
	}
	out := &api.ReplayJob{Job: m.Job, At: m.At.UTC().Format(time.RFC3339Nano)}
	out.State, out.Reason, err = d.stateOf(ctx, e.graph, m.Job)
	return out, err
}

// stateOf is a job's state and reason; empty for a job that neither the store nor the ingest stream knows.
func (d *Desk) stateOf(ctx context.Context, graph, job string) (state, reason string, err error) {
	b, err := d.jobs.Brief(graph, job)
	if err != nil || b.State != "" {
		return b.State, b.Reason, err
	}
	st, err := d.jobs.Get(ctx, graph, job)
	var e *api.Error
	if errors.As(err, &e) && e.Status == 404 {
		return "", "", nil
	}
	return st.State, st.Reason, err
}

// settle removes an entry whose replay has committed, and says whether it did.
func (d *Desk) settle(ctx context.Context, e *entry) (gone bool, err error) {
	m, err := d.mark(e)
	if err != nil || m == nil {
		return false, err
	}
	b, err := d.jobs.Brief(e.graph, m.Job)
	if err != nil || b.State != api.JobCommitted {
		return false, err
	}
	if err := d.forget(ctx, e); err != nil {
		return false, err
	}
	return true, d.release(ctx, []*entry{e})
}

// settleAll settles every replay that is remembered.
func (d *Desk) settleAll(ctx context.Context) error {
	var errs []error
	for _, g := range d.st.Graphs() {
		var ids []string
		err := d.st.Scan(g, spaceReplay, nil, nil, 0, func(k, _ []byte) error {
			ids = append(ids, string(k))
			return nil
		})
		for _, id := range ids {
			if err != nil || ctx.Err() != nil {
				break
			}
			err = d.settleID(ctx, g, id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (d *Desk) settleID(ctx context.Context, graph, id string) error {
	e, err := d.find(ctx, graph, id)
	var missing *api.Error
	if errors.As(err, &missing) { // dropped by other means
		return d.st.Delete(ctx, graph, spaceReplay, []byte(id))
	}
	if err != nil {
		return err
	}
	_, err = d.settle(ctx, e)
	return err
}

// forget removes a letter or record. What it refers to is left to release.
func (d *Desk) forget(ctx context.Context, e *entry) error {
	if e.rec == nil {
		if err := d.deleteLetter(ctx, e.seq); err != nil {
			return err
		}
		if _, ok := d.st.Graph(e.graph, false); !ok {
			return nil
		}
	}
	ops := []store.Op{{Graph: e.graph, Space: spaceReplay, Key: []byte(e.id()), Delete: true}}
	if e.rec != nil {
		ops = append(ops, quarantine.DropOps(e.graph, *e.rec)...)
	}
	return d.st.Write(ctx, ops, true)
}

// Drop answers dead-letters.drop.
func (d *Desk) Drop(ctx context.Context, graph string, req api.DeadAct) (api.DeadDropReply, error) {
	reply := api.DeadDropReply{Dropped: []string{}, Skipped: map[string]api.DeadSkip{}}
	err := d.act(ctx, graph, "drop", req, &reply, func() (err error) {
		var gone []*entry
		reply.Next, err = d.each(ctx, graph, req, reply.Skipped, func(e *entry) error {
			if err := d.forget(ctx, e); err != nil {
				return err
			}
			reply.Dropped, gone = append(reply.Dropped, e.id()), append(gone, e)
			return nil
		})
		return errors.Join(err, d.release(ctx, gone))
	})
	return reply, err
}

// Replay answers dead-letters.replay.
func (d *Desk) Replay(ctx context.Context, graph string, req api.DeadAct) (api.DeadReplayReply, error) {
	reply := api.DeadReplayReply{Replayed: []api.Replayed{}, Skipped: map[string]api.DeadSkip{}}
	err := d.act(ctx, graph, "replay", req, &reply, func() (err error) {
		reply.Next, err = d.each(ctx, graph, req, reply.Skipped, func(e *entry) error {
			r, err := d.replay(ctx, e)
			if err == nil {
				reply.Replayed = append(reply.Replayed, r)
			}
			return err
		})
		return err
	})
	return reply, err
}

// act runs a request once, alone.
func (d *Desk) act(ctx context.Context, graph, verb string, req api.DeadAct, reply any, do func() error) error {
	if (len(req.IDs) > 0) == (req.Query != nil) {
		return api.Errorf(400, "bad_value", "give either ids or a query; an empty query is all of them")
	}
	if len(req.IDs) > maxLimit {
		return api.Errorf(400, "bad_value", "%d ids are given: at most %d", len(req.IDs), maxLimit)
	}
	id := req.RequestID
	if _, ok := d.st.Graph(graph, false); !ok {
		id = "" // letters of a graph that never was have no place for the reply
	}
	return d.ops.Once(ctx, graph, "dead-letters."+verb, id, req, reply, func() ([]store.Op, error) {
		done, err := d.take(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		return nil, do()
	})
}

// each calls fn for what a request names. What fn or the look-up refuses is skipped, or refused when it was the only one.
func (d *Desk) each(ctx context.Context, graph string, req api.DeadAct, skipped map[string]api.DeadSkip, fn func(*entry) error) (next string, err error) {
	one := func(id string, err error) error {
		var refused *api.Error
		if err == nil || !errors.As(err, &refused) || len(req.IDs) == 1 {
			return err
		}
		skipped[id] = api.DeadSkip{Code: refused.Code, Message: refused.Message}
		return nil
	}
	if req.Query == nil {
		for _, id := range req.IDs {
			e, err := d.find(ctx, graph, id)
			if err == nil {
				err = fn(e)
			}
			if err := one(id, err); err != nil {
				return "", err
			}
		}
		return "", nil
	}
	limit, err := limitOf(req.Limit, 100)
	if err != nil {
		return "", err
	}
	found, at, err := d.page(ctx, graph, *req.Query, limit, req.Cursor)
	if err != nil {
		return "", err
	}
	for _, e := range found {
		if err := one(e.id(), fn(e)); err != nil {
			return "", err
		}
	}
	if at != nil {
		next = at.String()
	}
	return next, nil
}

// replay replays one letter or record.
func (d *Desk) replay(ctx context.Context, e *entry) (api.Replayed, error) {
	out := api.Replayed{ID: e.id()}
	if e.dead != nil && e.dead.Body == nil { // a page comes without bodies
		whole, err := d.letter(ctx, e.graph, e.seq)
		if err != nil {
			return out, err
		}
		if whole == nil {
			return out, notFound(e.graph, e.id())
		}
		e = whole
	}
	body, err := d.body(ctx, e, bus.MaxBody)
	if err != nil {
		return out, err
	}
	if body == nil {
		return out, refuse("its bytes are not kept; %s", wayOut(e.key()))
	}
	if e.dead != nil && e.kind() == events.KindIngest {
		p, err := planAgain(body, e.dead.Headers)
		if err != nil {
			return out, err
		}
		return d.start(ctx, e, p)
	}
	ev, unread := e.event(body)
	if e.dead != nil {
		waits, err := d.waits(ctx, e, ev)
		if err != nil {
			return out, err
		}
		if waits {
			return d.republish(ctx, e)
		}
	}
	if unread != nil {
		return out, refuse("no job waits for it, and the message cannot be read (%s); %s", clip(unread.Error(), 300), wayOut(e.key()))
	}
	p, err := planOf(ev)
	if err != nil {
		return out, err
	}
	return d.start(ctx, e, p)
}

func (e *entry) key() string {
	if e.rec != nil {
		return e.rec.Key
	}
	return e.dead.Item
}

// waits says whether the letter's job still waits for its message; then the job is made to.
func (d *Desk) waits(ctx context.Context, e *entry, ev events.Event) (bool, error) {
	if ev == nil || bus.JobOf(ev) == nil {
		b, err := d.jobs.Brief(e.graph, e.dead.Job)
		return b.State == api.JobPending, err
	}
	state, err := d.jobs.Reopen(ctx, ev, e.dead.Message())
	return state == api.JobPending, err
}

// republish puts the message on its stream again, and only then removes the letter.
func (d *Desk) republish(ctx context.Context, e *entry) (api.Replayed, error) {
	out := api.Replayed{ID: e.id(), How: api.ReplayRepublished, Job: e.dead.Job}
	if err := d.conn.Replay(ctx, e.dead, fmt.Sprintf("replay:%s:%d", e.dead.Message(), e.seq)); err != nil {
		return out, published(err)
	}
	return out, d.forget(ctx, e)
}

// start ingests the document as a job of its own. The letter stays until that job has committed.
func (d *Desk) start(ctx context.Context, e *entry, p *plan) (api.Replayed, error) {
	out := api.Replayed{ID: e.id(), How: api.ReplayNewJob}
	m, err := d.mark(e)
	if err != nil {
		return out, err
	}
	tries := 1
	if m != nil {
		state, _, err := d.stateOf(ctx, e.graph, m.Job)
		switch {
		case err != nil:
			return out, err
		case state == "": // it was never published
			tries = m.Tries
		case state == api.JobRolledBack:
			tries = m.Tries + 1
		default:
			return out, api.Errorf(412, "replay_running", "it is being replayed already, by job %s (%s)", m.Job, state)
		}
	}
	out.Job = e.replayJob(tries)
	row, err := json.Marshal(mark{Of: e.fingerprint(), Job: out.Job, Tries: tries, At: d.cfg.Now()})
	if err != nil {
		return out, fmt.Errorf("replay of %s: %w", e.id(), err)
	}
	object, err := d.upload(ctx, p, out.Job)
	if err != nil {
		return out, err
	}
	body, header, err := p.encode(out.Job, object)
	if err != nil {
		return out, err
	}
	if _, ok := d.st.Graph(e.graph, true); !ok {
		return out, api.Errorf(503, "not_ready", "the store takes no new graph now")
	}
	if err := d.st.Write(ctx, []store.Op{{Graph: e.graph, Space: spaceReplay, Key: []byte(e.id()), Value: row}}, true); err != nil {
		return out, err
	}
	header[events.HeaderMsgID] = out.Job
	if _, err := d.conn.Ingest(ctx, e.graph, body, header); err != nil {
		return out, published(err)
	}
	return out, nil
}

// upload puts the plan's file where the loader finds it, and returns it as a source.
func (d *Desk) upload(ctx context.Context, p *plan, job string) (string, error) {
	if p.file == nil {
		return "", nil
	}
	archive, err := p.file.archive()
	if err != nil {
		return "", err
	}
	b, err := d.conn.Bucket(ctx, bus.BucketUploads)
	if err != nil {
		return "", err
	}
	name := job + bundleSuffix
	if _, err := b.PutBytes(ctx, name, bytes.Clone(archive)); err != nil {
		return "", fmt.Errorf("upload %s: %w", name, err)
	}
	return uploadPrefix + name, nil
}

// published makes the error of a publish an answer: what is too large for a message is the caller's to know.
func published(err error) error {
	if f := fault.Of(err); f.Class == fault.Document {
		return api.Errorf(413, f.Code, "%s", strings.TrimSpace(err.Error()))
	}
	return err
}

// tooLarge tells a body that is over a limit.
func tooLarge(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == "too_large"
}
