package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) jobsCmd() *cobra.Command {
	return parent("jobs", "Look at jobs, wait for one, accept or cancel one", `A job is one ingest call: one or many documents, committed whole or not at all.`,
		c.jobsListCmd(), c.jobsShowCmd(), c.jobsWatchCmd(), c.jobsAcceptCmd(), c.jobsCancelCmd())
}

func (c *cli) jobsListCmd() *cobra.Command {
	var req api.JobList
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: noArgs, Long: "List the jobs of the graph, newest first.",
		Example: "  factmill jobs list\n  factmill jobs list --state pending --json",
		RunE: ask(c, "jobs.list", func(*cobra.Command, []string) (any, error) {
			switch req.State {
			case "", api.JobPending, api.JobHeld, api.JobCommitted, api.JobRollingBack, api.JobRolledBack:
				return req, nil
			}
			return nil, fmt.Errorf("--state is %q: it must be pending, held, committed, rolling_back or rolled_back", req.State)
		}, func(w io.Writer, r api.JobListReply) error { return render.Jobs(w, r, req.State) }),
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
				raw, st, err := c.wait(ctx, s, posted{job: args[0]}, 0)
				if err != nil {
					return err
				}
				return c.finish(raw, st, nil)
			})
		}),
	}
}

// acceptWait is how long a job that was accepted may commit before the command gives up waiting for the answer; the commit goes on.
const acceptWait = 10 * time.Minute

func (c *cli) jobsAcceptCmd() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "accept JOB", Short: "Let a held job commit", Args: cobra.ExactArgs(1),
		Long: `Show in short what a job that was held before its commit would do, let it do exactly that, and wait for its end. With --fingerprint, as review
show job|JOB gives it, it commits only when it would still do what was looked at then (stale_plan). The exit code is that of an
ingest. A job that is not held is left alone (job_not_held). review show has the whole plan; review reject and send-back are the other decisions.`,
		Example: "  factmill ingest docs/ --hold\n  factmill review show 'job|j42'\n  factmill jobs accept j42\n  factmill jobs accept j42 --fingerprint 93c1…",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			c.timeout += acceptWait
			req := map[string]any{"job": args[0]}
			if err := c.who(req, d); err != nil {
				return usage(err)
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				if d.print == "" {
					print, err := c.look(ctx, s, args[0])
					if err != nil {
						return err
					}
					d.print = print
				}
				req["fingerprint"] = d.print
				raw, err := s.Ask(ctx, "jobs.accept", req)
				if err != nil {
					return err
				}
				st, err := decode[api.JobStatus](raw)
				if err == nil && !api.Ended(st.State) {
					raw, st, err = c.wait(ctx, s, posted{job: args[0]}, 0)
				}
				if err != nil {
					return err
				}
				return c.finish(raw, st, nil)
			})
		}),
	}
	cmd.Flags().StringVar(&d.print, "fingerprint", "", "the `fingerprint` of the plan that was looked at (default: the one that is shown now)")
	c.whoFlags(cmd, &d)
	return cmd
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
