package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

func (c *cli) reviewSearchCmd() *cobra.Command {
	var kind string
	var limit int
	cmd := &cobra.Command{
		Use: "search WORDS…", Short: "Find candidates by words", Args: cobra.MinimumNArgs(1),
		Long: `Find candidates, pending and approved, by the words in their labels and texts: those with most of the words first, then the most seen
ones. Words of over two characters count, whole, in any case and with or without accents. What is found is no fact: factmill search
looks for those.`,
		Example: "  factmill review search larch spectrograph\n  factmill review search 'works for' --kind relation --limit 50 --json",
		RunE: ask(c, "query.candidates", func(_ *cobra.Command, args []string) (any, error) {
			req := api.SearchCandidates{Q: strings.Join(args, " "), Kind: kind, Limit: &limit}
			if limit < 1 || limit > api.MaxCandidateHits {
				return nil, fmt.Errorf("--limit is %d: it must be between 1 and %d", limit, api.MaxCandidateHits)
			}
			switch kind {
			case "", graph.KindEntity, graph.KindRelation, graph.KindProperty:
				return req, nil
			}
			return nil, fmt.Errorf("--kind is %q: it must be entity, relation or property", kind)
		}, render.CandidateHits),
	}
	cmd.Flags().StringVar(&kind, "kind", "", "only entity, relation or property")
	cmd.Flags().IntVar(&limit, "limit", api.DefaultCandidateHits, "results, at most 100")
	return cmd
}
