package parse

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
)

// Names of the fields that say something about a document instead of being its content. In CSV "metadata.<name>" columns
// are metadata too.
const (
	fieldText      = "text"
	fieldID        = "id"
	fieldTitle     = "title"
	fieldPublished = "published_at"
	fieldDate      = "content_date"
	fieldDateShort = "date" // short for content_date
	fieldUpdated   = "source_updated_at"
	fieldScope     = "scope"
	fieldMetadata  = "metadata"
	metadataPrefix = fieldMetadata + "."
)

// maxName is the longest column name, in bytes.
const maxName = 512

// maxRow is the most bytes that a row without a text column becomes.
const maxRow = 64 << 20

// known fields, each at most once a table.
var known = map[string]bool{
	fieldText: true, fieldID: true, fieldTitle: true, fieldPublished: true, fieldDate: true, fieldDateShort: true,
	fieldUpdated: true, fieldScope: true,
}

// delimiter tells a comma from a semicolon by the header, with which text begins: a table with a single column has neither.
func delimiter(text string) rune {
	header, _ := cutLine(text)
	if !strings.Contains(header, ",") && strings.Contains(header, ";") {
		return ';'
	}
	return ','
}

type column struct {
	name  string // as written
	field string // lower case
}

// table is the header of one.
type table struct {
	columns []column
	hasText bool
}

func newTable(header []string) (*table, error) {
	t := &table{columns: make([]column, len(header))}
	seen := map[string]bool{}
	for i, h := range header {
		name := strings.TrimSpace(h)
		if name == "" {
			name = "column " + strconv.Itoa(i+1)
		}
		if len(name) > maxName {
			return nil, fault.Bad(CodeCSV, "column %d has a name of %d bytes: at most %d", i+1, len(name), maxName)
		}
		field := strings.ToLower(name)
		if seen[field] && (known[field] || strings.HasPrefix(field, metadataPrefix)) {
			return nil, fault.Bad(CodeCSV, "the header has the column %q twice", clip(name, 80))
		}
		seen[field] = true
		t.columns[i] = column{name: name, field: field}
	}
	t.hasText = seen[fieldText]
	return t, nil
}

// record reads one row.
func (t *table) record(row []string, at Place) (Record, error) {
	r := Record{At: at}
	lines := lineWriter{max: maxRow}
	for i, c := range t.columns {
		value := row[i]
		if c.field == fieldText {
			r.Text = value
			continue
		}
		trimmed := strings.TrimSpace(value)
		if trimmed == "" {
			continue
		}
		isContent := r.set(c.field, trimmed)
		if name, ok := strings.CutPrefix(c.field, metadataPrefix); ok && name != "" {
			r.putMetadata(c.name[len(metadataPrefix):], trimmed)
			continue
		}
		switch {
		case !t.hasText && isContent:
			if err := lines.add(c.name, trimmed); err != nil {
				return r, fault.Bad(CodeTooBig, "%v: %v", at, err)
			}
		case t.hasText && !known[c.field]:
			r.putMetadata(c.name, trimmed)
		}
	}
	if !t.hasText {
		r.Text = lines.b.String()
	}
	return r, nil
}

// set keeps what a field says about the document, and tells whether it is content as well: in a row without a text
// everything is, but the id and the scope.
func (r *Record) set(field, value string) (isContent bool) {
	switch field {
	case fieldID:
		r.ID = value
		return false
	case fieldScope:
		r.Scope = splitScope(value)
		return false
	case fieldTitle:
		r.Title = title(value)
	case fieldPublished:
		r.PublishedAt = value
	case fieldDate:
		r.ContentDate = value
	case fieldDateShort:
		if r.ContentDate == "" {
			r.ContentDate = value
		}
	case fieldUpdated:
		r.SourceUpdatedAt = value
	}
	return true
}

func (r *Record) putMetadata(name string, value any) {
	if r.Metadata == nil {
		r.Metadata = map[string]any{}
	}
	r.Metadata[name] = value
}

func splitScope(s string) graph.Scope {
	var out graph.Scope
	for _, x := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if x = strings.TrimSpace(x); x != "" {
			out = append(out, x)
		}
	}
	return out
}

// eachRow reads a table with a header row. Blank lines are no rows. A table without a header has none.
func (s *Source) eachRow(fn func(Record) error) error {
	rd, err := s.rows()
	if err != nil {
		return err
	}
	header, _, err := rd.read()
	header = slices.Clone(header) // the reader uses it again
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return headerFault(err)
	}
	t, err := newTable(header)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		row, line, err := rd.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return rowFault(n, len(row), len(header), err)
		}
		r, err := t.record(row, Place{Record: n, Line: line})
		if err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
	}
}

func headerFault(err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.Bad(CodeCSV, "read the header: %v", err)
}

// rowFault says what is wrong with row n, which has as many fields as could be told.
func rowFault(n, fields, columns int, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	var p *csv.ParseError
	if !errors.As(err, &p) {
		return fault.Bad(CodeRecord, "record %d: %v", n, err)
	}
	at := Place{Record: n, Line: p.StartLine}
	if errors.Is(p.Err, csv.ErrFieldCount) {
		return fault.Bad(CodeRecord, "%v has %d of the header's %d columns", at, fields, columns)
	}
	return fault.Bad(CodeRecord, "%v: %v at column %d of line %d", at, p.Err, p.Column, p.Line)
}

// Unread is the note about a source that holds no record although it is not blank: a table of a header only, be it that its first
// row was taken for one. nil for any other.
func (s *Source) Unread() *Note {
	if s.format != CSV && s.format != TSV || strings.TrimSpace(s.text) == "" {
		return nil
	}
	rd, err := s.rows()
	if err != nil {
		return nil
	}
	header, line, err := rd.read()
	if err != nil {
		return nil
	}
	columns := len(header)
	if _, _, err := rd.read(); !errors.Is(err, io.EOF) {
		return nil
	}
	return &Note{Code: CodeNoRecords, Message: fmt.Sprintf("the table has a header (line %d, columns: %d) and no rows: none of its %d bytes became a document", line, columns, len(s.text))}
}
