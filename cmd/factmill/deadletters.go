package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func (c *cli) deadLettersCmd() *cobra.Command {
	return parent("dead-letters", "Look at what could not be handled, replay or drop it",
		`A message that no service could handle becomes a dead letter; what a job under --error-policy quarantine put aside becomes a
quarantine record. Both wait here, with the reason and the bytes, until somebody replays or drops them.`,
		c.deadListCmd(), c.deadShowCmd(), c.deadReplayCmd(), c.deadDropCmd())
}

func deadFlags(f *pflag.FlagSet, q *api.DeadQuery) {
	f.StringVar(&q.Kind, "kind", "", "only dead letters or quarantine records: dead, quarantine")
	f.StringVar(&q.Stage, "stage", "", "only those of this `service`")
	f.StringVar(&q.Job, "job", "", "only those of this job's `id`")
	f.StringVar(&q.Code, "code", "", "only those with this error `code`")
}

func checkKind(q api.DeadQuery) error {
	switch q.Kind {
	case "", api.DeadKind, api.QuarantineKind:
		return nil
	}
	return fmt.Errorf("--kind is %q: it must be dead or quarantine", q.Kind)
}

func (c *cli) deadListCmd() *cobra.Command {
	var req api.DeadList
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters and quarantine records, newest first", Args: noArgs,
		Long:    "List dead letters and quarantine records of the graph, newest first, with the reason and the state of their job.",
		Example: "  factmill dead-letters list\n  factmill dead-letters list --kind quarantine --job nightly --json",
		RunE: ask(c, "dead-letters.list", func(*cobra.Command, []string) (any, error) {
			return req, checkKind(req.DeadQuery)
		}, func(w io.Writer, r api.DeadListReply) error {
			if len(r.Letters) == 0 && (req.DeadQuery != api.DeadQuery{} || req.Cursor != "") {
				_, err := fmt.Fprintln(w, "nothing matches")
				return err
			}
			return render.DeadLetters(w, r)
		}),
	}
	deadFlags(cmd.Flags(), &req.DeadQuery)
	cmd.Flags().IntVar(&req.Limit, "limit", 0, "letters a page (default 50)")
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

func (c *cli) deadShowCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one with its message", Args: cobra.ExactArgs(1),
		Long: `Show everything that is known of a dead letter or quarantine record, with its message as JSON. --output writes the document
itself into a new file: an uploaded file as it was sent, a text as it was read.`,
		Example: "  factmill dead-letters show 12\n  factmill dead-letters show q17-1 --output broken.csv",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "dead-letters.show", api.DeadShow{ID: args[0], Content: output != ""})
				if err != nil {
					return err
				}
				if output != "" {
					return c.saveDocument(ctx, s, raw, output)
				}
				return reply(c, raw, render.DeadLetter)
			})
		}),
	}
	cmd.Flags().StringVar(&output, "output", "", "write the document into this new `file`")
	return cmd
}

// saveDocument writes what the letter's message holds of its document.
func (c *cli) saveDocument(ctx context.Context, s *target.Session, raw json.RawMessage, output string) error {
	r, err := decode[api.DeadShowReply](raw)
	if err != nil {
		return err
	}
	body := r.Content
	if r.Letter.Body != "" {
		if body, err = s.Conn.GetBody(ctx, s.Graph, r.Letter.Body, 0); err != nil {
			return err
		}
	}
	if body == nil {
		return failf("%s: its message cannot be had: %s", r.Letter.ID, r.NoMessage)
	}
	data, where := documentOf(r.Letter.Event, body)
	if where != "" {
		return failf("%s names its document, it does not hold it: %s", r.Letter.ID, where)
	}
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s exists already: name a new file", output)
	}
	if err != nil {
		return failf("write the document: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return failf("write the document: %w", err)
	}
	if c.json {
		return render.Value(c.out, map[string]any{"id": r.Letter.ID, "key": r.Letter.Key, "output": output, "bytes": len(data)})
	}
	_, err = fmt.Fprintf(c.out, "%s: %s of %s\n", output, render.Bytes(int64(len(data))), render.Line(r.Letter.Key))
	return err
}

// documentOf takes the document out of a message; a message that is no document's goes whole. where is set when the message
// only says where the document lies.
func documentOf(kind string, body []byte) (data []byte, where string) {
	var e struct {
		Text   *string       `json:"text"`
		Source events.Source `json:"source"`
	}
	switch kind {
	case events.KindFound, events.KindLoaded, events.KindChunked, events.KindStaged, events.KindIngest:
		if json.Unmarshal(body, &e) != nil {
			return body, ""
		}
	default:
		return body, ""
	}
	src := e.Source
	switch {
	case e.Text != nil:
		return []byte(*e.Text), ""
	case src.Path != "":
		return nil, "the file " + src.Path + ", as the loader sees it"
	case src.Object != "":
		return nil, "the object " + src.Object
	case src.Document != nil:
		return []byte(src.Document.Text), ""
	case src.Token != "" && src.Delete == "" && src.Only == "" && !src.Relist:
		return src.Data, ""
	}
	return body, ""
}

// chosen is which letters a command is about.
type chosen struct {
	api.DeadQuery
	all bool
}

func (x *chosen) flags(f *pflag.FlagSet, verb string) {
	f.BoolVar(&x.all, "all", false, verb+" all that the filters choose")
	deadFlags(f, &x.DeadQuery)
}

func (x *chosen) check(ids []string) error {
	switch {
	case x.all && len(ids) > 0:
		return fmt.Errorf("--all does not go with ids")
	case !x.all && len(ids) == 0:
		return fmt.Errorf("name ids, or --all with or without filters")
	case !x.all && x.DeadQuery != (api.DeadQuery{}):
		return fmt.Errorf("filters choose among --all: ids stand for themselves")
	}
	return checkKind(x.DeadQuery)
}

// maxIDs of one request.
const maxIDs = 500

// requests splits what is asked for into requests and hands each reply to take, which returns where to go on.
func (x *chosen) requests(ctx context.Context, s *target.Session, verb string, ids []string, take func(raw json.RawMessage) (next string, err error)) error {
	req := api.DeadAct{Query: &x.DeadQuery}
	for {
		if !x.all {
			n := min(len(ids), maxIDs)
			req = api.DeadAct{IDs: ids[:n]}
			ids = ids[n:]
		}
		raw, err := s.Ask(ctx, "dead-letters."+verb, req)
		if err != nil {
			return err
		}
		next, err := take(raw)
		if err != nil {
			return err
		}
		if x.all && next == "" || !x.all && len(ids) == 0 {
			return nil
		}
		req.Cursor = next
	}
}

func (c *cli) deadDropCmd() *cobra.Command {
	var x chosen
	cmd := &cobra.Command{
		Use: "drop ID… | --all", Short: "Remove dead letters and quarantine records for good",
		Long: `Remove dead letters and quarantine records, with the bytes that they keep. Nothing else remembers them: look first, and ingest
what is needed.`,
		Example: "  factmill dead-letters drop 12 q17-1\n  factmill dead-letters drop --all --stage chunker --code undecodable",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := x.check(args); err != nil {
				return usage(err)
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				sum := api.DeadDropReply{Dropped: []string{}, Skipped: map[string]api.DeadSkip{}}
				err := x.requests(ctx, s, "drop", args, func(raw json.RawMessage) (string, error) {
					r, err := decode[api.DeadDropReply](raw)
					sum.Dropped = append(sum.Dropped, r.Dropped...)
					maps.Copy(sum.Skipped, r.Skipped)
					return r.Next, err
				})
				if err != nil {
					return partly(err, len(sum.Dropped), "dropped")
				}
				if err := c.show(sum, func() error { return render.Drops(c.out, sum) }); err != nil {
					return err
				}
				return skippedResult(len(sum.Dropped), len(sum.Skipped), "dropped")
			})
		}),
	}
	x.flags(cmd.Flags(), "drop")
	return cmd
}

// show prints v as JSON when that is asked for, else as people read it.
func (c *cli) show(v any, people func() error) error {
	if c.json {
		return render.Value(c.out, v)
	}
	return people()
}

// partly says what was done before an error.
func partly(err error, n int, done string) error {
	if n == 0 {
		return err
	}
	return fmt.Errorf("%s were %s before: %w", render.Count(n, "letter", "letters"), done, err)
}

// skippedResult is the exit code of a command that left some as they are.
func skippedResult(done, left int, what string) error {
	switch {
	case left == 0:
		return nil
	case done == 0:
		return failf("none was %s", what)
	default:
		return &coded{code: exitPartial, err: fmt.Errorf("%s not %s", render.Count(left, "was", "were"), what)}
	}
}

// replayResult is what the replay command prints with --json.
type replayResult struct {
	api.DeadReplayReply
	// Jobs are the jobs that were started and waited for, by id.
	Jobs map[string]json.RawMessage `json:"jobs"`
}

func (c *cli) deadReplayCmd() *cobra.Command {
	var x chosen
	var noWait bool
	cmd := &cobra.Command{
		Use: "replay ID… | --all", Short: "Try dead letters and quarantine records again",
		Long: `Try again. The message of a job that still waits for it goes back on its stream. When the job has ended, its document is ingested
by a job of its own, as far as the message holds it: a source is read again as it is now, a text as it was. The letter goes when
that job has committed; when it rolls back, the letter stays. The command waits for the jobs it starts.

The exit code is 1 when nothing came through, 4 when some did not.`,
		Example: "  factmill dead-letters replay q17-1\n  factmill dead-letters replay --all --kind quarantine --job nightly",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := x.check(args); err != nil {
				return usage(err)
			}
			return c.open(ctx, cmd, target.WaitAll, func(ctx context.Context, s *target.Session) error { return c.replay(ctx, s, &x, args, noWait) })
		}),
	}
	x.flags(cmd.Flags(), "replay")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return when the jobs are accepted")
	return cmd
}

func (c *cli) replay(ctx context.Context, s *target.Session, x *chosen, ids []string, noWait bool) error {
	sum := replayResult{Jobs: map[string]json.RawMessage{}}
	sum.Replayed, sum.Skipped = []api.Replayed{}, map[string]api.DeadSkip{}
	err := x.requests(ctx, s, "replay", ids, func(raw json.RawMessage) (string, error) {
		r, err := decode[api.DeadReplayReply](raw)
		sum.Replayed = append(sum.Replayed, r.Replayed...)
		maps.Copy(sum.Skipped, r.Skipped)
		return r.Next, err
	})
	if err != nil {
		return partly(err, len(sum.Replayed), "replayed")
	}
	ends := map[string]render.ReplayEnd{}
	failed := 0
	for _, r := range sum.Replayed {
		if noWait || r.How != api.ReplayNewJob {
			continue
		}
		raw, st, err := c.wait(ctx, s, posted{job: r.Job}, 1)
		if err != nil {
			return err
		}
		sum.Jobs[r.Job] = raw
		ends[r.Job] = render.ReplayEnd{State: st.State, Reason: st.Reason}
		if st.State == api.JobRolledBack || st.Failed() > 0 {
			failed++
		}
	}
	if err := c.show(sum, func() error { return render.Replays(c.out, sum.DeadReplayReply, ends) }); err != nil {
		return err
	}
	if noWait && s.Embedded && len(sum.Replayed) > 0 {
		c.say("nothing works in %s when this command has ended: any other command there goes on with it, and so does factmill up%s", s.Dir, c.at())
	}
	return skippedResult(len(sum.Replayed)-failed, len(sum.Skipped)+failed, "brought through")
}
