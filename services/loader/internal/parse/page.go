package parse

import (
	"strconv"
	"strings"
)

// maxOpen bounds the stack of open elements; deeper ones count as inline.
const maxOpen = 100_000

// page is the state of one rendering.
type page struct {
	out   strings.Builder
	open  []element      // open elements that have a role
	count map[string]int // of open, by name
	drop  int            // open elements that go with their content

	para   run    // the paragraph under way
	prefix string // what stands before the next paragraph: heading or list marker
	last   byte   // kind of the last block written: 'p', 'i' (list item), 0 for none
	item   bool   // the paragraph under way is a list item
	lists  []listState
	pre    int // open pre elements
	title  string
	titled bool
	tab    tableState
}

type element struct {
	name  string
	kind  kind
	loose bool // its end tag may be missing: there because it is hidden
}

type listState struct {
	ordered bool
	n       int
}

func newPage() *page { return &page{count: map[string]int{}} }

func (w *page) finish() Record {
	w.pop(0)
	w.flush()
	text := w.out.String()
	t := title(w.title)
	if t == "" {
		t = FirstHeading(text)
	}
	return Record{Text: text, Title: t}
}

// run collects inline text with white space collapsed.
type run struct {
	b     []byte
	space bool
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

func (r *run) add(s []byte) {
	for len(s) > 0 {
		n := 0
		for n < len(s) && !isSpace(s[n]) {
			n++
		}
		if n > 0 {
			if r.space && len(r.b) > 0 && r.b[len(r.b)-1] != '\n' {
				r.b = append(r.b, ' ')
			}
			r.space = false
			r.b = append(r.b, s[:n]...)
		}
		for s = s[n:]; len(s) > 0 && isSpace(s[0]); s = s[1:] {
			r.space = true
		}
	}
}

func (r *run) line() {
	if len(r.b) > 0 {
		r.b = append(r.b, '\n')
	}
	r.space = false
}

func (r *run) take() string {
	s := strings.TrimRight(string(r.b), "\n")
	r.b, r.space = r.b[:0], false
	return s
}

func (w *page) text(s []byte) {
	switch {
	case w.drop > 0:
	case w.count["title"] > 0:
		if !w.titled {
			w.title += string(s[:min(len(s), 4*maxTitle)])
		}
	case w.tab.depth > 0 && w.count["caption"] == 0:
		w.tab.text(s)
	case w.pre > 0:
		w.para.b = append(w.para.b, s...)
	default:
		w.para.add(s)
	}
}

func (w *page) start(name string, a attrs, selfClosing bool) {
	if w.drop > 0 {
		w.implied(name)
	}
	k := kindOf(name, a)
	if k == dropped && name == "header" && a.role == "" && !a.hidden && w.count["article"]+w.count["main"] > 0 {
		k = block // the head of the content itself, not of the page
	}
	if void[name] || selfClosing && k == dropped {
		if name == "br" && w.drop == 0 {
			w.br()
		} else if k != inline && k != dropped && w.drop == 0 {
			w.endBlock() // hr
		}
		return
	}
	if k == caption && w.tab.depth != 1 {
		k = loose // nothing that it could be the caption of
	}
	if (k == inline || k == loose) && w.drop > 0 {
		if w.count[name] == 0 {
			return
		}
		k = dropped // inside a hidden one of its name: its end must not be taken for the other's
	}
	switch k {
	case inline:
		return
	case loose:
		w.startLoose(name, a)
		return
	}
	if selfClosing && k != rawText && k != pageTitle {
		return
	}
	if goes := k == dropped || k == rawText; w.drop == 0 && !(goes && amid(name)) {
		w.enter(k, name)
	}
	if len(w.open) < maxOpen {
		w.push(k, name)
	}
}

// kindOf is an element's kind, by its name and by what it says of itself.
func kindOf(name string, a attrs) kind {
	k := kinds[name]
	switch {
	case k == rawText:
		return k
	case a.hidden, frames[a.role]:
		return dropped
	case name == "dialog" && a.open:
		return block
	case k == tableKind && (a.role == "presentation" || a.role == "none"):
		return block // laid out by a table that is none
	}
	return k
}

// implied ends the hidden element that the start of another one ends.
func (w *page) implied(next string) {
	if e := w.open[len(w.open)-1]; e.loose && closes(e.name, next) {
		w.pop(len(w.open) - 1)
	}
}

func (w *page) push(k kind, name string) {
	w.open = append(w.open, element{name: name, kind: k, loose: kinds[name] == loose})
	w.count[name]++
	switch k {
	case dropped, rawText:
		w.drop++
	case pre:
		if w.drop == 0 {
			w.pre++
		}
	}
}

func (w *page) end(name string) {
	switch k := kinds[name]; {
	case k == loose && w.count[name] == 0:
		if w.drop == 0 {
			w.endLoose(name)
		}
	case w.count[name] > 0: // so the search ends, and all that it passes goes: linear over the page
		at := len(w.open) - 1
		for w.open[at].name != name {
			at--
		}
		w.pop(at)
	}
}

// pop closes every element from place at on.
func (w *page) pop(at int) {
	for i := len(w.open) - 1; i >= at; i-- {
		e := w.open[i]
		w.open = w.open[:i]
		w.count[e.name]--
		if e.kind == dropped || e.kind == rawText {
			w.drop--
			continue
		}
		if w.drop == 0 {
			w.leave(e.kind)
		}
	}
}

func (w *page) enter(k kind, name string) {
	if w.tab.depth > 0 && k != tableKind && k != caption {
		w.tab.gap()
		return
	}
	w.flush()
	switch k {
	case heading:
		w.prefix = strings.Repeat("#", int(name[1]-'0')) + " "
	case list:
		w.lists = append(w.lists, listState{ordered: name == "ol"})
	case tableKind:
		if w.pre > 0 && w.tab.depth == 0 {
			w.code() // what stands before the table
		}
		w.tab.enter()
	}
}

func (w *page) leave(k kind) {
	switch k {
	case pageTitle:
		w.titled = w.titled || strings.TrimSpace(w.title) != ""
		return
	case tableKind:
		w.leaveTable()
		return
	case caption:
		if len(w.para.b) > 0 && w.tab.rows > 0 {
			w.tab.rows = 0 // a caption amid the rows: what follows is a table of its own
		}
		w.flush()
		return
	case pre:
		w.pre = max(0, w.pre-1)
		if w.tab.depth == 0 {
			w.code()
			return
		}
	}
	if w.tab.depth > 0 {
		w.tab.gap()
		return
	}
	w.flush()
	if k == heading || k == list {
		w.prefix = ""
	}
	if k == list && len(w.lists) > 0 {
		w.lists = w.lists[:len(w.lists)-1]
		w.item = false
	}
}

func (w *page) endBlock() {
	if w.tab.depth > 0 {
		w.tab.gap()
		return
	}
	w.flush()
}

func (w *page) br() {
	switch {
	case w.tab.depth > 0 && w.count["caption"] == 0:
		w.tab.cell.space = true // a row is one line
	case w.pre > 0:
		w.para.b = append(w.para.b, '\n')
	default:
		w.para.line()
	}
}

func (w *page) startLoose(name string, a attrs) {
	if w.tab.depth == 1 && inTable[name] {
		w.tab.start(name, a.colspan, w.writeRow)
		return
	}
	w.endBlock()
	if name == "li" && w.tab.depth == 0 {
		w.prefix, w.item = w.marker(), true
	}
}

// inTable are the parts of a table.
var inTable = map[string]bool{"tr": true, "td": true, "th": true, "thead": true, "tbody": true, "tfoot": true}

func (w *page) endLoose(name string) {
	if w.tab.depth == 1 && inTable[name] {
		w.tab.end(name, w.writeRow)
		return
	}
	w.endBlock()
	if name == "li" && w.tab.depth == 0 {
		w.prefix, w.item = "", false
	}
}

// maxIndent is how many levels of lists are indented.
const maxIndent = 8

// marker of the next list item.
func (w *page) marker() string {
	if len(w.lists) == 0 {
		return "- "
	}
	indent := 0
	for _, l := range w.lists[:min(len(w.lists)-1, maxIndent)] {
		indent += 2
		if l.ordered {
			indent++
		}
	}
	in := &w.lists[len(w.lists)-1]
	in.n++
	if in.ordered {
		return strings.Repeat(" ", indent) + strconv.Itoa(in.n) + ". "
	}
	return strings.Repeat(" ", indent) + "- "
}

// flush writes the paragraph under way.
func (w *page) flush() {
	if w.pre > 0 {
		if n := len(w.para.b); n > 0 && w.para.b[n-1] != '\n' {
			w.para.b = append(w.para.b, '\n')
		}
		return
	}
	s := w.para.take()
	if s == "" {
		return
	}
	kind := byte('p')
	switch {
	case strings.HasPrefix(w.prefix, "#"):
		s = strings.ReplaceAll(s, "\n", " ")
	case w.item && w.prefix != "":
		kind = 'i'
	}
	w.separate(kind)
	w.out.WriteString(w.prefix)
	w.out.WriteString(s)
	w.prefix = ""
}

// separate writes what stands between two blocks.
func (w *page) separate(kind byte) {
	if w.last != 0 {
		w.out.WriteByte('\n')
		if w.last != 'i' || kind != 'i' {
			w.out.WriteByte('\n')
		}
	}
	w.last = kind
}

// code writes preformatted text as a fenced block.
func (w *page) code() {
	s := string(w.para.b)
	w.para.b = w.para.b[:0]
	s = strings.TrimRight(strings.TrimPrefix(s, "\n"), " \t\n")
	if strings.TrimSpace(s) == "" {
		return
	}
	fence := "```"
	for strings.Contains(s, fence) {
		fence += fence
	}
	w.separate('p')
	w.out.WriteString(fence + "\n" + s + "\n" + fence)
	w.prefix = ""
}
