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
// (nav, header, footer, aside, and what has their roles), what is hidden, and what is no text (script, style, forms' controls,
// drawings) goes. It streams over tokens and builds no tree, so memory follows the output. Text is not escaped: a quote in
// the result is as the page shows it, save for "|" inside table cells.
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
			w.start(string(name), attributes(z, more), false)
		case html.SelfClosingTagToken:
			name, more := z.TagName()
			w.start(string(name), attributes(z, more), true)
		case html.EndTagToken:
			name, _ := z.TagName()
			w.end(string(name))
		}
	}
}

// attrs is what an element says that matters here.
type attrs struct {
	hidden  bool   // it is not shown
	role    string // lower case
	open    bool
	colspan int // 0 when it says none
}

func attributes(z *html.Tokenizer, more bool) attrs {
	var a attrs
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		switch string(key) {
		case "hidden":
			a.hidden = true // whatever it says, "until-found" included: a reader does not see it
		case "aria-hidden":
			a.hidden = a.hidden || strings.EqualFold(strings.TrimSpace(string(val)), "true")
		case "style":
			a.hidden = a.hidden || invisible(string(val))
		case "role":
			a.role, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(string(val))), " ")
		case "open":
			a.open = true
		case "colspan":
			if n, err := strconv.Atoi(strings.TrimSpace(string(val))); err == nil {
				a.colspan = n
			}
		}
	}
	return a
}

// invisible tells whether an inline style hides its element. Style sheets are not read.
func invisible(style string) bool {
	for rule := range strings.SplitSeq(strings.ToLower(style), ";") {
		name, value, _ := strings.Cut(rule, ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), "!")
		switch strings.TrimSpace(name) + ":" + strings.TrimSpace(value) {
		case "display:none", "visibility:hidden":
			return true
		}
	}
	return false
}

// frames are roles of what frames a page, whatever the element.
var frames = map[string]bool{
	"navigation": true, "banner": true, "contentinfo": true, "complementary": true, "search": true, "menu": true, "menubar": true, "toolbar": true,
	"tablist": true, "dialog": true, "alertdialog": true, "tooltip": true,
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
		dropped: "nav header footer aside template select datalist button dialog svg canvas",
		rawText: "script style noscript iframe noembed noframes textarea",
		heading: "h1 h2 h3 h4 h5 h6",
	} {
		for _, n := range strings.Fields(names) {
			m[n] = k
		}
	}
	return m
}()

// void elements have no end tag and hold nothing.
var void = map[string]bool{
	"area": true, "base": true, "br": true, "col": true, "embed": true, "hr": true, "img": true, "input": true, "link": true, "meta": true,
	"param": true, "source": true, "track": true, "wbr": true,
}

// amid tells whether what is dropped with an element stands amid a sentence, which goes on behind it.
func amid(name string) bool {
	switch name {
	case "script", "style", "noscript", "template", "svg", "canvas", "select", "datalist", "button", "textarea", "iframe", "noembed":
		return true
	default:
		return kinds[name] == inline
	}
}

// closes tells whether the start of an element named next ends an open one named name, whose end tag was left out.
func closes(name, next string) bool {
	switch name {
	case "p":
		return kinds[next] != inline && kinds[next] != rawText
	case "li":
		return next == "li"
	case "dt", "dd":
		return next == "dt" || next == "dd"
	case "td", "th":
		return next == "td" || next == "th" || closes("tr", next)
	case "tr":
		return next == "tr" || closes("tbody", next)
	case "thead", "tbody", "tfoot":
		return next == "thead" || next == "tbody" || next == "tfoot"
	case "option":
		return next == "option"
	default:
		return false
	}
}
