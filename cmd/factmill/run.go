package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/pkg/bus"
)

func (c *cli) runCmd() *cobra.Command {
	f := &feed{}
	cmd := &cobra.Command{
		Use: "run PATH…", Short: "Read documents once, with everything embedded", Args: cobra.MinimumNArgs(1),
		Long: `Start everything in this process, put the documents into the graph, print what was done, and exit. The graph stays in the
data directory: look into it with the commands that ask, and the same --data. When an 'up' works on the default data directory,
the documents go there.

Paths, keys and exit codes are those of ingest.`,
		Example: `  factmill run docs/ --schema schema.yaml
  factmill run docs/ --schema schema.yaml --data ./graph && factmill search telescope --data ./graph
  factmill run corpus/ --error-policy skip --atomic document --json`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if c.cfg.Source("nats.url") == "flag" {
				return usagef("run works embedded: use ingest to work at %s", bus.Redacted(c.cfg.Get("nats.url")))
			}
			return c.feed(ctx, cmd, f, args)
		}),
	}
	cmd.Flags().StringVar(&f.event.Key, "key", "", "the document's `key`; one document only")
	f.flags(cmd.Flags(), true)
	return cmd
}
