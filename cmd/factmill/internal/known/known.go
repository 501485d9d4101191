// Package known reads files of known entities, for the registry: CSV, TSV and JSONL.
package known

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// Formats of a file.
const (
	CSV   = "csv"
	TSV   = "tsv"
	JSONL = "jsonl"
)

// Bounds of a file.
const (
	MaxLine    = 1 << 20
	MaxEntries = 1_000_000
)

// ErrFile wraps what is wrong with a whole file: nothing can be read from it on.
var ErrFile = errors.New("not readable as known entities")

// Problem is what is wrong with one entry, by the line it begins at.
type Problem struct {
	Line    int    `json:"line"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Entry of a file.
type Entry struct {
	Line int
	api.RegistryEntry
}

// FormatOf is the format that a file's name says; empty when it says none.
func FormatOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".tsv", ".tab":
		return TSV
	case ".jsonl", ".ndjson":
		return JSONL
	}
	return ""
}

// Reader reads entries one by one.
type Reader struct {
	next  func() (Entry, *Problem, error)
	typ   string // for entries without one
	names map[[2]string]int
	ids   map[[2]string]int
	count int
}

// NewReader reads r. typ is the type of entries that have none. The error says why nothing can be read: the format, a header.
func NewReader(r io.Reader, format, typ string) (*Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	if head, _ := b.Peek(3); bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3) // it was peeked
	}
	out := &Reader{typ: strings.TrimSpace(typ), names: map[[2]string]int{}, ids: map[[2]string]int{}}
	var err error
	switch format {
	case CSV, TSV:
		out.next, err = readTable(b, format, out.typ != "")
	case JSONL:
		out.next = readLines(b)
	default:
		err = fmt.Errorf("%w: the format %q is none of csv, tsv, jsonl", ErrFile, format)
	}
	return out, err
}

// Next returns an entry, or what is wrong with it; io.EOF at the end.
func (r *Reader) Next() (Entry, *Problem, error) {
	e, p, err := r.next()
	if err != nil || p != nil {
		return e, p, err
	}
	if r.count++; r.count > MaxEntries {
		return e, nil, fmt.Errorf("%w: it has more than %d entries: split it", ErrFile, MaxEntries)
	}
	e.Type, e.Name, e.ExternalID = strings.TrimSpace(e.Type), strings.TrimSpace(e.Name), strings.TrimSpace(e.ExternalID)
	if e.Type == "" {
		e.Type = r.typ
	}
	return e, r.check(e), nil
}

// check finds what the service cannot see: text that is no UTF-8, and what stands twice in the file. The rest is the service's.
func (r *Reader) check(e Entry) *Problem {
	bad := func(field, format string, args ...any) *Problem {
		return &Problem{Line: e.Line, Field: field, Message: fmt.Sprintf(format, args...)}
	}
	for _, x := range []struct{ field, text string }{
		{"type", e.Type}, {"name", e.Name}, {"external_id", e.ExternalID}, {"note", e.Note}, {"aliases", strings.Join(e.Aliases, "|")},
	} {
		if !utf8.ValidString(x.text) {
			return bad(x.field, "it is no UTF-8: save the file as UTF-8")
		}
	}
	switch {
	case e.Type == "":
		return bad("type", "it is missing; --type gives one to entries without")
	case e.Name == "":
		return bad("name", "it is missing")
	}
	name := [2]string{e.Type, fingerprint.Fold(e.Name)}
	if at := r.names[name]; at > 0 {
		return bad("name", "the entry stands at line %d already", at)
	}
	id := [2]string{e.Type, e.ExternalID}
	if e.ExternalID != "" {
		if at := r.ids[id]; at > 0 {
			return bad("external_id", "%q is the entry's at line %d already", e.ExternalID, at)
		}
		r.ids[id] = e.Line
	}
	r.names[name] = e.Line
	return nil
}

var columns = []string{"type", "name", "aliases", "external_id", "note"}

// readTable reads rows below a header of columns, in any order; aliases are separated by "|".
func readTable(b *bufio.Reader, format string, typed bool) (func() (Entry, *Problem, error), error) {
	m := &meter{r: b}
	c := csv.NewReader(m)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	if format == TSV {
		c.Comma = '\t'
	} else if line, _ := b.Peek(b.Size()); semicolons(line) {
		c.Comma = ';'
	}
	m.row()
	head, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it is empty; a table begins with a header of %s", ErrFile, strings.Join(columns, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the header: %w", ErrFile, err)
	}
	head = slices.Clone(head)
	for i, name := range head {
		head[i] = strings.ToLower(strings.TrimSpace(name))
		if !slices.Contains(columns, head[i]) {
			return nil, fmt.Errorf("%w: line 1: unknown column %q; columns are %s", ErrFile, name, strings.Join(columns, ", "))
		}
		if slices.Index(head, head[i]) < i {
			return nil, fmt.Errorf("%w: line 1: the column %s stands twice", ErrFile, head[i])
		}
	}
	if !slices.Contains(head, "name") {
		return nil, fmt.Errorf("%w: line 1: the header has no column name", ErrFile)
	}
	if !slices.Contains(head, "type") && !typed {
		return nil, fmt.Errorf("%w: line 1: the header has no column type; --type gives one to all", ErrFile)
	}
	return func() (Entry, *Problem, error) {
		m.row()
		fields, err := c.Read()
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			return Entry{}, &Problem{Line: bad.StartLine, Field: "row", Message: fmt.Sprintf("line %d, byte %d: %v", bad.Line, bad.Column, bad.Err)}, nil
		}
		if err != nil {
			return Entry{}, nil, err
		}
		line, _ := c.FieldPos(0)
		e := Entry{Line: line}
		if len(fields) != len(head) {
			return e, &Problem{Line: line, Field: "row", Message: fmt.Sprintf("it has %d fields, the header %d", len(fields), len(head))}, nil
		}
		for i, f := range fields {
			switch head[i] {
			case "type":
				e.Type = f
			case "name":
				e.Name = f
			case "external_id":
				e.ExternalID = f
			case "note":
				e.Note = f
			case "aliases":
				for a := range strings.SplitSeq(f, "|") {
					if a = strings.TrimSpace(a); a != "" {
						e.Aliases = append(e.Aliases, a)
					}
				}
			}
		}
		return e, nil, nil
	}, nil
}

// meter bounds how much one row takes in: a quote that nobody closes would take the rest of the file.
type meter struct {
	r    io.Reader
	left int
}

func (m *meter) row() { m.left = MaxLine + 4<<10 } // the table's reader reads ahead

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, fmt.Errorf("%w: a row is longer than %d bytes: is a quote not closed?", ErrFile, MaxLine)
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// semicolons says whether a header is separated by them.
func semicolons(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.ContainsRune(line, ';') && !bytes.ContainsRune(line, ',')
}

// readLines reads an object a line; empty lines do not count.
func readLines(b *bufio.Reader) func() (Entry, *Problem, error) {
	s := bufio.NewScanner(b)
	s.Buffer(make([]byte, 0, 64<<10), MaxLine)
	n := 0
	return func() (Entry, *Problem, error) {
		for s.Scan() {
			n++
			line := bytes.TrimSpace(s.Bytes())
			if len(line) == 0 {
				continue
			}
			e, p := readObject(n, line)
			return e, p, nil
		}
		switch err := s.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return Entry{}, nil, fmt.Errorf("%w: line %d is longer than %d bytes", ErrFile, n+1, MaxLine)
		case err != nil:
			return Entry{}, nil, err
		}
		return Entry{}, nil, io.EOF
	}
}

// readObject reads one object. What registry list --json adds to an entry is taken and does not count.
func readObject(n int, line []byte) (Entry, *Problem) {
	if !utf8.Valid(line) {
		return Entry{}, &Problem{Line: n, Field: "object", Message: "it is no UTF-8: save the file as UTF-8"}
	}
	var row api.RegistryRow
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&row)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return Entry{}, &Problem{Line: n, Field: "object", Message: "something follows the object"}
		}
		return Entry{Line: n, RegistryEntry: row.RegistryEntry}, nil
	}
	p := &Problem{Line: n, Field: "object", Message: err.Error()}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		p.Message = fmt.Sprintf("it is a JSON %s", wrong.Value)
		if wrong.Field != "" {
			p.Field = wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		}
	} else if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		p.Field, p.Message = strings.Trim(name, `"`), "there is no such field; fields are "+strings.Join(columns, ", ")
	}
	return Entry{}, p
}
