package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// How long one question after a job waits: how often progress is shown in lines, and as a bar.
const (
	pollWait    = time.Second
	pollWaitBar = 250 * time.Millisecond
	// standing is how long a service of this process may be hindered before a job's progress says so.
	standing = 2 * time.Second
)

// posted is a job and, when this command sent its document event, what tells it from another event's job of that id.
type posted struct {
	job string
	// digest is the SHA-256 of the event's body, seq its place in the stream; empty and 0 where somebody else sent it.
	digest string
	seq    uint64
}

// mine says whether a status is of the event that was sent. A job that no loader has opened yet may be anybody's.
func (p posted) mine(st api.JobStatus) bool {
	return p.digest == "" || st.EventDigest == "" || st.EventDigest == p.digest
}

func (p posted) taken() error {
	return api.Errorf(409, "job_id_taken", "job id %s was another document event; choose another --job", p.job)
}

// check asks once whether a job whose id was chosen is another event's. Of one that nobody has opened yet nothing can be said.
func (p posted) check(ctx context.Context, s *target.Session) error {
	if _, numbered := events.ParseSeqJob(p.job); numbered {
		return nil
	}
	raw, err := s.Ask(ctx, "jobs.get", api.JobGet{Job: p.job})
	if err != nil {
		if e := refusal(err); e != nil && e.Status == 404 {
			return nil
		}
		return err
	}
	st, err := decode[api.JobStatus](raw)
	if err == nil && !p.mine(st) {
		err = p.taken()
	}
	return err
}

// wait follows a job to its end, or until it is held; expect is how many documents it has at least. Services that are away for a
// moment are asked again until the time-out.
func (c *cli) wait(ctx context.Context, s *target.Session, sent posted, expect int) (json.RawMessage, api.JobStatus, error) {
	p := render.NewProgress(c.err, false, c.now)
	defer p.Done()
	every := pollWait
	if render.Terminal(c.err) {
		every = pollWaitBar
	}
	var lost, hindered time.Time
	for {
		raw, err := s.Ask(ctx, "jobs.get", api.JobGet{Job: sent.job, Wait: every.String()})
		if err == nil {
			lost = time.Time{}
			st, err := decode[api.JobStatus](raw)
			if err != nil {
				return raw, st, err
			}
			if !sent.mine(st) {
				raw, err := c.refused(ctx, s, sent)
				return raw, st, err
			}
			if api.Settled(st) || st.State == api.JobHeld {
				if why := standsStill(st); why != "" && api.Ended(st.State) {
					fmt.Fprintln(c.err, render.Line(why+"; what it has to do waits for that"))
				}
				return raw, st, nil
			}
			why := cmp.Or(s.Hindered(), standsStill(st))
			if why == "" {
				hindered = time.Time{}
			} else if hindered.IsZero() {
				hindered = c.now()
			}
			if why != "" && c.now().Sub(hindered) < standing {
				why = ""
			}
			done, total, what := render.Step(st, expect)
			p.Note(why)
			p.Set(done, total, what)
			continue
		}
		if ctx.Err() != nil {
			return nil, api.JobStatus{}, c.interrupted(ctx, s, sent.job)
		}
		refused := refusal(err)
		if refused != nil && apiCode(refused) != exitUnreachable || !unreachable(err) && refused == nil {
			return nil, api.JobStatus{}, err
		}
		if lost.IsZero() {
			lost = c.now()
		}
		if c.now().Sub(lost) > c.timeout {
			return nil, api.JobStatus{}, fmt.Errorf("job %s may still run; look with: factmill jobs watch %s%s: %w", sent.job, sent.job, c.at(), err)
		}
		if err := pause(ctx, every/2); err != nil {
			return nil, api.JobStatus{}, c.interrupted(ctx, s, sent.job)
		}
	}
}

// standsStill says what hinders the first stage at which the job waits.
func standsStill(st api.JobStatus) string {
	for _, p := range st.Progress {
		if p.Waiting > 0 && p.Why != "" {
			return "the " + p.Stage + " waits: " + p.Why
		}
	}
	return ""
}

// refused is the end of an event whose job id was another's: the loader ends the event's own job, j and its sequence, with that
// reason. Its status comes back where it can be had.
func (c *cli) refused(ctx context.Context, s *target.Session, sent posted) (json.RawMessage, error) {
	own := events.SeqJob(sent.seq)
	if own == sent.job { // the stream was made anew and counts from 1: an old job has that id
		return nil, sent.taken()
	}
	for began := c.now(); ctx.Err() == nil && c.now().Sub(began) < c.timeout; {
		raw, err := s.Ask(ctx, "jobs.get", api.JobGet{Job: own, Wait: pollWait.String()})
		if err == nil {
			if st, err := decode[api.JobStatus](raw); err == nil && api.Ended(st.State) {
				return raw, sent.taken()
			}
		} else if e := refusal(err); e == nil || e.Status != 404 { // 404: the loader is not that far
			break
		}
		if pause(ctx, pollWaitBar) != nil {
			break
		}
	}
	return nil, sent.taken()
}

func (c *cli) interrupted(ctx context.Context, s *target.Session, job string) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("job %s is taken up at the next start: %w", job, cause)
	}
	if s.Embedded {
		return failf("interrupted: job %s is taken up when something works on %s next; factmill jobs watch %s%s waits for it", job, s.Dir, job, c.at())
	}
	return failf("interrupted: job %s goes on without this command; factmill jobs watch %s%s waits for it, factmill jobs cancel %s%s stops it",
		job, job, c.at(), job, c.at())
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish prints what a job did, and turns its end into the exit code. in is what this command had to send; nil: nothing.
func (c *cli) finish(raw json.RawMessage, st api.JobStatus, in *input) error {
	if in == nil {
		in = &input{}
	}
	if c.json {
		var err error
		if raw, err = in.extend(raw); err != nil {
			return err
		}
	}
	err := reply(c, raw, func(w io.Writer, st api.JobStatus) error {
		if err := render.Job(w, st); err != nil {
			return err
		}
		made := in.made
		if st.State == api.JobRolledBack {
			made = nil
		}
		return render.Sent(w, made, in.unsent())
	})
	if err != nil {
		return err
	}
	if err := jobResult(c, st); err != nil {
		return err
	}
	if n := in.unread(); n > 0 && st.State == api.JobCommitted {
		return &coded{code: exitPartial, err: fmt.Errorf("job %s is done, but %s could not be read here", st.Job, render.Count(n, "file", "files"))}
	}
	return nil
}

// jobResult turns a job's end into an error with its exit code, or nil.
func jobResult(c *cli, st api.JobStatus) error {
	switch {
	case st.State == api.JobRolledBack:
		reason := st.Reason
		if reason == "" {
			reason = "no reason is recorded"
		}
		if kept := st.Documents.Added + st.Documents.Updated + st.Documents.Deleted; kept > 0 && st.CommitSeq > 0 {
			return failf("job %s was rolled back: %s; %s (sequence %d), nothing else of it is in the graph", st.Job, reason,
				render.Count(kept, "document was committed and stays", "documents were committed and stay"), st.CommitSeq)
		}
		return failf("job %s was rolled back, nothing of it is in the graph: %s", st.Job, reason)
	case st.State == api.JobHeld:
		c.say("job %s is held: factmill review show 'job|%s'%s shows what it would do, factmill jobs accept %s%s commits it, factmill jobs cancel %s%s rolls it back",
			st.Job, st.Job, c.at(), st.Job, c.at(), st.Job, c.at())
		return nil
	case st.Failed() > 0:
		look := "factmill jobs show " + st.Job + c.at() + " says why"
		if st.Documents.Quarantined > 0 {
			look += ", factmill dead-letters list --job " + st.Job + c.at() + " has what was put aside"
		}
		return &coded{code: exitPartial, err: fmt.Errorf("job %s is done, but %s did not make it; %s", st.Job,
			render.Count(st.Failed(), "document", "documents"), look)}
	case st.State == api.JobCommitted && unread(st) > 0:
		return &coded{code: exitPartial, err: fmt.Errorf("job %s is done, but %s; factmill jobs show %s%s says why", st.Job,
			render.Count(unread(st), "chunk was not read whole, and its document is read again by its next update",
				"chunks were not read whole, and their documents are read again by their next update"), st.Job, c.at())}
	}
	return nil
}

// unread counts the chunks that failed, or that a model was not asked about as they should have been.
func unread(st api.JobStatus) int {
	return st.Stages.Extraction.ChunksFailed + st.Stages.Escalation.Failures.Total
}
