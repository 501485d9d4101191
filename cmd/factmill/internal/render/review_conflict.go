package render

import (
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// conflicts shows a page of the review list that has conflicts only.
func conflicts(p *printer, groups []api.Group) {
	t := NewTable("ID", "LABEL", "NAME", "PROPERTY", "VALUES", "REASON", "STATE", ">DOCUMENTS").Cap(2, 40).Cap(4, 60)
	for _, g := range groups {
		t.Row(strings.Join(g.IDs, " "), g.Label, g.Text, g.SourceText, g.TargetText, strings.Join(g.Reasons, ", "), g.State, Number(g.Documents))
	}
	p.table(t)
}

// conflict shows a conflict whole: each value with its evidence, and what may be of any.
func (p *printer) conflict(r api.ReviewShowReply) {
	c := r.Conflict
	p.f("%s  (%s)  %s", c.Name, c.Label, c.Property)
	missing := c.Reason == api.ReasonMissing
	if missing {
		p.f("  %s %s  no value, named in %s", strings.Join(r.Item.Reasons, ", "), r.Item.State, Count(r.Item.Documents, "document", "documents"))
	} else {
		p.f("  %s %s  %s in %s", strings.Join(r.Item.Reasons, ", "), r.Item.State, Count(c.ValuesTotal, "value", "values"), Count(r.Item.Documents, "document", "documents"))
	}
	p.f("  id %s  revision %d", c.ID, r.Revision)
	p.f("  key %s", r.Item.Key)
	p.f("  of %s", c.Owner)
	if c.Apart {
		p.f("  told apart: each value is of an entity of its own")
	}
	for i, v := range c.Values {
		shown := ""
		switch {
		case v.Rejected:
			shown = "  rejected"
		case c.Apart:
			shown = "  entity " + v.Entity
		case i == 0:
			shown = "  shown"
		}
		p.f("")
		value := Any(v.Value)
		if v.Text != "" {
			value = v.Text
		}
		p.f("%s  %s  confidence %s%s", value, Count(v.Documents, "document", "documents"), Confidence(v.Confidence), shown)
		p.quotes(v.Evidence)
		if v.Text != "" {
			p.f("    relation %s%s", Any(v.Value), dated(v.Newest))
		}
	}
	if n := c.ValuesTotal - len(c.Values); n > 0 {
		p.f("\nand %s", Count(n, "more value", "more values"))
	}
	switch {
	case missing:
		p.f("\nnamed here  the value may stand near")
		p.quotes(c.Undecided)
	case c.UndecidedDocuments > 0:
		p.f("\nundecided  %s without a value", Count(c.UndecidedDocuments, "document", "documents"))
		p.quotes(c.Undecided)
	}
	p.plan(r.Planned)
	p.history(r.History)
}

func dated(newest string) string {
	if newest == "" {
		return ""
	}
	return "  newest " + newest
}

// plan shows what approving an item would do.
func (p *printer) plan(x api.Planned) {
	if x.Plan == nil {
		return
	}
	p.f("\nwhat approve does  fingerprint %s", x.Fingerprint)
	for _, line := range x.Plan.Lines() {
		p.f("  %s", Middle(Line(line), 160))
	}
	if x.PlanLeftOut > 0 {
		p.f("  and %s more", Number(x.PlanLeftOut))
	}
}

func (p *printer) quotes(list []api.Surrounded) {
	for _, e := range list {
		p.inContext(e)
		p.f("    %s", place(e.Evidence))
	}
}
