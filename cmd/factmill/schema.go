package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

const (
	// maxSchemaFile is more than the parser takes, so that its own message is the one that is shown.
	maxSchemaFile = 2 << 20
	// maxSource of a schema file that is kept beside the effective schema: both must fit one request.
	maxSource = 256 << 10
)

func (c *cli) schemaCmd() *cobra.Command {
	return parent("schema", "Show, check and change the rule of the graph", `The schema says which types of entities and relations there are. What does not fit it waits for review.`,
		c.schemaShowCmd(), c.schemaValidateCmd(), c.schemaPutCmd(), c.schemaDiffCmd(), c.schemaApplyCmd(), c.schemaHistoryCmd())
}

// readSchema parses a schema file and what it extends. The error is a *schema.Error with every problem, or says why the file
// cannot be read; both are wrong usage.
func readSchema(file string) (*schema.Schema, []byte, error) {
	b, err := readSmall(file)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("schema: %w", err))
	}
	s, err := schema.Parse(b, filepath.ToSlash(file), func(p string) ([]byte, error) { return readSmall(filepath.FromSlash(p)) })
	return s, b, err
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, maxSchemaFile))
}

// putParsed makes a schema the active one of the graph.
func (c *cli) putParsed(ctx context.Context, s *target.Session, sch *schema.Schema, source []byte) (raw []byte, r api.SchemaReply, err error) {
	req := api.SchemaPut{Schema: string(sch.Marshal()), Name: sch.Name(), Actor: c.actor()}
	if len(source) <= maxSource {
		req.Source = string(source)
	}
	if raw, err = s.Ask(ctx, "schema.put", req); err != nil {
		return nil, r, err
	}
	r, err = decode[api.SchemaReply](raw)
	return raw, r, err
}

// actor is who changes things, for the history.
func (c *cli) actor() string {
	for _, name := range []string{"FACTMILL_ACTOR", "USER", "LOGNAME", "USERNAME"} {
		if u := c.getenv(name); u != "" {
			return u
		}
	}
	return "factmill"
}

func (c *cli) schemaShowCmd() *cobra.Command {
	var req api.SchemaGet
	cmd := &cobra.Command{
		Use: "show", Short: "Show the active schema", Args: noArgs,
		Long:    "Show the schema that is active in the graph, as the file that was put, or an earlier revision of it.",
		Example: "  factmill schema show > schema.yaml\n  factmill schema show --revision 1 --json",
		RunE: ask(c, "schema.get", func(*cobra.Command, []string) (any, error) { return req, nil },
			showSchema),
	}
	cmd.Flags().Uint64Var(&req.Revision, "revision", 0, "this revision (default: the active one)")
	return cmd
}

// showSchema prints the file that was put where it says everything, else the effective schema. Both can be put again.
func showSchema(w io.Writer, r api.SchemaReply) error {
	text := r.Source
	if s, err := schema.Parse([]byte(r.Source), r.Name, nil); err != nil || s.Fingerprint() != r.Fingerprint {
		var err error
		if text, err = readable(r.Schema); err != nil {
			return fmt.Errorf("the stored schema: %w", err)
		}
	}
	head := fmt.Sprintf("# %s %s, revision %d, fingerprint %s\n", render.Line(r.Name), render.Line(r.Version), r.Revision, render.Line(r.Fingerprint))
	if strings.HasPrefix(text, "{") { // JSON has no comments
		head = ""
	}
	_, err := fmt.Fprintf(w, "%s%s\n", head, render.Block(strings.TrimRight(text, "\n")))
	return err
}

// readable writes JSON for people: indented, with numbers as they are, and without the escapes that arrows get on their way.
func readable(raw json.RawMessage) (string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.String(), err
}

// checked is what schema validate says of a file.
type checked struct {
	Name        string           `json:"name"`
	Version     string           `json:"version"`
	Fingerprint string           `json:"fingerprint"`
	Counts      map[string]int   `json:"counts"`
	Problems    []schema.Problem `json:"problems"`
	Warnings    []schema.Problem `json:"warnings"`
}

func check(file string) (checked, error) {
	r := checked{Counts: map[string]int{}, Problems: []schema.Problem{}, Warnings: []schema.Problem{}}
	s, _, err := readSchema(file)
	var bad *schema.Error
	if errors.As(err, &bad) {
		r.Name, r.Problems = bad.Name, bad.Problems
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Name, r.Version, r.Fingerprint = s.Name(), s.Version(), s.Fingerprint()
	r.Warnings = append(r.Warnings, s.Warnings()...)
	r.Counts["entities"], r.Counts["relations"] = len(s.Entities()), len(s.Relations())
	for _, e := range s.Entities() {
		r.Counts["properties"] += len(e.Properties)
	}
	for _, x := range s.Relations() {
		r.Counts["patterns"] += len(x.Patterns)
	}
	return r, nil
}

func (c *cli) schemaValidateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Check a schema file", Args: cobra.ExactArgs(1),
		Long:    "Check a schema file and what it extends, without any service. All problems are listed at once; any ends with exit code 2.",
		Example: "  factmill schema validate schema.yaml\n  factmill schema validate schema.yaml --json",
		RunE: func(_ *cobra.Command, args []string) error {
			c.ran = true
			r, err := check(args[0])
			if err != nil {
				return err
			}
			if c.json {
				err = render.Value(c.out, r)
			} else {
				err = showChecked(c.out, c.err, args[0], r)
			}
			if err == nil && len(r.Problems) > 0 {
				err = &coded{code: exitUsage}
			}
			return err
		},
	}
}

func showChecked(out, errOut io.Writer, file string, r checked) error {
	for _, p := range r.Problems {
		if _, err := fmt.Fprintln(errOut, render.Line(p.String())); err != nil {
			return err
		}
	}
	if n := len(r.Problems); n > 0 {
		_, err := fmt.Fprintf(errOut, "%s has %s\n", render.Line(file), render.Count(n, "problem", "problems"))
		return err
	}
	for _, p := range r.Warnings {
		if _, err := fmt.Fprintln(errOut, "warning: "+render.Line(p.String())); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%s %s is good: %s, %s, fingerprint %s\n", render.Line(r.Name), render.Line(r.Version),
		render.Count(r.Counts["entities"], "entity type", "entity types"), render.Count(r.Counts["relations"], "relation type", "relation types"), r.Fingerprint)
	return err
}

func (c *cli) schemaPutCmd() *cobra.Command {
	return &cobra.Command{
		Use: "put FILE", Short: "Make a schema the active one", Args: cobra.ExactArgs(1),
		Long: `Check a schema file and make it the active schema of the graph. Jobs that run keep theirs; later ones use this one.
Documents are read again under it when they are ingested next.`,
		Example: "  factmill schema put schema.yaml",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			sch, source, err := readSchema(args[0])
			if err != nil {
				return err
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				raw, _, err := c.putParsed(ctx, s, sch, source)
				if err != nil {
					return err
				}
				return reply(c, raw, func(w io.Writer, r api.SchemaReply) error {
					for _, x := range r.Warnings {
						if _, err := fmt.Fprintln(c.err, "warning: "+render.Line(x)); err != nil {
							return err
						}
					}
					what := "was active already"
					if r.Changed {
						what = "is active now"
					}
					_, err := fmt.Fprintf(w, "schema %s %s %s: revision %d, fingerprint %s\n", render.Line(r.Name), render.Line(r.Version), what, r.Revision, r.Fingerprint)
					return err
				})
			})
		}),
	}
}

func (c *cli) schemaHistoryCmd() *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "List the schemas that the graph had", Args: noArgs,
		Long: "List every schema that was active in the graph, newest first.", Example: "  factmill schema history",
		RunE: ask(c, "schema.history", func(*cobra.Command, []string) (any, error) { return struct{}{}, nil },
			func(w io.Writer, r api.SchemaHistoryReply) error {
				t := render.NewTable(">REVISION", "NAME", "VERSION", "FINGERPRINT", "PUT AT", "BY", "")
				for _, x := range r.Schemas {
					mark := ""
					if x.Active {
						mark = "active"
					}
					t.Row(fmt.Sprint(x.Revision), x.Name, x.Version, x.Fingerprint, render.Time(x.PutAt), x.Actor, mark)
				}
				return t.Write(w)
			}),
	}
}
