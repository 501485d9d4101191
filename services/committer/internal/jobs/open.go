package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

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
