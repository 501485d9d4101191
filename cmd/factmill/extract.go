package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/chunker"
	"github.com/factmill/factmill/services/extractor"
	"github.com/factmill/factmill/services/loader"
)

const extractLong = `Read one file as the pipeline would, cut it into chunks, and show what the extractor finds in it. Nothing is stored: no server and no
data directory are used, so that a schema can be tried on a text before it is put into a graph.

--explain goes sentence by sentence: under each one what was found in it, by which rule and how surely, and what was not kept
and why: what waits for review as a candidate, and what is only counted.

A file of records (CSV, JSON lines) is read as its documents, one after another. - is the standard input.
The exit code is 1 when the file cannot be read as a document.`

// reading is what the command extract works with.
type reading struct {
	schema, format string
	explain        bool
}

func (c *cli) extractCmd() *cobra.Command {
	f := reading{}
	cmd := &cobra.Command{
		SuggestFor: []string{"explain", "try", "parse"},
		Use:        "extract FILE | -", Short: "Show what is found in a file, and by which rule", Args: cobra.ExactArgs(1), Long: extractLong,
		Example: `  factmill extract notes.txt
  factmill extract report.pdf --explain --schema schema.yaml
  echo 'Ada Lovelace worked for Acme Ltd.' | factmill extract - --explain`,
		RunE: c.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return c.extract(ctx, f, args[0])
		}),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.explain, "explain", false, "show sentences, rules, and what was not kept and why")
	fs.StringVar(&f.schema, "schema", "", "read under this schema `file` (default: the default schema)")
	fs.StringVar(&f.format, "format", "", "the file's format, such as markdown (default: by name and content)")
	return cmd
}

// extracted is one document of the file, as --json prints it.
type extracted struct {
	Key    string `json:"key"`
	Title  string `json:"title,omitempty"`
	Format string `json:"format"`
	Chunks int    `json:"chunks"`
	// Note is what of the document could not be read.
	Note *graph.Failure `json:"note,omitempty"`
	// Items are what was found in all sentences. It stands without --explain, in place of the sentences.
	Items []extractor.Item `json:"items,omitempty"`
	// Dropped and Incomplete stand in either case.
	Dropped    []graph.Dropped `json:"dropped,omitempty"`
	Incomplete bool            `json:"incomplete,omitempty"`
	*extractor.Explanation
}

func (c *cli) extract(ctx context.Context, f reading, file string) error {
	sch, set, err := c.readingRules(f)
	if err != nil {
		return err
	}
	name, data, err := c.readInput(ctx, file)
	if err != nil {
		return beforeSending(ctx, err)
	}
	format := f.format
	if file == "-" && format == "" && utf8.Valid(data) {
		format = "text" // as ingest takes it
	}
	cut, err := chunker.NewStage(chunker.Config{}, app.Deps{})
	if err != nil {
		return err
	}
	out := []extracted{}
	err = loader.Read(ctx, loader.FromConfig(c.cfg), name, data, format, func(d loader.Document) error {
		x, err := readDocument(ctx, cut, sch, set, d)
		if err != nil {
			return err
		}
		if c.json {
			if !f.explain {
				x.flatten()
			}
			out = append(out, x)
			return nil
		}
		return c.showExtracted(x, f.explain)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return failf("interrupted")
	case err != nil:
		return unreadable(name, err)
	case c.json:
		return render.Value(c.out, map[string]any{"documents": out})
	}
	return nil
}

// unreadable says why a file is no document, with the code that a job would give.
func unreadable(name string, err error) error {
	var bad *fault.Error
	if errors.As(err, &bad) && bad.Code != "" {
		return &coded{code: exitFailed, err: fmt.Errorf("read %s: %w (%s)", name, err, bad.Code), details: map[string]any{"code": bad.Code}}
	}
	return failf("read %s: %w", name, err)
}

// readingRules are schema and pipeline settings of the call. What is wrong with them is wrong usage.
func (c *cli) readingRules(f reading) (*schema.Schema, settings.Pipeline, error) {
	sch, set := schema.Default(), settings.Default()
	if f.format != "" {
		if err := loader.CheckFormat(f.format); err != nil {
			return nil, set, usagef("--format: %w", err)
		}
	}
	set, err := set.Apply(c.cfg.Pinned())
	if err != nil {
		return nil, set, usage(err)
	}
	if set.Extractor.Mode != extractor.ModeRules {
		return nil, set, usagef("extract reads with extractor.mode %s, not %q: ingest into a graph of its own to try a model", extractor.ModeRules, set.Extractor.Mode)
	}
	if f.schema != "" {
		sch, _, err = readSchema(f.schema)
	}
	return sch, set, err
}

// readInput reads the file, or the standard input. A file that is not there, or is none, is wrong usage.
func (c *cli) readInput(ctx context.Context, file string) (name string, data []byte, err error) {
	if file == "-" {
		data, err := readAll(ctx, c.in, maxStdin+1)
		if err != nil {
			return "", nil, fmt.Errorf("read the standard input: %w", err)
		}
		return file, data, nil
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil, usagef("%s: no such file or directory", file)
	case err != nil:
		return "", nil, failf("%w", err)
	case !info.Mode().IsRegular():
		return "", nil, usagef("%s is no file: extract reads one file", file)
	}
	r, err := os.Open(file)
	if err != nil {
		return "", nil, failf("%w", err)
	}
	defer func() { _ = r.Close() }() // only read
	data, err = io.ReadAll(io.LimitReader(r, maxStdin+1))
	if err != nil {
		return "", nil, failf("%w", err)
	}
	return file, data, nil
}

// readDocument cuts a document and reads its chunks.
func readDocument(ctx context.Context, cut *chunker.Stage, sch *schema.Schema, set settings.Pipeline, d loader.Document) (extracted, error) {
	job := events.Job{Graph: events.DefaultGraph, ID: "extract", Attempt: 1, Settings: set, ChunkerFP: set.ChunkerFingerprint()}
	made, err := cut.Handle(ctx, bus.Delivery{Event: &events.Loaded{
		Job: job, Doc: events.DocRef{Key: d.Meta.Key, Token: fingerprint.Token(d.Meta.Key)}, Meta: d.Meta, Text: d.Text, Markup: d.Markup,
	}})
	if err != nil {
		return extracted{}, err
	}
	x := extracted{Key: d.Meta.Key, Title: d.Meta.Title, Format: d.Meta.Format, Note: d.Note, Explanation: &extractor.Explanation{}}
	for _, e := range made {
		if chunked, ok := e.(*events.Chunked); ok {
			x.Chunks = len(chunked.Chunks)
			if x.Explanation, err = extractor.ExplainChunks(ctx, sch, set, chunked.Title, chunked.Text, chunked.Chunks); err != nil {
				return x, err
			}
		}
	}
	x.Dropped, x.Incomplete = x.Explanation.Dropped, x.Explanation.Incomplete
	return x, nil
}

// flatten takes the items out of their sentences, and leaves out what was only counted.
func (x *extracted) flatten() {
	x.Items = []extractor.Item{}
	for _, s := range x.Sentences {
		for _, it := range s.Items {
			if it.Outcome != extractor.Dropped {
				x.Items = append(x.Items, it)
			}
		}
	}
	x.Explanation = nil
}

// maxItemText is the columns of an item's text in the table.
const maxItemText = 72

func (c *cli) showExtracted(x extracted, explained bool) error {
	head := fmt.Sprintf("== %s (%s, %s)", x.Key, x.Format, render.Count(x.Chunks, "chunk", "chunks"))
	if _, err := fmt.Fprintln(c.out, render.Line(head)); err != nil {
		return err
	}
	if x.Note != nil {
		c.say("%s: %s: %s", x.Key, x.Note.Code, x.Note.Message)
	}
	if x.Incomplete {
		c.say("%s: a limit cut what was found in a chunk", x.Key)
	}
	if explained {
		for _, line := range strings.Split(strings.TrimRight(x.String(), "\n"), "\n") {
			if _, err := fmt.Fprintln(c.out, render.Line(line)); err != nil {
				return err
			}
		}
		return nil
	}
	x.flatten()
	if len(x.Items) == 0 {
		_, err := fmt.Fprintln(c.out, "nothing was found")
		return err
	}
	t := render.NewTable("KIND", "LABEL", "ITEM", ">CONFIDENCE", "OUTCOME")
	for _, it := range x.Items {
		outcome := it.Outcome
		if len(it.Reasons) > 0 {
			outcome += ": " + strings.Join(it.Reasons, ", ")
		}
		t.Row(it.Kind, it.Label, render.Middle(it.What(), maxItemText), fmt.Sprintf("%.2f", it.Confidence), outcome)
	}
	return t.Write(c.out)
}
