package main

import (
	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
)

func (c *cli) statsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Count what the graph holds", Args: noArgs,
		Long:    "Count documents, entities, relations and candidates of the graph, by type, at its current sequence.",
		Example: "  factmill stats\n  factmill stats --graph papers --json",
		RunE: ask(c, "query.stats", func(*cobra.Command, []string) (any, error) {
			return struct{}{}, nil
		}, render.Stats),
	}
}
