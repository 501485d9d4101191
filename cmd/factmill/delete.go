package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/pkg/events"
)

func (c *cli) deleteCmd() *cobra.Command {
	f := &feed{}
	cmd := &cobra.Command{
		SuggestFor: []string{"remove", "rm"}, Use: "delete KEY…", Short: "Take documents out of the graph", Args: cobra.MinimumNArgs(1),
		Long: `Delete documents by key as one job, and wait for its end. Facts that no other document states go with them. A key that is
not known is no error: it counts as unchanged.`,
		Example: "  factmill delete docs/ada.txt\n  factmill delete a b c --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			f.event.Op = events.OpDelete
			if len(args) == 1 {
				f.event.Key = args[0]
			} else {
				for _, k := range args {
					f.event.Documents = append(f.event.Documents, events.InputDocument{Key: k})
				}
			}
			return c.submit(ctx, cmd, f, input{})
		}),
	}
	f.flags(cmd.Flags(), false)
	return cmd
}
