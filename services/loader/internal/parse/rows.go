package parse

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fault"
)

// rows reads a table row by row.
type rows interface {
	// read returns the next row and the line it begins at, from 1. Blank lines are no rows. The slice is used again by the next
	// call. The error is io.EOF at the end, a *csv.ParseError for a row at fault (those after it can be read), or a document fault.
	read() (row []string, line int, err error)
}

// sheet makes a table of the source's text: every line end becomes LF, in cells too, as in every text; old spreadsheets end lines
// with CR alone. What stands before the header goes: blank lines, and a line that only declares the separator.
func (s *Source) sheet() {
	s.text = unixLines(s.text)
	cut := func(n int) { s.line, s.text = s.line+strings.Count(s.text[:n], "\n"), s.text[n:] }
	blank := func() { cut(len(s.text) - len(strings.TrimLeft(s.text, "\n"))) }
	blank()
	s.comma = delimiter(s.text)
	if s.format == TSV {
		s.comma = '\t'
	}
	if comma, size := declared(s.text); size > 0 && (s.format == CSV || comma == '\t') {
		s.comma = comma
		cut(size)
		blank()
	}
}

func unixLines(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// declared finds the line "sep=;" that Excel reads and writes, and its size with the line end; 0 when there is none. A letter or a
// digit separates nothing: that line is a header of one column.
func declared(text string) (comma rune, size int) {
	line, rest := cutLine(text)
	size = len(text) - len(rest)
	if len(line) > 1 && line[0] == '"' && line[len(line)-1] == '"' {
		line = line[1 : len(line)-1]
	}
	const word = "sep="
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) {
		return 0, 0
	}
	comma, n := utf8.DecodeRuneInString(line[len(word):])
	if len(word)+n != len(line) || comma == utf8.RuneError || comma == '"' || unicode.IsLetter(comma) || unicode.IsDigit(comma) {
		return 0, 0
	}
	return comma, size
}

// rows begins to read the table.
func (s *Source) rows() (rows, error) {
	if s.format == TSV {
		return &tabRows{text: s.text, line: s.line}, nil
	}
	if err := checkWidth(s.text, s.comma); err != nil {
		return nil, err
	}
	rd := csv.NewReader(strings.NewReader(s.text))
	rd.Comma, rd.ReuseRecord = s.comma, true
	return &commaRows{rd: rd, before: s.line - 1}, nil
}

// commaRows reads cells as RFC 4180 quotes them.
type commaRows struct {
	rd     *csv.Reader
	before int // lines before the text
}

func (c *commaRows) read() ([]string, int, error) {
	row, err := c.rd.Read()
	var p *csv.ParseError
	if errors.As(err, &p) {
		p.StartLine, p.Line = p.StartLine+c.before, p.Line+c.before
	}
	if len(row) == 0 {
		return nil, 0, err
	}
	line, _ := c.rd.FieldPos(0)
	return row, line + c.before, err
}

// tabRows reads cells between tabs. The format has no quoting, so a quote is a character like any other; but spreadsheets write
// a cell with a tab, a quote or a line break in quotes. So a cell is unquoted where quotes stand around the whole of it, those
// inside doubled.
type tabRows struct {
	text    string
	at      int // where the next cell begins
	begin   int // of the line that at is in
	line    int // its number, from 1
	columns int // of the header; 0 before it is read
	row     []string

	widthOf, width int // the line asked for last, by where it begins, and its columns; 0 when none was
}

func (t *tabRows) read() ([]string, int, error) {
	for t.at < len(t.text) && t.text[t.at] == '\n' {
		t.next()
	}
	if t.at == len(t.text) {
		return nil, 0, io.EOF
	}
	line := t.line
	for t.row = t.row[:0]; ; t.at++ { // over the tab
		if len(t.row) == MaxFields {
			return nil, line, tooWide()
		}
		t.row = append(t.row, t.cell())
		if t.at == len(t.text) {
			break
		}
		if t.text[t.at] == '\n' {
			t.next()
			break
		}
	}
	if t.columns == 0 {
		t.columns = len(t.row)
	}
	if len(t.row) != t.columns {
		return t.row, line, &csv.ParseError{StartLine: line, Line: line, Column: 1, Err: csv.ErrFieldCount}
	}
	return t.row, line, nil
}

// next goes over a line end.
func (t *tabRows) next() {
	t.at++
	t.begin = t.at
	t.line++
}

// cell reads up to a tab or the end of a line.
func (t *tabRows) cell() string {
	rest := t.text[t.at:]
	if size := quotedSize(rest); size > 0 && t.isQuoted(size) {
		cell := rest[1 : size-1]
		t.line += strings.Count(cell, "\n")
		if i := strings.LastIndexByte(cell, '\n'); i >= 0 {
			t.begin = t.at + 1 + i + 1
		}
		t.at += size
		return strings.ReplaceAll(cell, `""`, `"`)
	}
	size := strings.IndexAny(rest, "\t\n")
	if size < 0 {
		size = len(rest)
	}
	t.at += size
	return rest[:size]
}

// quotedSize is the size of a properly quoted cell at the beginning of s; 0 when there is none.
func quotedSize(s string) int {
	if !strings.HasPrefix(s, `"`) {
		return 0
	}
	for i := 1; ; i++ {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return 0
		}
		switch i += n + 1; { // behind the quote
		case i == len(s) || s[i] == '\t' || s[i] == '\n':
			return i
		case s[i] != '"':
			return 0
		}
	}
}

// isQuoted says whether the quotes around the next size bytes are a spreadsheet's, or two cells' own that only look so: these have
// tabs or line ends between them, and the lines they stand in have the header's columns as they are.
func (t *tabRows) isQuoted(size int) bool {
	cell := t.text[t.at : t.at+size]
	switch {
	case !strings.ContainsAny(cell, "\t\n") || t.columns == 1:
		return true
	case t.columns == 0: // the header itself, whose names have line breaks at most
		return !strings.Contains(cell, "\t")
	}
	for begin := t.begin; ; {
		if t.widthAt(begin) != t.columns {
			return true
		}
		n := strings.IndexByte(t.text[begin:t.at+size], '\n')
		if n < 0 {
			return false
		}
		begin += n + 1
	}
}

// widthAt is how many cells the line that begins there has, when quotes are no more than characters.
func (t *tabRows) widthAt(begin int) int {
	if t.width == 0 || t.widthOf != begin {
		line, _ := cutLine(t.text[begin:])
		t.widthOf, t.width = begin, strings.Count(line, "\t")+1
	}
	return t.width
}

// checkWidth refuses a row of too many fields before a reader makes a string of each.
func checkWidth(text string, comma rune) error {
	fields, quoted := 1, false
	for _, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == comma:
			if fields++; fields > MaxFields {
				return tooWide()
			}
		case c == '\n':
			fields = 1
		}
	}
	return nil
}

func tooWide() error { return fault.Bad(CodeTooWide, "a row has more than %d columns", MaxFields) }
