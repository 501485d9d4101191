package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// Subject is what an item says, in words.
func Subject(g api.Group) string {
	switch g.Kind {
	case "relation":
		return g.SourceText + "  " + g.Label + "  " + g.TargetText
	case "property":
		return g.SourceText + "  " + g.Label + " = " + g.Text
	case api.KindConflict:
		if slices.Contains(g.Reasons, api.ReasonMissing) {
			return g.Text + "  (" + g.Label + ")  " + g.SourceText + " is missing"
		}
		return g.Text + "  (" + g.Label + ")  " + g.SourceText + " = " + g.TargetText
	case api.KindStale:
		return g.Text
	case api.KindJob:
		return "job " + g.Text + "  (" + g.Label + ")"
	}
	return g.Text + "  (" + g.Label + ")"
}

// Groups shows a page of the review list; chosen says that the request asked for some of the groups only.
func Groups(w io.Writer, r api.ReviewListReply, chosen bool) error {
	p := &printer{w: w}
	switch {
	case len(r.Groups) > 0:
	case r.Total > 0:
		p.f("no group matches here, of %s in all", Count(r.Total, "group", "groups"))
	case chosen:
		p.f("no group matches")
	default:
		p.f("no candidate waits for review here; factmill review stats counts matches, conflicts, stale facts and held jobs")
	}
	one, many := "group", "groups"
	switch {
	case only(r.Groups, api.KindMatch):
		one, many = "match", "matches"
		matches(p, r.Groups)
	case only(r.Groups, api.KindConflict):
		one, many = "conflict", "conflicts"
		conflicts(p, r.Groups)
	case only(r.Groups, api.KindJob):
		one, many = "held job", "held jobs"
		heldJobs(p, r.Groups)
	default:
		for _, g := range r.Groups {
			p.group(g)
		}
	}
	if len(r.Groups) > 0 {
		p.f("%s of %s", Number(len(r.Groups)), Count(r.Total, one, many))
	}
	if r.Next != "" {
		p.f("more: --cursor %s", r.Next)
	}
	return p.err
}

func (p *printer) group(g api.Group) {
	p.f("%s", Subject(g))
	if g.Kind == api.KindStale {
		why := "does not state it any more"
		if len(g.Reasons) > 0 && g.Reasons[0] == "document_deleted" {
			why = "was deleted"
		}
		p.f("  stale %s  %s %s, %s  confidence %s", g.State, g.Sample.Document, why, others(g.Documents-1), Confidence(g.Confidence))
		p.f("  %s", Quote(g.Sample.Quote, quoteWidth))
		p.f("  id %s", strings.Join(g.IDs, " "))
		return
	}
	p.f("  %s %s  seen %s in %s  confidence %s  %s", g.Kind, g.State, Count(g.Count, "time", "times"),
		Count(g.Documents, "document", "documents"), Confidence(g.Confidence), strings.Join(g.Reasons, ", "))
	if g.Sample.Quote != "" {
		p.f("  %s  %s [%d:%d]", Quote(g.Sample.Quote, quoteWidth), g.Sample.Document, g.Sample.Start, g.Sample.End)
	}
	p.f("  key %s", g.Key)
}

// others says how many other documents state a fact.
func others(n int) string {
	switch n {
	case 0:
		return "no other source"
	case 1:
		return "1 other source"
	}
	return Number(n) + " other sources"
}

// Item shows one review item whole.
func Item(w io.Writer, r api.ReviewShowReply) error {
	p := &printer{w: w}
	if r.Match != nil {
		p.match(r)
		return p.err
	}
	if r.Conflict != nil {
		p.conflict(r)
		return p.err
	}
	if r.Job != nil {
		p.job(r)
		return p.err
	}
	p.group(r.Item)
	p.f("  revision %d", r.Revision)
	for _, e := range r.Evidence {
		p.inContext(e)
		p.f("    %s  %s", place(e.Evidence), Confidence(e.Confidence))
	}
	if len(r.OtherSources) > 0 {
		p.f("  also stated")
		for _, s := range r.OtherSources {
			p.f("    %s  %s", Quote(s.Quote, quoteWidth), s.Document)
		}
	}
	if len(r.Records) > 0 {
		t := NewTable("  RECORD", "DOCUMENT", "STATE", ">COUNT", ">CONFIDENCE").Cap(1, 60)
		for _, x := range r.Records {
			t.Row("  "+x.ID, x.Document, x.State, Number(x.Count), Confidence(x.Confidence))
		}
		p.table(t)
	}
	p.plan(r.Planned)
	p.history(r.History)
	return p.err
}

// inContext shows a quote with the text around it, in a line.
func (p *printer) inContext(e api.Surrounded) {
	text := strings.Join(strings.Fields(e.Before), " ") + " »" + e.Quote + "« " + strings.Join(strings.Fields(e.After), " ")
	p.f("  %s", strings.TrimSpace(Line(strings.Join(strings.Fields(text), " "))))
}

// ReviewStats shows the size of the queue.
func ReviewStats(w io.Writer, r api.ReviewStatsReply) error {
	p := &printer{w: w}
	p.f("%s in %s", Count(r.Records, "record", "records"), Count(r.Groups, "group", "groups"))
	if r.Oldest != "" {
		p.f("oldest %s", Time(r.Oldest))
	}
	p.f("acceptance rate %s", fmt.Sprintf("%.0f%%", 100*r.AcceptanceRate))
	for _, by := range []struct {
		head string
		m    map[string]int
	}{{"by kind", r.ByKind}, {"by state", r.ByState}, {"by label", r.ByLabel}} {
		if len(by.m) > 0 {
			p.f("\n%s", by.head)
			p.table(Counts(by.m))
		}
	}
	p.counted("matches", r.Matches)
	p.counted("conflicts", r.Conflicts)
	if r.Stale > 0 {
		p.f("\n%s: factmill review list --kind stale", Count(r.Stale, "stale fact waits", "stale facts wait"))
	}
	if r.Jobs > 0 {
		p.f("\n%s: factmill review list --kind job", Count(r.Jobs, "job is held", "jobs are held"))
	}
	return p.err
}
