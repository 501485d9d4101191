package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// noSpace is the code of what waits for free disk space.
const noSpace = "no_space"

// Get returns a job as it stands. A document event that no loader has taken yet is pending. The reason of a pending job is what
// it waits for, when that is space.
func (m *Machine) Get(ctx context.Context, g, id string) (api.JobStatus, error) {
	s, err := m.get(ctx, g, id)
	if err == nil && s.State == api.JobPending && s.Reason == "" {
		if full := m.st.Room(); full != nil {
			s.Reason = noSpace + ": " + full.Error()
		}
	}
	return s, err
}

func (m *Machine) get(ctx context.Context, g, id string) (api.JobStatus, error) {
	m.mu.Lock()
	if l := m.live[key{g, id}]; l != nil {
		s := l.status()
		m.mu.Unlock()
		return s, nil
	}
	m.mu.Unlock()
	if rec, err := m.record(g, id); err != nil || rec != nil {
		return statusOf(rec), err
	}
	waiting, err := m.outside.Pending(ctx, g, id)
	if err != nil {
		return api.JobStatus{}, err
	}
	if !waiting {
		// It may have ended since the look for its record, and its event is gone with that.
		if rec, err := m.record(g, id); err != nil || rec != nil {
			return statusOf(rec), err
		}
		return api.JobStatus{}, api.Errorf(404, "job_not_found", "graph %s has no job %s", g, id)
	}
	s := api.JobStatus{Job: id, Graph: g, State: api.JobPending}
	mark, err := m.cancelMark(g, id)
	if err != nil {
		return api.JobStatus{}, err
	}
	if mark != nil {
		s.State, s.Reason = api.JobRollingBack, mark.Code+": "+mark.Message
	}
	fill(&s)
	return s, nil
}

// statusOf a record; there is none when the record could not be read.
func statusOf(rec *Record) api.JobStatus {
	if rec == nil {
		return api.JobStatus{}
	}
	return rec.status()
}

// Wait returns a job once until says so, or as it stands when the time is up.
func (m *Machine) Wait(ctx context.Context, g, id string, d time.Duration, until func(api.JobStatus) bool) (api.JobStatus, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	// Events that no loader has taken yet wake nobody: look again now and then.
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		woken := make(chan struct{})
		k := key{g, id}
		m.mu.Lock()
		m.waiters[k] = append(m.waiters[k], woken)
		m.mu.Unlock()
		s, err := m.Get(ctx, g, id)
		if err != nil || until(s) {
			m.unwait(k, woken)
			return s, err
		}
		select {
		case <-woken:
		case <-look.C:
			m.unwait(k, woken)
		case <-timer.C:
			m.unwait(k, woken)
			return s, nil
		case <-ctx.Done():
			m.unwait(k, woken)
			return s, nil
		case <-m.stopping:
			m.unwait(k, woken)
			return s, nil
		}
	}
}

func (m *Machine) unwait(k key, c chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.waiters[k]
	for i, x := range list {
		if x == c {
			m.waiters[k] = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(m.waiters[k]) == 0 {
		delete(m.waiters, k)
	}
}

// List returns jobs, newest first.
func (m *Machine) List(_ context.Context, g string, req api.JobList) (api.JobListReply, error) {
	if req.Limit < 0 || req.Limit > 1000 {
		return api.JobListReply{}, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and 1000", req.Limit)
	}
	if req.Limit == 0 {
		req.Limit = 50
	}
	reply := api.JobListReply{Jobs: []api.JobStatus{}}
	var after []byte
	if req.Cursor != "" {
		after = []byte(nil)
		if err := json.Unmarshal([]byte(req.Cursor), &after); err != nil {
			return reply, api.Errorf(400, "bad_value", "the cursor is not one of ours")
		}
	}
	const budget = 700 << 10
	size := 0
	err := m.st.Scan(g, spaceOrder, nil, after, 0, func(k, _ []byte) error {
		if len(k) < 8 {
			return nil
		}
		s, err := m.Get(context.Background(), g, string(k[8:]))
		if err != nil {
			return err
		}
		if req.State != "" && s.State != req.State {
			return nil
		}
		s.Removed = nil
		b, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("job %s: %w", s.Job, err)
		}
		size += len(b)
		if len(reply.Jobs) == req.Limit || size > budget && len(reply.Jobs) > 0 {
			c, err := json.Marshal(after)
			if err != nil {
				return fmt.Errorf("cursor: %w", err)
			}
			reply.Next = string(c)
			return store.ErrStop
		}
		after = append([]byte(nil), k...)
		reply.Jobs = append(reply.Jobs, s)
		return nil
	})
	return reply, err
}
