package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
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
	DeleteEvent(ctx context.Context, name string, at graph.Order) error
	// DeleteUploads removes the uploaded files that the document events of ended jobs name and that nothing else needs.
	DeleteUploads(ctx context.Context, ended []Ended) error
	// DeleteBodies removes what travelled by reference, except what a dead letter or a quarantine record names.
	DeleteBodies(ctx context.Context, graph, job string) error
	// PurgeJob removes the job's messages that no stage has handled.
	PurgeJob(ctx context.Context, graph, job string) error
	// Cost is what the job has asked a model and spent on it, in all its attempts.
	Cost(ctx context.Context, graph, job string) (requests, tokens int, err error)
	// Holds says whether any stream between the stages holds a message of the job.
	Holds(ctx context.Context, graph, job string) (bool, error)
	// EventKept says whether the job's document event is still in its stream.
	EventKept(ctx context.Context, name string, at graph.Order) (bool, error)
	// Pending says whether a document event that no loader has handled yet names the job.
	Pending(ctx context.Context, graph, job string) (bool, error)
}

// Ended names a job that has ended, and its document event.
type Ended struct {
	Graph, Job string
	Seq        uint64
	Time       int64 // of the event: another message of that sequence is another event; 0: not known
}

// Config of the machine.
type Config struct {
	// Lease: how long a job may stand still. Defaults to 60 s.
	Lease time.Duration
	// CacheBytes of decoded staged events kept in memory. Defaults to 64 MiB.
	CacheBytes int
	// OnCommit is told how long a commit took, from its turn to the sync, and how many documents it had; OnEnd the state in which a job ended.
	// They must not wait. Default to nothing.
	OnCommit func(took time.Duration, documents int)
	OnEnd    func(state string)
	// Tracer records commits. Defaults to none.
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time
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
	stopping    chan struct{} // closed when Run was told to stop: nobody waits for a job any more
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
	if cfg.OnCommit == nil {
		cfg.OnCommit = func(time.Duration, int) {}
	}
	if cfg.OnEnd == nil {
		cfg.OnEnd = func(string) {}
	}
	m := &Machine{
		st: st, graphs: graphs, outside: outside, cfg: cfg, live: map[key]*live{}, superseding: map[key]bool{}, waiters: map[key][]chan struct{}{},
		queue: make(chan struct{}, 1), cleaned: make(chan struct{}, 1), stopping: make(chan struct{}), outbox: notify,
	}
	return m, m.recover()
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

// Run commits, rolls back and cleans up until ctx is done. It may be called once.
func (m *Machine) Run(ctx context.Context) error {
	stop := sync.OnceFunc(func() { close(m.stopping) })
	defer stop()
	defer context.AfterFunc(ctx, stop)()
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
	rollingBack, held := l.rec.State == api.JobRollingBack, l.rec.State == api.JobHeld
	fail, complete := l.fail, l.complete()
	if fail == nil {
		fail = l.fail // complete may have found a reason
	}
	hasToHold := l.rec.Hold && l.rec.State == api.JobPending
	judge := fail == nil && l.rec.State == api.JobPending && !l.rec.Hold && !l.judged
	m.mu.Unlock()
	if judge {
		waits, err := m.judge(k, l, complete)
		if err != nil {
			return m.commitFailed(ctx, k, l, err)
		}
		hasToHold = waits
	}
	hold := hasToHold && complete
	switch {
	case rollingBack:
		return m.finishRollback(ctx, k, l)
	case fail != nil:
		return m.rollback(ctx, k, l, reason(k.job, *fail))
	case held:
		return nil // queued once more while it was being held
	case hold:
		return m.hold(ctx, k, l)
	case hasToHold:
		return nil // with atomic: document, what is ready waits for the person too
	default:
		return m.commit(ctx, k, l, complete)
	}
}

// hold stops a complete job before its commit; a person decides.
func (m *Machine) hold(ctx context.Context, k key, l *live) error {
	m.mu.Lock()
	rec := l.rec
	rec.State = api.JobHeld
	rec.Revision++
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
	if err := m.st.WriteReserved(ctx, append(ops, out...), true); err != nil {
		return fmt.Errorf("hold job %s: %w", k.job, err)
	}
	m.outbox(k.graph)
	m.mu.Lock()
	l.rec = rec
	m.wake(k)
	m.consider(k, l) // something may have failed it meanwhile
	m.mu.Unlock()
	return nil
}
