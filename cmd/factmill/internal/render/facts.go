package render

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// quoteWidth is how much of a quote is shown in a list; evidence shows quotes whole.
const quoteWidth = 160

// printer writes lines and remembers the first error. String arguments are escaped, so that no caller can forget it.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err != nil {
		return
	}
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = Line(s)
		}
	}
	_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
}

// raw writes a line that is escaped already.
func (p *printer) raw(line string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, line+"\n")
	}
}

func (p *printer) table(t *Table) {
	if p.err == nil {
		p.err = t.Write(p.w)
	}
}

// Confidence writes a confidence with two digits.
func Confidence(c float64) string { return strconv.FormatFloat(c, 'f', 2, 64) }

// Time shortens an RFC 3339 time to its seconds; what is none stays as it is.
func Time(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// place is where a quote stands.
func place(e graph.Evidence) string {
	return fmt.Sprintf("%s [%d:%d]", Line(e.Document), e.Start, e.End)
}

// Entity shows an entity, its values and the relations it stands in.
func Entity(w io.Writer, r api.EntityReply) error {
	p := &printer{w: w}
	e := r.Entity
	p.f("%s  (%s)", e.Name, e.Type)
	p.f("  id        %s", e.ID)
	if h := e.Homonym; h != nil {
		what := "the one of " + h.Property + " " + Any(h.Value)
		if h.Undecided {
			what = "undecided: no document says which, by " + h.Property
		}
		p.f("  homonym   %s; others have the name", what)
	}
	if len(e.Labels) > 1 {
		p.f("  labels    %s", strings.Join(e.Labels, ", "))
	}
	p.f("  mentions  %s", mentions(e))
	for _, m := range firstEvidence(e.Evidence, 3) {
		p.f("    %s  %s", Quote(m.Quote, quoteWidth), place(m))
	}
	p.cluster(e.ID, r.Cluster)
	p.unclear(r.Unclear, r.UnclearTotal)
	p.properties(e.Properties)
	if len(r.Relations) > 0 {
		p.f("  relations")
		for _, rel := range r.Relations {
			p.relation("    ", rel, 2)
		}
		if more := r.RelationsTotal - len(r.Relations); more > 0 {
			p.f("    … and %s", Count(more, "more relation", "more relations"))
		}
	}
	return p.err
}

func mentions(e graph.EntityRow) string {
	n, d := e.MentionsTotal, e.DocumentsTotal
	if n == 0 {
		n = len(e.Mentions)
	}
	if d == 0 {
		return Number(n)
	}
	return fmt.Sprintf("%s in %s", Number(n), Count(d, "document", "documents"))
}

func firstEvidence(in []graph.Evidence, n int) []graph.Evidence {
	return in[:min(n, len(in))]
}

func (p *printer) properties(props map[string]graph.PropertyRow) {
	if len(props) == 0 {
		return
	}
	p.f("  properties")
	for _, name := range Keys(props) {
		row := props[name]
		line := fmt.Sprintf("    %s: %s", Line(name), Line(Any(row.Value)))
		if len(row.Others) > 0 {
			var others []string
			for _, o := range row.Others {
				value := Line(Any(o.Value))
				if o.Rejected {
					value += " (rejected)"
				}
				others = append(others, value)
			}
			line += "  (also stated: " + strings.Join(others, ", ") + ")"
		}
		p.f("%s", line)
		for _, q := range firstEvidence(row.Evidence, 2) {
			p.f("      %s  %s", Quote(q.Quote, quoteWidth), place(q))
		}
	}
}

// Any writes a property value as text.
func Any(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case nil:
		return "(none)"
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// relation shows one relation and up to quotes of its quotes.
func (p *printer) relation(indent string, r graph.RelationRow, quotes int) {
	notes := map[string]string{graph.HiddenRejected: "  (rejected)", graph.HiddenNotChosen: "  (not chosen)"}[r.Hidden]
	if r.NoOpenSource {
		notes += "  (kept: no open source)"
	}
	p.f(indent+"%s  %s  %s%s", orID(r.SourceName, r.Source), r.Type, orID(r.TargetName, r.Target), notes)
	for _, e := range firstEvidence(r.Evidence, quotes) {
		p.f(indent+"  %s  %s  %s", Quote(e.Quote, quoteWidth), place(e), Confidence(e.Confidence))
	}
	if more := max(r.EvidenceTotal, len(r.Evidence)) - quotes; more > 0 {
		p.f(indent+"  … and %s", Count(more, "more quote", "more quotes"))
	}
}

func orID(name, id string) string {
	if name == "" {
		return id
	}
	return name
}

// Relations shows relations with up to quotes of their quotes each.
func Relations(w io.Writer, indent string, quotes int, rows ...graph.RelationRow) error {
	p := &printer{w: w}
	for _, r := range rows {
		p.relation(indent, r, quotes)
	}
	return p.err
}

// Subgraph shows the entities and relations around an entity, or of a path.
func Subgraph(w io.Writer, s api.Subgraph) error {
	p := &printer{w: w}
	names := map[string]string{}
	t := NewTable("ENTITY", "TYPE", "ID").Cap(0, 60)
	for _, n := range s.Nodes {
		names[n.ID] = n.Name
		t.Row(n.Name, n.Type, n.ID)
	}
	p.table(t)
	if len(s.Edges) > 0 {
		p.f("")
	}
	for _, e := range s.Edges {
		if e.SourceName == "" {
			e.SourceName = names[e.Source]
		}
		if e.TargetName == "" {
			e.TargetName = names[e.Target]
		}
		p.relation("", e, 1)
	}
	if s.Truncated {
		p.f("… there is more: raise --limit or narrow the relation types")
	}
	return p.err
}

// Evidence shows every quote whole.
func Evidence(w io.Writer, r api.EvidenceReply) error {
	p := &printer{w: w}
	p.f("%s of %s %s", Count(max(r.Total, len(r.Evidence)), "piece of evidence", "pieces of evidence"), r.Kind, r.ID)
	for _, e := range r.Evidence {
		p.f("  %s", Quote(e.Quote, 0))
		line := fmt.Sprintf("    %s  confidence %s", place(e), Confidence(e.Confidence))
		if e.Assertion != "" {
			line += "  " + Line(e.Assertion)
		}
		if len(e.Extractors) > 0 {
			line += "  by " + Line(strings.Join(e.Extractors, ", "))
		}
		if e.Version > 0 {
			line += fmt.Sprintf("  version %d", e.Version)
		}
		if e.ClosedSeq > 0 {
			line += fmt.Sprintf(", until sequence %d", e.ClosedSeq)
		}
		p.f("%s", line)
	}
	if r.Next != "" {
		p.f("more: --cursor %s", r.Next)
	}
	return p.err
}

// replica says how far behind an answer may be.
func replica(s api.ReplicaState) string {
	out := "read replica: level with the committer"
	switch {
	case s.LevelAt == "":
		out = "read replica: not level with the committer since it was started"
	case s.Lag > 0:
		out = fmt.Sprintf("read replica: what is missing is not older than %.1f s (level at %s)", s.Lag, s.LevelAt)
	}
	if s.Behind > 0 {
		out += fmt.Sprintf(", %d batches behind", s.Behind)
	}
	if s.Announced > s.Seq {
		out += fmt.Sprintf(", commits up to %d are announced", s.Announced)
	}
	if s.Why != "" {
		out += "; the committer is not followed: " + Line(s.Why)
	}
	return out
}

// Stats shows what the graph holds.
func Stats(w io.Writer, r api.StatsReply) error {
	p := &printer{w: w}
	p.f("graph %s at sequence %d, schema %s (%s)", r.Graph, r.Seq, r.Schema, r.SchemaFP)
	if s := r.Replica; s != nil {
		p.f("%s", replica(*s))
	}
	t := NewTable("", ">")
	for _, row := range []struct {
		name string
		n    int
	}{
		{"documents", r.Documents}, {"chunks", r.Chunks}, {"mentions", r.Mentions}, {"entities", r.Entities},
		{"relations", r.Relations}, {"candidates", r.Candidates}, {"matches", r.Matches},
	} {
		t.Row(row.name, Number(row.n))
	}
	p.table(t)
	for _, by := range []struct {
		head string
		m    map[string]int
	}{{"entities by type", r.ByType}, {"relations by type", r.ByRelation}} {
		if len(by.m) > 0 {
			p.f("\n%s", by.head)
			p.table(Counts(by.m))
		}
	}
	return p.err
}

// Counts is a table of counts, largest first.
func Counts(m map[string]int) *Table {
	names := Keys(m)
	sort.SliceStable(names, func(i, j int) bool { return m[names[i]] > m[names[j]] })
	t := NewTable("", ">")
	for _, n := range names {
		t.Row("  "+n, Number(m[n]))
	}
	return t
}

// Keys of a map, sorted.
func Keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
