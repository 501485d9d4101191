package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/factmill/factmill/cmd/factmill/internal/panes"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) reviewCmd() *cobra.Command {
	return parent("review", "Look at what waits for a person", `Everything that the schema or a confidence threshold kept out of the graph waits here as a candidate, grouped by what it says; and pairs
of entities that may be one wait as matches; properties of which documents say several values, or none where one is required, as conflicts; facts that a document's new version does not state any more as stale facts; jobs that were held before their commit.`,
		c.reviewListCmd(), c.reviewShowCmd(), c.reviewNextCmd(), c.reviewApproveCmd(), c.reviewRejectCmd(), c.reviewSendBackCmd(), c.reviewEditCmd(), c.reviewPruneCmd(), c.reviewUndoCmd(),
		c.reviewPatchCmd(), c.reviewConvertCmd(), c.reviewSearchCmd(), c.reviewPolicyCmd(), c.reviewAuditCmd(), c.reviewStatsCmd())
}

func (c *cli) reviewListCmd() *cobra.Command {
	var req api.ReviewList
	var state, schema string
	var limit int
	var chosen bool
	cmd := &cobra.Command{
		Use: "list", Short: "List candidate groups, matches or conflicts, most seen first", Args: noArgs,
		Long: `List the groups of equal candidates: most seen first, then most confident, then by key. With --kind match, pairs of entities that may be
one: those in most documents first, then by score. Of matches, pending ones are unclear, active ones are linked and nobody decided. With --kind conflict,
properties that have one value and of which documents say several, those whose values tell things of one name apart (homonyms), relations
beyond their cardinality, and required values that are missing. With
--kind stale, facts that the new version of a document does not state any more and that wait. With --kind job, jobs that are held before their commit.`,
		Example: "  factmill review list\n  factmill review list --kind match --min-score 0.9\n  factmill review list --kind conflict --label Person\n  factmill review list --kind entity --label Instrument --min-count 3\n  factmill review list --state all --json",
		RunE: ask(c, "review.list", func(cmd *cobra.Command, _ []string) (any, error) {
			m, err := listRequest(req, state)
			if err != nil {
				return nil, err
			}
			for _, name := range []string{"kind", "label", "state", "min-count", "min-score", "limit", "skip", "cursor", "schema"} {
				chosen = chosen || cmd.Flags().Changed(name)
			}
			if cmd.Flags().Changed("limit") {
				m["limit"] = limit
			}
			if schema != "" {
				if schema != "current" {
					return nil, fmt.Errorf("--schema is %q: it takes current", schema)
				}
				m["schema"] = schema
			}
			return m, nil
		}, func(w io.Writer, r api.ReviewListReply) error { return render.Groups(w, r, chosen) }),
	}
	f := cmd.Flags()
	f.StringSliceVar(&req.Kinds, "kind", nil, "entity, relation, property, match, stale, conflict, job; comma separated or repeated")
	f.StringVar(&req.Label, "label", "", "only this `label`")
	f.StringVar(&state, "state", "", "pending (default), approved, rejected, active (matches) or all")
	f.Float64Var(&req.MinScore, "min-score", 0, "only with at least this confidence; of a match its score, of a conflict that of its surest value")
	f.IntVar(&req.MinCount, "min-count", 0, "only groups seen at least this often")
	f.IntVar(&limit, "limit", 100, "groups a page")
	f.IntVar(&req.Skip, "skip", 0, "skip this many groups")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	f.StringVar(&schema, "schema", "", "\"current\" hides pending candidates that the active schema covers by now")
	f.BoolVar(&req.IncludeCovered, "include-covered", false, "show covered ones too")
	return cmd
}

// listRequest is a map because an absent state (pending) and null (all) differ.
func listRequest(r api.ReviewList, state string) (map[string]any, error) {
	m := map[string]any{}
	switch state {
	case "", api.StatePending:
	case "all":
		m["state"] = nil
	case api.StateApproved, api.StateRejected, api.StateActive:
		m["state"] = state
	default:
		return nil, fmt.Errorf("--state is %q: it must be pending, approved, rejected, active or all", state)
	}
	if len(r.Kinds) > 0 {
		m["kinds"] = r.Kinds
	}
	for k, v := range map[string]string{"label": r.Label, "cursor": r.Cursor} {
		if v != "" {
			m[k] = v
		}
	}
	for k, v := range map[string]int{"min_count": r.MinCount, "skip": r.Skip} {
		if v != 0 {
			m[k] = v
		}
	}
	if r.MinScore != 0 {
		m["min_score"] = r.MinScore
	}
	if r.IncludeCovered {
		m["include_covered"] = true
	}
	return m, nil
}

func (c *cli) reviewShowCmd() *cobra.Command {
	var plain bool
	var document, id, key string
	cmd := &cobra.Command{
		Use: "show (ID|KEY | --id ID | --key KEY)", Short: "Show one item whole", Args: cobra.MaximumNArgs(1),
		Long: `Show one item with its evidence in context, other places that say the same, its revision, and the plan of its approval, whose fingerprint a decision
quotes; a match with both entities and what was decided; a conflict with the evidence of each value apart; a stale fact with what was said and
who else says it; a held job ('job|j42') with all that it would do and what was read out of its documents. A key has bars:
'entity|instrument|larch'.

On a terminal it has three panes: the text with the span marked, the item, and the change that its approval would make; side by side
from 100 columns on. --plain shows it as elsewhere.`,
		Example: "  factmill review show 'entity|instrument|larch spectrograph'\n  factmill review show 6a0f… --plain",
		RunE: ask(c, "review.show", func(_ *cobra.Command, args []string) (any, error) {
			given := slices.DeleteFunc(append(args, id, key), func(s string) bool { return s == "" })
			switch {
			case len(given) != 1:
				return nil, errors.New("show takes one item: an id or a key, as review list --json has them")
			case key != "" || id == "" && strings.Contains(given[0], "|"):
				return api.ReviewShow{Key: given[0], Document: document}, nil
			}
			return api.ReviewShow{ID: given[0], Document: document}, nil
		}, func(w io.Writer, r api.ReviewShowReply) error {
			if width, ok := screen(w); ok && !plain {
				return errors.Join(panes.Render(w, panes.Of(r), width, 0), c.howToDecide(w, r))
			}
			return errors.Join(render.Item(w, r), c.howToDecide(w, r))
		}),
	}
	cmd.Flags().BoolVar(&plain, "plain", false, "no panes, on a terminal too")
	cmd.Flags().StringVar(&id, "id", "", "show the item of this `id`, as the argument does")
	cmd.Flags().StringVar(&key, "key", "", "show the item of this `key`, as the argument does")
	cmd.Flags().StringVar(&document, "document", "", "of a held job: the items of the document of this `key`")
	return cmd
}

// screen is how many columns a terminal has; false where w is none.
func screen(w io.Writer) (width int, ok bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil && width > 0
}

func (c *cli) reviewStatsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Count what waits", Args: noArgs, Long: "Count the review queue by kind, state and label.",
		Example: "  factmill review stats --json",
		RunE: ask(c, "review.stats", func(*cobra.Command, []string) (any, error) {
			return struct{}{}, nil
		}, render.ReviewStats),
	}
}
