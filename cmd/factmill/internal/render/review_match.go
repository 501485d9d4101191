package render

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// matches shows a page of the review list that has matches only.
func matches(p *printer, groups []api.Group) {
	several := slices.ContainsFunc(groups, func(g api.Group) bool { return g.Fits > 1 })
	head := []string{"ID", "LABEL", "A", "B", "METHOD", ">SCORE", "STATE", ">DOCUMENTS"}
	if several {
		head = append(head, ">FIT")
	}
	t := NewTable(head...).Cap(2, 40).Cap(3, 40)
	for _, g := range groups {
		row := []string{strings.Join(g.IDs, " "), g.Label, g.SourceText, g.TargetText, strings.Join(g.Reasons, ", "), Confidence(g.Confidence), g.State, Number(g.Documents)}
		if several {
			row = append(row, Number(max(1, g.Fits)))
		}
		t.Row(row...)
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
	p.fits(m.Fits)
	p.plan(r.Planned)
	p.history(r.History)
}

// fits shows of which names several entities fit, and which.
func (p *printer) fits(list []api.MatchFits) {
	for _, x := range list {
		p.f("\n%s fit %s", Count(x.Total, "entity", "entities"), x.Name)
		t := NewTable("  ENTITY", "NAME", "METHOD", ">SCORE", "STATE", ">DOCUMENTS", "MATCH").Cap(1, 40)
		for _, f := range x.Fits {
			t.Row("  "+f.Entity, f.Name, f.Method, Confidence(f.Score), f.State, Number(f.Documents), f.ID)
		}
		p.table(t)
		if n := x.Total - len(x.Fits); n > 0 {
			p.f("  and %s more", Number(n))
		}
		p.f("  choose one: factmill review approve --id %s --entity ENTITY", x.Fits[0].ID)
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return "  because " + reason
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
