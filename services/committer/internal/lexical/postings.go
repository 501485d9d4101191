package lexical

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrPostings says that a posting list is not one.
var ErrPostings = errors.New("malformed posting list")

// List is a posting list that grows: chunk ordinals in rising order, each with how often the term stands there.
//
// Bytes: a posting is uvarint(delta<<1 | one), where delta is the ordinal less the one before (0 before the first), and
// one says that the frequency is 1; else uvarint(frequency) follows.
type List struct {
	buf     []byte
	last    uint32
	pending uint32
	tf      uint32
}

// Hit counts one more occurrence in the chunk; ordinals must not fall.
func (l *List) Hit(ordinal uint32) {
	if l.tf > 0 && l.pending != ordinal {
		l.flush()
	}
	l.pending = ordinal
	l.tf++
}

// Add appends a posting; ordinals must rise and tf be at least 1.
func (l *List) Add(ordinal, tf uint32) {
	l.flush()
	l.pending, l.tf = ordinal, tf
	l.flush()
}

func (l *List) flush() {
	if l.tf == 0 {
		return
	}
	l.buf = AppendPosting(l.buf, l.last, l.pending, l.tf)
	l.last, l.tf = l.pending, 0
}

// Bytes returns the list as it is stored. It is the list's own memory until Reset.
func (l *List) Bytes() []byte {
	l.flush()
	return l.buf
}

// Size is about how many bytes the list has.
func (l *List) Size() int { return len(l.buf) + 8 }

// Reset empties the list; the bytes it gave away stay whole.
func (l *List) Reset() { *l = List{} }

// AppendPosting appends one posting after the one of ordinal last (0 for the first).
func AppendPosting(buf []byte, last, ordinal, tf uint32) []byte {
	head := uint64(ordinal-last) << 1
	if tf == 1 {
		return binary.AppendUvarint(buf, head|1)
	}
	buf = binary.AppendUvarint(buf, head)
	return binary.AppendUvarint(buf, uint64(tf))
}

// Each reads a posting list in order until fn returns false. The error is ErrPostings.
func Each(data []byte, fn func(ordinal, tf uint32) bool) error {
	last := uint64(0)
	for len(data) > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 {
			return ErrPostings
		}
		data = data[n:]
		tf := uint64(1)
		if head&1 == 0 {
			if tf, n = binary.Uvarint(data); n <= 0 {
				return ErrPostings
			}
			data = data[n:]
		}
		last += head >> 1
		if last > 1<<32-1 || tf == 0 || tf > 1<<32-1 {
			return ErrPostings
		}
		if !fn(uint32(last), uint32(tf)) {
			return nil
		}
	}
	return nil
}

// Index gathers the posting lists of one commit in memory. The zero value is ready; not safe for concurrent use.
type Index struct {
	lists map[string]*List
	scan  scanner
	size  int
	// slab hands out lists so that a new term is one allocation less.
	slab []List
}

// Add indexes a chunk's text under its ordinal and returns how many terms it has. Ordinals must not fall: several texts of
// one chunk (its prefix, its own) are added one after the other.
func (x *Index) Add(ordinal uint32, text string) int {
	if x.lists == nil {
		x.lists = map[string]*List{}
	}
	n := 0
	x.scan.scan(text, func(term []byte, _ string, _, _ int) {
		n++
		l := x.lists[string(term)]
		if l == nil {
			l = x.list()
			x.lists[string(term)] = l
			x.size += len(term) + 64
		}
		before := len(l.buf)
		l.Hit(ordinal)
		x.size += len(l.buf) - before
	})
	return n
}

func (x *Index) list() *List {
	if len(x.slab) == 0 {
		x.slab = make([]List, 256)
	}
	l := &x.slab[0]
	x.slab = x.slab[1:]
	return l
}

// Size is about how many bytes the index holds; the caller writes it out and calls Reset before it grows too large.
func (x *Index) Size() int { return x.size }

// Len is how many distinct terms the index has.
func (x *Index) Len() int { return len(x.lists) }

// Each gives every term and its list in the order of the terms' bytes, until fn fails. Bytes are valid until Reset.
func (x *Index) Each(fn func(term string, postings []byte) error) error {
	terms := make([]string, 0, len(x.lists))
	for t := range x.lists {
		terms = append(terms, t)
	}
	slices.Sort(terms)
	for _, t := range terms {
		if err := fn(t, x.lists[t].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Reset empties the index.
func (x *Index) Reset() { x.lists, x.size, x.slab = nil, 0, nil }

// Split cuts a posting list into parts of at most maxBytes (at least 16), each a list of its own.
func Split(data []byte, maxBytes int) ([][]byte, error) {
	if len(data) <= maxBytes {
		return [][]byte{data}, nil
	}
	var parts [][]byte
	var l List
	err := Each(data, func(ordinal, tf uint32) bool {
		if len(l.buf)+2*binary.MaxVarintLen32 > maxBytes && len(l.buf) > 0 {
			parts = append(parts, l.Bytes())
			l.Reset()
		}
		l.Add(ordinal, tf)
		return true
	})
	if err != nil {
		return nil, err
	}
	if len(l.buf) > 0 {
		parts = append(parts, l.Bytes())
	}
	return parts, nil
}
