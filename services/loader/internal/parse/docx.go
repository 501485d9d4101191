package parse

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
)

// Bounds of a DOCX file.
const (
	maxParts     = 10_000
	maxRatio     = 200     // of a part's size to its packed size: real markup packs to a tenth or a twentieth
	freeSize     = 1 << 20 // a part below it may have any ratio
	maxExpansion = 8       // of all parts read together, times the limit of a document: markup is several times its text
	maxStyles    = 10_000  // styles and numbered lists each
)

// templateDate stands in every file of the commonest library that writes them from a program: it is its template's.
const templateDate = "2013-12-23T23:15:00Z"

// errTooMuch ends the reading of a part beyond its bound.
var errTooMuch = errors.New("too much")

// ReadDOCX renders a Word document as Markdown: headings by their style or outline level, lists, tables; then footnotes and endnotes.
// Text that was deleted or is hidden goes, and so do comments, headers, footers, fields' codes and drawings (text boxes stay). The
// title and the day of creation are the document's own properties. Macros and everything embedded are never touched. limit is
// the most bytes of a document.
func ReadDOCX(data []byte, limit int64) (Record, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		if bytes.HasPrefix(data, []byte("\xD0\xCF\x11\xE0")) {
			return Record{}, fault.Bad(CodeDOCX, "an old Word file, or one with a password: save it as DOCX without one")
		}
		return Record{}, fault.Bad(CodeDOCX, "the archive is damaged: %v", err)
	}
	if len(z.File) > maxParts {
		return Record{}, fault.Bad(CodeDOCX, "the archive has %d parts: at most %d", len(z.File), maxParts)
	}
	d := docx{parts: map[string]*zip.File{}, left: maxExpansion * limit, limit: limit}
	for _, f := range z.File {
		if _, twice := d.parts[f.Name]; !twice {
			d.parts[f.Name] = f
		}
	}
	main := d.main()
	if d.parts[main] == nil {
		return Record{}, fault.Bad(CodeFormat, "a ZIP archive that is no DOCX document: it has no word/document.xml")
	}
	return d.read(main)
}

// docx is one file under way.
type docx struct {
	parts   map[string]*zip.File
	left    int64 // bytes that may still be unpacked
	limit   int64
	styles  map[string]style
	formats map[levelID]string // number formats of lists, by their definition
	lists   map[string]string  // definitions of lists
	counts  map[levelID]int    // of numbered items so far
	page    *page
}

// style of paragraphs.
type style struct {
	based   string
	heading int // 1…9, 0 for none
	list    levelRef
}

// levelRef says which list a paragraph is an item of.
type levelRef struct {
	list  string // "" for none
	level int
}

// levelID is one level of a list or of its definition.
type levelID struct {
	list  string
	level int
}

// main is the name of the main part, by the package's relations.
func (d *docx) main() string {
	name := "word/document.xml"
	_ = d.part("_rels/.rels", func(t xml.Token) error { // without it the usual name holds
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "Relationship" && strings.HasSuffix(attr(e, "Type"), "/officeDocument") {
			if target := strings.TrimPrefix(path.Clean("/"+attr(e, "Target")), "/"); target != "" {
				name = target
			}
		}
		return nil
	})
	return name
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// part reads a part's tokens within all bounds; one that is not there has none.
func (d *docx) part(name string, fn func(xml.Token) error) error {
	return d.decode(name, func(x *xml.Decoder) error {
		depth, closed := 0, false
		for {
			t, err := x.Token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			switch t.(type) {
			case xml.StartElement:
				if closed {
					return fault.Bad(CodeDOCX, "%s is damaged: it has a second root element", name)
				}
				if depth++; depth > MaxXML {
					return fault.Bad(CodeTooDeep, "%s: elements are nested more than %d deep", name, MaxXML)
				}
			case xml.EndElement:
				depth--
				closed = depth == 0
			case xml.Directive: // the format has none
				return fault.Bad(CodeEntity, "%s has a document type: it is not read", name)
			}
			if err := fn(t); err != nil {
				return err
			}
		}
	})
}

// decode opens a part and classifies what goes wrong with it.
func (d *docx) decode(name string, fn func(*xml.Decoder) error) error {
	f := d.parts[name]
	if f == nil {
		return nil
	}
	size, packed := f.UncompressedSize64, max(f.CompressedSize64, 1)
	if size > freeSize && size/packed > maxRatio {
		return fault.Bad(CodeBomb, "%s is packed %d to 1: at most %d to 1 is read", name, size/packed, maxRatio)
	}
	if size > uint64(max(d.left, 0)) {
		return d.tooMuch()
	}
	r, err := f.Open()
	if err != nil {
		return fault.Bad(CodeDOCX, "%s is damaged: %v", name, err)
	}
	in := &bounded{r: r, left: &d.left}
	x := xml.NewDecoder(in)
	err = fn(x)
	_ = r.Close() // only read from
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooMuch):
		return d.tooMuch()
	case errors.As(err, &known):
		return err
	default:
		return fault.Bad(CodeDOCX, "%s is damaged: %v", name, err)
	}
}

func (d *docx) tooMuch() error {
	return fault.Bad(CodeBomb, "its parts have more than %d bytes unpacked", maxExpansion*d.limit)
}

// bounded reads until what is left of all parts is used up.
type bounded struct {
	r    io.Reader
	left *int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}

func (d *docx) read(main string) (Record, error) {
	dir := path.Dir(main)
	for _, step := range []func(string) error{d.readStyles, d.readNumbering} {
		if err := step(dir); err != nil {
			return Record{}, err
		}
	}
	d.page, d.counts = newPage(), map[levelID]int{}
	for i, name := range []string{main, path.Join(dir, "footnotes.xml"), path.Join(dir, "endnotes.xml")} {
		b := body{docx: d, notes: i > 0}
		if err := d.part(name, b.token); err != nil {
			return Record{}, err
		}
	}
	r := d.page.finish()
	return r, d.properties(&r)
}

// properties reads the title and the day of creation.
func (d *docx) properties(r *Record) error {
	var text strings.Builder
	var said string
	err := d.part("docProps/core.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			text.Reset()
		case xml.CharData:
			if text.Len() < maxFrontValue {
				text.Write(t)
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "title":
				said = title(text.String())
			case "created":
				if s := strings.TrimSpace(text.String()); s != templateDate {
					if _, err := events.ParseTime(s); err == nil {
						r.PublishedAt = s
					}
				}
			}
			text.Reset()
		}
		return nil
	})
	if said != "" {
		r.Title = said
	}
	return err
}

var headingName = regexp.MustCompile(`(?i)^heading ?([1-9])$`)

func (d *docx) readStyles(dir string) error {
	d.styles = map[string]style{}
	var id string
	var s style
	return d.part(path.Join(dir, "styles.xml"), func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "style":
				id, s = "", style{}
				if attr(t, "type") == "paragraph" {
					id = attr(t, "styleId")
				}
			case "name":
				s.heading = max(s.heading, namedHeading(attr(t, "val")))
			case "basedOn":
				s.based = attr(t, "val")
			case "outlineLvl":
				s.heading = outline(t)
			case "numId":
				s.list.list = listID(t)
			case "ilvl":
				s.list.level = level(t)
			}
		case xml.EndElement:
			if t.Name.Local == "style" && id != "" && len(d.styles) < maxStyles {
				d.styles[id] = s
				id = ""
			}
		}
		return nil
	})
}

// namedHeading is the level that a style's name says; Word writes these names in English in every language.
func namedHeading(name string) int {
	if strings.EqualFold(name, "title") {
		return 1
	}
	if m := headingName.FindStringSubmatch(strings.TrimSpace(name)); m != nil {
		return int(m[1][0] - '0')
	}
	return 0
}

// outline is the level of an outlineLvl element: 0…8 are headings, 9 is text.
func outline(e xml.StartElement) int {
	if n, err := strconv.Atoi(attr(e, "val")); err == nil && n >= 0 && n <= 8 {
		return n + 1
	}
	return 0
}

func level(e xml.StartElement) int {
	n, err := strconv.Atoi(attr(e, "val"))
	if err != nil {
		return 0
	}
	return min(max(n, 0), maxIndent)
}

// listID of a numId element; 0 takes a paragraph out of its style's list.
func listID(e xml.StartElement) string {
	if id := attr(e, "val"); id != "0" {
		return id
	}
	return ""
}

// resolve follows what a style is based on.
func (d *docx) resolve(id string) (heading int, list levelRef) {
	for range 20 { // circles end too
		s, ok := d.styles[id]
		if !ok {
			if heading == 0 {
				heading = namedHeading(id) // no styles part, or one that lacks it
			}
			break
		}
		if heading == 0 {
			heading = s.heading
		}
		if list.list == "" {
			list = s.list
		}
		if id = s.based; id == "" {
			break
		}
	}
	return heading, list
}

func (d *docx) readNumbering(dir string) error {
	d.formats, d.lists = map[levelID]string{}, map[string]string{}
	var definition, list string
	at := 0
	return d.part(path.Join(dir, "numbering.xml"), func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok || len(d.formats) > maxStyles || len(d.lists) > maxStyles {
			return nil
		}
		switch e.Name.Local {
		case "abstractNum":
			definition, list = attr(e, "abstractNumId"), ""
		case "lvl":
			at, _ = strconv.Atoi(attr(e, "ilvl"))
		case "numFmt":
			if list == "" {
				d.formats[levelID{definition, at}] = attr(e, "val")
			}
		case "num":
			list = attr(e, "numId")
		case "abstractNumId":
			d.lists[list] = attr(e, "val")
		}
		return nil
	})
}

// marker of the next item of a list.
func (d *docx) marker(at levelRef) string {
	indent := strings.Repeat("  ", at.level)
	switch d.formats[levelID{d.lists[at.list], at.level}] {
	case "bullet", "none", "":
		return indent + "- "
	}
	indent = strings.Repeat("   ", at.level)
	for l := at.level + 1; l <= maxIndent; l++ {
		delete(d.counts, levelID{at.list, l}) // they begin anew below each item
	}
	id := levelID{at.list, at.level}
	d.counts[id]++
	return indent + strconv.Itoa(d.counts[id]) + ". "
}
