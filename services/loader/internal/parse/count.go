package parse

import (
	"errors"
	"io"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
)

// Count is how many records the source holds, those at fault included; 0 where that cannot be told, as for one that is a single
// document. It reads the text once more: for a source that could not be used.
func (s *Source) Count() int {
	if s.Single() {
		return 0
	}
	switch s.format {
	case CSV, TSV:
		return s.countRows()
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
func (s *Source) countRows() int {
	rd, err := s.rows()
	if err != nil {
		return 0
	}
	var wide *fault.Error
	n := -1 // the header
	for {
		_, _, err := rd.read()
		switch {
		case errors.Is(err, io.EOF):
			return max(n, 0)
		case errors.As(err, &wide):
			return 0
		}
		n++
	}
}
