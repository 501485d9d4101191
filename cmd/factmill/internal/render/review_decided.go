package render

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// history shows what was decided about an item.
func (p *printer) history(list []events.Audit) {
	if len(list) == 0 {
		return
	}
	p.f("\ndecisions")
	t := NewTable("  RECORD", "TIME", "ACTOR", "DECISION", "FROM", "TO", "REASON").Cap(6, 60)
	for _, h := range list {
		t.Row("  "+h.Record, Time(h.At), h.Actor, decided(h), h.Before, h.After, h.Reason)
	}
	p.table(t)
}

// decided is a decision in words, with the value that it names.
func decided(a events.Audit) string {
	var v any
	if len(a.Value) == 0 || json.Unmarshal(a.Value, &v) != nil {
		return a.Decision
	}
	return a.Decision + " " + End(Any(v), 40)
}

// maxOutcome is how many rows of an outcome are shown.
const maxOutcome = 50

// Outcome shows what a decision did; done is the word for it.
func Outcome(w io.Writer, r api.DecideReply, done string) error {
	p := &printer{w: w}
	changed := r.Outcome.Changed
	total := max(len(changed), r.Outcome.ChangedTotal)
	one, many := things(r.Outcome)
	p.f("%s %s", Count(total, one, many), done)
	t := NewTable("  KEY", "RECORD")
	for _, k := range changed[:min(len(changed), maxOutcome)] {
		t.Row("  "+k, r.Records[k])
	}
	p.table(t)
	if n := total - min(len(changed), maxOutcome); n > 0 {
		p.f("  and %s more", Number(n))
	}
	p.plan(r.Planned)
	skipped := slices.Sorted(maps.Keys(r.Outcome.Skipped))
	for _, k := range skipped[:min(len(skipped), maxOutcome)] {
		why := r.Outcome.Skipped[k]
		if now := r.Outcome.CurrentKeys[k]; now != "" {
			why += ", its key is " + now
		}
		p.f("skipped %s: %s", k, why)
	}
	if n := max(len(skipped), r.Outcome.SkippedTotal) - min(len(skipped), maxOutcome); n > 0 {
		p.f("and %s more skipped", Number(n))
	}
	return p.err
}

// things are the words for what an outcome is about.
func things(o api.Outcome) (one, many string) {
	first := ""
	if len(o.Changed) > 0 {
		first = o.Changed[0]
	}
	for k := range o.Skipped {
		if first == "" || k < first && len(o.Changed) == 0 {
			first = k
		}
	}
	switch kind, _, _ := strings.Cut(first, "|"); kind {
	case api.KindMatch:
		return "match", "matches"
	case api.KindConflict:
		return "conflict", "conflicts"
	case api.KindStale:
		return "stale fact", "stale facts"
	case api.KindJob:
		return "job", "jobs"
	case "entity", "relation", "property":
		return "candidate", "candidates"
	}
	return "item", "items"
}

// Edited shows a candidate as it was edited.
func Edited(w io.Writer, r api.ReviewEditReply) error {
	p := &printer{w: w}
	p.f("edited, by record %s", r.Record)
	if p.err != nil {
		return p.err
	}
	return Item(w, r.ReviewShowReply)
}

// Pruned shows what a prune took away, or would.
func Pruned(w io.Writer, r api.ReviewPruneReply) error {
	p := &printer{w: w}
	for _, k := range r.Matched[:min(len(r.Matched), maxOutcome)] {
		p.f("  %s", k)
	}
	if n := r.MatchedTotal - min(len(r.Matched), maxOutcome); n > 0 {
		p.f("  and %s more", Number(n))
	}
	switch {
	case r.Applied:
		p.f("%s forgotten, %s deleted", Count(r.MatchedTotal, "candidate", "candidates"), Count(r.Deleted, "record", "records"))
	case r.MatchedTotal == 0:
		p.f("nothing to forget")
	default:
		p.f("%s would be forgotten; --apply does it", Count(r.MatchedTotal, "candidate", "candidates"))
	}
	return p.err
}

// Audit shows a page of audit records.
func Audit(w io.Writer, r api.ReviewAuditReply) error {
	p := &printer{w: w}
	t := NewTable(">NO", "TIME", "ACTOR", "DECISION", "KEY", "FROM", "TO", "RECORD", "REASON").Cap(4, 60).Cap(8, 60)
	for _, a := range r.Records {
		t.Row(Number(int(a.No)), Time(a.At), a.Actor, decided(a), a.Key, a.Before, a.After, a.Record, a.Reason)
	}
	if len(r.Records) > 0 {
		p.table(t)
	}
	p.f("%s of %s", Number(len(r.Records)), Count(int(r.Total), "record", "records"))
	if o := r.Operation; o != nil {
		how := "under way, so far"
		if o.Done {
			how = "done:"
		}
		p.f("request %s (%s) is %s %s changed, %s skipped, at sequence %d", o.RequestID, o.Verb, how, Number(o.Changed), Number(o.Skipped), o.Seq)
	}
	if r.Next != "" {
		p.f("more: --cursor %s", r.Next)
	}
	if r.Verified == nil {
		return p.err
	}
	for _, x := range r.Problems {
		p.f("%s: %s", x.Key, x.Message)
	}
	if len(r.Problems) == 0 {
		p.f("checked %s: the chain is whole", Count(*r.Verified, "record", "records"))
	} else {
		p.f("checked %s: %s", Count(*r.Verified, "record", "records"), Count(len(r.Problems), "problem", "problems"))
	}
	return p.err
}

// Waiting shows one group of the queue.
func Waiting(w io.Writer, g api.Group) error {
	p := &printer{w: w}
	p.group(g)
	return p.err
}

// Converted shows what a conversion did.
func Converted(w io.Writer, r api.ConvertReport) error {
	p := &printer{w: w}
	if r.Records > 0 {
		p.f("%s converted at sequence %d:", Count(r.Records, "record", "records"), r.Seq)
	}
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{r.ConvertedEntities, "new entity", "new entities"}, {r.Folded, "name joined an entity", "names joined entities"},
		{r.CreatedRelations, "new relation", "new relations"}, {r.JoinedRelations, "relation has more evidence", "relations have more evidence"},
		{r.SetProperties, "property value", "property values"},
	} {
		if x.n > 0 {
			p.f("  %s", Count(x.n, x.one, x.many))
		}
	}
	if r.Records > 0 && r.ConvertedEntities+r.Folded+r.CreatedRelations+r.JoinedRelations+r.SetProperties == 0 {
		p.f("  more evidence of what was there")
	}
	by := map[string]int{}
	for _, why := range r.Skipped {
		by[why]++
	}
	if r.SkippedTotal > 0 {
		p.f("%s skipped:", Count(r.SkippedTotal, "candidate", "candidates"))
		for _, why := range slices.Sorted(maps.Keys(by)) {
			p.f("  %s %s", Number(by[why]), why)
		}
		if n := r.SkippedTotal - len(r.Skipped); n > 0 {
			p.f("  and %s more", Number(n))
		}
	}
	for _, f := range r.Failures {
		p.f("%s: %s: %s", f.Stage, f.Code, f.Message)
	}
	if r.Records == 0 && r.SkippedTotal == 0 {
		p.f("nothing to convert")
	}
	return p.err
}
