package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

// howToDecide shows what to type about an item whose plan a decision quotes.
func (c *cli) howToDecide(w io.Writer, r api.ReviewShowReply) error {
	if r.Fingerprint == "" || len(r.Item.IDs) == 0 {
		return nil
	}
	var lines []string
	end := " --fingerprint " + r.Fingerprint + c.at()
	say := func(verb, id, does string, with ...string) {
		line := "  factmill review " + verb + " --id " + id + strings.Join(with, "") + end
		if does != "" {
			line += "    " + does
		}
		lines = append(lines, line)
	}
	switch id := r.Item.IDs[0]; {
	case r.Item.Kind == api.KindStale:
		say("approve", id, "withdraws it")
		say("reject", id, "keeps it")
	case r.Job != nil:
		_, err := io.WriteString(w, c.howToDecideJob(r))
		return err
	case r.Match != nil:
		say("approve", r.Match.ID, "they are the same")
		say("reject", r.Match.ID, "they are different")
		for _, f := range r.Match.Fits {
			for _, x := range f.Fits {
				if x.ID == r.Match.ID {
					say("approve", r.Match.ID, "of all that fit "+render.Line(f.Name)+", this one", " --entity ", x.Entity)
				}
			}
		}
	case r.Conflict != nil && r.Conflict.Reason == api.ReasonMissing:
		say("approve", r.Conflict.ID, "accepts that it is missing")
		lines = append(lines, "  a value needs its evidence: state it in a document and ingest that, or approve and convert a candidate that says it")
	case r.Conflict != nil && len(r.Conflict.Values) > 0:
		value := " --value " + render.Line(quoted(render.Any(r.Conflict.Values[0].Value)))
		say("approve", r.Conflict.ID, "", value)
		say("approve", r.Conflict.ID, "", " --decision keep_all")
		say("reject", r.Conflict.ID, "", value)
		if r.Conflict.Reason == api.ReasonHomonym && r.Conflict.Values[0].Entity != "" {
			say("reject", r.Conflict.ID, "tells them apart", " --decision different")
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\ndecide\n%s\n", strings.Join(lines, "\n"))
	return err
}
