package jsonx

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// Reader pulls one JSON value out of bytes. Its first fault is kept, and everything that is read behind it is zero. The value null reads
// as the zero value of whatever is asked for.
type Reader struct {
	b        []byte
	i        int
	bad      bool
	literals bool
	// text is where strings with escapes are put together.
	text []byte
	// names are short strings that were read before, by their hash: labels, rules and ids come again and again.
	names [256]string
}

// Fail gives up: encoding/json is to read the value.
func (r *Reader) Fail() {
	r.bad = true
	r.i = len(r.b)
}

// peek returns the next byte that is no space, 0 at the end.
func (r *Reader) peek() byte {
	if r.i < len(r.b) {
		if c := r.b[r.i]; c > ' ' {
			return c
		}
	}
	return r.space()
}

func (r *Reader) space() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take consumes c, which must be next.
func (r *Reader) take(c byte) {
	if r.peek() != c {
		r.Fail()
		return
	}
	r.i++
}

func (r *Reader) end() {
	if r.peek() != 0 || r.i < len(r.b) {
		r.Fail()
	}
}

func (r *Reader) literal(word string) {
	if len(r.b)-r.i < len(word) || string(r.b[r.i:r.i+len(word)]) != word {
		r.Fail()
		return
	}
	r.i += len(word)
}

// Null consumes a null, if that is next.
func (r *Reader) Null() bool {
	if r.peek() != 'n' {
		return false
	}
	r.literal("null")
	return true
}

// List says whether a list is next.
func (r *Reader) List() bool { return r.peek() == '[' }

// Object begins an object and returns its first key, valid until the next call; nil if there is none, or null.
func (r *Reader) Object() []byte {
	if r.Null() {
		return nil
	}
	r.take('{')
	if r.peek() == '}' {
		r.i++
		return nil
	}
	return r.key()
}

// Next returns the next key of the object, nil behind its end.
func (r *Reader) Next() []byte {
	switch r.peek() {
	case ',':
		r.i++
		return r.key()
	case '}':
		r.i++
	default:
		r.Fail()
	}
	return nil
}

// key reads a key and its colon. Keys that are not plain ASCII are encoding/json's to read.
func (r *Reader) key() []byte {
	r.take('"')
	end, high := r.span(r.i)
	if r.bad || high || r.b[end] != '"' {
		r.Fail()
		return nil
	}
	k := r.b[r.i:end:end]
	r.i = end + 1
	r.take(':')
	if r.bad {
		return nil
	}
	return k
}

// Once notes that the field of this bit was met: a second time is encoding/json's to judge.
func (r *Reader) Once(seen *uint64, bit uint64) {
	if *seen&bit != 0 {
		r.Fail()
	}
	*seen |= bit
}

// Skip skips the value of a key that the type does not know. A key in other letter case might be meant for a known one.
func (r *Reader) Skip(key []byte) {
	for _, c := range key {
		if 'A' <= c && c <= 'Z' {
			r.Fail()
		}
	}
	r.skip(maxDepth)
}

func (r *Reader) skip(depth int) {
	if depth == 0 {
		r.Fail()
	}
	switch c := r.peek(); c {
	case '{':
		r.i++
		if r.peek() == '}' {
			r.i++
			return
		}
		for k := r.key(); k != nil; k = r.Next() {
			r.skip(depth - 1)
		}
	case '[':
		for more := r.array(); more; more = r.more() {
			r.skip(depth - 1)
		}
	case '"':
		r.bytes()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// array begins an array and says whether it has an element.
func (r *Reader) array() bool {
	r.take('[')
	if r.peek() == ']' {
		r.i++
		return false
	}
	return !r.bad
}

// more says whether another element follows.
func (r *Reader) more() bool {
	switch r.peek() {
	case ',':
		r.i++
		return true
	case ']':
		r.i++
	default:
		r.Fail()
	}
	return false
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch r.peek() {
	case 't':
		r.literal("true")
		return !r.bad
	case 'n':
		r.literal("null")
	default:
		r.literal("false")
	}
	return false
}

// Strings reads a list of strings.
func (r *Reader) Strings() []string {
	return ReadSlice(r, func(r *Reader, s *string) { *s = r.String() })
}

// Triple reads three whole numbers.
func (r *Reader) Triple(v *[3]int) {
	if r.Null() {
		return
	}
	n := 0
	for more := r.array(); more; more = r.more() {
		if n == len(v) {
			r.Fail()
			return
		}
		v[n] = r.Int()
		n++
	}
	if n < len(v) {
		r.Fail()
	}
}

// Bytes reads bytes that are written in base64.
func (r *Reader) Bytes() []byte {
	if r.Null() {
		return nil
	}
	s := r.bytes()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Decode(b, s)
	if err != nil {
		r.Fail()
	}
	return b[:n]
}

// Any reads a value of no known type.
func (r *Reader) Any() any { return r.any(maxDepth) }

func (r *Reader) any(depth int) any {
	if depth == 0 {
		r.Fail()
	}
	switch r.peek() {
	case '{':
		return r.fields(depth - 1)
	case '[':
		s := []any{}
		for more := r.array(); more; more = r.more() {
			s = append(s, r.any(depth-1))
		}
		return s
	case '"':
		return r.String()
	case 't', 'f':
		return r.Bool()
	case 'n':
		r.literal("null")
		return nil
	}
	if r.literals {
		return json.Number(r.number())
	}
	return r.Float64()
}

// Map reads an object whose values are of no known type.
func (r *Reader) Map() map[string]any {
	if r.Null() {
		return nil
	}
	return r.fields(maxDepth)
}

func (r *Reader) fields(depth int) map[string]any {
	m := map[string]any{}
	r.take('{')
	if r.peek() == '}' {
		r.i++
		return m
	}
	for r.peek() == '"' {
		k := r.String()
		r.take(':')
		m[k] = r.any(depth)
		if r.peek() != ',' {
			r.take('}')
			return m
		}
		r.i++
	}
	r.Fail()
	return m
}

// ReadSlice reads an array, each element by read.
func ReadSlice[T any](r *Reader, read func(*Reader, *T)) []T {
	if r.Null() {
		return nil
	}
	more := r.array()
	if !more {
		return []T{}
	}
	s := make([]T, 0, r.elements())
	for ; more; more = r.more() {
		var zero T
		s = append(s, zero)
		read(r, &s[len(s)-1])
	}
	return s
}

// elements guesses how many elements the array has whose first one is next. It is only right for elements that are all objects and
// have no lists; and never more than a small multiple of the input is set aside for it.
func (r *Reader) elements() int {
	if !r.at('{') {
		return 1
	}
	end := bytes.IndexByte(r.b[r.i:], ']')
	if end < 0 {
		return 1
	}
	return 1 + min(bytes.Count(r.b[r.i:r.i+end], []byte("},")), end/32)
}
