package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os/user"
	"slices"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// decision is what the flags of a deciding command say.
type decision struct {
	ids, keys []string
	query     api.ReviewList
	state     string
	as        string
	actor     string
	reason    string
	request   string
	revision  uint64
}

func (c *cli) reviewApproveCmd() *cobra.Command {
	return c.decideCmd("approve", "same", "Say that two entities are one: a match is confirmed", `Approve matches: the two entities of each are the same and are read as one from now on. The decision is remembered by the two names'
entities: it stays when documents are read again, deleted, or come back. review undo takes it back.`)
}

func (c *cli) reviewRejectCmd() *cobra.Command {
	return c.decideCmd("reject", "different", "Say that two entities are not one: a match is rejected", `Reject matches: the two entities of each are different and are never linked from now on, whatever their names say. The decision is
remembered by the two names' entities: it stays when documents are read again, deleted, or come back. review undo takes it back.`)
}

func (c *cli) decideCmd(verb, meaning, short, long string) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: verb + " (--id ID… | --key KEY… | --kind match [--label L] [--min-score S])", Short: short, Args: noArgs, Long: long,
		Example: "  factmill review " + verb + " --id 6a0f… --reason 'one letterhead'\n  factmill review " + verb + " --kind match --label Organization --min-score 0.95",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			req, err := c.decision(cmd, verb, d)
			if err != nil {
				return usage(err)
			}
			return c.decided(ctx, cmd, "review."+verb, req, map[string]string{"approve": "approved", "reject": "rejected"}[verb])
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&d.ids, "id", nil, "the match's `id`; repeats")
	f.StringSliceVar(&d.keys, "key", nil, "the match's `key`; repeats")
	f.StringSliceVar(&d.query.Kinds, "kind", nil, "match: all that the following choose")
	f.StringVar(&d.query.Label, "label", "", "only matches of this `label`")
	f.Float64Var(&d.query.MinScore, "min-score", 0, "only matches with at least this `score` (0 to 1)")
	f.IntVar(&d.query.MinCount, "min-count", 0, "only matches whose entities are in at least this many documents")
	f.StringVar(&d.state, "state", "", "pending (default), active, approved, rejected or all")
	f.StringVar(&d.as, "decision", "", meaning+", which is the default")
	f.Uint64Var(&d.revision, "revision", 0, "decide only if the match is still at this `revision`")
	c.whoFlags(cmd, &d)
	return cmd
}

// whoFlags say who decides and why.
func (c *cli) whoFlags(cmd *cobra.Command, d *decision) {
	f := cmd.Flags()
	f.StringVar(&d.actor, "actor", "", "who decides, a `name` (default: the user of this machine)")
	f.StringVar(&d.reason, "reason", "", "why, a `text` for the record")
	f.StringVar(&d.request, "request-id", "", "an `id` of this decision: the same command again changes nothing twice")
}

// decision makes the request.
func (c *cli) decision(cmd *cobra.Command, verb string, d decision) (map[string]any, error) {
	m := map[string]any{}
	filters := false
	for _, name := range []string{"kind", "label", "min-score", "min-count", "state"} {
		filters = filters || cmd.Flags().Changed(name)
	}
	switch {
	case len(d.ids) > 0 && len(d.keys) == 0 && !filters:
		m["ids"] = d.ids
	case len(d.keys) > 0 && len(d.ids) == 0 && !filters:
		m["keys"] = d.keys
	case filters && len(d.ids)+len(d.keys) == 0:
		if !slices.Equal(d.query.Kinds, []string{api.KindMatch}) {
			return nil, fmt.Errorf("say --kind match: this version %s matches only", map[string]string{"approve": "approves", "reject": "rejects"}[verb])
		}
		q, err := listRequest(d.query, d.state)
		if err != nil {
			return nil, err
		}
		m["query"] = q
	default:
		return nil, fmt.Errorf("say what to %s: --id or --key of matches, or --kind match with --label, --min-score; factmill review list --kind match shows them", verb)
	}
	if d.as != "" {
		m["decision"] = d.as
	}
	if d.revision != 0 {
		m["revision"] = d.revision
	}
	return m, c.who(m, d)
}

// who adds who decides, why, and what the decision is called.
func (c *cli) who(m map[string]any, d decision) error {
	if d.actor == "" {
		if u, err := user.Current(); err == nil {
			d.actor = u.Username
		}
	}
	if d.actor == "" {
		return fmt.Errorf("say who decides: --actor NAME")
	}
	if d.request == "" {
		d.request = rand.Text()
	}
	m["actor"], m["request_id"] = d.actor, d.request
	if d.reason != "" {
		m["reason"] = d.reason
	}
	return nil
}

// decided asks for a decision and shows what came of it. Items that are unknown beside others make the outcome partial.
func (c *cli) decided(ctx context.Context, cmd *cobra.Command, verb string, req any, done string) error {
	return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
		raw, err := s.Ask(ctx, verb, req)
		if err != nil {
			return err
		}
		unknown := 0
		err = replyAnd(c, raw, func(w io.Writer, r api.DecideReply) error { return render.Outcome(w, r, done) }, func(r api.DecideReply) {
			for _, why := range r.Outcome.Skipped {
				if why == api.SkippedUnknown {
					unknown++
				}
			}
		})
		if err != nil || unknown == 0 {
			return err
		}
		return &coded{code: exitPartial, err: fmt.Errorf("%s no match (any more): factmill review list --kind match --state all%s", render.Count(unknown, "of them is", "of them are"), c.at())}
	})
}

func (c *cli) reviewUndoCmd() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "undo RECORD", Short: "Take a decision back", Args: cobra.ExactArgs(1),
		Long: `Take back the decision of an audit record, which approve, reject and review show name. The match is again what the comparison found.
Taking back is recorded too; a decision that a later one replaced cannot be taken back.`,
		Example: "  factmill review undo 0f3c… --reason 'wrong pair'",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			m := map[string]any{"decision": args[0]}
			if err := c.who(m, d); err != nil {
				return usage(err)
			}
			return c.decided(ctx, cmd, "review.undo", m, "taken back")
		}),
	}
	c.whoFlags(cmd, &d)
	return cmd
}
