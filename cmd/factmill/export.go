package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/export"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) exportCmd() *cobra.Command {
	var req api.Export
	var format, output string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the graph to a file", Args: noArgs,
		Long: `Write the whole graph as it is at one sequence.

  jsonl    one row a line: documents, chunks, entities, relations, matches, candidates, decisions
  graphml  one XML file of nodes and edges
  csv      F.nodes.csv and F.edges.csv, with the heads that graph databases import in bulk
  cypher   one MERGE statement a line

--canonical (jsonl) writes the same bytes for the same documents, whatever their order: no times, job ids or sequences. The graph
formats leave candidates out unless --candidates. A file appears whole or not at all.`,
		Example: `  factmill export --output graph.jsonl
  factmill export --canonical | sha256sum
  factmill export --format csv --output graph --candidates
  factmill export --format cypher | cypher-shell`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if req.Canonical && format != "jsonl" {
				return usagef("--canonical is JSON lines: it does not go with --format %s", format)
			}
			if req.Canonical && req.Text {
				return usagef("--canonical holds no document texts: leave --text out")
			}
			w, err := export.NewWriter(format, output, c.out, req.Candidates)
			if err != nil {
				return usage(err)
			}
			if info, err := os.Stat(output); output != "" && (err == nil && info.IsDir() || os.IsPathSeparator(output[len(output)-1])) {
				return usagef("--output %s is a directory: name a file in it", output)
			}
			if format == "jsonl" {
				req.Candidates = true
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				return c.export(ctx, s, w, req)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "jsonl", strings.Join(export.Formats, ", "))
	f.StringVarP(&output, "output", "o", "", "`file` to write (default: the standard output)")
	f.BoolVar(&req.Canonical, "canonical", false, "the form that is equal for equal graphs")
	f.BoolVar(&req.Text, "text", false, "with the texts of documents")
	f.BoolVar(&req.Candidates, "candidates", false, "graph formats: with candidates")
	f.Uint64Var(&req.Seq, "as-of", 0, "as of this commit `sequence`")
	return cmd
}

func (c *cli) export(ctx context.Context, s *target.Session, w *export.Writer, req api.Export) error {
	p := render.NewProgress(c.err, false, c.now)
	defer p.Done()
	rows, ended := 0, false
	var join api.ExportRows
	files, err := w.Write(func() ([]json.RawMessage, error) {
		if ended {
			return nil, io.EOF
		}
		raw, err := s.Ask(ctx, "query.export", req)
		if err != nil {
			return nil, err
		}
		r, err := decode[api.ExportReply](raw)
		if err != nil {
			return nil, err
		}
		if r.Next != "" && r.Next == req.Cursor {
			return nil, fmt.Errorf("the export does not move on from cursor %q", r.Next)
		}
		req.Cursor, req.Seq, ended = r.Next, r.Seq, r.Next == ""
		whole := join.Add(r)
		if rows += len(whole); !ended {
			p.Set(int64(rows), int64(r.Total), "exporting rows")
		}
		return whole, nil
	})
	p.Done()
	if err != nil || len(files) == 0 {
		return err
	}
	if c.json {
		return render.Value(c.out, map[string]any{"files": files, "rows": rows, "seq": req.Seq})
	}
	c.say("%s of graph %s at sequence %d: %s", render.Count(rows, "row", "rows"), c.graph, req.Seq, strings.Join(files, ", "))
	return nil
}
