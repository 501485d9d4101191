package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
)

func (c *cli) reviewEditCmd() *cobra.Command {
	var d decision
	var set []string
	cmd := &cobra.Command{
		Use: "edit ID --set NAME=VALUE…", Short: "Correct a pending candidate", Args: cobra.ExactArgs(1),
		Long: `Correct one record of a pending candidate, by its id: type (or label), name (or text; of a property value), source_text, source_label,
source_entity and the same of the target, the quote that says it, or start and end of the evidence in bytes of the document's text, and entity,
the id of the entity that it is. What the active schema declares must allow it. The answer has the plan that an approval has now. It keeps its key, so decisions about it hold, and survives other readings of the document while its quote stands.`,
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
what would go. It takes criteria, no single items: 'factmill review undo RECORD' forgets one rejection.`,
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
	ifUnknown(cmd, "prune takes criteria: factmill review reject --key KEY decides a single one, factmill review undo RECORD forgets one rejection")
	return cmd
}
