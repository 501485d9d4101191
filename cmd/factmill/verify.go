package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// verifyTimeout where nobody chose one: every key of the store is read.
const verifyTimeout = time.Hour

func (c *cli) verifyCmd() *cobra.Command {
	var req api.Verify
	cmd := &cobra.Command{
		Use: "verify", Short: "Check every key of the store", Args: noArgs,
		Long: `Check that no key of the store refers to a missing one, that every quote slices out of its text, that every fact equals
what its documents state, and that the counts are right. --schema also lists missing required values and relations beyond
their cardinality. Problems end with exit code 1.`,
		Example: "  factmill verify\n  factmill verify --schema --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("timeout") {
				c.timeout = verifyTimeout
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "query.verify", req)
				if err != nil {
					return err
				}
				r, err := decode[api.VerifyReply](raw)
				if err != nil {
					return err
				}
				if c.json {
					err = render.JSON(c.out, raw)
				} else {
					err = render.Verify(c.out, r)
				}
				if err == nil && r.Total > 0 {
					err = failf("the store of graph %s has %s", c.graph, render.Count(r.Total, "problem", "problems"))
				}
				return err
			})
		}),
	}
	cmd.Flags().BoolVar(&req.Schema, "schema", false, "also check required values and cardinalities")
	return cmd
}
