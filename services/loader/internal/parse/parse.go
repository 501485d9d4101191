// Package parse takes a source apart into documents, by format. It is pure: no files, no network, nothing outside the source is
// ever looked up. What it refuses is a document fault with a stable code. Untrusted content never steers more than its own output,
// and memory follows the source's size.
package parse

import (
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/decode"
)

// Formats.
const (
	Text     = "text"
	Markdown = "markdown"
	HTML     = "html"
	XML      = "xml"
	DOCX     = "docx"
	PDF      = "pdf" // known here by name; its reader is a package of its own
	CSV      = "csv"
	TSV      = "tsv"
	JSON     = "json"
	JSONL    = "jsonl"
)

// Codes of the document faults.
const (
	CodeFormat  = "unsupported_format" // no parser for the format, or none can be told from the name
	CodeHTML    = "bad_html"
	CodeXML     = "bad_xml"
	CodeEntity  = "xml_entities" // the document declares entities of its own
	CodeDOCX    = "bad_docx"
	CodeBomb    = "zip_bomb"
	CodeCSV     = "bad_csv"
	CodeJSON    = "bad_json"
	CodeRecord  = "bad_record" // one row or record is at fault, and with it its source
	CodeTooDeep = "too_deep"
	CodeTooWide = "too_many_fields"
	CodeTooMany = "too_many_records"
	CodeTooBig  = "too_large"
	// CodeEncoding is also that of a JSON escape which stands for no character.
	CodeEncoding = decode.Code
	// CodeNoRecords is of a note, not of a fault.
	CodeNoRecords = "no_records"
)

// Limits of what is parsed, besides the bytes of the source.
const (
	MaxRecords = 1_000_000 // of one source
	MaxFields  = 4096      // columns of a row, fields of a record
	MaxDepth   = 64        // nesting of a record that is rendered as text
	MaxXML     = 256       // nesting of elements
)

// Markups that a chunker reads.
const (
	MarkupPlain    = "plain"
	MarkupMarkdown = "markdown"
)

// aliases maps what a person calls a format, and the extensions of files, to formats.
var aliases = map[string]string{
	"text": Text, "txt": Text, "plain": Text, "log": Text, "rst": Text,
	"markdown": Markdown, "md": Markdown, "mdown": Markdown, "mkd": Markdown,
	"html": HTML, "htm": HTML, "xhtml": HTML,
	"xml": XML, "nxml": XML, "jats": XML, "docbook": XML, "dbk": XML, "tei": XML,
	"docx": DOCX, "pdf": PDF,
	"csv": CSV, "tsv": TSV, "tab": TSV,
	"json": JSON, "jsonl": JSONL, "ndjson": JSONL,
}

// Known lists the format names and extensions that are read, sorted.
func Known() []string {
	out := make([]string, 0, len(aliases))
	for a := range aliases {
		out = append(out, a)
	}
	sort.Strings(out)
	return out
}

// Format tells the format: the given one, else by the extension of name; a name without an extension has none to tell.
func Format(given, name string) (string, error) {
	said := given
	if said == "" {
		said = strings.TrimPrefix(path.Ext(name), ".")
	}
	if f, ok := aliases[strings.ToLower(strings.TrimSpace(said))]; ok {
		return f, nil
	}
	if said == "" {
		return "", fault.Bad(CodeFormat, "%q has no extension to tell its format: name it with format", clip(name, 200))
	}
	return "", fault.Bad(CodeFormat, "format %q is not read; these are: %s", clip(said, 64), strings.Join(Known(), ", "))
}

// Single says whether every source of the format is exactly one document.
func Single(format string) bool {
	switch format {
	case Text, Markdown, HTML, XML, DOCX, PDF:
		return true
	default:
		return false
	}
}

// Binary says whether sources of the format are bytes rather than a text in some encoding.
func Binary(format string) bool { return format == DOCX || format == PDF }

// Record is one document of a source. The fields besides Text are empty where the source does not say them.
type Record struct {
	// ID within the source: its own, or its place from 0. Empty for a source that is one document.
	ID              string
	Text            string
	Title           string
	PublishedAt     string
	ContentDate     string
	SourceUpdatedAt string
	Metadata        map[string]any
	Scope           graph.Scope
	// At is where it stands in a source with many.
	At Place
	// Note says what of the document could not be read, where that does not make the rest worthless.
	Note *Note
}

// Place of a record: its number and its line, both from 1.
type Place struct{ Record, Line int }

func (p Place) String() string { return fmt.Sprintf("record %d (line %d)", p.Record, p.Line) }

// Note is something about a document that people should know.
type Note struct{ Code, Message string }

// Source is a source of a known format, ready to be read any number of times.
type Source struct {
	format string
	text   string
	line   int  // at which text begins, from 1
	comma  rune // of a table
	// object is set for a JSON source that is one object with no list of records inside.
	object bool
	// made is the one document of a source that is read already.
	made *Record
}

// Made is a source of one document that is read already.
func Made(format string, r Record) *Source { return &Source{format: format, made: &r} }

// New reads as much of text as it takes to tell whether it is one document. The format is no binary one.
func New(format, text string) (*Source, error) {
	s := &Source{format: format, text: text, line: 1}
	if Single(format) {
		return s, nil
	}
	s.text = strings.TrimPrefix(text, "\uFEFF")
	switch format {
	case CSV, TSV:
		s.sheet()
		return s, nil
	case JSONL:
		return s, nil
	}
	if err := validJSON(s.text, ""); err != nil {
		return nil, err
	}
	list, at, err := jsonList(s.text)
	if err != nil {
		return nil, err
	}
	if list == "" {
		s.object = true
	} else {
		s.line += strings.Count(s.text[:at], "\n")
		s.text = list
	}
	return s, nil
}

// Single says whether the source is exactly one document.
func (s *Source) Single() bool { return Single(s.format) || s.object }

// Markup is how a chunker reads the documents' texts.
func (s *Source) Markup() string {
	switch s.format {
	case Markdown, HTML, XML, DOCX:
		return MarkupMarkdown
	default:
		return MarkupPlain
	}
}

// Each calls fn for every document, in order, until fn returns an error, which Each returns. A record at fault ends it with a document
// fault that names the record. It may be called again.
func (s *Source) Each(fn func(Record) error) error {
	if s.made != nil {
		return fn(*s.made)
	}
	var r Record
	var err error
	switch s.format {
	case Text:
		r = Record{Text: s.text}
	case Markdown:
		r = readMarkdown(s.text)
	case HTML:
		r, err = readHTML(s.text)
	case XML:
		r, err = readXML(s.text)
	case CSV, TSV:
		return s.eachRow(checked(fn))
	case JSONL:
		return eachLine(s.text, checked(fn))
	default:
		if !s.object {
			return eachElement(s.text, s.line, checked(fn))
		}
		r, err = readRecord(s.text, "the document")
		r.ID = ""
	}
	if err != nil {
		return err
	}
	return fn(r)
}

// checked passes records on to fn, with their place as the id where no record of the source has one of its own. It refuses a
// source in which some have an id and some have none, for a place is no name beside names: it moves when a record is put in
// before it. It refuses more than MaxRecords, too.
func checked(fn func(Record) error) func(Record) error {
	var with, without Place
	return func(r Record) error {
		if r.At.Record > MaxRecords {
			return fault.Bad(CodeTooMany, "the source has more than %d records: split it", MaxRecords)
		}
		first := &with
		if r.ID == "" {
			first = &without
			r.ID = strconv.Itoa(r.At.Record - 1)
		}
		if first.Record == 0 {
			*first = r.At
		}
		if with.Record > 0 && without.Record > 0 {
			return fault.Bad(CodeRecord, "%v has no id, others have", without)
		}
		return fn(r)
	}
}

// lineWriter collects "name: value" lines: how a record without a text becomes one. Long names repeat, so max bounds it.
type lineWriter struct {
	b   strings.Builder
	max int
}

func (w *lineWriter) add(name, value string) error {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	if w.b.Len()+len(name)+len(value) > w.max {
		return fault.Bad(CodeTooBig, "as text it has more than %d bytes", w.max)
	}
	if w.b.Len() > 0 {
		w.b.WriteByte('\n')
	}
	w.b.WriteString(name)
	w.b.WriteString(": ")
	w.b.WriteString(value)
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
