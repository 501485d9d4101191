package main

import (
	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) evidenceCmd() *cobra.Command {
	var req api.EvidenceGet
	cmd := &cobra.Command{
		Use: "evidence ID", Short: "Show every sentence behind an entity or relation", Args: cobra.ExactArgs(1),
		Long:    "Show all evidence of an entity or relation: the whole quote, its document, where it stands in the text, and how sure it is.",
		Example: "  factmill evidence 5f1c0c0e-…\n  factmill evidence 5f1c0c0e-… --history --json",
		RunE: ask(c, "query.evidence", func(_ *cobra.Command, args []string) (any, error) {
			req.ID = args[0]
			return req, nil
		}, render.Evidence),
	}
	f := cmd.Flags()
	f.BoolVar(&req.History, "history", false, "also evidence of closed versions")
	f.IntVar(&req.Limit, "limit", 0, "pieces a page")
	f.StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	f.Uint64Var(&req.AsOf, "as-of", 0, "as of this commit `sequence`")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
