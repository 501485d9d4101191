// Package jsonx reads and writes JSON of known types without reflection, as encoding/json does it by default.
//
// It knows the common path only, and exactly: what Read takes, encoding/json takes with the same value, and what Marshal writes are the
// bytes of json.Marshal. Whatever else there is (a fault, a field named twice or in other letter case, invalid UTF-8, surrogates, nesting
// beyond maxDepth, a float that is no number) it does not judge but leaves to encoding/json, which the caller asks instead: rare values
// cost more and come out the same, errors included.
//
// The functions of a type are generated from its fields and tags by a test of its package, see jsontest.Generated.
package jsonx

import (
	"encoding/json"
	"sync"
)

const (
	// maxDepth of values of no known type.
	maxDepth = 100
	// maxPooled is the size in bytes beyond which a buffer is not kept.
	maxPooled = 1 << 20
)

// Numbers says what a number in a value of no known type becomes.
type Numbers bool

// What a number may become.
const (
	Floats   Numbers = false // float64, as json.Unmarshal
	Literals Numbers = true  // json.Number, as a json.Decoder with UseNumber
)

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Read reads the JSON value b into v, which is the zero value before. False says that encoding/json is to do it; v is then undefined.
// Nothing in v refers to b.
func Read[T any](b []byte, v *T, n Numbers, read func(*Reader, *T)) bool {
	r := readers.Get().(*Reader)
	r.b, r.i, r.bad, r.literals = b, 0, false, n == Literals
	read(r, v)
	r.end()
	ok := !r.bad
	r.b = nil
	if cap(r.text) > maxPooled {
		r.text = nil
	}
	readers.Put(r)
	return ok
}

// Unmarshal is json.Unmarshal into a zero value.
func Unmarshal[T any](b []byte, v *T, read func(*Reader, *T)) error {
	if Read(b, v, Floats, read) {
		return nil
	}
	var zero T
	*v = zero
	return json.Unmarshal(b, v)
}

var writers = sync.Pool{New: func() any { return new(Writer) }}

// Write returns the JSON of v. False says that encoding/json is to write it, or to say why it cannot be written.
func Write[T any](v *T, write func(*Writer, *T)) ([]byte, bool) {
	w := writers.Get().(*Writer)
	w.n, w.bad = 0, false
	write(w, v)
	ok := !w.bad
	var out []byte
	if ok {
		out = append([]byte(nil), w.b[:w.n]...)
	}
	if len(w.b) > maxPooled {
		w.b = nil
	}
	writers.Put(w)
	return out, ok
}

// Marshal is json.Marshal.
func Marshal[T any](v *T, write func(*Writer, *T)) ([]byte, error) {
	if b, ok := Write(v, write); ok {
		return b, nil
	}
	return json.Marshal(v)
}
