package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Context is what a graph gives a new job: its active schema and settings, and the fingerprints that follow.
type Context struct {
	Job        events.Job // SchemaRevision, SchemaFP, ChunkerFP, ExtractionFP, Settings
	SchemaName string
	SchemaVer  string
}

// Graphs gives each graph's active schema and settings.
type Graphs interface {
	JobContext(graph string) (Context, error)
	// Schema returns a revision of the graph's schemas.
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Outside does what a job's end asks for beyond the store. Each call may be repeated.
type Outside interface {
	// DeleteEvent removes the document event from its stream.
	DeleteEvent(ctx context.Context, graph string, seq uint64) error
	// DeleteBodies removes what travelled by reference.
	DeleteBodies(ctx context.Context, graph, job string) error
	// PurgeJob removes the job's messages that no stage has handled.
	PurgeJob(ctx context.Context, graph, job string) error
	// Holds says whether any stream between the stages holds a message of the job.
	Holds(ctx context.Context, graph, job string) (bool, error)
	// EventKept says whether the job's document event is still in its stream.
	EventKept(ctx context.Context, graph string, seq uint64) (bool, error)
	// Pending says whether a document event that no loader has handled yet names the job.
	Pending(ctx context.Context, graph, job string) (bool, error)
}

// Config of the machine.
type Config struct {
	// Lease: how long a job may stand still. Defaults to 60 s.
	Lease time.Duration
	// CacheBytes of decoded staged events kept in memory. Defaults to 64 MiB.
	CacheBytes int
	Log        *slog.Logger
	Now        func() time.Time
}

// Machine runs every job of a store.
type Machine struct {
	st      *store.Store
	graphs  Graphs
	outside Outside
	cfg     Config

	// stageMu orders writes of staged rows and roll-backs; taken before mu.
	stageMu sync.Mutex
	mu      sync.Mutex
	live    map[key]*live
	// superseding are the live jobs that say supersede.
	superseding map[key]bool
	cached      int
	waiters     map[key][]chan struct{}
	queue       chan struct{} // a token: the commit worker should look
	commits     []key
	late        []key         // jobs that gave up a document in this batch
	cleaned     chan struct{} // a token: there is something to clean up
	outbox      func(graph string)
}

// New makes a machine over an open store and reads back the jobs that had not ended. notify is called when a graph has
// outbox rows to publish.
func New(st *store.Store, graphs Graphs, outside Outside, cfg Config, notify func(graph string)) (*Machine, error) {
	if cfg.Lease == 0 {
		cfg.Lease = time.Minute
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 64 << 20
	}
	m := &Machine{
		st: st, graphs: graphs, outside: outside, cfg: cfg, live: map[key]*live{}, superseding: map[key]bool{}, waiters: map[key][]chan struct{}{},
		queue: make(chan struct{}, 1), cleaned: make(chan struct{}, 1), outbox: notify,
	}
	return m, m.recover()
}

// recover rolls every job that had not ended forward to where it stood.
func (m *Machine) recover() error {
	for _, g := range m.st.Graphs() {
		var ids []string
		if err := m.st.Scan(g, spaceLive, nil, nil, 0, func(k, _ []byte) error {
			ids = append(ids, string(k))
			return nil
		}); err != nil {
			return fmt.Errorf("recover jobs of %s: %w", g, err)
		}
		for _, id := range ids {
			if err := m.recoverJob(g, id); err != nil {
				return fmt.Errorf("recover job %s of %s: %w", id, g, err)
			}
		}
	}
	return nil
}

func (m *Machine) recoverJob(g, id string) error {
	rec, err := m.record(g, id)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("the store lists a job without a record")
	}
	l := newLive(*rec, m.cfg.Now())
	k := key{g, id}
	if rec.State == api.JobRollingBack {
		m.track(k, l)
		return nil // finished by the worker
	}
	err = m.st.Scan(g, spaceStaged, stagedPrefix(id), nil, 0, func(sk, v []byte) error {
		attempt, part, token, ok := parseStaged(sk[len(stagedPrefix(id)):])
		if !ok || attempt != rec.Job.Attempt {
			return nil
		}
		return l.replay(part, token, v)
	})
	if err != nil {
		return err
	}
	l.settleDone()
	l.dropCached()
	m.track(k, l)
	m.consider(k, l)
	return nil
}

// replay puts one staged row back into memory.
func (l *live) replay(part byte, token string, v []byte) error {
	var err error
	switch part {
	case partStaged:
		e := new(events.Staged)
		if err = json.Unmarshal(v, e); err == nil {
			l.addStaged(e, 0)
		}
	case partResolved:
		e := new(events.Resolved)
		if err = json.Unmarshal(v, e); err == nil {
			l.addResolved(e, 0)
		}
	case partEnded, partSource:
		e := new(events.Ended)
		if err = json.Unmarshal(v, e); err == nil {
			l.addEnded(e)
		}
	case partSealed:
		e := new(events.Sealed)
		if err = json.Unmarshal(v, e); err == nil {
			l.addSealed(e)
		}
	case partDone:
		l.markDone = append(l.markDone, token)
	case partTry:
		var ref events.DocRef
		if err = json.Unmarshal(v, &ref); err == nil {
			d := l.doc(ref)
			d.ref.Try = max(d.ref.Try, ref.Try)
		}
	}
	if err != nil {
		return fmt.Errorf("staged row %c of %s: %w", part, token, err)
	}
	return nil
}

func (l *live) dropCached() {
	for _, d := range l.docs {
		d.stagedEv, d.resolvedEv, d.size = nil, nil, 0
	}
}

// record reads a job's record; nil when there is none.
func (m *Machine) record(g, id string) (*Record, error) {
	b, err := m.st.Get(g, spaceRecord, []byte(id))
	if err != nil || b == nil {
		return nil, err
	}
	rec := &Record{}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("record of job %s: %w", id, err)
	}
	return rec, nil
}

func (m *Machine) recordOps(rec *Record, isLive bool) ([]store.Op, error) {
	b, err := encode(rec)
	if err != nil {
		return nil, err
	}
	g, id := rec.Job.Graph, []byte(rec.Job.ID)
	return []store.Op{
		{Graph: g, Space: spaceRecord, Key: id, Value: b},
		{Graph: g, Space: spaceOrder, Key: orderKey(rec.Job.At.Seq, rec.Job.ID), Value: []byte{}},
		{Graph: g, Space: spaceLive, Key: id, Value: []byte{}, Delete: !isLive},
	}, nil
}

// Open accepts a document event: idempotent by job id and digest.
func (m *Machine) Open(ctx context.Context, g string, req api.JobOpen) (api.JobOpenReply, error) {
	if !events.ValidJob(req.Job) {
		return api.JobOpenReply{}, api.Errorf(400, "bad_name", "bad job id %q", req.Job)
	}
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	rec, err := m.record(g, req.Job)
	if err != nil {
		return api.JobOpenReply{}, err
	}
	if rec != nil {
		if rec.Digest != req.Digest || rec.Job.At.Seq != req.At.Seq && !sameIntent(rec, req) {
			return api.JobOpenReply{}, api.Errorf(409, "job_id_taken", "job %s of graph %s was another document event", req.Job, g)
		}
		m.mu.Lock()
		if l := m.live[key{g, req.Job}]; l != nil {
			l.progressed = m.cfg.Now()
		}
		m.mu.Unlock()
		return api.JobOpenReply{State: rec.State, Job: rec.Job}, nil
	}
	return m.openNew(ctx, g, req)
}

// sameIntent: the same named event published twice is one job; a j<seq> job has one event.
func sameIntent(rec *Record, req api.JobOpen) bool {
	_, numbered := events.ParseSeqJob(req.Job)
	return !numbered && rec.Digest == req.Digest
}

func (m *Machine) openNew(ctx context.Context, g string, req api.JobOpen) (api.JobOpenReply, error) {
	jc, err := m.graphs.JobContext(g)
	if err != nil {
		return api.JobOpenReply{}, err
	}
	now := m.cfg.Now()
	job := jc.Job
	job.Graph, job.ID, job.Attempt, job.Op, job.ErrorPolicy = g, req.Job, 1, req.Op, req.ErrorPolicy
	job.Force, job.NoCandidates, job.At = req.Force, !req.Candidates, req.At
	rec := &Record{
		Job: job, Digest: req.Digest, State: api.JobPending, Atomic: req.Atomic, Hold: req.Hold, Supersede: req.Supersede,
		SchemaName: jc.SchemaName, SchemaVer: jc.SchemaVer, OpenedAt: now,
	}
	if d, err := time.ParseDuration(req.Deadline); err == nil && d > 0 {
		rec.Deadline = now.Add(d)
	}
	if req.Refused != nil {
		return m.refuse(ctx, rec, *req.Refused)
	}
	ops, err := m.recordOps(rec, true)
	if err != nil {
		return api.JobOpenReply{}, err
	}
	out, err := m.st.OutboxOps(g, &events.JobState{Graph: g, Job: job.ID, Attempt: 1, State: "opened"})
	if err != nil {
		return api.JobOpenReply{}, err
	}
	if err := m.st.Write(ctx, append(ops, out...), true); err != nil {
		return api.JobOpenReply{}, fmt.Errorf("open job %s: %w", job.ID, err)
	}
	m.outbox(g)
	m.mu.Lock()
	m.track(key{g, job.ID}, newLive(*rec, now))
	m.mu.Unlock()
	return api.JobOpenReply{State: rec.State, Job: job}, nil
}

// refuse opens a job only to end it, so that jobs.get says why.
func (m *Machine) refuse(ctx context.Context, rec *Record, f graph.Failure) (api.JobOpenReply, error) {
	rec.Status.Stages.Ingestion.Failures.Add(f)
	m.end(rec, api.JobRolledBack, f.Code+": "+f.Message)
	if err := m.writeEnd(ctx, rec, nil); err != nil {
		return api.JobOpenReply{}, err
	}
	return api.JobOpenReply{State: rec.State, Job: rec.Job}, nil
}

// end marks a record as ended now.
func (m *Machine) end(rec *Record, state, reason string) {
	rec.State, rec.Reason, rec.EndedAt = state, reason, m.cfg.Now()
}

// endOps is what every end of a job writes: the record, what is left to clean, the event for the others.
func (m *Machine) endOps(rec *Record) ([]store.Op, error) {
	ops, err := m.recordOps(rec, false)
	if err != nil {
		return nil, err
	}
	c, err := encode(cleanup{EventSeq: rec.Job.At.Seq, Purge: rec.State == api.JobRolledBack})
	if err != nil {
		return nil, err
	}
	g := rec.Job.Graph
	return append(ops,
		store.Op{Graph: g, Space: spaceStaged, Key: stagedPrefix(rec.Job.ID), DeletePrefix: true},
		store.Op{Graph: g, Space: spaceCleanup, Key: []byte(rec.Job.ID), Value: c}), nil
}

func stateEvent(rec *Record) (*events.JobState, error) {
	b, err := encode(rec.status())
	if err != nil {
		return nil, err
	}
	return &events.JobState{Graph: rec.Job.Graph, Job: rec.Job.ID, Attempt: rec.Job.Attempt, State: rec.State,
		Reason: rec.Reason, Seq: rec.CommitSeq, Status: b}, nil
}

// writeEnd writes the end of a job outside a commit, and tells who waits.
func (m *Machine) writeEnd(ctx context.Context, rec *Record, more []store.Op) error {
	ops, err := m.endOps(rec)
	if err != nil {
		return err
	}
	ev, err := stateEvent(rec)
	if err != nil {
		return err
	}
	out, err := m.st.OutboxOps(rec.Job.Graph, ev)
	if err != nil {
		return err
	}
	if err := m.st.Write(ctx, append(append(more, ops...), out...), true); err != nil {
		return fmt.Errorf("end job %s: %w", rec.Job.ID, err)
	}
	m.ended(key{rec.Job.Graph, rec.Job.ID})
	return nil
}

// ended forgets a job that ended and wakes who waits for it.
func (m *Machine) ended(k key) {
	m.outbox(k.graph)
	m.mu.Lock()
	if l := m.live[k]; l != nil {
		for _, d := range l.docs {
			m.cached -= d.size
		}
	}
	delete(m.live, k)
	delete(m.superseding, k)
	m.wake(k)
	m.mu.Unlock()
	select {
	case m.cleaned <- struct{}{}:
	default:
	}
}

// wake tells everybody who waits for a job to look again. Callers hold mu.
func (m *Machine) wake(k key) {
	for _, c := range m.waiters[k] {
		close(c)
	}
	delete(m.waiters, k)
}

// HandleBatch stages what the stages sent: one synced write for all of it, then the acks.
func (m *Machine) HandleBatch(ctx context.Context, in []bus.Delivery) []bus.Result {
	out := make([]bus.Result, len(in))
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	var ops []store.Op
	touched := map[key]*live{}
	m.mu.Lock()
	for i, d := range in {
		k, l, op, err := m.stage(d)
		if err != nil {
			out[i].Err = err
			continue
		}
		ops = append(ops, op...)
		if l != nil {
			touched[k] = l
		}
	}
	m.mu.Unlock()
	if err := m.st.Write(ctx, ops, true); err != nil {
		// Memory is ahead of the store now; the process must not go on with it.
		err = fmt.Errorf("stage %d messages: %w", len(in), err)
		m.st.Fatal(err)
		for i := range out {
			out[i].Err = fault.Retry("store", 0, err)
		}
		return out
	}
	m.mu.Lock()
	for _, k := range m.late {
		if l := m.live[k]; l != nil {
			touched[k] = l
		}
	}
	m.late = nil
	for k, l := range touched {
		m.consider(k, l)
	}
	m.shrink()
	m.mu.Unlock()
	return out
}

// stage takes one event into memory and says which row it becomes. An event of a job that is unknown, ended, or of another
// attempt changes nothing. Callers hold mu.
func (m *Machine) stage(d bus.Delivery) (key, *live, []store.Op, error) {
	job, err := jobOf(d.Event)
	if err != nil {
		return key{}, nil, nil, err
	}
	k := key{job.Graph, job.ID}
	l := m.live[k]
	if l == nil || l.committing || l.rec.State == api.JobRollingBack || job.Attempt < l.rec.Job.Attempt {
		return k, nil, nil, nil
	}
	if job.Attempt > l.rec.Job.Attempt {
		return k, nil, nil, fault.Retry("attempt_ahead", 0, fmt.Errorf("job %s is at attempt %d, not %d", job.ID, l.rec.Job.Attempt, job.Attempt))
	}
	l.progressed = m.cfg.Now()
	var part byte
	var token string
	var fresh bool
	size := len(d.Body)
	switch e := d.Event.(type) {
	case *events.Staged:
		part, token, fresh = partStaged, e.Doc.Token, l.addStaged(e, size)
	case *events.Resolved:
		part, token, fresh = partResolved, e.Doc.Token, l.addResolved(e, size)
	case *events.Ended:
		part, token = partSource, e.Source
		if e.Doc != nil {
			part, token = partEnded, e.Doc.Token
		}
		fresh, size = l.addEnded(e), 0
	case *events.Sealed:
		part, fresh, size = partSealed, l.addSealed(e), 0
	}
	if !fresh {
		return k, l, nil, nil
	}
	if part == partStaged || part == partResolved {
		m.cached += size
	}
	ops := []store.Op{{Graph: k.graph, Space: spaceStaged, Key: stagedKey(k.job, job.Attempt, part, token), Value: d.Body}}
	if part == partStaged || part == partResolved || part == partEnded {
		more, err := m.supersede(k, l, token)
		if err != nil {
			return k, nil, nil, err
		}
		ops = append(ops, more...)
	}
	return k, l, ops, nil
}

func jobOf(e events.Event) (events.Job, error) {
	switch e := e.(type) {
	case *events.Staged:
		return e.Job, nil
	case *events.Resolved:
		return e.Job, nil
	case *events.Ended:
		return e.Job, nil
	case *events.Sealed:
		return e.Job, nil
	default:
		return events.Job{}, fault.Fatal("unexpected_event", "%s is not addressed to the committer", e.Where())
	}
}

// shrink forgets decoded events beyond the memory budget; the commit reads them back. Callers hold mu.
func (m *Machine) shrink() {
	if m.cached <= m.cfg.CacheBytes {
		return
	}
	for _, l := range m.live {
		for _, d := range l.docs {
			if d.size == 0 || l.committing {
				continue
			}
			m.cached -= d.size
			d.stagedEv, d.resolvedEv, d.size = nil, nil, 0
			if m.cached <= m.cfg.CacheBytes*3/4 {
				return
			}
		}
	}
}

// consider queues a job for the worker when it is complete, must roll back, or has documents that may commit alone.
// Callers hold mu (or own the machine alone).
func (m *Machine) consider(k key, l *live) {
	if l.queued || l.committing || l.rec.State == api.JobHeld && l.fail == nil {
		return
	}
	if l.fail == nil && !l.complete() && len(l.ready) == 0 && l.fail == nil {
		return
	}
	l.queued = true
	m.commits = append(m.commits, k)
	select {
	case m.queue <- struct{}{}:
	default:
	}
}

// Run commits, rolls back and cleans up until ctx is done.
func (m *Machine) Run(ctx context.Context) error {
	m.mu.Lock()
	for k, l := range m.live {
		if l.rec.State == api.JobRollingBack && !l.queued {
			l.queued = true
			m.commits = append(m.commits, k)
		}
	}
	m.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { errs <- m.work(ctx); cancel() })
	wg.Go(func() { errs <- m.tend(ctx); cancel() })
	wg.Wait()
	return errors.Join(<-errs, <-errs)
}

func (m *Machine) work(ctx context.Context) error {
	for {
		for {
			k, l := m.next()
			if l == nil {
				break
			}
			if err := m.step(ctx, k, l); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.queue:
		}
	}
}

func (m *Machine) next() (key, *live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.commits) > 0 {
		k := m.commits[0]
		m.commits = m.commits[1:]
		if l := m.live[k]; l != nil {
			l.queued = false
			return k, l
		}
	}
	return key{}, nil
}

// step does what a queued job needs.
func (m *Machine) step(ctx context.Context, k key, l *live) error {
	m.mu.Lock()
	rollingBack := l.rec.State == api.JobRollingBack
	fail, complete := l.fail, l.complete()
	if fail == nil {
		fail = l.fail // complete may have found a reason
	}
	hold := complete && l.rec.Hold && l.rec.State == api.JobPending
	m.mu.Unlock()
	switch {
	case rollingBack:
		return m.finishRollback(ctx, k, l)
	case fail != nil:
		return m.rollback(ctx, k, l, fail.Code+": "+fail.Message)
	case hold:
		return m.hold(ctx, k, l)
	default:
		return m.commit(ctx, k, l, complete)
	}
}

// hold stops a complete job before its commit; a person decides.
func (m *Machine) hold(ctx context.Context, k key, l *live) error {
	m.mu.Lock()
	rec := l.rec
	rec.State = api.JobHeld
	rec.Status = l.status()
	m.mu.Unlock()
	ops, err := m.recordOps(&rec, true)
	if err != nil {
		return err
	}
	ev, err := stateEvent(&rec)
	if err != nil {
		return err
	}
	out, err := m.st.OutboxOps(k.graph, ev)
	if err != nil {
		return err
	}
	if err := m.st.Write(ctx, append(ops, out...), true); err != nil {
		return fmt.Errorf("hold job %s: %w", k.job, err)
	}
	m.outbox(k.graph)
	m.mu.Lock()
	l.rec = rec
	m.wake(k)
	m.mu.Unlock()
	return nil
}
