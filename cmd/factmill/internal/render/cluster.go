package render

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// Of a cluster or of what waits, so many rows are shown; the reply has more.
const (
	shownMembers = 20
	shownNames   = 5
)

// by is what says that two names are one thing.
func by(m graph.MatchRow) string {
	s := m.Method + ", " + Confidence(m.Score)
	if m.State == "confirmed" {
		s += ", confirmed"
	}
	return s
}

// cluster shows the other members of an entity's cluster, each with the link over which it hangs on the entity, and how to take it out.
func (p *printer) cluster(id string, c *api.Cluster) {
	if c == nil {
		return
	}
	if len(c.Members) > 1 {
		p.f("  also known as")
		n, leads := 0, leadsTo(id, c.Links)
		for _, m := range c.Members {
			if m.ID == id {
				continue
			}
			if n++; n > shownMembers {
				continue
			}
			p.member(id, m, leads)
		}
		if n > shownMembers {
			p.f("    … and %s: --json shows all", Count(n-shownMembers, "more name", "more names"))
		}
		p.f("    to take one out: factmill review reject --id MATCH")
	}
	if len(c.LeftOut) > 0 {
		p.f("  left out, to keep apart what is not one")
		for _, m := range c.LeftOut[:min(len(c.LeftOut), shownMembers)] {
			p.f("    %s ~ %s  (%s)  match %s", orID(m.AName, m.A), orID(m.BName, m.B), by(m), m.ID)
			if m.Why != "" {
				p.f("      for %s", m.Why)
			}
		}
		if more := c.LeftOutTotal - shownMembers; more > 0 {
			p.f("    … and %s", Count(more, "more link", "more links"))
		}
	}
	if c.Cut {
		p.f("    there is more than is looked at: this is a part of what is linked")
	}
	if c.Unchecked != "" {
		p.f("    the likeness of names was not looked at: %s", c.Unchecked)
	}
}

// leadsTo gives each other member the link over which it hangs on an entity: of those to members that hang on it already, the strongest.
func leadsTo(id string, links []graph.MatchRow) map[string]graph.MatchRow {
	out := map[string]graph.MatchRow{}
	in := map[string]bool{id: true}
	for found := true; found; {
		found = false
		for _, l := range links { // strongest first
			if in[l.A] == in[l.B] {
				continue
			}
			other := l.A
			if in[l.A] {
				other = l.B
			}
			in[other], out[other], found = true, l, true
			break
		}
	}
	return out
}

func (p *printer) member(id string, m api.Member, leads map[string]graph.MatchRow) {
	l, ok := leads[m.ID]
	if !ok {
		p.f("    %s  %s", m.Name, m.ID)
		return
	}
	over := ""
	if l.A != id && l.B != id {
		if over = "over " + orID(l.AName, l.A) + ", "; l.A == m.ID {
			over = "over " + orID(l.BName, l.B) + ", "
		}
	}
	p.f("    %s  (%s%s)  match %s", m.Name, over, by(l), l.ID)
}

// unclear shows what waits for a person.
func (p *printer) unclear(rows []graph.MatchRow, total int) {
	if len(rows) == 0 {
		return
	}
	p.f("  perhaps the same, to be decided: factmill review approve|reject --id MATCH")
	for _, m := range rows[:min(len(rows), shownMembers)] {
		p.f("    %s ~ %s  (%s)  match %s", orID(m.AName, m.A), orID(m.BName, m.B), by(m), m.ID)
	}
	if more := max(total, len(rows)) - shownMembers; more > 0 {
		p.f("    … and %s", Count(more, "more", "more"))
	}
}

// also names what else an entity that was found is called.
func (p *printer) also(h api.Hit) {
	if h.Cluster == nil {
		return
	}
	var names []string
	for _, m := range h.Cluster.Members {
		if m.ID != h.ID {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - shownNames; n > 0 {
		names, more = names[:shownNames], " and "+Count(n, "more", "more")
	}
	p.f("     also known as %s%s", strings.Join(names, ", "), more)
}
