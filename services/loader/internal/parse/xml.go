package parse

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/factmill/factmill/pkg/fault"
)

// readXML renders the text of a document as Markdown. It knows the elements of DocBook, JATS, TEI and XHTML that make structure
// (titles, paragraphs, lists, tables, code); any other element is a block of its own where its parent holds elements only, and part
// of the sentence where its parent holds text too. Attributes, comments and processing instructions are no text. Entities that
// the document declares itself are refused and nothing outside it is looked up; the names that HTML has may be used.
func readXML(text string) (Record, error) {
	text = strings.TrimPrefix(text, "\uFEFF")
	mixed, err := surveyXML(text)
	if err != nil {
		return Record{}, err
	}
	r := xmlReader{page: newPage(), mixed: mixed}
	err = eachToken(text, MaxXML, func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			r.start(t)
		case xml.EndElement:
			r.end()
		case xml.CharData:
			r.page.text(t)
		}
		return nil
	})
	if err != nil {
		return Record{}, err
	}
	return r.page.finish(), nil
}

// eachToken calls fn for the tokens of a document, within bounds.
func eachToken(text string, deepest int, fn func(xml.Token) error) error {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is decoded already
	depth, elements := 0, 0
	astray := 0 // the line of text before the root element
	for {
		begin := d.InputOffset()
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			if elements == 0 {
				return fault.Bad(CodeXML, "there is no element: this is no XML document")
			}
			return nil
		}
		if err != nil {
			return xmlFault(err)
		}
		line, _ := d.InputPos()
		switch t := t.(type) {
		case xml.Directive:
			if bytes.Contains(bytes.ToUpper(t), []byte("<!ENTITY")) {
				return fault.Bad(CodeEntity, "the document type before line %d declares entities: they are not read", line+1)
			}
		case xml.StartElement:
			switch {
			case depth > 0:
			case astray > 0:
				return fault.Bad(CodeXML, "line %d: text stands before the root element <%s>", astray, clip(t.Name.Local, 80))
			case elements > 0:
				return fault.Bad(CodeXML, "line %d: <%s> is a second root element: a document has one", line, clip(t.Name.Local, 80))
			}
			elements++
			if depth++; depth > deepest {
				return fault.Bad(CodeTooDeep, "line %d: elements are nested more than %d deep", line, deepest)
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if ref := halfRef(text[begin:d.InputOffset()]); ref != "" {
				return fault.Bad(CodeXML, "line %d: %s is half a character", line, ref)
			}
			switch {
			case depth > 0 || len(bytes.TrimSpace(t)) == 0:
			case elements > 0:
				return fault.Bad(CodeXML, "line %d: text stands behind the root element", line)
			default:
				astray = line
			}
		}
		if err := fn(t); err != nil {
			return err
		}
	}
}

// halfRef finds a reference to half a character in the source of a text, of which the decoder makes U+FFFD; "" when there is none.
func halfRef(source string) string {
	if strings.HasPrefix(source, "<![CDATA[") {
		return ""
	}
	for {
		_, rest, ok := strings.Cut(source, "&#")
		if !ok {
			return ""
		}
		ref, rest, ok := strings.Cut(rest, ";")
		if !ok {
			return ""
		}
		digits, base := ref, 10
		if hex, ok := strings.CutPrefix(ref, "x"); ok {
			digits, base = hex, 16
		}
		if n, err := strconv.ParseUint(digits, base, 32); err == nil && n <= unicode.MaxRune && utf16.IsSurrogate(rune(n)) {
			return "&#" + clip(ref, 20) + ";"
		}
		source = rest
	}
}

func xmlFault(err error) error {
	var s *xml.SyntaxError
	if errors.As(err, &s) {
		return fault.Bad(CodeXML, "line %d: %s", s.Line, clip(s.Msg, 200))
	}
	return fault.Bad(CodeXML, "read the document: %v", err)
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) set(n int) {
	for n/64 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bits) has(n int) bool { return n/64 < len(b) && b[n/64]&(1<<(n%64)) != 0 }

// surveyXML tells, by its number, which elements hold text themselves.
func surveyXML(text string) (mixed bits, err error) {
	var open []int
	n := 0
	err = eachToken(text, MaxXML, func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			open = append(open, n)
			n++
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && len(bytes.TrimSpace(t)) > 0 {
				mixed.set(open[len(open)-1])
			}
		}
		return nil
	})
	return mixed, err
}

// Roles of elements.
const (
	xmlBlock = "div"
	xmlPara  = "p"
	xmlNote  = "note" // a note amid a sentence
	xmlBreak = "br"
	xmlDrop  = "template"
	xmlFlow  = "" // part of the sentence
)

// roles maps names of elements, lower case, to what they are in HTML's words. What depends on the place is in role.
var roles = func() map[string]string {
	m := map[string]string{}
	for role, names := range map[string]string{
		xmlPara: "p para simpara subtitle caption abstract-p attribution blockquote-p bridgehead term glossterm def defn speech l lg verse-line " +
			"mixed-citation bibliomixed citation bibl entrytbl",
		"ul":     "itemizedlist simplelist ul variablelist",
		"ol":     "orderedlist ol procedure",
		"li":     "listitem list-item li member step",
		"table":  "table informaltable",
		"pre":    "programlisting screen literallayout synopsis preformat pre",
		xmlNote:  "footnote fn",
		xmlBreak: "br break lb sbr",
		xmlDrop:  "script style indexterm remark annotation annotation-xml tex-math",
		xmlBlock: "sec section sect1 sect2 sect3 sect4 sect5 chapter part appendix preface body front back info articleinfo bookinfo abstract",
	} {
		for _, n := range strings.Fields(names) {
			m[n] = role
		}
	}
	for _, n := range strings.Fields("a abbr abbrev acronym b bold cite citetitle code command email em emph emphasis ext-link filename firstterm " +
		"foreignphrase hi i inline-formula italic link literal monospace named-content phrase quote ref s sc small span strong styled-content sub subscript " +
		"sup superscript trademark tt u ulink underline uri xref") {
		m[n] = xmlFlow
	}
	return m
}()

// sections are elements whose title is one level below that of the element around them.
var sections = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields("book article chapter part appendix preface sec section sect1 sect2 sect3 sect4 sect5 simplesect refsect1 refsect2 refsect3 " +
		"div div1 div2 div3 div4 div5 topic app ack ref-list bibliography glossary abstract boxed-text") {
		m[n] = true
	}
	return m
}()

// captioned are elements whose title is a caption, a name or a quoted title, and no heading.
var captioned = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields("figure fig fig-group example informalexample equation formalpara note tip warning caution important caption biblioentry " +
		"biblioset bibliomixed mixed-citation element-citation citation ref bibl biblstruct monogr analytic itemizedlist orderedlist variablelist list " +
		"step procedure listitem list-item table-wrap") {
		m[n] = true
	}
	return m
}()

// xmlReader drives a page by the elements of a document.
type xmlReader struct {
	page  *page
	mixed bits
	n     int // elements so far
	level int // sections that are open, the root aside
	open  []xmlElement
}

type xmlElement struct {
	name string // lower case
	role string
	flow bool // what stands inside is part of one sentence
	kept *kept
}

// kept is a paragraph that a note interrupts.
type kept struct {
	para   run
	prefix string
	item   bool
}

func (r *xmlReader) start(t xml.StartElement) {
	e := xmlElement{name: strings.ToLower(t.Name.Local)}
	var parent xmlElement
	if len(r.open) > 0 {
		parent = r.open[len(r.open)-1]
	}
	var known bool
	e.role, known = r.role(e.name, parent, t.Attr)
	if !known {
		e.role = xmlBlock
		if parent.flow {
			e.role = xmlFlow
		}
	}
	e.flow = e.role == xmlFlow || e.role == xmlPara || e.role[0] == 'h' || r.mixed.has(r.n)
	r.n++
	if sections[e.name] && len(r.open) > 0 {
		r.level++
	}
	switch e.role {
	case xmlFlow:
	case xmlNote:
		r.note(&e, parent)
	default:
		r.page.start(e.role, attrs{colspan: number(t.Attr, "colspan")}, false)
	}
	r.open = append(r.open, e)
}

func (r *xmlReader) end() {
	e := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
	if sections[e.name] && len(r.open) > 0 {
		r.level--
	}
	switch e.role {
	case xmlFlow:
	case xmlNote:
		r.page.endBlock()
		if k := e.kept; k != nil {
			r.page.para, r.page.prefix, r.page.item = k.para, k.prefix, k.item
		}
	default:
		r.page.end(e.role)
	}
}

// note puts a note that stands amid a sentence before its paragraph, which goes on as if it were not there.
func (r *xmlReader) note(e *xmlElement, parent xmlElement) {
	w := r.page
	if !parent.flow || w.tab.depth > 0 || w.pre > 0 || w.drop > 0 {
		w.endBlock()
		return
	}
	e.kept = &kept{w.para, w.prefix, w.item}
	w.para, w.prefix, w.item = run{}, "", false
}

// role is what an element is, by its name and its place; false when neither tells.
func (r *xmlReader) role(name string, parent xmlElement, attr []xml.Attr) (string, bool) {
	inTable := r.page.tab.depth > 0
	switch name {
	case "title", "head":
		switch {
		case parent.role == "table":
			return "caption", true
		case captioned[parent.name]:
			return xmlPara, true
		case parent.flow:
			return xmlFlow, true
		}
		return r.heading(), true
	case "caption":
		if parent.role == "table" {
			return "caption", true
		}
	case "article-title":
		if parent.name == "title-group" {
			return r.heading(), true
		}
		return xmlFlow, parent.flow
	case "list":
		for _, a := range attr {
			if v := strings.ToLower(a.Value); strings.Contains(a.Name.Local, "type") && (v == "order" || v == "ordered" || v == "numbered") {
				return "ol", true
			}
		}
		return "ul", true
	case "item":
		return "li", parent.role == "ul" || parent.role == "ol"
	case "thead", "tbody", "tfoot", "td", "th":
		return name, inTable
	case "row", "tr":
		return "tr", inTable
	case "entry":
		return "td", inTable && parent.role == "tr"
	case "tgroup", "colspec", "colgroup", "col", "spanspec":
		return xmlFlow, inTable
	}
	if parent.role == "tr" {
		return "td", true // a row of a table of somebody's own
	}
	role, ok := roles[name]
	return role, ok
}

func (r *xmlReader) heading() string { return "h" + strconv.Itoa(min(1+r.level, 6)) }

func number(attr []xml.Attr, name string) int {
	for _, a := range attr {
		if a.Name.Local == name {
			if n, err := strconv.Atoi(strings.TrimSpace(a.Value)); err == nil {
				return n
			}
		}
	}
	return 0
}
