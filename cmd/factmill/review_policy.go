package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) reviewPolicyCmd() *cobra.Command {
	var file string
	var samples int
	cmd := &cobra.Command{
		Use: "policy [--try FILE]", Short: "Say what the review policy would do about all that waits", Args: noArgs,
		Long: `Go over everything that waits and say what the conditions of the review section would do: how many candidates each would reject, approve or
keep for people, with a few of them; what waits for people anyway, and why; which conditions fit nothing. Nothing changes. Without
--try it is the policy of the active schema, which decides by itself: what it still would do is then nothing, or what it cannot.`,
		Example: "  factmill review policy\n  factmill review policy --try schema.yaml --samples 20\n  factmill review policy --try schema.yaml --json",
		RunE: ask(c, "review.policy", func(cmd *cobra.Command, _ []string) (any, error) {
			if !cmd.Flags().Changed("timeout") {
				c.timeout = verifyTimeout // the whole queue is read
			}
			var req api.ReviewPolicy
			if cmd.Flags().Changed("samples") {
				req.Limit = &samples
			}
			if file == "" {
				return req, nil
			}
			s, _, err := readSchema(file)
			if err != nil {
				return nil, err
			}
			req.Schema, err = json.Marshal(string(s.Marshal()))
			return req, err
		}, render.Policy),
	}
	cmd.Flags().StringVar(&file, "try", "", "the policy of this schema `file`, and what it extends, instead of the active one")
	cmd.Flags().IntVar(&samples, "samples", 5, "show this many candidates of each condition")
	return cmd
}
