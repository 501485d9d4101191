package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/demo"
	"github.com/factmill/factmill/cmd/factmill/internal/ingest"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// What the demo shows of its corpus.
const (
	demoType, demoName = "Observatory", "Northpoint Observatory"
	demoWord           = "mirror"
	demoFacts          = 6
	demoCandidates     = 5
)

func (c *cli) demoCmd() *cobra.Command {
	var stay bool
	var listen string
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the sample corpus, end to end", Args: noArgs,
		Long: `Start everything in this process, turn a small corpus about made-up observatories into a graph, and show what was found:
counts, some facts with the sentences that say them, and what waits for review. No model and no network are needed.

The graph stays in the directory that is printed (a temporary one unless --data), so that you can look around. --stay goes on
running, for other terminals.`,
		Example: "  factmill demo\n  factmill demo --stay\n  factmill demo --data ./demo && factmill search mirror --data ./demo",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if c.cfg.Source("nats.url") == "flag" {
				return usagef("demo works embedded: it does not go with --nats")
			}
			if err := c.refuse("demo brings its own NATS and asks nobody for it: leave it out", credentials, encryption); err != nil {
				return err
			}
			dir, err := c.demoDir()
			if err != nil {
				return err
			}
			o := c.target(cmd)
			o.Wait = target.WaitAll
			if stay {
				if err := checkListen(listen); err != nil {
					return usage(err)
				}
				o.Listen = listen
			}
			s, err := target.Start(ctx, o, dir)
			if err != nil {
				return err
			}
			return within(ctx, s, func(ctx context.Context, s *target.Session) error {
				if err := c.demo(ctx, s); err != nil || !stay {
					return err
				}
				<-ctx.Done()
				return stopped(ctx)
			})
		}),
	}
	cmd.Flags().BoolVar(&stay, "stay", false, "go on running until interrupted")
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "with --stay: `address` for NATS clients; port 0 chooses a free one")
	return cmd
}

// stopped is nil after an interrupt, and the cause when the services could not go on.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// demoDir is the directory of --data, else a new temporary one.
func (c *cli) demoDir() (string, error) {
	if c.cfg.Source("data") == "flag" {
		return target.Dir(c.cfg, c.getenv)
	}
	dir, err := os.MkdirTemp("", "factmill-demo-")
	if err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return dir, nil
}

// demo ingests the corpus and shows the graph.
func (c *cli) demo(ctx context.Context, s *target.Session) error {
	source, err := demo.Schema()
	if err != nil {
		return err
	}
	sch, err := schema.Parse(source, "observatories.yaml", nil)
	if err != nil {
		return fmt.Errorf("the sample schema: %w", err)
	}
	if err := c.rules(ctx, s, sch, source); err != nil {
		return err
	}
	docs, err := demo.Docs()
	if err != nil {
		return err
	}
	f := &feed{}
	in := &input{}
	if in.files, err = ingest.FromFS(docs, "docs/"); err != nil {
		return fmt.Errorf("the sample corpus: %w", err)
	}
	up, sent, err := c.upload(ctx, s, f, in)
	if err != nil {
		return err
	}
	f.event.Sources = sent.Sources(up.Bucket)
	job, err := publish(ctx, s, f.event)
	if err != nil {
		return errors.Join(err, up.Remove(ctx, sent))
	}
	raw, st, err := c.wait(ctx, s, job, sent.Files)
	if err != nil {
		return err
	}
	if err := jobResult(c, st); exitCode(err) == exitFailed {
		return err
	}
	return c.showDemo(ctx, s, raw)
}

// shown is one part of what the demo shows.
type shown struct {
	name, head, verb string
	request          any
	show             func(w io.Writer, raw json.RawMessage) error
}

func decoded[T any](show func(io.Writer, T) error) func(io.Writer, json.RawMessage) error {
	return func(w io.Writer, raw json.RawMessage) error {
		v, err := decode[T](raw)
		if err != nil {
			return err
		}
		return show(w, v)
	}
}

func (c *cli) showDemo(ctx context.Context, s *target.Session, job json.RawMessage) error {
	limit := demoCandidates
	parts := []shown{
		{"stats", "What the graph holds", "query.stats", struct{}{}, decoded(render.Stats)},
		{"facts", "Some facts, each with the sentence that says it", "query.neighbors",
			api.Neighbors{Type: demoType, Name: demoName, Limit: demoFacts}, decoded(func(w io.Writer, r api.Subgraph) error {
				return render.Relations(w, "  ", 2, r.Edges...)
			})},
		{"candidates", "What the schema kept out, most seen first (nothing of it is a fact yet)", "review.list",
			api.ReviewList{Limit: &limit}, decoded(func(w io.Writer, r api.ReviewListReply) error {
				r.Next = "" // the list is the next thing to type
				return render.Groups(w, r, false)
			})},
	}
	all := map[string]json.RawMessage{"job": job}
	for _, p := range parts {
		raw, err := s.Ask(ctx, p.verb, p.request)
		if err != nil {
			return fmt.Errorf("%s: %w", p.verb, err)
		}
		all[p.name] = raw
	}
	if c.json {
		b, err := json.Marshal(s.Dir)
		if err != nil {
			return err
		}
		all["data"] = b
		return render.Value(c.out, all)
	}
	if err := decoded(render.Job)(c.out, job); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := fmt.Fprintf(c.out, "\n== %s\n\n", p.head); err != nil {
			return err
		}
		if err := p.show(c.out, all[p.name]); err != nil {
			return err
		}
	}
	return c.nextSteps(s)
}

func (c *cli) nextSteps(s *target.Session) error {
	at, where := "--data "+s.Dir, "What to type next"
	if s.URL != "" {
		at, where = "--nats "+s.URL, "What to type next, in another terminal (an interrupt stops this one)"
	}
	if c.graph != "default" {
		at += " --graph " + c.graph
	}
	_, err := fmt.Fprintf(c.out, `
== %s

  factmill entity --type %s '%s' %s
  factmill search %s %s
  factmill document docs/observatories/kestrel-ridge.md --items %s
  factmill review list --kind entity %s
  factmill export --format graphml --output demo.graphml %s

The graph lies in %s; remove that directory when you are done.
`, where, demoType, demoName, at, demoWord, at, at, at, at, s.Dir)
	return err
}
