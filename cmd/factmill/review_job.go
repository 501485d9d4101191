package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// look shows in short what a held job would do, on stderr, and is the fingerprint of that.
func (c *cli) look(ctx context.Context, s *target.Session, job string) (string, error) {
	x, err := asked[api.HeldReply](ctx, s, "held.get", api.HeldGet{ID: job})
	var denied *api.Error
	if errors.As(err, &denied) && denied.Code == "not_allowed" { // a verb between services; people ask the reviewer
		var shown api.ReviewShowReply
		if shown, err = asked[api.ReviewShowReply](ctx, s, "review.show", api.ReviewShow{Key: "job|" + job}); err == nil && shown.Job != nil {
			x = api.HeldReply{Item: shown.Item, Job: *shown.Job, Planned: shown.Planned}
		}
	}
	if err != nil {
		return "", err
	}
	if !c.json {
		for _, line := range render.JobPlan(x, shownPlan) {
			c.say("%s", line)
		}
	}
	return x.Fingerprint, nil
}

// shownPlan is how many lines of a plan jobs accept shows.
const shownPlan = 20

// reviewSendBackCmd changes what a held job read.
func (c *cli) reviewSendBackCmd() *cobra.Command {
	var d decision
	var edit api.JobEdit
	var sets []string
	var file string
	cmd := &cobra.Command{
		Use: "send-back (--key KEY | --id JOB) --fingerprint F (--document D --item I (--set NAME=VALUE… | --drop) | --edits FILE)", Short: "Send a held job back with edits", Args: noArgs,
		Long: `Change what a held job read out of its documents, before it is accepted. An item is named as review show lists it. Of an entity type, name and
entity (the id of one in the graph) can be set, with all that the document says of it; of a mention start and end; of a property name, value,
source, start and end; of a relation type, source, target, start, end and properties.NAME. --drop takes an item out, and what stands on it.
Edits are checked against the schema and the text as an extraction is; a refused one changes nothing. --edits reads many of them: a JSON
list of {"document","item","set":{…}} or {"document","item","drop":true}. The job stays held: what it would do then is shown, with another
fingerprint. When a document has to be read again before the commit, its edits go with what was read.`,
		Example: "  factmill review send-back --key 'job|j42' --fingerprint 93c1… --document minutes.md --item r0a1b2c3d4e5f --drop --reason 'a joke'\n" +
			"  factmill review send-back --id j42 --fingerprint 93c1… --document minutes.md --item e6f7a8b9c0d1 --set type=Organization",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			edits, err := jobEdits(edit, sets, file)
			if err != nil {
				return usage(err)
			}
			req, err := c.decision(cmd, "send back", d)
			if err != nil {
				return usage(err)
			}
			req["decision"], req["edits"] = api.DecideSendBack, edits
			return c.decided(ctx, cmd, "review.reject", req, "sent back")
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&d.ids, "id", nil, "the `job`")
	f.StringArrayVar(&d.keys, "key", nil, "the item's `key`: job|JOB")
	f.StringVar(&d.print, "fingerprint", "", "the `fingerprint` of the plan that was looked at, as review show gives it")
	f.Uint64Var(&d.revision, "revision", 0, "decide only if the job is still at this `revision`")
	f.StringVar(&edit.Document, "document", "", "the `key` of the document")
	f.StringVar(&edit.Item, "item", "", "the `item` of the document, as review show lists it")
	f.StringArrayVar(&sets, "set", nil, "`name=value` to set; repeats")
	f.BoolVar(&edit.Drop, "drop", false, "take the item out")
	f.StringVar(&file, "edits", "", "JSON `file` with many edits")
	c.whoFlags(cmd, &d)
	return cmd
}

// jobEdits are those of a file, or the one of the flags.
func jobEdits(one api.JobEdit, sets []string, file string) ([]api.JobEdit, error) {
	if file != "" {
		if one.Document != "" || one.Item != "" || one.Drop || len(sets) > 0 {
			return nil, fmt.Errorf("--edits has all of the edits: leave --document, --item, --set and --drop out")
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--edits: %w", err)
		}
		var out []api.JobEdit
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		if err := d.Decode(&out); err != nil {
			return nil, fmt.Errorf("--edits %s: %w", file, err)
		}
		return out, nil
	}
	if one.Document == "" || one.Item == "" || one.Drop == (len(sets) > 0) {
		return nil, fmt.Errorf("say what to change: --document and --item with --set NAME=VALUE or --drop, or --edits FILE; factmill review show 'job|…' lists the items")
	}
	var err error
	one.Set, err = pairs(sets)
	return []api.JobEdit{one}, err
}

// howToDecideJob shows what to type about a held job.
func (c *cli) howToDecideJob(r api.ReviewShowReply) string {
	id := " --id " + r.Job.Job + " --fingerprint " + r.Fingerprint + c.at()
	return fmt.Sprintf("\ndecide\n  factmill review approve%s    commits exactly that\n  factmill review reject%s    rolls it back\n  factmill review send-back%s --document D --item I --drop    or --set NAME=VALUE: stays held\n", id, id, id)
}
