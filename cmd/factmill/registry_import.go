package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/known"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// imported is what an import did.
type imported struct {
	File      string   `json:"file"`
	Revision  uint64   `json:"revision"`
	Entries   int      `json:"entries"`
	Added     int      `json:"added"`
	Updated   int      `json:"updated"`
	Unchanged int      `json:"unchanged"`
	Failed    int      `json:"failed"`
	DryRun    bool     `json:"dry_run"`
	Warnings  []string `json:"warnings"`
	// Problems are the first of ProblemsTotal.
	Problems      []known.Problem `json:"problems"`
	ProblemsTotal int             `json:"problems_total"`
}

const (
	maxImportProblems = 200
	// shownProblems are said on stderr; --json has more of them.
	shownProblems = 20
	// maxImportBytes of entries a request.
	maxImportBytes = 384 << 10
)

func (r *imported) problem(p known.Problem) {
	if r.ProblemsTotal++; len(r.Problems) < maxImportProblems {
		r.Problems = append(r.Problems, p)
	}
}

func (c *cli) registryImportCmd() *cobra.Command {
	var format, typ string
	var dry bool
	cmd := &cobra.Command{
		SuggestFor: []string{"load"}, Use: "import FILE | -", Short: "Put a file of entries", Args: cobra.ExactArgs(1),
		Long: `Put the entries of a CSV, TSV or JSONL file (- is the standard input). A table has a header with the columns type, name, aliases
(separated by |), external_id and note, in any order, of which name is needed; JSONL has one object a line with these fields, aliases as a list.

An entry replaces the one of its type and name. What is wrong is said with its line and field, and left out; the rest is put, in requests
of at most 1000 entries that take effect whole or not at all. The exit code is 4 when some entries failed, 1 when all did.`,
		Example: "  factmill registry import companies.csv --dry-run\n  factmill registry import people.jsonl --type Person --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if format == "" {
				format = known.FormatOf(args[0])
			}
			if format == "" {
				return usagef("%s: its name says no format: --format csv, tsv or jsonl", args[0])
			}
			in := c.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage(err)
				}
				defer f.Close()
				in = f
			}
			r, err := known.NewReader(in, format, typ)
			if err != nil {
				return usage(fmt.Errorf("%s: %w", args[0], err))
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				im := &importing{c: c, s: s, id: rand.Text(), out: imported{File: args[0], DryRun: dry, Warnings: []string{}, Problems: []known.Problem{}}}
				err := im.run(ctx, r)
				return im.end(err)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "`csv`, tsv or jsonl (default: as the file's name says)")
	f.StringVar(&typ, "type", "", "the `type` of entries that have none")
	f.BoolVar(&dry, "dry-run", false, "read and check the file, and only say what would be done")
	return cmd
}

// importing is an import under way.
type importing struct {
	c     *cli
	s     *target.Session
	out   imported
	batch []known.Entry
	bytes int
	// id and requests make the request id of each put, so that one whose answer was lost counts once.
	id       string
	requests int
}

func (m *importing) run(ctx context.Context, r *known.Reader) error {
	p := render.NewProgress(m.c.err, false, m.c.now)
	defer p.Done()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, bad, err := r.Next()
		if errors.Is(err, io.EOF) {
			return m.send(ctx)
		}
		if err != nil {
			if errors.Is(err, known.ErrFile) {
				err = usage(err)
			}
			return errors.Join(err, m.send(ctx))
		}
		m.out.Entries++
		if bad != nil {
			m.out.Failed++
			m.out.problem(*bad)
			continue
		}
		b, err := json.Marshal(e.RegistryEntry)
		if err != nil {
			return fmt.Errorf("line %d: %w", e.Line, err)
		}
		if len(b) > maxImportBytes { // far more than an entry within its bounds has
			m.out.Failed++
			m.out.problem(known.Problem{Line: e.Line, Field: "aliases", Message: fmt.Sprintf("the entry has %d bytes: at most %d", len(b), maxImportBytes)})
			continue
		}
		if len(m.batch) == api.MaxRegistryBatch || len(m.batch) > 0 && m.bytes+len(b) > maxImportBytes {
			if err := m.send(ctx); err != nil {
				return err
			}
			p.Set(int64(m.out.Entries), 0, "entries")
		}
		m.batch, m.bytes = append(m.batch, e), m.bytes+len(b)
	}
}

// send puts the batch. Entries that are refused are left out, and the others sent again.
func (m *importing) send(ctx context.Context) error {
	for len(m.batch) > 0 {
		m.requests++
		req := api.RegistryPut{DryRun: m.out.DryRun, RequestID: fmt.Sprintf("import-%s-%d", m.id, m.requests)}
		for _, e := range m.batch {
			req.Entries = append(req.Entries, e.RegistryEntry)
		}
		raw, err := m.ask(ctx, req)
		if err == nil {
			r, err := decode[api.RegistryPutReply](raw)
			if err != nil {
				return err
			}
			m.out.Revision = r.Revision
			m.out.Added, m.out.Updated, m.out.Unchanged = m.out.Added+r.Added, m.out.Updated+r.Updated, m.out.Unchanged+r.Unchanged
			for _, w := range r.Warnings {
				if !slices.Contains(m.out.Warnings, w) && len(m.out.Warnings) < maxImportProblems {
					m.out.Warnings = append(m.out.Warnings, w)
				}
			}
			break
		}
		if !m.leaveOut(err) {
			return fmt.Errorf("lines %d to %d: %w", m.batch[0].Line, m.batch[len(m.batch)-1].Line, err)
		}
	}
	m.batch, m.bytes = m.batch[:0], 0
	return nil
}

// answerLimit of one put, which takes a fraction of a second: a service that is killed with a request in its hands never answers it.
const answerLimit = 5 * time.Second

// ask puts, and asks again for the time-out while the service is away.
func (m *importing) ask(ctx context.Context, req api.RegistryPut) (json.RawMessage, error) {
	limit := answerLimit
	if m.c.timeout > 0 {
		limit = min(limit, m.c.timeout)
	}
	for began := m.c.now(); ; {
		once, stop := context.WithTimeout(ctx, limit)
		raw, err := m.s.Ask(once, "registry.put", req)
		stop()
		if err == nil || exitCode(err) != exitUnreachable || m.c.now().Sub(began) > m.c.timeout || pause(ctx, pollWaitBar) != nil {
			return raw, err
		}
	}
}

// leaveOut takes the entries out of the batch that a refusal names; false: it names none.
func (m *importing) leaveOut(err error) bool {
	e := refusal(err)
	if e == nil || e.Details["problems"] == nil {
		return false
	}
	var list []api.RegistryProblem
	b, err := json.Marshal(e.Details["problems"])
	if err != nil || json.Unmarshal(b, &list) != nil {
		return false
	}
	bad := map[int]bool{}
	for _, p := range list {
		if p.Index >= 0 && p.Index < len(m.batch) {
			bad[p.Index] = true
			m.out.problem(known.Problem{Line: m.batch[p.Index].Line, Field: p.Field, Message: p.Message})
		}
	}
	left := m.batch[:0:0]
	for i, x := range m.batch {
		if !bad[i] {
			left = append(left, x)
		}
	}
	m.batch = left
	m.out.Failed += len(bad)
	return len(bad) > 0
}

// end says what was done, and turns it into the exit code. With err it came to a stop: what it did before that counts.
func (m *importing) end(err error) error {
	c, r := m.c, m.out
	if c.json {
		if e := render.Value(c.out, r); e != nil {
			return errors.Join(err, e)
		}
	} else {
		if e := put(c.out, r.Revision, r.Added, r.Updated, r.Unchanged, r.Failed, r.DryRun); e != nil {
			return errors.Join(err, e)
		}
		c.warned(r.Warnings)
		for i, p := range r.Problems {
			if i == shownProblems {
				c.say("… and %s; --json lists them", render.Count(r.ProblemsTotal-i, "more", "more"))
				break
			}
			c.say("%s:%d: %s: %s", r.File, p.Line, p.Field, p.Message)
		}
	}
	done := r.Added + r.Updated + r.Unchanged
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.File, err)
	case r.Failed > 0 && done == 0:
		return failf("%s: none of %s could be put", r.File, render.Count(r.Failed, "entry", "entries"))
	case r.Failed > 0:
		return &coded{code: exitPartial, err: fmt.Errorf("%s: %s could not be put, %s could", r.File, render.Count(r.Failed, "entry", "entries"), render.Number(done))}
	}
	return nil
}
