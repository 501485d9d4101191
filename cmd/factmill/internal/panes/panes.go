// Package panes shows a review item on a terminal: the text that says it with the span marked, the item, and the change that its approval
// would make; side by side where there is room, else one below the other.
package panes

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
)

// View is what is shown, whatever kind of item it is of. Texts may come from documents: they are escaped here.
type View struct {
	Sources []Source
	Item    []string
	Plan    []string
}

// Source is a place that says something: what stands before it, the marked span, what follows; Head is above it, Foot says where it is.
type Source struct {
	Head, Before, Span, After, Foot string
}

// Columns from which on the panes stand side by side.
const Wide = 100

// Bounds of a marked span in its pane, in columns.
const (
	maxSpan   = 400
	maxAround = 160
)

const (
	between = " │ "
	more    = "…"
)

// Render writes the panes in lines of at most width columns; of a pane at most rows lines (0: all).
func Render(w io.Writer, v View, width, rows int) error {
	width = max(width, 1)
	heads := []string{"source", "item", "what approve does"}
	panes := [][]string{v.source(), lines(v.Item), lines(v.Plan)}
	var b strings.Builder
	if width < Wide {
		for i, p := range panes {
			b.WriteString(rule(heads[i], width) + "\n")
			for _, line := range cut(wrapped(p, width, i > 0), rows, width) {
				b.WriteString(line + "\n")
			}
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	room := width - 2*len([]rune(between))
	widths := []int{room - 2*(room/3), room / 3, room / 3}
	height := 0
	for i := range panes {
		panes[i] = append([]string{rule(heads[i], widths[i])}, cut(wrapped(panes[i], widths[i], i > 0), rows, widths[i])...)
		height = max(height, len(panes[i]))
	}
	for n := range height {
		var cells []string
		for i, p := range panes {
			cell := ""
			if n < len(p) {
				cell = p[n]
			}
			cells = append(cells, cell+strings.Repeat(" ", max(0, widths[i]-render.Width(cell))))
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, between), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func rule(head string, width int) string {
	head = "── " + head + " "
	return render.End(head+strings.Repeat("─", max(0, width-render.Width(head))), width)
}

func (v View) source() (out []string) {
	for i, s := range v.Sources {
		if i > 0 {
			out = append(out, "")
		}
		if s.Head != "" {
			out = append(out, render.Line(s.Head))
		}
		before, span, after := plain(s.Before), plain(s.Span), plain(s.After)
		text := "»" + render.Middle(span, maxSpan) + "«"
		if before != "" {
			text = start(before, maxAround) + gap(s.Before, true) + text
		}
		if after != "" {
			text += gap(s.After, false) + render.End(after, maxAround)
		}
		if span != "" {
			out = append(out, text)
		}
		if s.Foot != "" {
			out = append(out, "  "+render.Line(s.Foot))
		}
	}
	return out
}

// plain is text of a document in one line.
func plain(s string) string { return render.Line(strings.Join(strings.Fields(s), " ")) }

// gap is the space between a span and what stands beside it, where there is one.
func gap(beside string, before bool) string {
	r, _ := utf8.DecodeRuneInString(beside)
	if before {
		r, _ = utf8.DecodeLastRuneInString(beside)
	}
	if unicode.IsSpace(r) {
		return " "
	}
	return ""
}

// start cuts a text at its beginning.
func start(s string, width int) string {
	if render.Width(s) <= width {
		return s
	}
	var clusters []string
	for state := -1; s != ""; {
		var c string
		c, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		clusters = append(clusters, c)
	}
	i := len(clusters)
	for used := 1; i > 0; i-- {
		if used += render.Width(clusters[i-1]); used > width {
			break
		}
	}
	return more + strings.Join(clusters[i:], "")
}

func lines(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = render.Line(s)
	}
	return out
}

// cut leaves out the lines behind the first so many, and counts them.
func cut(list []string, rows, width int) []string {
	if rows <= 0 || len(list) <= rows {
		return list
	}
	rows = max(rows, 1)
	left := fmt.Sprintf("%s %d more lines: d shows all", more, len(list)-rows+1)
	return append(list[:rows-1:rows-1], render.End(left, width))
}

func wrapped(list []string, width int, hang bool) (out []string) {
	for _, s := range list {
		out = append(out, wrap(s, width, hang)...)
	}
	return out
}

// wrap breaks a line at spaces, and words that are too long between characters as a reader counts them. Lines that follow are indented as the first,
// with hang by two columns more. A character that is wider than the pane stands alone.
func wrap(s string, width int, hang bool) []string {
	indent := len(s) - len(strings.TrimLeft(s, " "))
	if indent+4 > width {
		indent = 0
	}
	first, next := strings.Repeat(" ", indent), strings.Repeat(" ", indent)
	if hang && indent+6 <= width {
		next += "  "
	}
	var out []string
	line, empty := first, true
	flush := func() {
		out = append(out, strings.TrimRight(line, " "))
		line, empty = next, true
	}
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' }) {
		word = standing(word)
		joined := line + word
		if !empty {
			joined = line + " " + word
		}
		if render.Width(joined) <= width {
			line, empty = joined, false
			continue
		}
		if !empty {
			flush()
		}
		for state := -1; word != ""; {
			var c string
			c, word, _, state = uniseg.FirstGraphemeClusterInString(word, state)
			if !empty && render.Width(line+c) > width {
				flush()
			}
			line, empty = line+c, false
		}
	}
	if !empty || len(out) == 0 {
		flush()
	}
	return out
}

// standing gives a word that begins with a mark something to stand on: it would go into what is before it.
func standing(word string) string {
	r, _ := utf8.DecodeRuneInString(word)
	if unicode.Is(unicode.M, r) || r == 0x200d || unicode.Is(unicode.Variation_Selector, r) {
		return "◌" + word
	}
	return word
}
