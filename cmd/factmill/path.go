package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// typesOf are the types of ends that are written "Type:name".
func typesOf(ends []string) []labels.Named {
	var out []labels.Named
	for _, e := range ends {
		if label, _, ok := strings.Cut(e, ":"); ok {
			out = append(out, labels.Named{Kind: schema.KindEntity, Label: label})
		}
	}
	return out
}

func showPath(w io.Writer, r api.Subgraph) error {
	if len(r.Nodes) == 0 {
		_, err := fmt.Fprintln(w, "no path within that many steps: try a larger --max-depth")
		return err
	}
	return render.Subgraph(w, r)
}

func (c *cli) pathCmd() *cobra.Command {
	var req api.Path
	cmd := &cobra.Command{
		Use: "path FROM TO", Short: "Show how two entities are connected", Args: cobra.ExactArgs(2),
		Long: `Show a shortest path of relations between two entities, each relation with a sentence that says so.

An end is an id, "Type:name", or a name that only one type has.`,
		Example: "  factmill path 'Person:Ada Lovelace' 'Organization:Acme Ltd'\n  factmill path Ada 'Acme Ltd' --max-depth 6",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req.From, req.To = args[0], args[1]
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "query.path", req)
				if err != nil {
					return explain(ctx, s, err, typesOf(args))
				}
				return replyAnd(c, raw, showPath, func(r api.Subgraph) {
					c.whyEmpty(ctx, s, len(r.Nodes), labels.Of(schema.KindRelation, req.RelationTypes...))
				})
			})
		}),
	}
	f := cmd.Flags()
	f.IntVar(&req.MaxDepth, "max-depth", 0, "steps to go (default 4, at most 8)")
	f.StringArrayVar(&req.RelationTypes, "relation", nil, "only relations of this `type`; repeats")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
