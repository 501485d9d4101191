package parse

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"github.com/factmill/factmill/pkg/fault"
)

// readHTML renders a page as Markdown: headings, paragraphs, lists, tables and code keep their structure; what frames a page
// (nav, header, footer, aside) and what is no text (script, style, forms' controls, drawings) goes. It streams over tokens and
// builds no tree, so memory follows the output. Text is not escaped: a quote in the result is as the page shows it, save for
// "|" inside table cells.
func readHTML(text string) (Record, error) {
	w := newPage()
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return Record{}, fault.Bad(CodeHTML, "read the page: %v", err)
			}
			return w.finish(), nil
		case html.TextToken:
			w.text(z.Text())
		case html.StartTagToken:
			name, more := z.TagName()
			w.start(string(name), z, more, false)
		case html.SelfClosingTagToken:
			name, more := z.TagName()
			w.start(string(name), z, more, true)
		case html.EndTagToken:
			name, _ := z.TagName()
			w.end(string(name))
		}
	}
}

// Kinds of elements.
type kind uint8

const (
	inline    kind = iota // no structure of its own
	block                 // a container: it ends the paragraph before and inside it
	loose                 // a block whose end tag may be missing: never on the stack
	dropped               // goes with everything inside
	rawText               // dropped, and its content is no markup
	pageTitle             // the page's title
	pre                   // preformatted text
	heading               // h1…h6
	list                  // ul, ol
	tableKind             // table
	caption               // of a table
)

var kinds = func() map[string]kind {
	m := map[string]kind{"title": pageTitle, "pre": pre, "listing": pre, "table": tableKind, "caption": caption, "ul": list, "ol": list, "menu": list}
	for k, names := range map[kind]string{
		block:   "html body div section article main blockquote center form fieldset figure figcaption details summary dl address hgroup search",
		loose:   "p li dt dd hr tr td th thead tbody tfoot option legend",
		dropped: "nav header footer aside template select svg canvas",
		rawText: "script style noscript iframe noembed noframes textarea",
		heading: "h1 h2 h3 h4 h5 h6",
	} {
		for _, n := range strings.Fields(names) {
			m[n] = k
		}
	}
	return m
}()

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
	name string
	kind kind
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

func (w *page) start(name string, z *html.Tokenizer, more, selfClosing bool) {
	k := kinds[name]
	if k == inline {
		if name == "br" && w.drop == 0 {
			w.br()
		}
		return
	}
	if k == dropped && name == "header" && w.count["article"]+w.count["main"] > 0 {
		k = block // the head of the content itself, not of the page
	}
	if k == caption && w.tab.depth != 1 {
		k = loose // nothing that it could be the caption of
	}
	if k == loose {
		if w.drop == 0 {
			w.startLoose(name, z, more)
		}
		return
	}
	if selfClosing && k != rawText && k != pageTitle {
		return
	}
	if w.drop == 0 {
		w.enter(k, name)
	}
	if len(w.open) < maxOpen {
		w.push(k, name)
	}
}

func (w *page) push(k kind, name string) {
	w.open = append(w.open, element{name, k})
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
	case k == inline:
	case k == loose:
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
		w.tab.gap()
	case w.pre > 0:
		w.para.b = append(w.para.b, '\n')
	default:
		w.para.line()
	}
}

func (w *page) startLoose(name string, z *html.Tokenizer, more bool) {
	switch name {
	case "tr", "td", "th", "thead", "tbody", "tfoot":
		if w.tab.depth == 1 {
			w.tab.start(name, span(z, more), w.writeRow)
			return
		}
	}
	w.endBlock()
	if name == "li" && w.tab.depth == 0 {
		w.prefix, w.item = w.marker(), true
	}
}

func (w *page) endLoose(name string) {
	switch name {
	case "tr", "td", "th", "thead", "tbody", "tfoot":
		if w.tab.depth == 1 {
			w.tab.end(name, w.writeRow)
			return
		}
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
