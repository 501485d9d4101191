package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer"
)

// verifyTimeout where nobody chose one: every key of the store is read.
const verifyTimeout = time.Hour

// sameFormat refuses a data directory of another format where the command would open it: verifying is no reason to bring it forward, which
// cannot be taken back.
func (c *cli) sameFormat() error {
	if c.cfg.Get("nats.url") != "" && c.cfg.Source("data") != "flag" {
		return nil
	}
	dir, err := target.Dir(c.cfg, c.getenv)
	if err != nil {
		return usage(err)
	}
	cfg := committer.FromConfig(c.cfg)
	cfg.Dir = filepath.Join(dir, "store")
	format, err := committer.FormatOf(cfg)
	if errors.Is(err, committer.ErrInUse) || format == 0 && err == nil {
		return nil // whoever works on it brought it forward
	}
	if err != nil {
		return err
	}
	if format < committer.StoreFormat {
		return failf("%s has format %d, this program verifies format %d: make a copy, and 'factmill up --data %s' brings it forward; as it is, the version that wrote it verifies it", cfg.Dir, format, committer.StoreFormat, dir)
	}
	return nil
}

// there refuses a data directory that does not exist where the command would make it: of nothing nothing can be checked or kept.
func (c *cli) there() error {
	if f := c.nothing(); f != nil {
		return usagef("%s: name the data directory with --data, or running services with --nats", f.What)
	}
	return nil
}

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
			if err := cmp.Or(c.checkPlace(), c.there(), c.sameFormat()); err != nil {
				return err
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
