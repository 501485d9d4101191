package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) pathCmd() *cobra.Command {
	var req api.Path
	cmd := &cobra.Command{
		Use: "path FROM TO", Short: "Show how two entities are connected", Args: cobra.ExactArgs(2),
		Long: `Show a shortest path of relations between two entities, each relation with a sentence that says so.

An end is an id, "Type:name", or a name that only one type has.`,
		Example: "  factmill path 'Person:Ada Lovelace' 'Organization:Acme Ltd'\n  factmill path Ada 'Acme Ltd' --max-depth 6",
		RunE: ask(c, "query.path", func(_ *cobra.Command, args []string) (any, error) {
			req.From, req.To = args[0], args[1]
			return req, nil
		}, func(w io.Writer, r api.Subgraph) error {
			if len(r.Nodes) == 0 {
				_, err := fmt.Fprintln(w, "no path within that many steps: try a larger --max-depth")
				return err
			}
			return render.Subgraph(w, r)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&req.MaxDepth, "max-depth", 0, "steps to go (default 4, at most 8)")
	f.StringArrayVar(&req.RelationTypes, "relation", nil, "only relations of this `type`; repeats")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
