package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/factmill/factmill/cmd/factmill/internal/ingest"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// feed is the flags of commands that run a job.
type feed struct {
	schema               string
	event                events.Ingest
	noWait, noCandidates bool
	metadata, scope      []string
}

// flags of a job; documents adds those that describe documents.
func (f *feed) flags(fs *pflag.FlagSet, documents bool) {
	fs.SortFlags = false
	e := &f.event
	if documents {
		fs.StringVar(&f.schema, "schema", "", "make this schema `file` the active one first")
		fs.BoolVar(&e.Force, "force", false, "read again although nothing changed")
		fs.StringVar(&e.Title, "title", "", "the document's title")
		fs.StringVar(&e.Format, "format", "", "the documents' format, such as markdown (default: by name and content)")
		fs.StringVar(&e.PublishedAt, "published-at", "", "`date` of publication")
		fs.StringVar(&e.ContentDate, "content-date", "", "`date` that the content speaks of")
		fs.StringVar(&e.SourceUpdatedAt, "source-updated-at", "", "`time` at which the source changed: orders versions of a key")
		fs.StringArrayVar(&f.scope, "scope", nil, "scope `label`; repeats")
		fs.StringArrayVar(&f.metadata, "metadata", nil, "metadata as `name=value`; repeats")
		fs.BoolVar(&f.noCandidates, "no-candidates", false, "count what the schema keeps out, but store no candidates")
	}
	fs.StringVar(&e.ErrorPolicy, "error-policy", "", "what a failing document does: raise (default: the job rolls back), skip or quarantine")
	fs.StringVar(&e.Atomic, "atomic", "", "job (default): all or nothing; document: each commits on its own")
	fs.BoolVar(&e.Hold, "hold", false, "stop before the commit until a person has looked")
	fs.StringVar(&e.Job, "job", "", "the job's `id` (default: j and a number)")
	fs.StringVar(&e.Deadline, "deadline", "", "roll the job back when it has not ended after this `duration`")
	fs.BoolVar(&e.Supersede, "supersede", false, "earlier jobs that have not committed give up these documents")
	fs.BoolVar(&f.noWait, "no-wait", false, "return when the job is accepted")
}

// prepare checks what can be checked before anything is reached.
func (f *feed) prepare() error {
	m, err := pairs(f.metadata)
	if err != nil {
		return fmt.Errorf("--metadata: %w", err)
	}
	f.event.Metadata = m
	f.event.Scope = graph.Scope(f.scope)
	if f.noCandidates {
		no := false
		f.event.Candidates = &no
	}
	return nil
}

const ingestLong = `Read files here, send their contents to where the graph lives, and wait until they are in it.

A path is a file, a directory (all files below it, sorted) or a glob; - reads one text from the standard input. A document's key
is its cleaned path as walked from the argument; a text without --key gets one made of its content. A key that is known already
gets a new version only when something changed.

The job is all or nothing unless --atomic document. The exit code is 1 when it was rolled back, 4 when it is done without some
of the documents.`

func (c *cli) ingestCmd() *cobra.Command {
	f := &feed{}
	cmd := &cobra.Command{
		Use: "ingest PATH… | -", Short: "Put documents into the graph", Args: cobra.MinimumNArgs(1), Long: ingestLong,
		Example: `  factmill ingest docs/
  factmill ingest 'reports/**/*.md' notes.txt --error-policy skip --scope public
  echo 'Ada Lovelace worked for Acme Ltd.' | factmill ingest - --key ada
  factmill ingest docs/ --schema schema.yaml --nats nats://graph.example:4222 --creds me.creds`,
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return c.feed(ctx, cmd, f, args)
		}),
	}
	cmd.Flags().StringVar(&f.event.Key, "key", "", "the document's `key`; one document only")
	f.flags(cmd.Flags(), true)
	return cmd
}

// feed ingests the arguments as one job.
func (c *cli) feed(ctx context.Context, cmd *cobra.Command, f *feed, args []string) error {
	if err := f.prepare(); err != nil {
		return usage(err)
	}
	in, err := c.collect(ctx, f, args)
	if err != nil {
		return err
	}
	return c.submit(ctx, cmd, f, in)
}

// input is what a job reads: one inline text, files, or (for deletes) nothing but the event.
type input struct {
	text    *string
	files   []ingest.File
	skipped int
}

// collect reads the arguments: the standard input or files.
func (c *cli) collect(ctx context.Context, f *feed, args []string) (input, error) {
	if len(args) == 1 && args[0] == "-" {
		return c.stdin(ctx, f)
	}
	for _, a := range args {
		if a == "-" {
			return input{}, usagef("- is the standard input: it does not go with other paths")
		}
	}
	files, problems, err := ingest.Collect(args)
	if err != nil {
		return input{}, usage(err)
	}
	in := input{files: files}
	for _, p := range problems {
		if err := c.skip(f, &in)(p); err != nil {
			return in, err
		}
	}
	if len(files) == 0 {
		return in, failf("none of the files can be read")
	}
	if len(files) > 1 && (f.event.Key != "" || f.event.Title != "") {
		return in, usagef("--key and --title name one document, but the paths have %d files", len(files))
	}
	return in, nil
}

// skip passes over a file that cannot be read where the error policy allows it.
func (c *cli) skip(f *feed, in *input) func(ingest.Problem) error {
	return func(p ingest.Problem) error {
		if f.event.ErrorPolicy == "" || f.event.ErrorPolicy == events.PolicyRaise {
			return failf("%w: nothing was ingested; --error-policy skip goes on without such files", p)
		}
		in.skipped++
		c.say("skipped %v", p)
		return nil
	}
}

// submit runs a job: schema and settings first, then upload, event and wait.
func (c *cli) submit(ctx context.Context, cmd *cobra.Command, f *feed, in input) error {
	var (
		sch    *schema.Schema
		source []byte
		err    error
	)
	if f.schema != "" {
		if sch, source, err = readSchema(f.schema); err != nil {
			return err
		}
	}
	if err := checkEvent(f.event, in); err != nil {
		return err
	}
	return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
		if err := c.rules(ctx, s, sch, source); err != nil {
			return err
		}
		return c.job(ctx, s, f, &in)
	})
}

// rules makes schema and settings of the call the graph's, and says what that changed.
func (c *cli) rules(ctx context.Context, s *target.Session, sch *schema.Schema, source []byte) error {
	if sch != nil {
		_, r, err := c.putParsed(ctx, s, sch, source)
		if err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		if r.Changed {
			c.say("graph %s: schema %s %s is active now (revision %d)", c.graph, r.Name, r.Version, r.Revision)
		}
	}
	return c.pin(ctx, s)
}

// job uploads, publishes the document event and waits for its end.
func (c *cli) job(ctx context.Context, s *target.Session, f *feed, in *input) error {
	up, sent, err := c.upload(ctx, s, f, in)
	if err != nil {
		return err
	}
	e := f.event
	if in.text != nil {
		e.Text = *in.text
	} else if in.files != nil {
		e.InputDocument, e.Sources = events.InputDocument{}, sent.Sources(up.Bucket)
	}
	job, err := publish(ctx, s, e)
	if err != nil {
		return errors.Join(err, up.Remove(ctx, sent))
	}
	if f.noWait {
		return c.accepted(job)
	}
	raw, st, err := c.wait(ctx, s, job, sent.Files)
	if err != nil {
		return err
	}
	if err := c.finish(raw, st); err != nil || in.skipped == 0 {
		return err
	}
	return &coded{exitPartial, fmt.Errorf("job %s is done, but %s could not be read here", job, render.Count(in.skipped, "file", "files"))}
}

func (c *cli) accepted(job string) error {
	if c.json {
		return render.Value(c.out, map[string]string{"job": job, "graph": c.graph, "state": "pending"})
	}
	_, err := fmt.Fprintf(c.out, "job %s is accepted: factmill jobs watch %s\n", render.Line(job), render.Line(job))
	return err
}

func (c *cli) upload(ctx context.Context, s *target.Session, f *feed, in *input) (ingest.Upload, ingest.Sent, error) {
	up := ingest.Upload{}
	if in.files == nil {
		return up, ingest.Sent{}, nil
	}
	bucket, err := uploads(ctx, s)
	if err != nil {
		return up, ingest.Sent{}, err
	}
	total := int64(0)
	for _, x := range in.files {
		total += x.Size
	}
	p := render.NewProgress(c.err, true, c.now)
	defer p.Done()
	up = ingest.Upload{
		Store: bucket, Bucket: uploadBucket, Meta: f.event.InputDocument, Skip: c.skip(f, in),
		Progress: func(n int64) { p.Set(n, total, "reading "+render.Count(len(in.files), "file", "files")) },
	}
	sent, err := up.Send(ctx, in.files)
	if err == nil && sent.Files == 0 {
		err = failf("none of the files can be read")
	}
	return up, sent, err
}

const (
	// inlineText is the largest text that travels in the document event itself: with its JSON escapes it must fit a message.
	inlineText = 128 << 10
	maxStdin   = bundle.MaxEntry
)

// stdin reads one text from the standard input.
func (c *cli) stdin(ctx context.Context, f *feed) (input, error) {
	b, err := readAll(ctx, c.in, maxStdin+1)
	if err != nil {
		return input{}, failf("read the standard input: %w", err)
	}
	if len(b) > maxStdin {
		return input{}, failf("the standard input has more than %d bytes, which one document may have: split it", maxStdin)
	}
	return stdinInput(f, b)
}

func readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	type read struct {
		b   []byte
		err error
	}
	done := make(chan read, 1)
	go func() { // a terminal cannot be interrupted while it is read; the process ends with it
		b, err := io.ReadAll(io.LimitReader(r, limit))
		done <- read{b, err}
	}()
	select {
	case got := <-done:
		return got.b, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
