package parse

import (
	"encoding/json"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
)

// The functions here walk JSON that json.Valid has accepted, without copying it: they find where values begin and end.

// eachField calls fn for every field of a valid object, which begins with "{". Values are free of white space around them.
func eachField(object string, fn func(name, value string) error) error {
	return eachFieldAt(object, func(name, value string, _ int) error { return fn(name, value) })
}

// eachFieldAt is eachField that says where each value begins.
func eachFieldAt(object string, fn func(name, value string, at int) error) error {
	count := 0
	i := skipSpace(object, 1)
	for i < len(object) && object[i] != '}' {
		end := skipValue(object, i)
		name, err := fieldName(object[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(object, skipSpace(object, end)+1) // the colon
		end = skipValue(object, i)
		if count++; count > MaxFields {
			return fault.Bad(CodeTooWide, "an object has more than %d fields", MaxFields)
		}
		if err := fn(name, object[i:end], i); err != nil {
			return err
		}
		i = next(object, end)
	}
	return nil
}

// eachValue calls fn for every element of a valid array, which begins with "[".
func eachValue(array string, fn func(value string) error) error {
	return eachValueAt(array, func(value string, _ int) error { return fn(value) })
}

// eachValueAt is eachValue that says where each value begins.
func eachValueAt(array string, fn func(value string, at int) error) error {
	i := skipSpace(array, 1)
	for i < len(array) && array[i] != ']' {
		end := skipValue(array, i)
		if err := fn(array[i:end], i); err != nil {
			return err
		}
		i = next(array, end)
	}
	return nil
}

func fieldName(quoted string) (string, error) {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var name string
	if err := json.Unmarshal([]byte(quoted), &name); err != nil {
		return "", fault.Bad(CodeJSON, "a field's name: %v", err)
	}
	return name, nil
}

// next skips white space and a comma after a value.
func next(s string, i int) int {
	i = skipSpace(s, i)
	if i < len(s) && s[i] == ',' {
		i = skipSpace(s, i+1)
	}
	return i
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(s string, i int) int {
	switch s[i] {
	case '"':
		return skipString(s, i)
	case '{', '[':
		depth := 0
		for i < len(s) {
			switch s[i] {
			case '"':
				i = skipString(s, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	default:
		for i < len(s) && !strings.ContainsRune(",]} \t\r\n", rune(s[i])) {
			i++
		}
		return i
	}
}

func skipString(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}
