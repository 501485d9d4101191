package jobs

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Open accepts a document event: idempotent by job id and digest.
func (m *Machine) Open(ctx context.Context, g string, req api.JobOpen) (api.JobOpenReply, error) {
	if !events.ValidJob(req.Job) {
		return api.JobOpenReply{}, api.Errorf(400, "bad_name", "bad job id %q", req.Job)
	}
	reply, stray, err := m.open(ctx, g, req)
	if stray { // no job's end will delete it
		gone := m.outside.DeleteUploads(ctx, []Ended{{Graph: g, Job: req.Job, Seq: req.At.Seq, Time: req.At.Time}})
		if gone == nil {
			gone = m.outside.DeleteEvent(ctx, g, req.At)
		}
		if gone != nil {
			return api.JobOpenReply{}, gone
		}
	}
	return reply, err
}

// open says besides whether the event is stray: it is not the one that opened its job, or came back after that has ended.
func (m *Machine) open(ctx context.Context, g string, req api.JobOpen) (reply api.JobOpenReply, stray bool, err error) {
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	rec, err := m.record(g, req.Job)
	if err != nil {
		return reply, false, err
	}
	if rec != nil && madeAnew(rec, req) {
		if rec, err = m.former(g, rec); err != nil {
			return reply, false, err
		}
	}
	if rec == nil {
		reply, err = m.openNew(ctx, g, req)
		return reply, false, err
	}
	if rec.Digest != req.Digest { // the refusal is a job of its own, which cleans up
		return reply, false, api.Errorf(409, "job_id_taken", "job %s of graph %s was another document event", req.Job, g)
	}
	stray = rec.Job.At != req.At || api.Ended(rec.State)
	m.mu.Lock()
	if l := m.live[key{g, req.Job}]; l != nil {
		l.progressed = m.cfg.Now()
	}
	m.mu.Unlock()
	return api.JobOpenReply{State: rec.State, Job: rec.Job}, stray, nil
}

// madeAnew says that the number of a job's event is another event's by now: the stream was lost and made anew.
func madeAnew(rec *Record, req api.JobOpen) bool {
	_, numbered := events.ParseSeqJob(req.Job)
	return numbered && rec.Job.At != req.At
}

// former lets a new event have the number of a job that has ended; one that has not ended first has to.
func (m *Machine) former(g string, rec *Record) (*Record, error) {
	rest, err := m.st.Get(g, spaceCleanup, []byte(rec.Job.ID))
	if err != nil {
		return nil, err
	}
	if !api.Ended(rec.State) || rest != nil {
		return nil, api.Errorf(429, "busy", "the number of job %s of graph %s is another event's by now, and the job has not ended: wait", rec.Job.ID, g)
	}
	return nil, nil
}

// LastEvent is the highest sequence of the ingest stream that a job was opened for; 0 when there is none.
func (m *Machine) LastEvent() (last uint64, err error) {
	for _, g := range m.st.Graphs() {
		err := m.st.Scan(g, spaceOrder, nil, nil, 1, func(k, _ []byte) error {
			if len(k) >= 8 {
				last = max(last, ^binary.BigEndian.Uint64(k))
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("last document event of graph %s: %w", g, err)
		}
	}
	return last, nil
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
	mark, err := m.cancelMark(g, job.ID)
	if err != nil {
		return api.JobOpenReply{}, err
	}
	if mark != nil {
		req.Refused = mark
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
	mark := store.Op{Graph: rec.Job.Graph, Space: spaceCancelled, Key: []byte(rec.Job.ID), Delete: true}
	if err := m.writeEnd(ctx, rec, []store.Op{mark}); err != nil {
		return api.JobOpenReply{}, err
	}
	return api.JobOpenReply{State: rec.State, Job: rec.Job}, nil
}
