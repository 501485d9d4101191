package render

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// matches shows a page of the review list that has matches only.
func matches(p *printer, groups []api.Group) {
	t := NewTable("ID", "LABEL", "A", "B", "METHOD", ">SCORE", "STATE", ">DOCUMENTS").Cap(2, 40).Cap(3, 40)
	for _, g := range groups {
		t.Row(strings.Join(g.IDs, " "), g.Label, g.SourceText, g.TargetText, strings.Join(g.Reasons, ", "), Confidence(g.Confidence), g.State, Number(g.Documents))
	}
	p.table(t)
}

// match shows a match whole: what was found and decided, and either side with its evidence.
func (p *printer) match(r api.ReviewShowReply) {
	m := r.Match
	p.f("%s  (%s)", r.Item.Text, r.Item.Label)
	p.f("  match %s  %s %s  %s", r.Item.State, strings.Join(r.Item.Reasons, ", "), Confidence(m.Score), Count(r.Item.Documents, "document", "documents"))
	if d := m.Decided; d != nil {
		p.f("  %s says %s  %s%s", d.Actor, d.Decision, Time(d.At), because(d.Reason))
		p.f("  found %s", m.Found)
	}
	if j := m.Judged; j != nil {
		why := ""
		if j.Why != "" {
			why = " (" + j.Why + ")"
		}
		p.f("  %s says %s%s%s", j.Model, j.Verdict, why, because(j.Reason))
	}
	p.f("  id %s  revision %d", m.ID, r.Revision)
	p.f("  key %s", r.Item.Key)
	for _, s := range []api.MatchSide{m.A, m.B} {
		p.f("")
		p.f("%s  (%s)  %s in %s", s.Name, s.Label, Count(s.Mentions, "mention", "mentions"), Count(s.Documents, "document", "documents"))
		if len(s.Names) > 1 {
			p.f("  written %s", strings.Join(s.Names, " | "))
		}
		for _, e := range s.Evidence {
			p.inContext(e)
			p.f("    %s", place(e.Evidence))
		}
		p.f("  entity %s", s.ID)
	}
	if len(r.History) == 0 {
		return
	}
	p.f("\ndecisions")
	t := NewTable("  RECORD", "TIME", "ACTOR", "DECISION", "FROM", "TO", "REASON").Cap(6, 60)
	for _, h := range r.History {
		t.Row("  "+h.Record, Time(h.At), h.Actor, h.Decision, h.Before, h.After, h.Reason)
	}
	p.table(t)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return "  because " + reason
}

// maxOutcome is how many rows of an outcome are shown.
const maxOutcome = 50

// Outcome shows what a decision did; done is the word for it.
func Outcome(w io.Writer, r api.DecideReply, done string) error {
	p := &printer{w: w}
	changed := r.Outcome.Changed
	p.f("%s %s", Count(len(changed), "match", "matches"), done)
	t := NewTable("  KEY", "RECORD")
	for _, k := range changed[:min(len(changed), maxOutcome)] {
		t.Row("  "+k, r.Records[k])
	}
	p.table(t)
	if n := len(changed) - maxOutcome; n > 0 {
		p.f("  and %s more", Number(n))
	}
	skipped := slices.Sorted(maps.Keys(r.Outcome.Skipped))
	for _, k := range skipped[:min(len(skipped), maxOutcome)] {
		p.f("skipped %s: %s", k, r.Outcome.Skipped[k])
	}
	if n := len(skipped) - maxOutcome; n > 0 {
		p.f("and %s more skipped", Number(n))
	}
	return p.err
}

func only(groups []api.Group, kind string) bool {
	return len(groups) > 0 && !slices.ContainsFunc(groups, func(g api.Group) bool { return g.Kind != kind })
}

// counted shows what other counts of the queue do not count.
func (p *printer) counted(head string, by map[string]int) {
	if len(by) > 0 {
		p.f("\n%s", head)
		p.table(Counts(by))
	}
}
