package jobs

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// HandleBatch stages what the stages sent: one synced write for all of it, then the acks.
func (m *Machine) HandleBatch(ctx context.Context, in []bus.Delivery) []bus.Result {
	out := make([]bus.Result, len(in))
	if err := m.st.Room(); err != nil { // nothing is lost: the messages wait where they are
		for i := range out {
			out[i].Err = fault.Down(noSpace, err)
		}
		return out
	}
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	if err := m.refuseUnopened(ctx, in); err != nil {
		for i := range out {
			out[i].Err = fault.Retry("store", 0, err)
		}
		return out
	}
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
	// Not cut short by a stop: memory is ahead already.
	if err := m.st.WriteReserved(context.WithoutCancel(ctx), ops, true); err != nil {
		// Memory is ahead of the store now; the process must not go on with it.
		err = fmt.Errorf("stage %d messages: %w", len(in), err)
		m.st.Fatal(err)
		for i := range out {
			out[i].Err = fault.Retry("store", 0, err)
		}
		return out
	}
	failpoint.Hit("staged")
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
	l.progressed, l.trace = m.cfg.Now(), d.Trace
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
		at := refOf(e)
		part, token = at.part, at.token
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
	if part != partSource {
		ops = append(ops, m.traced(l, k, part, token, d.Traceparent)...)
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
	m.push(k, l)
}
