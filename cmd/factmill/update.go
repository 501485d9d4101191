package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/pkg/events"
)

func (c *cli) updateCmd() *cobra.Command {
	f := &feed{}
	cmd := &cobra.Command{
		Use: "update KEY FILE", Short: "Put a new version of one document into the graph", Args: cobra.ExactArgs(2),
		Long: `Replace the text of the document KEY by the file (- is the standard input), and wait until it is in the graph. Facts that
only the old version stated go; what did not change is left alone.`,
		Example: "  factmill update docs/ada.txt ada-new.txt\n  factmill update ada - < ada-new.txt",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("the key is empty")
			}
			if info, err := os.Stat(args[1]); err == nil && info.IsDir() {
				return usagef("update takes one file, and %s is a directory: factmill ingest %s puts all of its files in", args[1], quoted(args[1]))
			}
			f.event.Op, f.event.Key = events.OpUpdate, args[0]
			return c.feed(ctx, cmd, f, args[1:])
		}),
	}
	f.flags(cmd.Flags(), true)
	return cmd
}
