package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxAttempts of a job: after that a dead one rolls back.
const maxAttempts = 3

// relistToken is the subject token of the event that asks for a new listing; no source has it (tokens are 24 characters).
const relistToken = "relist"

// revive looks at jobs whose lease ran out. One that a stream still holds a message of is only slow; a dead one starts again
// as a new attempt while its document event is kept, else it rolls back.
func (m *Machine) revive(ctx context.Context) error {
	now := m.cfg.Now()
	m.mu.Lock()
	var late []key
	for k, l := range m.live {
		if l.rec.State != api.JobPending || l.committing || l.queued || l.fail != nil || now.Sub(l.progressed) <= m.cfg.Lease {
			continue
		}
		if !l.complete() { // a complete one waits for its commit
			late = append(late, k)
		}
	}
	m.mu.Unlock()
	for _, k := range late {
		held, err := m.outside.Holds(ctx, k.graph, k.job)
		if err != nil {
			m.cfg.Log.Debug("a late job cannot be looked at now", "graph", k.graph, "job", k.job, "error", err)
			continue
		}
		if held {
			m.progress(k, now)
			continue
		}
		if err := m.restart(ctx, k, now); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) progress(k key, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.live[k]; l != nil {
		l.progressed = now
	}
}

// restart gives a dead job a new attempt.
func (m *Machine) restart(ctx context.Context, k key, now time.Time) error {
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	m.mu.Lock()
	l := m.live[k]
	if l == nil || l.rec.State != api.JobPending || l.committing || now.Sub(l.progressed) <= m.cfg.Lease {
		m.mu.Unlock()
		return nil
	}
	rec := l.rec
	m.mu.Unlock()
	kept, err := m.outside.EventKept(ctx, k.graph, rec.Job.At)
	if err != nil {
		m.cfg.Log.Debug("a dead job's event cannot be looked at now", "graph", k.graph, "job", k.job, "error", err)
		return nil
	}
	if rec.Job.Attempt >= maxAttempts || !kept {
		code, msg := "dead", fmt.Sprintf("no stage holds a message of the job after %d attempts", rec.Job.Attempt)
		if !kept {
			code, msg = "event_lost", "the job stands still and its document event is gone"
		}
		m.mu.Lock()
		l.fault(graph.Failure{Stage: "committer", Item: k.job, Code: code, Message: msg})
		m.consider(k, l)
		m.mu.Unlock()
		return nil
	}
	rec.Job.Attempt++
	ops, err := m.recordOps(&rec, true)
	if err != nil {
		return err
	}
	found := &events.Found{Job: rec.Job, Source: events.Source{Token: relistToken, Name: "document event", Relist: true}, Trace: l.traces[""]}
	out, err := m.st.OutboxOps(k.graph, found)
	if err != nil {
		return err
	}
	// Documents that committed on their own stay committed: the new attempt finds them unchanged.
	ops = append(ops, store.Op{Graph: k.graph, Space: spaceStaged, Key: stagedPrefix(k.job), DeletePrefix: true})
	if err := m.st.WriteReserved(ctx, append(ops, out...), true); err != nil {
		return fmt.Errorf("start job %s again: %w", k.job, err)
	}
	m.cfg.Log.Warn("a dead job starts again", "graph", k.graph, "job", k.job, "attempt", rec.Job.Attempt)
	m.mu.Lock()
	for _, d := range l.docs {
		m.cached -= d.size
	}
	m.track(k, newLive(rec, now))
	m.mu.Unlock()
	m.outbox(k.graph)
	return nil
}
