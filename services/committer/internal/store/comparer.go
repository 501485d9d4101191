package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

// A key in Pebble is a key of this package followed by a zero byte, its end, and for a fact row by the inverted commit sequence
// (8 bytes, big endian) and seqMark. The last byte says which: the end mark, or seqMark, which is also the length of what follows
// the end. Pebble calls the part up to and with the end a prefix. It orders keys by prefix first, and its filters hold prefixes, so
// that a look-up of one row passes by every table that has no version of it.
//
// The end mark keeps the order of keys: where one key begins another, the shorter one meets its end, and no byte is below that. So
// every row whose key begins with p lies from p to after(p), both ended.
const (
	endMark = 0
	seqMark = 9
	seqLen  = 8
	tailLen = 1 + seqLen + 1 // of a fact row
)

// comparer orders the keys of the store. Every byte string has a place in its order, so a key that nobody here wrote does no harm.
var comparer = &pebble.Comparer{
	Name:                 "factmill/1",
	Split:                splitKey,
	Compare:              compareKeys,
	Equal:                bytes.Equal,
	ComparePointSuffixes: bytes.Compare,
	CompareRangeSuffixes: bytes.Compare,
	AbbreviatedKey:       func(k []byte) uint64 { return pebble.DefaultComparer.AbbreviatedKey(k[:splitKey(k)]) },
	Separator:            separatorKey,
	Successor:            successorKey,
	ImmediateSuccessor:   func(dst, prefix []byte) []byte { return append(append(dst, prefix...), endMark) },
	FormatKey:            pebble.DefaultComparer.FormatKey,
}

// splitKey is the length of a key's prefix.
func splitKey(k []byte) int {
	if n := len(k); n > seqLen && k[n-1] == seqMark {
		return n - seqLen - 1
	}
	return len(k)
}

func compareKeys(a, b []byte) int {
	i, j := splitKey(a), splitKey(b)
	if c := bytes.Compare(a[:i], b[:j]); c != 0 {
		return c
	}
	return bytes.Compare(a[i:], b[j:])
}

// unended is a key's prefix without its end; false when it has none.
func unended(k []byte) ([]byte, bool) {
	n := splitKey(k) - 1
	if n < 1 || k[n] != endMark {
		return nil, false
	}
	return k[:n], true
}

// separatorKey appends a short key that is not before a and before b.
func separatorKey(dst, a, b []byte) []byte {
	x, ok := unended(a)
	y, also := unended(b)
	if !ok || !also {
		return append(dst, a...)
	}
	n := len(dst)
	dst = pebble.DefaultComparer.Separator(dst, x, y)
	if bytes.Equal(dst[n:], x) {
		// No other key is sure to be behind the rows of a's prefix and before b.
		return append(dst[:n], a...)
	}
	return append(dst, endMark)
}

// successorKey appends a short key that is not before a.
func successorKey(dst, a []byte) []byte {
	x, ok := unended(a)
	if !ok {
		return append(append(dst, a...), endMark)
	}
	n := len(dst)
	dst = pebble.DefaultComparer.Successor(dst, x)
	if bytes.Equal(dst[n:], x) {
		return append(dst[:n], a...)
	}
	return append(dst, endMark)
}
