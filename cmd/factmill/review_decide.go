package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"

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
	schema    string
	as        string
	value     string
	entity    string // that is chosen
	print     string // fingerprint of the plan that was looked at
	actor     string
	reason    string
	request   string
	revision  uint64
	output    string
	overwrite bool
}

func (c *cli) reviewApproveCmd() *cobra.Command {
	return c.decideCmd("approve", "same", "Approve candidates, or say that two entities are one", `Approve candidates: what they say may become facts, once the schema declares it; the decision holds for every document that says it.
Each end of a relation, and the holder of a property, must be exactly one entity, or an approved candidate of that name; what cannot be
approved stays pending, and the outcome says why. Approve matches: the two entities of each are the same and are read as one from now on.
Where several entities fit one name, --entity is the one that it stands for: that match is approved, the others of the name are rejected.
Approve a stale fact, one at a time: its document's support is withdrawn; --fingerprint is that of review show.
Approve a conflict, one at a time: --value is the one to show, or --decision keep_all; --fingerprint is that of review show. A missing value: it is
accepted that it is missing.
Approve a held job, one at a time (--decision accept): it commits exactly what review show showed; --fingerprint is the one from there.
Decisions stay when documents are read again, deleted, or come back.`)
}

func (c *cli) reviewRejectCmd() *cobra.Command {
	return c.decideCmd("reject", "different", "Reject candidates, or say that two entities are not one", `Reject candidates: what they say is never asked again, from any document. Reject matches: the two entities of each are different and are
never linked, whatever their names say. Reject a stale fact: it is kept. Reject one --value of a conflict: it is not shown; --decision different, of a
homonym, makes each value an entity of its own; --fingerprint is that of review show. Reject a held job: it is rolled back. Decisions stay when
documents are read again, deleted, or come back; review undo takes a rejection
back.`)
}

func (c *cli) decideCmd(verb, meaning, short, long string) *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: verb + " (--id ID… | --key KEY… | [--kind KIND…] [--label L] [--min-count N] [--min-score S])", Short: short, Args: noArgs, Long: long,
		Example: "  factmill review " + verb + " --key 'entity|spacecraft|dragon' --reason 'seen in three reports'\n  factmill review " + verb + " --kind entity --label Spacecraft --min-count 3\n" +
			"  factmill review " + verb + " --id 6a0f… --reason 'one letterhead'\n  factmill review " + verb + " --key 'conflict|…|founded' --value 1901 --fingerprint 93c1…\n  factmill review " + verb + " --kind match --label Organization --min-score 0.95",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			req, err := c.decision(cmd, verb, d)
			if err != nil {
				return usage(err)
			}
			if verb == "reject" {
				return c.decided(ctx, cmd, "review.reject", req, "rejected")
			}
			if d.output != "" {
				if err := checkOutput(d.output, d.overwrite); err != nil {
					return err
				}
			}
			done := "approved"
			if d.entity != "" {
				done = "decided"
			}
			return c.decidedThen(ctx, cmd, "review.approve", req, done, func(r api.DecideReply) error { return c.saveApproved(r, d) })
		}),
	}
	f := cmd.Flags()
	if verb == "approve" {
		f.StringVarP(&d.output, "output", "o", "", "`file` for the patch: what the schema needs for the candidates that were approved")
		f.BoolVar(&d.overwrite, "overwrite", false, "replace the file when it is there")
	}
	f.StringSliceVar(&d.ids, "id", nil, "the item's `id`; repeats")
	f.StringArrayVar(&d.keys, "key", nil, "the item's `key`; repeats")
	f.StringSliceVar(&d.query.Kinds, "kind", nil, "entity, relation, property (the default: all three) or match: all that the following choose")
	f.StringVar(&d.query.Label, "label", "", "only those of this `label`")
	f.Float64Var(&d.query.MinScore, "min-score", 0, "only with at least this confidence; of a match its score (0 to 1)")
	f.IntVar(&d.query.MinCount, "min-count", 0, "only seen at least this often; of a match: whose entities are in at least this many documents")
	f.StringVar(&d.state, "state", "", "pending (default), approved, rejected, active (matches) or all")
	f.StringVar(&d.schema, "schema", "", "\"current\" leaves out pending candidates that the active schema covers by now")
	f.BoolVar(&d.query.IncludeCovered, "include-covered", false, "take covered ones too")
	f.StringVar(&d.as, "decision", "", "of a match: "+meaning+", which is the default"+map[string]string{"approve": ", or choose, with --entity; of a conflict: choose (the default) or keep_all; of a held job: accept, which is the default", "reject": "; of a conflict: reject, which is the default with --value, or different, of a homonym; of a held job: reject, which is the default"}[verb])
	if verb == "approve" {
		f.StringVar(&d.entity, "entity", "", "of matches: the `id` of the entity that their name stands for, as review show lists those that fit; --decision is choose then")
	}
	f.StringVar(&d.value, "value", "", "of a conflict: the `value` that is "+map[string]string{"approve": "chosen (default: the one that is shown first)", "reject": "rejected"}[verb])
	f.StringVar(&d.print, "fingerprint", "", "the `fingerprint` of the plan that was looked at, as review show gives it; of one item, needed for a conflict, stale fact or held job")
	f.Uint64Var(&d.revision, "revision", 0, "decide only if the item is still at this `revision`")
	c.whoFlags(cmd, &d)
	return cmd
}

// whoFlags say who decides and why.
func (c *cli) whoFlags(cmd *cobra.Command, d *decision) {
	f := cmd.Flags()
	f.StringVar(&d.actor, "actor", "", "who decides, a `name` (default: the user of this machine; where the NATS server knows you by your key, its name counts)")
	f.StringVar(&d.reason, "reason", "", "why, a `text` for the record")
	f.StringVar(&d.request, "request-id", "", "an `id` of this decision: the same command again changes nothing twice")
}

// decision makes the request.
func (c *cli) decision(cmd *cobra.Command, verb string, d decision) (map[string]any, error) {
	m := map[string]any{}
	filters := false
	for _, name := range []string{"kind", "label", "min-score", "min-count", "state", "schema"} {
		filters = filters || cmd.Flags().Changed(name)
	}
	switch {
	case len(d.ids) > 0 && len(d.keys) == 0 && !filters:
		m["ids"] = d.ids
	case len(d.keys) > 0 && len(d.ids) == 0 && !filters:
		m["keys"] = d.keys
	case filters && len(d.ids)+len(d.keys) == 0:
		q, err := listRequest(d.query, d.state)
		if err != nil {
			return nil, err
		}
		switch d.schema {
		case "":
		case "current":
			q["schema"] = d.schema
		default:
			return nil, fmt.Errorf("--schema is %q: it takes current", d.schema)
		}
		m["query"] = q
	default:
		return nil, fmt.Errorf("say what to %s: --id or --key, or a choice by --kind, --label, --min-count, --min-score; factmill review list shows what waits", verb)
	}
	if d.as != "" {
		m["decision"] = d.as
	}
	if d.entity != "" {
		m["entity"] = d.entity
	}
	if cmd.Flags().Changed("value") {
		m["value"] = d.value
	}
	if d.print != "" {
		m["fingerprint"] = d.print
	}
	if cmd.Flags().Changed("revision") {
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

// decided asks for a decision and shows what came of it. Items that were skipped, but for those that are so already, make it partial.
func (c *cli) decided(ctx context.Context, cmd *cobra.Command, verb string, req any, done string) error {
	return c.decidedThen(ctx, cmd, verb, req, done, func(api.DecideReply) error { return nil })
}

// decidedThen is decided, and then does something with the reply.
func (c *cli) decidedThen(ctx context.Context, cmd *cobra.Command, verb string, req any, done string, then func(r api.DecideReply) error) error {
	return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
		raw, err := s.Ask(ctx, verb, req)
		if err != nil {
			return err
		}
		skipped := 0
		var after error
		err = replyAnd(c, raw, func(w io.Writer, r api.DecideReply) error { return render.Outcome(w, r, done) }, func(r api.DecideReply) {
			after = then(r)
			skipped = max(0, r.Outcome.SkippedTotal-len(r.Outcome.Skipped))
			for _, why := range r.Outcome.Skipped {
				if why != api.SkippedApproved && why != api.SkippedRejected {
					skipped++
				}
			}
		})
		if err = errors.Join(err, after); err != nil || skipped == 0 {
			return err
		}
		return &coded{code: exitPartial, err: fmt.Errorf("%s skipped: what waits shows factmill review list --state all%s", render.Count(skipped, "item was", "items were"), c.at())}
	})
}

// saveApproved writes the patch of an approval, where one was asked for.
func (c *cli) saveApproved(r api.DecideReply, d decision) error {
	switch {
	case d.output == "":
		return nil
	case r.Patch != nil:
		return c.savePatch(r.Patch, d.output, d.overwrite)
	case len(r.Outcome.Changed) == 0:
		return failf("nothing was approved now: %s was not written (factmill review patch%s --output FILE writes what is approved)", render.Line(d.output), c.at())
	}
	return failf("approved, but the patch does not fit the reply: factmill review patch%s --output %s writes that of all that is approved", c.at(), quoted(d.output))
}

func (c *cli) reviewUndoCmd() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use: "undo RECORD", Short: "Take a decision back", Args: cobra.ExactArgs(1),
		Long: `Take back the decision of an audit record, which approve, reject, review show and review audit name. A match is again what the
comparison found, a conflict what was decided before. The records of a rejected candidate are forgotten, as by prune: a later reading may propose it again; an approval is not
taken back, reject the candidate instead. Taking back is recorded too; a decision that a later one replaced cannot be taken back.

It takes the record, not an item: 'factmill review audit --item KEY' lists the records of one.`,
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
	ifUnknown(cmd, "undo takes the record of a decision: factmill review audit --item KEY lists those of an item")
	return cmd
}

// ifUnknown adds what a command takes to the error about a flag that others of its kind have.
func ifUnknown(cmd *cobra.Command, takes string) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if name := err.Error(); strings.HasSuffix(name, "flag: --key") || strings.HasSuffix(name, "flag: --id") {
			return fmt.Errorf("%w (%s)", err, takes)
		}
		return err
	})
}
