package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) reviewConvertCmd() *cobra.Command {
	var d decision
	var file, id, policy string
	cmd := &cobra.Command{
		Use: "convert (--patch FILE | --patch-id ID)", Short: "Make approved candidates facts", Args: noArgs,
		Long: `Make facts of the approved candidates of a patch, once the active schema holds what the patch adds: entities, relations and property values,
with the evidence, confidence and extractor that they were proposed with, in the documents that say them. No document is read again and no
model is asked. It is one commit: all of it, or nothing. What cannot be converted stays approved, and the report says why. The same again
changes nothing.`,
		Example: "  factmill review convert --patch patch.json\n  factmill review convert --patch-id 1f9e02c57a84b6d3 --json",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if (file == "") == (id == "") {
				return usagef("say what to convert: --patch FILE or --patch-id ID")
			}
			req := map[string]any{"patch_id": id}
			if file != "" {
				p, err := readPatch(file)
				if err != nil {
					return err
				}
				if !p.Intact() {
					return usagef("%s: patch_id %s is not that of the patch's base schema and candidate_ids: the file was changed or cut; factmill review patch makes it anew", file, p.PatchID)
				}
				req = map[string]any{"patch": p}
				if b, err := json.Marshal(p); err != nil || len(b) > maxPatchRequest { // the committer remembers it
					req = map[string]any{"patch_id": p.PatchID}
				}
			}
			if policy != "" {
				req["error_policy"] = policy
			}
			if err := c.who(req, d); err != nil {
				return usage(err)
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				raw, err := s.Ask(ctx, "review.convert", req)
				if err != nil {
					return c.missing(err)
				}
				return c.converted(raw)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&file, "patch", "", "the patch `file`, as review patch or approve wrote it")
	f.StringVar(&id, "patch-id", "", "the `id` of a patch that was made lately, instead of its file")
	f.StringVar(&policy, "error-policy", "", "`what` to do when something fails behind the commit: raise (default) ends with an error, skip and quarantine report it")
	c.whoFlags(cmd, &d)
	return cmd
}

// maxPatchRequest bytes of a patch fit into a request.
const maxPatchRequest = 900 << 10

// missing names what the schema lacks, a line each.
func (c *cli) missing(err error) error {
	var e *api.Error
	if c.json || !errors.As(err, &e) || e.Code != "patch_not_applied" {
		return err
	}
	list, _ := e.Details["missing"].([]any)
	for _, x := range list {
		if _, err := fmt.Fprintf(c.err, "  missing: %s\n", render.Line(fmt.Sprint(x))); err != nil {
			return err
		}
	}
	return err
}

// converted shows a report. What was skipped and is not done already ends with the code for it.
func (c *cli) converted(raw json.RawMessage) error {
	var r api.ConvertReport
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	if err := reply(c, raw, render.Converted); err != nil {
		return err
	}
	partial := len(r.Failures) > 0 || r.SkippedTotal > len(r.Skipped)
	for _, why := range r.Skipped {
		partial = partial || why != api.SkippedNotApproved
	}
	if partial {
		return &coded{code: exitPartial}
	}
	return nil
}
