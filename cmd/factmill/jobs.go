package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// How long one question after a job waits: how often progress is shown in lines, and as a bar.
const (
	pollWait    = time.Second
	pollWaitBar = 250 * time.Millisecond
)

func (c *cli) jobsCmd() *cobra.Command {
	return parent("jobs", "Look at jobs, wait for one, cancel one", `A job is one ingest call: one or many documents, committed whole or not at all.`,
		c.jobsListCmd(), c.jobsShowCmd(), c.jobsWatchCmd(), c.jobsCancelCmd())
}

func (c *cli) jobsListCmd() *cobra.Command {
	var req api.JobList
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: cobra.NoArgs, Long: "List the jobs of the graph, newest first.",
		Example: "  factmill jobs list\n  factmill jobs list --state pending --json",
		RunE: ask(c, "jobs.list", func(*cobra.Command, []string) (any, error) {
			switch req.State {
			case "", api.JobPending, api.JobHeld, api.JobCommitted, api.JobRollingBack, api.JobRolledBack:
				return req, nil
			}
			return nil, fmt.Errorf("--state is %q: it must be pending, held, committed, rolling_back or rolled_back", req.State)
		}, render.Jobs),
	}
	f := cmd.Flags()
	f.StringVar(&req.State, "state", "", "only in this `state`: pending, held, committed, rolling_back, rolled_back")
	f.IntVar(&req.Limit, "limit", 0, "jobs a page")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

func (c *cli) jobsShowCmd() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "show JOB", Short: "Show a job", Args: cobra.ExactArgs(1),
		Long:    "Show a job's state, its counts by stage and its failures. --wait waits that long for its end.",
		Example: "  factmill jobs show j42\n  factmill jobs show nightly --wait 5m --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req := api.JobGet{Job: args[0]}
			if wait > 0 {
				req.Wait = wait.String()
				c.timeout += wait
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "jobs.get", req)
				if err != nil {
					return err
				}
				return reply(c, raw, render.Job)
			})
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait this long for the end")
	return cmd
}

func (c *cli) jobsWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use: "watch JOB", Short: "Wait for a job's end", Args: cobra.ExactArgs(1),
		Long: `Show a job's progress until it has ended or is held, then what it did. The exit code is that of an ingest: 0 committed or
held, 1 rolled back, 4 committed without some documents. An interrupt leaves the job running.`,
		Example: "  factmill jobs watch j42",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, st, err := c.wait(ctx, s, args[0], 0)
				if err != nil {
					return err
				}
				return c.finish(raw, st)
			})
		}),
	}
}

func (c *cli) jobsCancelCmd() *cobra.Command {
	req := api.JobCancel{}
	cmd := &cobra.Command{
		Use: "cancel JOB", Short: "Roll a job back before it commits", Args: cobra.ExactArgs(1),
		Long:    "Roll back a job that has not committed: nothing of it becomes visible. A committed job stays.",
		Example: "  factmill jobs cancel j42 --reason 'wrong folder'",
		RunE: ask(c, "jobs.cancel", func(_ *cobra.Command, args []string) (any, error) {
			req.Job = args[0]
			return req, nil
		}, func(w io.Writer, s api.JobStatus) error { return render.Job(w, s) }),
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why; it is kept with the job")
	return cmd
}

// wait follows a job to its end, or until it is held; expect is how many documents it has at least. Services that are away for a moment are asked again until the time-out.
func (c *cli) wait(ctx context.Context, s *target.Session, job string, expect int) (json.RawMessage, api.JobStatus, error) {
	p := render.NewProgress(c.err, false, c.now)
	defer p.Done()
	every := pollWait
	if render.Terminal(c.err) {
		every = pollWaitBar
	}
	var lost time.Time
	for {
		raw, err := s.Ask(ctx, "jobs.get", api.JobGet{Job: job, Wait: every.String()})
		if err == nil {
			lost = time.Time{}
			st, err := decode[api.JobStatus](raw)
			if err != nil {
				return raw, st, err
			}
			if api.Ended(st.State) || st.State == api.JobHeld {
				return raw, st, nil
			}
			done, total, what := render.Step(st, expect)
			p.Set(done, total, what)
			continue
		}
		if ctx.Err() != nil {
			return nil, api.JobStatus{}, interrupted(ctx, s, job)
		}
		var refused *api.Error
		if errors.As(err, &refused) && apiCode(refused) != exitUnreachable || !unreachable(err) && refused == nil {
			return nil, api.JobStatus{}, err
		}
		if lost.IsZero() {
			lost = c.now()
		}
		if c.now().Sub(lost) > c.timeout {
			return nil, api.JobStatus{}, fmt.Errorf("job %s may still run; look with: factmill jobs watch %s: %w", job, job, err)
		}
		if err := pause(ctx, every/2); err != nil {
			return nil, api.JobStatus{}, interrupted(ctx, s, job)
		}
	}
}

func interrupted(ctx context.Context, s *target.Session, job string) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("job %s is taken up at the next start: %w", job, cause)
	}
	if s.Embedded {
		return failf("interrupted: job %s is taken up when something works on %s next; factmill jobs watch %s --data %s waits for it", job, s.Dir, job, s.Dir)
	}
	return failf("interrupted: job %s goes on without this command; factmill jobs watch %s waits for it, jobs cancel stops it", job, job)
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

// finish prints what a job did, and turns its end into the exit code.
func (c *cli) finish(raw json.RawMessage, st api.JobStatus) error {
	if err := reply(c, raw, render.Job); err != nil {
		return err
	}
	return jobResult(c, st)
}

func jobResult(c *cli, st api.JobStatus) error {
	switch {
	case st.State == api.JobRolledBack:
		reason := st.Reason
		if reason == "" {
			reason = "no reason is recorded"
		}
		return failf("job %s was rolled back, nothing of it is in the graph: %s", st.Job, reason)
	case st.State == api.JobHeld:
		c.say("job %s is held until somebody looks: factmill review list --kind job", st.Job)
		return nil
	case st.Failed() > 0:
		return &coded{exitPartial, fmt.Errorf("job %s is done, but %s did not make it; factmill jobs show %s says why", st.Job,
			render.Count(st.Failed(), "document", "documents"), st.Job)}
	}
	return nil
}
