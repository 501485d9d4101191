package render

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// Hits shows search results, best first. With colour the matches in their snippets are bold: text of a document has no control characters
// here, so that nothing in it passes for one. Without it they are not marked.
func Hits(w io.Writer, r api.SearchReply, colour bool) error {
	p := &printer{w: w}
	if len(r.Hits) == 0 {
		p.f("nothing found")
	}
	for i, h := range r.Hits {
		p.hit(i+1, h, colour)
	}
	if r.Incomplete {
		p.f("the filters left little of the best that were looked at, and there is more: name documents, or give rarer words")
	}
	return p.err
}

func (p *printer) hit(no int, h api.Hit, colour bool) {
	switch h.Kind {
	case "entity":
		var e graph.EntityRow
		if json.Unmarshal(h.Row, &e) == nil {
			p.f("%d. %s  (%s)  %s", no, e.Name, e.Type, h.ID)
			p.also(h)
			p.snippet(h, colour, e.Evidence)
			return
		}
	case "relation":
		var r graph.RelationRow
		if json.Unmarshal(h.Row, &r) == nil {
			p.f("%d. %s  %s  %s  %s", no, orID(r.SourceName, r.Source), r.Type, orID(r.TargetName, r.Target), h.ID)
			from := r.Evidence
			for i, e := range r.Evidence { // the snippet is of one of the quotes
				if strings.HasPrefix(oneLine(e.Quote), strings.Trim(h.Snippet, "…")) {
					from = r.Evidence[i:]
					break
				}
			}
			p.snippet(h, colour, from)
			return
		}
	case "chunk":
		var c graph.ChunkRow
		if json.Unmarshal(h.Row, &c) == nil {
			p.f("%d. chunk %d of %s  [%d:%d]", no, c.Index, c.Document, c.Start, c.End)
			if h.Snippet == "" {
				h.Snippet = c.Text
			}
			p.snippet(h, colour, nil)
			return
		}
	}
	p.f("%d. %s  %s", no, h.Kind, h.ID)
	p.snippet(h, colour, nil)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// snippet shows a hit's snippet, else the first evidence, and where that is.
func (p *printer) snippet(h api.Hit, colour bool, from []graph.Evidence) {
	at, quote := "", ""
	if len(from) > 0 {
		at, quote = "  "+place(from[0]), Quote(from[0].Quote, quoteWidth)
	}
	if h.Snippet != "" {
		quote = Marked(h.Snippet, h.Matches, colour)
	}
	if quote != "" {
		p.raw("     " + quote + at)
	}
}

const (
	bold  = "\x1b[1m"
	plain = "\x1b[22m"
)

// Marked is Quote of a snippet, whole; with colour its matches, by bytes, are bold.
func Marked(s string, matches []api.Match, colour bool) string {
	if !colour || len(matches) == 0 {
		return Quote(s, 0)
	}
	var b strings.Builder
	at := 0
	for _, m := range matches {
		if m.Start < at || m.End <= m.Start || m.End > len(s) || !boundary(s, m.Start) || !boundary(s, m.End) { // of another unit, or none of this snippet's
			break
		}
		b.WriteString(Line(s[at:m.Start]) + bold + Line(s[m.Start:m.End]) + plain)
		at = m.End
	}
	b.WriteString(Line(s[at:]))
	return "\u201c" + b.String() + "\u201d"
}

func boundary(s string, at int) bool { return at == len(s) || utf8.RuneStart(s[at]) }
