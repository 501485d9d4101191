package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
)

func (c *cli) configCmd() *cobra.Command {
	return &cobra.Command{
		Use: "config", Short: "Print the effective configuration", Args: noArgs,
		Long: `Print every configuration value, and whether it comes from its default, the file, the environment or a flag.

A value named a.b is --a.b as a flag, FACTMILL_A_B in the environment, and "a: {b: …}" in the file. Secrets are not shown.`,
		Example: "  factmill config\n  FACTMILL_CHUNKER_SIZE=300 factmill config --extractor.mode hybrid --json",
		RunE: c.do(func(_ context.Context, _ *cobra.Command, _ []string) error {
			if c.json {
				return render.Value(c.out, c.cfg.Map())
			}
			return c.cfg.Print(c.out)
		}),
	}
}
