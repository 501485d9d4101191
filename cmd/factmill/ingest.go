package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/factmill/factmill/cmd/factmill/internal/ingest"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/loader"
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
	if f.event.Format != "" {
		if err := loader.CheckFormat(f.event.Format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
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
		SuggestFor: []string{"add", "load", "import", "upload"}, Use: "ingest PATH… | -", Short: "Put documents into the graph", Args: cobra.MinimumNArgs(1), Long: ingestLong,
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
		return beforeSending(ctx, err)
	}
	return c.submit(ctx, cmd, f, in)
}

// beforeSending says what an interrupt means before the job was handed over.
func beforeSending(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return failf("interrupted: nothing was ingested")
	}
	return err
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
	err = c.open(ctx, cmd, target.WaitAll, func(ctx context.Context, s *target.Session) error {
		if err := c.rules(ctx, s, sch, source); err != nil {
			return err
		}
		return c.job(ctx, s, f, &in)
	})
	return beforeSending(ctx, err)
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
		return c.accepted(ctx, s, job, in)
	}
	raw, st, err := c.wait(ctx, s, job, sent.Files)
	if err != nil {
		if raw != nil && c.json { // the job that says why the event was refused
			err = errors.Join(render.JSON(c.out, raw), err)
		}
		return err
	}
	in.settle(ctx, s, st)
	return c.finish(raw, st, in)
}

// accepted says that a job was handed over. Nothing works on it once an embedded command has ended.
func (c *cli) accepted(ctx context.Context, s *target.Session, p posted, in *input) error {
	if err := p.check(ctx, s); err != nil {
		return err
	}
	if c.json {
		raw, err := json.Marshal(map[string]any{"job": p.job, "graph": c.graph, "state": api.JobPending, "running": !s.Embedded})
		if err == nil {
			raw, err = in.extend(raw)
		}
		if err != nil {
			return err
		}
		return render.JSON(c.out, raw)
	}
	line := fmt.Sprintf("job %s is accepted; factmill jobs watch %s%s waits for it", p.job, p.job, c.at())
	if s.Embedded {
		line = fmt.Sprintf("job %s is accepted and kept in %s, but nothing works on it when this command has ended: "+
			"factmill jobs watch %s%s goes on with it, and so does factmill up%s", p.job, s.Dir, p.job, c.at(), c.at())
	}
	if _, err := fmt.Fprintln(c.out, render.Line(line)); err != nil {
		return err
	}
	return render.Sent(c.out, in.made, in.unsent())
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
		Store: bucket, Bucket: uploadBucket, Meta: f.event.InputDocument,
		Skip:     func(p ingest.Problem) error { return c.passOver(f, in, []ingest.Problem{p}) },
		Progress: func(n int64) { p.Set(n, total, "reading "+render.Count(len(in.files), "file", "files")) },
	}
	sent, err := up.Send(ctx, in.files)
	if err == nil && sent.Files == 0 {
		err = failf("none of the files can be read")
	}
	return up, sent, err
}
