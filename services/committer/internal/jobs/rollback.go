package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// rollback writes rolling_back before it deletes anything, then finishes.
func (m *Machine) rollback(ctx context.Context, k key, l *live, reason string) error {
	m.stageMu.Lock()
	m.mu.Lock()
	rec := l.rec
	rec.State, rec.Reason = api.JobRollingBack, reason
	rec.Status = l.status()
	rec.Status.Progress, rec.Status.Next = nil, ""
	m.mu.Unlock()
	ops, err := m.recordOps(&rec, true)
	if err == nil && rec.Atomic == events.AtomicDocument && rec.CommitSeq > 0 {
		// Documents that committed on their own stay, and so does what was put aside next to them.
		var kept []store.Op
		kept, err = m.quarantineOps(&rec, l)
		ops = append(ops, kept...)
	}
	if err == nil {
		err = m.st.WriteReserved(ctx, ops, true)
	}
	if err == nil {
		m.mu.Lock()
		l.rec = rec
		m.mu.Unlock()
	}
	m.stageMu.Unlock()
	if err != nil {
		return fmt.Errorf("roll back job %s: %w", k.job, err)
	}
	failpoint.Hit("in_rollback")
	return m.finishRollback(ctx, k, l)
}

// finishRollback deletes what a rolling_back job staged and ends it.
func (m *Machine) finishRollback(ctx context.Context, k key, l *live) error {
	m.mu.Lock()
	rec := l.rec
	m.mu.Unlock()
	began, traces := time.Now(), m.tracedAs(l)
	m.cost(ctx, &rec)
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	m.end(&rec, api.JobRolledBack, rec.Reason)
	if err := m.writeEnd(ctx, &rec, nil); err != nil {
		return err
	}
	m.spans(k, traces, slices.Collect(maps.Keys(traces)), "roll back", 0, rec.Reason, began)
	return nil
}

// tend watches deadlines and leases, queues what waited for room, and cleans up after jobs that ended.
func (m *Machine) tend(ctx context.Context) error {
	every := max(m.cfg.Lease/20, 100*time.Millisecond)
	tick := time.NewTicker(min(every, time.Second))
	defer tick.Stop()
	m.cleanUp(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.cleaned:
			m.cleanUp(ctx)
		case <-tick.C:
			m.watch()
			m.cleanUp(ctx)
			if err := m.revive(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// watch fails jobs whose deadline passed, and queues again those that could not commit.
func (m *Machine) watch() {
	now := m.cfg.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, l := range m.live {
		if l.committing {
			continue
		}
		if !l.rec.Deadline.IsZero() && now.After(l.rec.Deadline) {
			l.fault(graph.Failure{Stage: "committer", Item: k.job, Code: "deadline", Message: "the job's deadline passed before it was complete"})
		}
		m.consider(k, l)
	}
}
