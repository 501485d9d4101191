package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

func (c *cli) neighborsCmd() *cobra.Command {
	var req api.Neighbors
	cmd := &cobra.Command{
		Use: "neighbors ID | --type T NAME", Short: "Show what stands around an entity", Args: cobra.MinimumNArgs(1),
		Long:    "Show the entities and relations up to --depth steps around an entity, each relation with a sentence that says so.",
		Example: "  factmill neighbors --type Person 'Ada Lovelace'\n  factmill neighbors 'Acme Ltd' --depth 2 --relation WORKS_FOR --direction in",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			var err error
			if req.ID, req.Name, err = oneEntity(req.Type, args); err != nil {
				return usage(err)
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "query.neighbors", req)
				if err != nil {
					return explain(ctx, s, err, labels.Of(schema.KindEntity, req.Type))
				}
				return replyAnd(c, raw, render.Subgraph, func(r api.Subgraph) {
					c.whyEmpty(ctx, s, len(r.Edges), labels.Of(schema.KindRelation, req.RelationTypes...))
				})
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.Type, "type", "", "the entity's `type`")
	f.IntVar(&req.Depth, "depth", 0, "steps to go (default 1, at most 5)")
	f.StringArrayVar(&req.RelationTypes, "relation", nil, "only relations of this `type`; repeats")
	f.StringVar(&req.Direction, "direction", "", "out, in or both (default both)")
	f.IntVar(&req.Limit, "limit", 0, "relations shown (default 100, at most 1000)")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
