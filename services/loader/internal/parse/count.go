package parse

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// Count is how many records the source holds, those at fault included; 0 where that cannot be told, as for one that is a single
// document. It reads the text once more: for a source that could not be used.
func (s *Source) Count() int {
	if s.Single() {
		return 0
	}
	switch s.format {
	case CSV:
		return countRows(s.text, delimiter(s.text))
	case TSV:
		return countRows(s.text, '\t')
	case JSONL:
		n := 0
		for line := range strings.Lines(s.text) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
		return n
	case JSON:
		n := 0
		if err := eachValue(s.text, func(string) error { n++; return nil }); err != nil {
			return 0
		}
		return n
	default:
		return 0
	}
}

// countRows counts rows below the header; a row that cannot be read is one too.
func countRows(text string, comma rune) int {
	if checkWidth(text, byte(comma)) != nil {
		return 0
	}
	rd := csv.NewReader(strings.NewReader(text))
	rd.Comma, rd.ReuseRecord, rd.FieldsPerRecord = comma, true, -1
	n := -1 // the header
	for {
		_, err := rd.Read()
		if errors.Is(err, io.EOF) {
			return max(n, 0)
		}
		n++
	}
}
