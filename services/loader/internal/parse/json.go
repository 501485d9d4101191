package parse

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/decode"
)

// A list of records may stand under one of these names.
var listNames = []string{"records", "documents"}

// maxExtra is the most bytes of unknown fields that go into a record's metadata.
const maxExtra = 64 << 10

// validJSON checks the syntax once, so that the rest can walk the text without copying it. where is empty for a whole source.
func validJSON(text, where string) error {
	raw := []byte(text)
	if json.Valid(raw) {
		return nil
	}
	var into any = new(json.RawMessage)
	err := json.Unmarshal(raw, into)
	if where != "" {
		return fault.Bad(CodeRecord, "%s is not valid JSON: %v", where, at(err))
	}
	return fault.Bad(CodeJSON, "not valid JSON: %v", at(err))
}

// at adds the place to a syntax error.
func at(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return errors.New(syntax.Error() + " at byte " + strconv.FormatInt(syntax.Offset, 10))
	}
	return err
}

// jsonList finds the records of a valid JSON text, and where they begin: the array itself, or the one under "records" or
// "documents" of an object without a text. "" means that the text is one object and one document.
func jsonList(text string) (list string, at int, err error) {
	v := strings.TrimSpace(text)
	begin := strings.Index(text, v)
	switch v[0] {
	case '[':
		return v, begin, nil
	case '{':
	default:
		return "", 0, fault.Bad(CodeJSON, "the text is neither an object nor an array of objects")
	}
	type found struct {
		value string
		at    int
	}
	fields := map[string]found{}
	err = eachFieldAt(v, func(name, value string, at int) error {
		fields[name] = found{value, begin + at}
		return nil
	})
	if err != nil {
		return "", 0, err
	}
	if _, ok := fields[fieldText]; ok {
		return "", 0, nil
	}
	for _, name := range listNames {
		if f := fields[name]; strings.HasPrefix(f.value, "[") {
			if list != "" {
				return "", 0, fault.Bad(CodeJSON, "both %q and %q are lists: which one holds the documents cannot be told", listNames[0], listNames[1])
			}
			list, at = f.value, f.at
		}
	}
	return list, at, nil
}

// eachElement reads the records of a valid JSON array, which begins at a line.
func eachElement(list string, line int, fn func(Record) error) error {
	n, seen := 0, 0
	return eachValueAt(list, func(value string, at int) error {
		n++
		line += strings.Count(list[seen:at], "\n")
		seen = at
		place := Place{Record: n, Line: line}
		r, err := readRecord(value, place.String())
		if err != nil {
			return err
		}
		r.At = place
		return fn(r)
	})
}

// eachLine reads one object a line; blank lines are no records.
func eachLine(text string, fn func(Record) error) error {
	n, at := 0, 0
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		at++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		n++
		place := Place{Record: n, Line: at}
		if err := validJSON(line, place.String()); err != nil {
			return err
		}
		r, err := readRecord(line, place.String())
		if err != nil {
			return err
		}
		r.At = place
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// readRecord reads one valid JSON value as a record. Without a text, its fields become lines; with one, fields that are
// not known become metadata.
func readRecord(value, where string) (Record, error) {
	var r Record
	if value = strings.TrimSpace(value); value[0] != '{' {
		return r, fault.Bad(CodeRecord, "%s is not an object", where)
	}
	if err := decode.Escapes(value); err != nil {
		return r, fault.Bad(CodeEncoding, "%s: %v", where, err)
	}
	fields := map[string]string{}
	var order []string
	err := eachField(value, func(name, v string) error {
		if _, dup := fields[name]; !dup {
			order = append(order, name)
		}
		fields[name] = v
		return nil
	})
	if err != nil {
		return r, fault.Bad(fault.Of(err).Code, "%s: %v", where, err)
	}
	_, hasText := fields[fieldText]
	for _, name := range order {
		if err := r.take(name, fields[name]); err != nil {
			return r, fault.Bad(CodeRecord, "%s: %s %v", where, clip(name, 80), err)
		}
	}
	if hasText {
		err = r.extras(order, fields)
	} else {
		r.Text, err = lines(order, fields)
	}
	if err != nil {
		return r, fault.Bad(fault.Of(err).Code, "%s: %v", where, err)
	}
	return r, nil
}

// take reads a known field; null is the same as leaving it out.
func (r *Record) take(name, value string) error {
	if value == "null" && name != fieldText {
		return nil
	}
	switch name {
	case fieldText:
		return intoText(value, &r.Text)
	case fieldTitle, fieldPublished, fieldDate, fieldDateShort, fieldUpdated:
		var s string
		if err := intoText(value, &s); err != nil {
			return err
		}
		r.set(name, strings.TrimSpace(s))
	case fieldID:
		if value[0] == '-' || (value[0] >= '0' && value[0] <= '9') {
			r.ID = value
			return nil
		}
		if err := intoText(value, &r.ID); err != nil {
			return errors.New("is neither a string nor a number")
		}
	case fieldScope:
		var s graph.Scope
		if err := json.Unmarshal([]byte(value), &s); err != nil {
			return errors.New("is neither a label nor a list of labels")
		}
		r.Scope = s
	case fieldMetadata:
		if len(value) > maxExtra {
			return errors.New("has " + strconv.Itoa(len(value)) + " bytes: at most " + strconv.Itoa(maxExtra))
		}
		if value[0] != '{' {
			return errors.New("is not an object")
		}
		v, err := exact(value)
		if err != nil {
			return err
		}
		for k, v := range v.(map[string]any) { // a valid value that begins with a brace
			r.putMetadata(k, v)
		}
	}
	return nil
}

func intoText(value string, into *string) error {
	if value[0] != '"' {
		return errors.New("is not a string")
	}
	if strings.IndexByte(value, '\\') < 0 { // nothing to unescape
		*into = value[1 : len(value)-1]
		return nil
	}
	return json.Unmarshal([]byte(value), into)
}

// extras keeps the fields that are not known as metadata; what "metadata" itself says wins.
func (r *Record) extras(order []string, fields map[string]string) error {
	size := 0
	for _, name := range order {
		if known[name] || name == fieldMetadata || fields[name] == "null" {
			continue
		}
		if size += len(name) + len(fields[name]); size > maxExtra {
			return fault.Bad(CodeRecord, "its fields besides the text have more than %d bytes", maxExtra)
		}
		if _, given := r.Metadata[name]; given {
			continue
		}
		v, err := exact(fields[name])
		if err != nil {
			return fault.Bad(CodeRecord, "field %q: %v", clip(name, 80), err)
		}
		r.putMetadata(name, v)
	}
	return nil
}

// lines renders a record without a text: one "path: value" line a leaf, lists of plain values on one line.
func lines(order []string, fields map[string]string) (string, error) {
	size := 0
	for _, name := range order {
		size += len(name) + len(fields[name])
	}
	w := lineWriter{max: 4*size + 64<<10}
	for _, name := range order {
		if name == fieldID || name == fieldScope || name == fieldMetadata {
			continue
		}
		if err := render(&w, name, fields[name], 1); err != nil {
			return "", err
		}
	}
	return w.b.String(), nil
}

func render(w *lineWriter, path, value string, depth int) error {
	if depth > MaxDepth {
		return fault.Bad(CodeTooDeep, "it is nested more than %d deep", MaxDepth)
	}
	switch value[0] {
	case '{':
		return eachField(value, func(name, v string) error { return render(w, path+"."+name, v, depth+1) })
	case '[':
		return renderList(w, path, value, depth)
	case 'n':
		return nil
	default:
		s, err := scalar(value)
		if err != nil {
			return err
		}
		return w.add(path, s)
	}
}

func renderList(w *lineWriter, path, value string, depth int) error {
	var plain strings.Builder
	err := eachValue(value, func(v string) error {
		if v[0] == '{' || v[0] == '[' {
			return render(w, path, v, depth+1)
		}
		s, err := scalar(v)
		if err != nil || s == "" || v == "null" {
			return err
		}
		if plain.Len() > 0 {
			plain.WriteString(", ")
		}
		plain.WriteString(s)
		return nil
	})
	if err != nil {
		return err
	}
	return w.add(path, plain.String())
}

func scalar(value string) (string, error) {
	if value[0] != '"' {
		return value, nil
	}
	var s string
	err := intoText(value, &s)
	return s, err
}
