package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// reembedTimeout where nobody chose one: every name and chunk is embedded.
const reembedTimeout = 6 * time.Hour

func (c *cli) reembedCmd() *cobra.Command {
	var status bool
	cmd := &cobra.Command{
		Use: "reembed", Short: "Make all vectors anew", Args: noArgs,
		Long: `Make the vectors of all entity names and chunks anew, by the embedder that the graph's settings name, and compare all names
anew. Needed after another embedder was put (settings put embedder=…), or when a model was pulled anew: vectors of two embedders cannot be
compared, so search by vector and linking wait for this. What people decided about links stays. --status says where the vectors are and
changes nothing.`,
		Example: "  factmill settings put embedder=ollama ollama.embed_model=all-minilm\n  factmill reembed\n  factmill reembed --status --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("timeout") && !status {
				c.timeout = reembedTimeout
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				verb := "vectors.reembed"
				if status {
					verb = "vectors.status"
				}
				raw, err := s.Ask(ctx, verb, struct{}{})
				if err != nil {
					return err
				}
				if c.json {
					return render.JSON(c.out, raw)
				}
				r, err := decode[api.VectorsReply](raw)
				if err != nil {
					return err
				}
				return renderVectors(c.out, r)
			})
		}),
	}
	cmd.Flags().BoolVar(&status, "status", false, "say where the vectors are, and do nothing")
	return cmd
}

func renderVectors(w io.Writer, r api.VectorsReply) error {
	_, err := fmt.Fprintf(w, "%s: %s by %s (%d numbers each, %.1f MiB in memory), up to commit %d of %d\n", render.Line(r.Graph),
		render.Count(r.Vectors, "vector", "vectors"), render.Line(r.Embedder), r.Size, float64(r.Memory)/(1<<20), r.Position, r.Seq)
	if err == nil && r.Copy != nil {
		_, err = fmt.Fprintf(w, "copy in Milvus: up to commit %d, %s behind\n", r.Copy.Position, render.Count(int(r.Copy.Behind), "commit", "commits"))
		if err == nil && r.Copy.Error != "" {
			_, err = fmt.Fprintf(w, "  %s\n", render.Line(r.Copy.Error))
		}
	}
	return err
}
