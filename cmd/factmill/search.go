package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

func (c *cli) searchCmd() *cobra.Command {
	var req api.Search
	var metadata []string
	cmd := &cobra.Command{
		SuggestFor: []string{"find", "query", "grep"}, Use: "search QUERY", Short: "Search entities, relations and texts", Args: cobra.MinimumNArgs(1),
		Long:    "Search names and texts, best first: by their words, by the vectors of names and texts (--mode vector; misspelt names, and with a model what means the same), or by both\n(--mode hybrid, which does without the vectors when there are none, and says so). Unreviewed candidates are never among the hits. Entities that are linked are one hit; --raw shows each.",
		Example: "  factmill search 'telescope mirror'\n  factmill search ada --kinds entity --label Person\n  factmill search 'ada lovelase' --mode hybrid\n  factmill search grant --scope public --metadata year=2024 --limit 20\n  factmill search mirror --relation MADE_BY --since 2019 --until 2021-06",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if req.Q = strings.Join(args, " "); strings.TrimSpace(req.Q) == "" {
				return usagef("give at least one word to search for")
			}
			m, err := pairs(metadata)
			if err != nil {
				return usage(err)
			}
			req.Filters.Metadata = m
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "query.search", req)
				if err != nil {
					return err
				}
				colour := render.Terminal(c.out) && c.getenv("NO_COLOR") == "" && (req.Offsets == "" || req.Offsets == "bytes")
				show := func(w io.Writer, r api.SearchReply) error { return render.Hits(w, r, colour) }
				return replyAnd(c, raw, show, func(r api.SearchReply) {
					if !c.json { // it is in the reply
						for _, f := range r.Failed {
							c.say("not searched by mode %s: %s (%s)", f.Method, f.Message, f.Code)
						}
					}
					names := labels.Of(schema.KindRelation, req.Filters.RelationTypes...)
					for _, l := range req.Filters.Labels {
						names = append(names, labels.Named{Label: l})
					}
					c.whyEmpty(ctx, s, len(r.Hits), names)
				})
			})
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&req.Kinds, "kinds", nil, "entity, relation, chunk; comma separated")
	f.StringArrayVar(&req.Filters.Labels, "label", nil, "only of this `type`, or with something of it; repeats")
	f.StringArrayVar(&req.Filters.RelationTypes, "relation", nil, "only relations of this `type`, and what states them or stands in them; repeats")
	f.StringArrayVar(&req.Filters.Documents, "document", nil, "only from the document with this `key`; repeats")
	f.StringArrayVar(&req.Filters.Scope, "scope", nil, "only from documents with this scope `label`; repeats")
	f.StringArrayVar(&metadata, "metadata", nil, "only from documents with this metadata, as `name=value`; repeats")
	f.StringVar(&req.Filters.Since, "since", "", "only from documents dated on or after this `date` (2024, 2024-05, 2024-05-31, or a time)")
	f.StringVar(&req.Filters.Until, "until", "", "only from documents dated on or before this `date`")
	f.BoolVar(&req.Raw, "raw", false, "each entity for itself, whatever is linked to it")
	f.StringVar(&req.Mode, "mode", "", "lexical (default), vector or hybrid")
	f.IntVar(&req.Limit, "limit", 0, "hits shown (default 10, at most 100)")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
