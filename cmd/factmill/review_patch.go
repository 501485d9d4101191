package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
)

func (c *cli) reviewPatchCmd() *cobra.Command {
	var req api.ReviewPatch
	var output string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "patch [--id ID…] --output FILE", Short: "Write what approved candidates add to the schema", Args: noArgs,
		Long: `Write the patch of approved candidates: the types, patterns and properties that the active schema lacks for them, how often each was
seen, and the candidates themselves, for schema apply-patch and review convert. Nothing in the graph changes. Without --output it is
printed.`,
		Example: "  factmill review patch --output patch.json\n  factmill schema apply-patch patch.json --schema schema.yaml",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if output != "" {
				if err := checkOutput(output, overwrite); err != nil {
					return err
				}
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				p, err := wholePatch(ctx, s, req)
				if err != nil {
					return err
				}
				if len(p.CandidateIDs) == 0 {
					return failf("nothing is approved: factmill review list%s shows what waits, factmill review approve%s decides", c.at(), c.at())
				}
				if err := c.savePatch(p, output, overwrite); err != nil || !c.json || output == "" {
					return err
				}
				return render.Value(c.out, p)
			})
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&req.IDs, "id", nil, "the `id` of an approved candidate; repeats (default: all approved ones)")
	f.StringVarP(&output, "output", "o", "", "`file` to write (default: the standard output)")
	f.BoolVar(&overwrite, "overwrite", false, "replace the file when it is there")
	return cmd
}

// wholePatch joins the pages of a patch. Decisions between two of them make it another one.
func wholePatch(ctx context.Context, s *target.Session, req api.ReviewPatch) (*patch.Patch, error) {
	whole, err := asked[patch.Patch](ctx, s, "review.patch", req)
	if err != nil {
		return nil, err
	}
	for whole.Next != "" {
		req.Cursor = whole.Next
		more, err := asked[patch.Patch](ctx, s, "review.patch", req)
		if err != nil {
			return nil, err
		}
		if more.PatchID != whole.PatchID || more.Next == whole.Next {
			return nil, failf("something was decided meanwhile: run the command again")
		}
		whole.CandidateIDs, whole.Next = append(whole.CandidateIDs, more.CandidateIDs...), more.Next
	}
	return &whole, nil
}

// savePatch writes a patch to a file and says so, or to the standard output.
func (c *cli) savePatch(p *patch.Patch, output string, overwrite bool) error {
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if output == "" {
		_, err := c.out.Write(b)
		return err
	}
	if err := writeOutput(output, b, overwrite); err != nil || c.json {
		return err
	}
	next := "factmill schema apply-patch " + quoted(output) + " --schema FILE"
	if p.Empty() {
		next = "factmill review convert --patch " + quoted(output) + c.at()
	}
	_, err = fmt.Fprintf(c.out, "%s: patch %s of %s; the schema gets %s\nnext: %s\n", render.Line(output), render.Line(p.PatchID),
		render.Count(len(p.CandidateIDs), "candidate", "candidates"), added(p), next)
	return err
}

// added counts what a patch adds.
func added(p *patch.Patch) string {
	if p.Empty() {
		return "nothing"
	}
	fresh, more := 0, 0
	for _, r := range p.Additions.Relations {
		if len(r.AddPatterns) > 0 {
			more++
		} else {
			fresh++
		}
	}
	out := ""
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{len(p.Additions.Entities), "entity type", "entity types"}, {fresh, "relation", "relations"},
		{more, "relation's patterns", "relations' patterns"}, {len(p.AddProperties), "property", "properties"},
	} {
		if x.n == 0 {
			continue
		}
		if out != "" {
			out += ", "
		}
		out += render.Count(x.n, x.one, x.many)
	}
	return out
}
