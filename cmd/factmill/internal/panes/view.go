package panes

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Bounds of what is shown of one item.
const (
	maxSources = 12
	maxHistory = 5
)

// Of is the view of an item.
func Of(r api.ReviewShowReply) View {
	v := View{Item: item(r), Plan: planned(r)}
	switch {
	case r.Match != nil:
		v.match(r.Match)
	case r.Conflict != nil:
		v.conflict(r.Conflict)
	default:
		v.said("", r.Evidence)
		for _, s := range r.OtherSources {
			v.add(Source{Span: s.Quote, Foot: s.Document})
		}
	}
	return v
}

func (v *View) add(s Source) {
	switch n := len(v.Sources); {
	case n < maxSources:
		v.Sources = append(v.Sources, s)
	case n == maxSources:
		v.Sources = append(v.Sources, Source{Head: "and more"})
	}
}

// said adds places under a head.
func (v *View) said(head string, list []api.Surrounded) {
	for _, e := range list {
		v.add(Source{Head: head, Before: e.Before, Span: e.Quote, After: e.After, Foot: place(e.Evidence)})
		head = ""
	}
	if len(list) == 0 && head != "" {
		v.add(Source{Head: head})
	}
}

func place(e graph.Evidence) string { return fmt.Sprintf("%s [%d:%d]", e.Document, e.Start, e.End) }

func (v *View) match(m *api.MatchItem) {
	for _, s := range []api.MatchSide{m.A, m.B} {
		v.said(fmt.Sprintf("%s (%s)", s.Name, s.Label), s.Evidence)
	}
}

func (v *View) conflict(c *api.ConflictItem) {
	for i, x := range c.Values {
		note := ""
		switch {
		case x.Rejected:
			note = ", rejected"
		case i == 0:
			note = ", shown"
		}
		v.said(fmt.Sprintf("%s: %s%s", render.Any(x.Value), render.Count(x.Documents, "document", "documents"), note), x.Evidence)
	}
	switch {
	case c.Reason == api.ReasonMissing:
		v.said("no "+c.Property+"; named in "+render.Count(c.UndecidedDocuments, "document", "documents"), c.Undecided)
	case c.UndecidedDocuments > 0:
		v.said("undecided: "+render.Count(c.UndecidedDocuments, "document", "documents"), c.Undecided)
	}
}

func item(r api.ReviewShowReply) []string {
	g := r.Item
	out := []string{render.Subject(g), fmt.Sprintf("%s, %s", g.Kind, g.State)}
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch g.Kind {
	case graph.KindRelation:
		put("from %s", typed(g.SourceText, g.SourceLabel))
		put("to %s", typed(g.TargetText, g.TargetLabel))
	case graph.KindProperty:
		put("of %s", typed(g.SourceText, g.SourceLabel))
	}
	switch {
	case r.Match != nil:
		put("score %s, %s", render.Confidence(r.Match.Score), render.Count(g.Documents, "document", "documents"))
		if d := r.Match.Decided; d != nil {
			put("%s says %s", d.Actor, d.Decision)
		}
		if j := r.Match.Judged; j != nil {
			put("%s says %s", j.Model, j.Verdict)
		}
	case r.Others != nil:
		put("%s does not state it any more, %s more", g.Sample.Document, render.Count(*r.Others, "document", "documents"))
	default:
		put("%s in %s, confidence %s", render.Count(g.Count, "time", "times"), render.Count(g.Documents, "document", "documents"), render.Confidence(g.Confidence))
	}
	if len(g.Reasons) > 0 {
		put("because %s", strings.Join(g.Reasons, ", "))
	}
	put("revision %d", r.Revision)
	for i, id := range g.IDs {
		if i == 3 {
			put("and %s more", render.Number(len(g.IDs)-i))
			break
		}
		put("id %s", id)
	}
	put("key %s", g.Key)
	for i, a := range r.History {
		if i == maxHistory {
			put("and %s before", render.Count(len(r.History)-i, "decision", "decisions"))
			break
		}
		put("%s", decided(a))
	}
	return out
}

func typed(name, label string) string {
	if label == "" {
		return name
	}
	return name + " (" + label + ")"
}

func decided(a events.Audit) string {
	s := render.Time(a.At) + " " + a.Actor + ": " + a.Decision
	var v any
	if len(a.Value) > 0 && json.Unmarshal(a.Value, &v) == nil {
		s += " " + render.Any(v)
	}
	if a.Reason != "" {
		s += ", " + a.Reason
	}
	return s
}

// planned is the change, as a diff.
func planned(r api.ReviewShowReply) []string {
	if r.Plan == nil {
		switch {
		case r.Match != nil:
			return []string{"+ the two are read as one", "(reject: they are never linked)"}
		case r.Item.State == api.StateRejected:
			return []string{"nothing: it was rejected"}
		}
		return []string{"nothing"}
	}
	var out []string
	for _, line := range r.Plan.Lines() {
		out = append(out, render.Middle(strings.ReplaceAll(line, "\n", " "), maxSpan))
	}
	if len(r.Plan.Changes) == 0 {
		out = append(out, "nothing changes")
	}
	if r.PlanLeftOut > 0 {
		out = append(out, "and "+render.Number(r.PlanLeftOut)+" more")
	}
	for _, b := range r.Plan.Base[:min(len(r.Plan.Base), 3)] {
		out = append(out, fmt.Sprintf("on %s, revision %d", b.Document, b.Revision))
	}
	if n := len(r.Plan.Base) - 3; n > 0 {
		out = append(out, "and "+render.Count(n, "document", "documents")+" more")
	}
	return append(out, "fingerprint "+r.Fingerprint)
}
