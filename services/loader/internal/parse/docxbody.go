package parse

import (
	"encoding/xml"
	"strconv"

	"github.com/factmill/factmill/pkg/fault"
)

// body walks a part with paragraphs and drives the page.
type body struct {
	*docx
	notes bool // a part of foot- or endnotes

	skip  int // elements inside one that goes with everything inside; 0 when none is open
	open  []string
	para  []paragraph // open ones: a text box holds paragraphs inside a paragraph
	table []wordTable
	run   runState

	placeholder bool // the content control under way shows what to type, not what was typed
}

// paragraph under way. Its text is in the page, unless it is interrupted by a text box.
type paragraph struct {
	style   string
	outline int
	direct  levelRef
	listed  bool // the list was said, be it "none"
	leveled bool // its level was said
	begun   bool
	kept    *kept
}

type runState struct {
	inProps bool
	hidden  bool
}

// wordTable under way.
type wordTable struct {
	rows      int
	firstHead bool // its look says that the first row is a header
	rowHead   bool // this row is one
}

// gone are elements that go with everything inside: what was deleted or moved away, fields' codes, the second form of a drawing,
// properties of sections, what properties were before, readings above the letters, embedded objects.
var gone = map[string]bool{
	"del": true, "moveFrom": true, "delText": true, "instrText": true, "delInstrText": true, "Fallback": true, "sectPr": true,
	"rPrChange": true, "pPrChange": true, "tblPrChange": true, "tcPrChange": true, "trPrChange": true, "rt": true, "object": true,
}

func (b *body) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if b.skip > 0 || gone[t.Name.Local] || b.separator(t) || b.placeholder && t.Name.Local == "sdtContent" {
			b.skip++
			b.placeholder = false
			return nil
		}
		b.start(t)
		b.open = append(b.open, t.Name.Local)
	case xml.EndElement:
		if b.skip > 0 {
			b.skip--
			return nil
		}
		b.open = b.open[:len(b.open)-1]
		b.end(t.Name.Local)
	case xml.CharData:
		if b.skip == 0 && b.textual() {
			b.write(t)
		}
	}
	if n := b.page.out.Len(); int64(n) > b.limit {
		return fault.Bad(CodeTooBig, "the document has more than %d bytes of text", b.limit)
	}
	return nil
}

// separator tells the notes that only draw a line.
func (b *body) separator(e xml.StartElement) bool {
	if !b.notes || e.Name.Local != "footnote" && e.Name.Local != "endnote" {
		return false
	}
	kind := attr(e, "type")
	return kind != "" && kind != "normal"
}

// textual tells whether character data is text: it is inside t only.
func (b *body) textual() bool {
	return len(b.open) > 0 && b.open[len(b.open)-1] == "t" && len(b.para) > 0
}

func (b *body) top() *paragraph { return &b.para[len(b.para)-1] }

func (b *body) write(s []byte) {
	if b.run.hidden {
		return
	}
	b.begin()
	b.page.text(s)
}

// begin writes what stands before a paragraph's text, once its properties are known.
func (b *body) begin() {
	p := b.top()
	if p.begun {
		return
	}
	p.begun = true
	heading, list := b.resolve(p.style)
	if p.outline > 0 {
		heading = p.outline
	}
	if p.listed {
		list.list = p.direct.list
	}
	if p.leveled {
		list.level = p.direct.level
	}
	switch {
	case b.page.tab.depth > 0:
	case heading > 0:
		b.page.prefix, b.page.item = "######"[:min(heading, 6)]+" ", false
	case list.list != "":
		b.page.prefix, b.page.item = b.marker(list), true
	default:
		b.page.prefix, b.page.item = "", false
	}
}

func (b *body) start(e xml.StartElement) {
	inPara := len(b.para) > 0
	switch name := e.Name.Local; name {
	case "p":
		b.page.endBlock()
		b.para = append(b.para, paragraph{})
	case "txbxContent":
		if inPara { // its paragraphs stand before the one they are drawn in, which goes on as if they were not there
			p := b.top()
			if b.page.tab.depth == 0 {
				p.kept = &kept{b.page.para, b.page.prefix, b.page.item}
				b.page.para, b.page.prefix, b.page.item = run{}, "", false
			}
		}
	case "sdt":
		b.placeholder = false
	case "showingPlcHdr":
		b.placeholder = on(e)
	case "rPr":
		b.run.inProps = true
	case "r":
		b.run = runState{}
	case "tbl":
		b.page.start("table", attrs{}, false)
		b.table = append(b.table, wordTable{})
	default:
		if len(b.table) > 0 {
			b.startCell(e, &b.table[len(b.table)-1])
		}
		if inPara {
			b.inParagraph(e, b.top())
		}
	}
}

// inParagraph takes a paragraph's and its runs' properties, and the characters that are elements.
func (b *body) inParagraph(e xml.StartElement, p *paragraph) {
	switch e.Name.Local {
	case "pStyle":
		p.style = attr(e, "val")
	case "outlineLvl":
		p.outline = outline(e)
	case "numId":
		p.direct.list, p.listed = listID(e), true
	case "ilvl":
		p.direct.level, p.leveled = level(e), true
	case "vanish":
		b.run.hidden = b.run.hidden || b.run.inProps && on(e)
	case "tab", "ptab":
		if p.begun {
			b.write([]byte{' '})
		}
	case "noBreakHyphen":
		b.write([]byte{'-'})
	case "br", "cr":
		if p.begun && !b.run.hidden {
			b.page.br()
		}
	}
}

// on is the value of a switch.
func on(e xml.StartElement) bool {
	switch attr(e, "val") {
	case "0", "false", "off":
		return false
	default:
		return true
	}
}

func (b *body) startCell(e xml.StartElement, t *wordTable) {
	switch e.Name.Local {
	case "tblLook":
		t.firstHead = attr(e, "firstRow") == "1" || attr(e, "firstRow") == "" && lookBit(attr(e, "val"))
	case "tr":
		t.rowHead = t.rows == 0 && t.firstHead
		b.page.start("tr", attrs{}, false)
	case "tblHeader":
		t.rowHead = t.rowHead || on(e)
	case "tc":
		name := "td"
		if t.rowHead {
			name = "th"
		}
		b.page.start(name, attrs{}, false)
	case "gridSpan":
		if n, err := strconv.Atoi(attr(e, "val")); err == nil && b.page.tab.depth == 1 {
			b.page.tab.span = min(max(n, 1), maxSpan)
		}
	}
}

// lookBit reads the older form of a table's look, hexadecimal, in which the first row is bit 0x20.
func lookBit(val string) bool {
	n, err := strconv.ParseUint(val, 16, 16)
	return err == nil && n&0x20 != 0
}

func (b *body) end(name string) {
	switch name {
	case "p":
		b.page.endBlock()
		b.page.prefix, b.page.item = "", false
		b.para = b.para[:len(b.para)-1]
	case "txbxContent":
		if len(b.para) > 0 {
			if p := b.top(); p.kept != nil {
				b.page.endBlock()
				b.page.para, b.page.prefix, b.page.item = p.kept.para, p.kept.prefix, p.kept.item
				p.kept = nil
			}
		}
	case "rPr":
		b.run.inProps = false
	case "r":
		b.run = runState{}
	case "tbl":
		b.page.end("table")
		b.table = b.table[:len(b.table)-1]
	case "tr":
		if len(b.table) > 0 {
			b.table[len(b.table)-1].rows++
			b.page.end("tr")
		}
	case "tc":
		if len(b.table) > 0 {
			b.page.end("td")
		}
	}
}
