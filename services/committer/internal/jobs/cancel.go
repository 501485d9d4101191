package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// codeCancelled is why a job that somebody cancelled was rolled back.
const codeCancelled = "cancelled"

func cancelled(id, reason string) graph.Failure {
	if reason == "" {
		reason = "by request"
	}
	return graph.Failure{Stage: "committer", Item: id, Code: codeCancelled, Message: reason}
}

// Cancel rolls a job back that has not committed; it says what it did by the state it answers.
func (m *Machine) Cancel(ctx context.Context, g, id, reason string) (api.JobStatus, error) {
	k := key{g, id}
	m.mu.Lock()
	l := m.live[k]
	if l == nil {
		m.mu.Unlock()
		rec, err := m.record(g, id)
		if err != nil {
			return api.JobStatus{}, err
		}
		if rec == nil {
			return m.cancelUnopened(ctx, g, id, reason)
		}
		return rec.status(), api.Errorf(412, "job_ended", "job %s is %s already", id, rec.State)
	}
	if l.committing {
		m.mu.Unlock()
		return api.JobStatus{}, api.Errorf(412, "job_ended", "job %s is being committed", id)
	}
	l.failWith(cancelled(id, reason))
	m.consider(k, l)
	m.mu.Unlock()
	return m.Wait(ctx, g, id, 10*time.Second, func(s api.JobStatus) bool { return api.Ended(s.State) })
}

// cancelUnopened cancels a job whose document event no loader has taken yet: it will be opened only to be rolled back.
func (m *Machine) cancelUnopened(ctx context.Context, g, id, reason string) (api.JobStatus, error) {
	waiting, err := m.outside.Pending(ctx, g, id)
	if err != nil {
		return api.JobStatus{}, err
	}
	opened := false
	if waiting {
		opened, err = m.markCancelled(ctx, g, id, reason)
	} else if rec, e := m.record(g, id); e != nil || rec != nil { // it was opened, and its event deleted, while we looked
		opened, err = true, e
	}
	switch {
	case err != nil:
		return api.JobStatus{}, err
	case opened:
		return m.Cancel(ctx, g, id, reason)
	case !waiting:
		return api.JobStatus{}, api.Errorf(404, "job_not_found", "graph %s has no job %s", g, id)
	}
	return m.Wait(ctx, g, id, 10*time.Second, func(s api.JobStatus) bool { return api.Ended(s.State) })
}

// markCancelled says for good that a job is cancelled, unless it was opened meanwhile.
func (m *Machine) markCancelled(ctx context.Context, g, id, reason string) (opened bool, err error) {
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	rec, err := m.record(g, id)
	if err != nil || rec != nil {
		return rec != nil, err
	}
	if _, err := m.graphs.JobContext(g); err != nil { // makes the graph
		return false, err
	}
	b, err := encode(cancelled(id, reason))
	if err != nil {
		return false, err
	}
	if err := m.st.WriteReserved(ctx, []store.Op{{Graph: g, Space: spaceCancelled, Key: []byte(id), Value: b}}, true); err != nil {
		return false, fmt.Errorf("cancel job %s: %w", id, err)
	}
	return false, nil
}

// cancelMark is the mark of a job that was cancelled before it was opened; nil when there is none.
func (m *Machine) cancelMark(g, id string) (*graph.Failure, error) {
	b, err := m.st.Get(g, spaceCancelled, []byte(id))
	if err != nil || b == nil {
		return nil, err
	}
	f := &graph.Failure{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("cancel mark of job %s: %w", id, err)
	}
	return f, nil
}
