package main

import (
	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) documentCmd() *cobra.Command {
	var req api.DocumentGet
	cmd := &cobra.Command{
		Use: "document KEY", Short: "Show a document: versions, fingerprints, text, items", Args: cobra.ExactArgs(1),
		Long: `Show a document's state, its versions and what it was read with. --text adds the stored text (to which all offsets
refer), --items every item that was found in it and what became of it.`,
		Example: "  factmill document docs/ada.txt\n  factmill document docs/ada.txt --items\n  factmill document docs/ada.txt --version 1 --text",
		RunE: ask(c, "query.document", func(_ *cobra.Command, args []string) (any, error) {
			req.Key = args[0]
			return req, nil
		}, render.Document),
	}
	f := cmd.Flags()
	f.IntVar(&req.Version, "version", 0, "this version `number` (default: the open one; a deleted document shows what it said only by version)")
	f.BoolVar(&req.Text, "text", false, "with the text")
	f.BoolVar(&req.Items, "items", false, "with every item that was found")
	f.StringVar(&req.Offsets, "offsets", "", "count offsets in `bytes`, runes or utf16")
	return cmd
}
