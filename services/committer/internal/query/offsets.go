package query

import (
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
)

// Units of the offsets in a reply.
const (
	unitBytes = "bytes"
	unitRunes = "runes"
	unitUTF16 = "utf16"
)

// checkUnit returns the unit that a request asks for.
func checkUnit(unit string) (string, *api.Error) {
	switch unit {
	case "", unitBytes:
		return unitBytes, nil
	case unitRunes, unitUTF16:
		return unit, nil
	}
	return "", badValue("offsets is %q: it must be bytes, runes or utf16", clip(unit))
}

// markEvery is how many bytes lie between two marks of a ruler.
const markEvery = 1 << 10

// ruler converts byte offsets of one text into runes or UTF-16 units. It keeps the count at every markEvery bytes, so that a
// look-up walks at most that far whatever the order of the look-ups.
type ruler struct {
	text  string
	unit  string
	marks []int
}

func newRuler(text, unit string) *ruler {
	r := &ruler{text: text, unit: unit}
	if unit == unitBytes || isASCII(text) {
		r.unit = unitBytes
		return r
	}
	n, next := 0, 0
	for i, c := range text {
		for i >= next {
			r.marks = append(r.marks, n)
			next += markEvery
		}
		n += r.width(c)
	}
	for next <= len(text) {
		r.marks = append(r.marks, n)
		next += markEvery
	}
	return r
}

func (r *ruler) width(c rune) int {
	if r.unit == unitUTF16 && c > 0xFFFF {
		return 2
	}
	return 1
}

// at returns how many units stand before the byte offset, which is at the start of a rune or the end of the text.
func (r *ruler) at(offset int) int {
	if r.unit == unitBytes || offset <= 0 {
		return offset
	}
	offset = min(offset, len(r.text))
	m := offset / markEvery
	i, n := m*markEvery, r.marks[m]
	// A mark counts the runes that begin before it; the one that spans it is already counted.
	for i < offset && !utf8.RuneStart(r.text[i]) {
		i++
	}
	for i < offset {
		c, size := utf8.DecodeRuneInString(r.text[i:])
		n += r.width(c)
		i += size
	}
	return n
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// matches are a snippet's marks in the unit of the request.
func (v *view) matches(s snip) []api.Match {
	if len(s.marks) == 0 {
		return nil
	}
	r := newRuler(s.text, v.unit)
	out := make([]api.Match, len(s.marks))
	for i, m := range s.marks {
		out[i] = api.Match{Start: r.at(m[0]), End: r.at(m[1])}
	}
	return out
}
