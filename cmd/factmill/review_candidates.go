package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) reviewEditCmd() *cobra.Command {
	var d decision
	var set []string
	cmd := &cobra.Command{
		Use: "edit ID --set NAME=VALUE…", Short: "Correct a pending candidate", Args: cobra.ExactArgs(1),
		Long: `Correct one record of a pending candidate, by its id: type (or label), name (or text; of a property value), source_text, source_label,
source_entity and the same of the target, start and end of the evidence in bytes of the document's text, and entity, the id of the entity
that it is. It keeps its key, so decisions about it hold, and survives other readings of the document while its quote stands.`,
		Example: "  factmill review edit 6a0f… --set type=Spacecraft --set 'name=Dragon 2'\n  factmill review edit 6a0f… --set source_entity=77ab… --revision 12",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			m, err := setFields(set)
			if err != nil {
				return usage(err)
			}
			req := map[string]any{"id": args[0], "set": m}
			if d.revision != 0 {
				req["revision"] = d.revision
			}
			if err := c.who(req, d); err != nil {
				return usage(err)
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "review.edit", req)
				if err != nil {
					return err
				}
				return reply(c, raw, render.Edited)
			})
		}),
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "`name=value`; repeats")
	cmd.Flags().Uint64Var(&d.revision, "revision", 0, "edit only if the candidate is still at this `revision`")
	c.whoFlags(cmd, &d)
	return cmd
}

// setFields reads name=value. Offsets are numbers.
func setFields(set []string) (map[string]any, error) {
	if len(set) == 0 {
		return nil, fmt.Errorf("say what to change: --set name=value")
	}
	m := map[string]any{}
	for _, x := range set {
		name, value, ok := strings.Cut(x, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set: %q is not name=value", x)
		}
		m[name] = value
		if name == "start" || name == "end" {
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("--set: %s is %q: it must be an offset in bytes", name, value)
			}
			m[name] = n
		}
	}
	return m, nil
}

func (c *cli) reviewPruneCmd() *cobra.Command {
	var d decision
	var rejected, apply bool
	var days, count int
	cmd := &cobra.Command{
		Use: "prune [--rejected] [--pending-older-than-days N] [--pending-below-count N] [--apply]", Short: "Forget candidates", Args: noArgs,
		Long: `Forget candidates, so that a later reading may propose them again: rejected ones, pending ones of which nothing was seen for some days,
pending ones that were seen less than so often. What meets one of the criteria goes; approved ones never do. Without --apply it shows
what would go.`,
		Example: "  factmill review prune --pending-older-than-days 90 --pending-below-count 2\n  factmill review prune --rejected --apply",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			req := map[string]any{"rejected": rejected, "apply": apply}
			if cmd.Flags().Changed("pending-older-than-days") {
				req["pending_older_than_days"] = days
			}
			if cmd.Flags().Changed("pending-below-count") {
				req["pending_below_count"] = count
			}
			if !rejected && len(req) == 2 {
				return usagef("say what to prune: --rejected, --pending-older-than-days N or --pending-below-count N")
			}
			if err := c.who(req, d); err != nil {
				return usage(err)
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "review.prune", req)
				if err != nil {
					return err
				}
				return reply(c, raw, render.Pruned)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&rejected, "rejected", false, "rejected ones")
	f.IntVar(&days, "pending-older-than-days", 0, "pending ones of which nothing was seen for so many `days`")
	f.IntVar(&count, "pending-below-count", 0, "pending ones that were seen less `often`")
	f.BoolVar(&apply, "apply", false, "forget them; without it, show them")
	c.whoFlags(cmd, &d)
	return cmd
}

func (c *cli) reviewAuditCmd() *cobra.Command {
	var req api.ReviewAudit
	var limit int
	cmd := &cobra.Command{
		Use: "audit", Short: "List what was decided, the latest first", Args: noArgs,
		Long: `List the audit records: who decided what about which item, when and why. Records are numbered without gaps and chained: --verify reads
all of them and checks that none was altered, lost or put in; problems end with exit code 1.`,
		Example: "  factmill review audit --actor eva --from 2026-01-01\n  factmill review audit --item 'entity|spacecraft|dragon'\n  factmill review audit --verify",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("limit") {
				req.Limit = &limit
			}
			if req.Verify && !cmd.Flags().Changed("timeout") {
				c.timeout = verifyTimeout
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "review.audit", req)
				if err != nil {
					return err
				}
				problems := 0
				err = replyAnd(c, raw, func(w io.Writer, r api.ReviewAuditReply) error { return render.Audit(w, r) }, func(r api.ReviewAuditReply) {
					problems = len(r.Problems)
				})
				if err == nil && problems > 0 {
					err = failf("the audit of graph %s has %s", c.graph, render.Count(problems, "problem", "problems"))
				}
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Operation, "operation", "", "only of this request `id`")
	f.StringVar(&req.Item, "item", "", "only about this item, by `key or id`")
	f.StringVar(&req.Actor, "actor", "", "only by this `name`")
	f.StringVar(&req.From, "from", "", "only from this `time` on, such as 2026-01-31 or 2026-01-31T12:00:00Z")
	f.StringVar(&req.To, "to", "", "only before this `time`")
	f.StringVar(&req.Record, "record", "", "only the record of this `id`")
	f.IntVar(&limit, "limit", 100, "records a page")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	f.BoolVar(&req.Verify, "verify", false, "check the whole chain")
	return cmd
}
