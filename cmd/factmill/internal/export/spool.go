package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// spool keeps values as JSON lines in a temporary file that has no name any more where the system allows it.
type spool[T any] struct {
	file *os.File
	w    *bufio.Writer
	enc  *json.Encoder
	n    int
}

func newSpool[T any]() (*spool[T], error) {
	f, err := os.CreateTemp("", "factmill-export-*")
	if err != nil {
		return nil, fmt.Errorf("export: temporary file: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	return &spool[T]{file: f, w: w, enc: json.NewEncoder(w)}, nil
}

func (s *spool[T]) add(v T) error {
	s.n++
	if err := s.enc.Encode(v); err != nil {
		return fmt.Errorf("export: temporary file %s: %w", s.file.Name(), err)
	}
	return nil
}

// each reads the values back in order. Numbers that were whole come back as int64.
func (s *spool[T]) each(f func(T) error) error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("export: temporary file %s: %w", s.file.Name(), err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("export: temporary file: %w", err)
	}
	r := bufio.NewReaderSize(s.file, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("export: temporary file: %w", err)
		}
		var v T
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("export: temporary file: %w", err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
}

func (s *spool[T]) close() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

// kinds of attributes, each wider than the one before it.
type attrKind int

const (
	kindNone attrKind = iota
	kindBool
	kindLong
	kindDouble
	kindString
)

func (k attrKind) String() string {
	switch k {
	case kindBool:
		return "boolean"
	case kindLong:
		return "long"
	case kindDouble:
		return "double"
	default:
		return "string"
	}
}

func kindOf(v any) attrKind {
	switch v.(type) {
	case bool:
		return kindBool
	case int64:
		return kindLong
	case float64:
		return kindDouble
	default:
		return kindString
	}
}

// widen joins the kinds that values of one name have: whole and broken numbers are numbers, everything else is text.
func widen(a, b attrKind) attrKind {
	switch {
	case a == kindNone || a == b:
		return b
	case a == kindLong && b == kindDouble, a == kindDouble && b == kindLong:
		return kindDouble
	default:
		return kindString
	}
}

// attrs learns the attributes of nodes or edges.
type attrs map[string]attrKind

func (a attrs) learn(props map[string]any) {
	for k, v := range props {
		a[k] = widen(a[k], kindOf(v))
	}
}

// text writes a value that may have passed the spool.
func text(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number:
		return x.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
