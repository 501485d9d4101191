// Package parse takes a source's text apart into documents, by format. It is pure: no files, no network. What it refuses is a
// document fault with a stable code. Untrusted text never steers more than its own output.
package parse

import (
	"path"
	"sort"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
)

// Formats.
const (
	Text     = "text"
	Markdown = "markdown"
	HTML     = "html"
	CSV      = "csv"
	TSV      = "tsv"
	JSON     = "json"
	JSONL    = "jsonl"
)

// Codes of the document faults.
const (
	CodeFormat  = "unsupported_format" // no parser for the format, or none can be told from the name
	CodeHTML    = "bad_html"
	CodeCSV     = "bad_csv"
	CodeJSON    = "bad_json"
	CodeRecord  = "bad_record" // one row or record is at fault, and with it its source
	CodeTooDeep = "too_deep"
	CodeTooWide = "too_many_fields"
	CodeTooMany = "too_many_records"
	CodeTooBig  = "too_large"
)

// Limits of what is parsed, besides the bytes of the source.
const (
	MaxRecords = 1_000_000 // of one source
	MaxFields  = 4096      // columns of a row, fields of a record
	MaxDepth   = 64        // nesting of a record that is rendered as text
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
func Single(format string) bool { return format == Text || format == Markdown || format == HTML }

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
}

// Source is a text of a known format, ready to be read any number of times.
type Source struct {
	format string
	text   string
	// object is set for a JSON source that is one object with no list of records inside.
	object bool
}

// New reads as much of text as it takes to tell whether it is one document.
func New(format, text string) (*Source, error) {
	s := &Source{format: format, text: text}
	if Single(format) {
		return s, nil
	}
	s.text = strings.TrimPrefix(text, "\uFEFF")
	if format != JSON {
		return s, nil
	}
	if err := validJSON(s.text, ""); err != nil {
		return nil, err
	}
	list, err := jsonList(s.text)
	if err != nil {
		return nil, err
	}
	if list == "" {
		s.object = true
	} else {
		s.text = list
	}
	return s, nil
}

// Single says whether the source is exactly one document.
func (s *Source) Single() bool { return Single(s.format) || s.object }

// Markup is how a chunker reads the documents' texts.
func (s *Source) Markup() string {
	if s.format == Markdown || s.format == HTML {
		return MarkupMarkdown
	}
	return MarkupPlain
}

// Each calls fn for every document, in order, until fn returns an error, which Each returns. A record at fault ends it with a document
// fault that names the record. It may be called again.
func (s *Source) Each(fn func(Record) error) error {
	switch s.format {
	case Text:
		return fn(Record{Text: s.text})
	case Markdown:
		return fn(Record{Text: s.text, Title: FirstHeading(s.text)})
	case HTML:
		r, err := readHTML(s.text)
		if err != nil {
			return err
		}
		return fn(r)
	case CSV:
		return eachRow(s.text, delimiter(s.text), limited(fn))
	case TSV:
		return eachRow(s.text, '\t', limited(fn))
	case JSONL:
		return eachLine(s.text, limited(fn))
	default:
		if s.object {
			r, err := readRecord(s.text, "the document")
			if err != nil {
				return err
			}
			r.ID = ""
			return fn(r)
		}
		return eachElement(s.text, limited(fn))
	}
}

// limited refuses a source with more records than MaxRecords.
func limited(fn func(Record) error) func(Record) error {
	n := 0
	return func(r Record) error {
		if n++; n > MaxRecords {
			return fault.Bad(CodeTooMany, "the source has more than %d records: split it", MaxRecords)
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
