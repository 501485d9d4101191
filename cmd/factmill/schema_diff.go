package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
)

// prints are what of a schema documents are compared with when they are ingested next.
type prints struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Schema     string `json:"fingerprint"`
	Extraction string `json:"extraction_fingerprint"`
}

// cost is what putting the file makes of every stored document at its next ingest.
type cost struct {
	// Decision is new_version, in_place or no_op.
	Decision  string `json:"decision"`
	Documents int    `json:"documents"`  // now in the graph
	Chunks    int    `json:"chunks"`     // now in the graph
	Rechunk   int    `json:"rechunk"`    // documents that are cut again
	Reembed   int    `json:"reembed"`    // chunks, as they are now
	Reextract int    `json:"re_extract"` // chunks, as they are now
}

type schemaDiff struct {
	Revision uint64          `json:"revision"`
	Before   prints          `json:"before"`
	After    prints          `json:"after"`
	Changes  []schema.Change `json:"changes"`
	// Cost is absent for a revision that is not the active one.
	Cost *cost `json:"cost,omitempty"`
}

func (c *cli) schemaDiffCmd() *cobra.Command {
	var req api.SchemaGet
	cmd := &cobra.Command{
		Use: "diff FILE", Short: "Compare a schema file with the active schema", Args: cobra.ExactArgs(1),
		Long: `List what putting the file would change, and what each change moves: "schema" makes new versions of stored documents,
"extraction" reads them again in place, "review" changes the policy alone. Below, what that is in documents and chunks that are in the
graph now: each is read again when it is ingested next, none before.`,
		Example: "  factmill schema diff schema.yaml\n  factmill schema diff schema.yaml --revision 1 --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			after, _, err := readSchema(args[0])
			if err != nil {
				return err
			}
			return c.with(ctx, cmd, func(ctx context.Context, s *target.Session) error {
				d, err := compare(ctx, s, req, after)
				if err != nil {
					return err
				}
				return c.showDiff(d)
			})
		}),
	}
	cmd.Flags().Uint64Var(&req.Revision, "revision", 0, "compare with this revision (default: the active one)")
	return cmd
}

// asked asks a verb and reads its reply.
func asked[T any](ctx context.Context, s *target.Session, verb string, req any) (v T, err error) {
	raw, err := s.Ask(ctx, verb, req)
	if err != nil {
		return v, err
	}
	return decode[T](raw)
}

func compare(ctx context.Context, s *target.Session, req api.SchemaGet, after *schema.Schema) (d schemaDiff, err error) {
	r, err := asked[api.SchemaReply](ctx, s, "schema.get", req)
	if err != nil {
		return d, err
	}
	before, err := schema.Parse(r.Schema, "active.json", nil)
	if err != nil {
		return d, fmt.Errorf("the stored schema, revision %d: %w", r.Revision, err)
	}
	set, err := asked[api.SettingsReply](ctx, s, "settings.get", struct{}{})
	if err != nil {
		return d, err
	}
	pipeline, err := settings.Default().Apply(set.Settings)
	if err != nil {
		return d, fmt.Errorf("the graph's settings: %w", err)
	}
	of := func(x *schema.Schema) prints {
		return prints{x.Name(), x.Version(), x.Fingerprint(), pipeline.ExtractionFingerprint(x)}
	}
	d = schemaDiff{Revision: r.Revision, Before: of(before), After: of(after), Changes: schema.Diff(before, after)}
	if d.Changes == nil {
		d.Changes = []schema.Change{}
	}
	if !r.Active {
		return d, nil
	}
	stats, err := asked[api.StatsReply](ctx, s, "query.stats", struct{}{})
	if err != nil {
		return d, err
	}
	d.Cost = d.costs(stats.Documents, stats.Chunks)
	return d, nil
}

// costs follows the decision table: what an ingest does about a document that was read with the schema before.
func (d schemaDiff) costs(documents, chunks int) *cost {
	k := &cost{Decision: "no_op", Documents: documents, Chunks: chunks}
	switch {
	case d.Before.Schema != d.After.Schema:
		k.Decision, k.Rechunk, k.Reembed, k.Reextract = "new_version", documents, chunks, chunks
	case d.Before.Extraction != d.After.Extraction:
		k.Decision, k.Reextract = "in_place", chunks
	}
	return k
}

func (c *cli) showDiff(d schemaDiff) error {
	if c.json {
		return render.Value(c.out, d)
	}
	if len(d.Changes) == 0 {
		_, err := fmt.Fprintf(c.out, "no difference to revision %d\n", d.Revision)
		return err
	}
	t := render.NewTable("WHERE", "MOVES", "CHANGE")
	for _, x := range d.Changes {
		t.Row(x.Path, string(x.Effect), x.Message)
	}
	if err := t.Write(c.out); err != nil {
		return err
	}
	moved := func(was, is string) string {
		if was == is {
			return was + " stays"
		}
		return was + " -> " + is
	}
	_, err := fmt.Fprintf(c.out, "\nschema fingerprint      %s\nextraction fingerprint  %s\n", moved(d.Before.Schema, d.After.Schema), moved(d.Before.Extraction, d.After.Extraction))
	if err != nil || d.Cost == nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, d.Cost.line())
	return err
}

// line says the cost to people.
func (k *cost) line() string {
	docs, chunks := render.Count(k.Documents, "document", "documents"), render.Count(k.Chunks, "chunk", "chunks")
	switch {
	case k.Documents == 0:
		return "cost: none, the graph has no documents"
	case k.Decision == "new_version":
		return fmt.Sprintf("cost: a new version of %s at the next ingest of each: chunked and embedded again, and extracted (%s now)", docs, chunks)
	case k.Decision == "in_place":
		return fmt.Sprintf("cost: %s extracted again in place at the next ingest of each (%s); none is chunked or embedded again", docs, chunks)
	}
	return fmt.Sprintf("cost: none, no document is read again (%s)", docs)
}
