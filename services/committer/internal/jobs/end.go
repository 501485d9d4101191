package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// end marks a record as ended now.
func (m *Machine) end(rec *Record, state, reason string) {
	rec.State, rec.Reason, rec.EndedAt = state, reason, m.cfg.Now()
}

// costLimit is how long a summary waits for what its job has cost.
const costLimit = time.Second

// Cost writes what a job that asks a model has cost so far into its summary, as far as that is known: a count is no reason to fail.
func (m *Machine) Cost(ctx context.Context, g, id string, s *api.JobStatus) {
	x := &s.Stages.Escalation
	if x.Mode == "" {
		return
	}
	x.SpentRequests, x.SpentTokens = max(x.SpentRequests, x.Requests), max(x.SpentTokens, x.PromptTokens+x.CompletionTokens)
	ctx, stop := context.WithTimeout(ctx, costLimit)
	defer stop()
	requests, tokens, err := m.outside.Cost(ctx, g, id)
	if err != nil {
		m.cfg.Log.Warn("what a job has cost is not known", "graph", g, "job", id, "error", err)
		return
	}
	x.SpentRequests, x.SpentTokens = max(x.SpentRequests, requests), max(x.SpentTokens, tokens)
}

// cost does so for a job that is about to end.
func (m *Machine) cost(ctx context.Context, rec *Record) {
	rec.Status.Stages.Escalation.Mode = rec.mode()
	m.Cost(ctx, rec.Job.Graph, rec.Job.ID, &rec.Status)
}

// endOps is what every end of a job writes: the record, what is left to clean, the event for the others.
func (m *Machine) endOps(rec *Record) ([]store.Op, error) {
	ops, err := m.recordOps(rec, false)
	if err != nil {
		return nil, err
	}
	c, err := encode(cleanup{EventSeq: rec.Job.At.Seq, EventTime: rec.Job.At.Time, Purge: rec.State == api.JobRolledBack})
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
	if err := m.st.WriteReserved(ctx, append(append(more, ops...), out...), true); err != nil {
		return fmt.Errorf("end job %s: %w", rec.Job.ID, err)
	}
	m.ended(key{rec.Job.Graph, rec.Job.ID}, rec.State)
	return nil
}

// ended forgets a job that ended and wakes who waits for it.
func (m *Machine) ended(k key, state string) {
	m.cfg.OnEnd(state)
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

// reason is a failure in one line: its code, what it is about where the message does not say, and the message.
func reason(job string, f graph.Failure) string {
	if f.Item == "" || f.Item == job || strings.Contains(f.Message, f.Item) {
		return f.Code + ": " + f.Message
	}
	return f.Code + ": " + f.Item + ": " + f.Message
}
