package jsonx

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Writer appends JSON to a buffer.
type Writer struct {
	b   []byte
	bad bool
}

// Fail gives up: encoding/json is to write the value.
func (w *Writer) Fail() { w.bad = true }

// Raw appends what is JSON already.
func (w *Writer) Raw(s string) { w.b = append(w.b, s...) }

// Field begins a field of an object, of which it may be the first; name has quotes and a colon.
func (w *Writer) Field(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, name...)
}

// Int64 appends a whole number.
func (w *Writer) Int64(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

// Int appends a whole number.
func (w *Writer) Int(n int) { w.Int64(int64(n)) }

// Uint64 appends a whole number.
func (w *Writer) Uint64(n uint64) { w.b = strconv.AppendUint(w.b, n, 10) }

// Bool appends true or false.
func (w *Writer) Bool(v bool) { w.b = strconv.AppendBool(w.b, v) }

// Float64 appends a number in the shortest form that reads back as it, with an exponent below 1e-6 and from 1e21.
func (w *Writer) Float64(f float64) {
	// A decimal of at most 15 digits is the only one of its length that reads as its float, so it is the shortest form.
	if m := f * 1e6; f > 0 && f < 1e6 {
		if m = math.Round(m); m >= 1 && m/1e6 == f {
			w.micros(uint64(m))
			return
		}
	}
	abs := math.Abs(f)
	if !(abs <= math.MaxFloat64) {
		w.bad = true
		return
	}
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		b := strconv.AppendFloat(w.b, f, 'e', -1, 64)
		if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		w.b = b
		return
	}
	w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
}

// micros appends m millionths.
func (w *Writer) micros(m uint64) {
	w.Uint64(m / 1e6)
	m %= 1e6
	if m == 0 {
		return
	}
	d := [7]byte{0: '.'}
	n := 0
	for i := 6; i > 0; i-- {
		d[i] = byte('0' + m%10)
		if n == 0 && d[i] != '0' {
			n = i + 1
		}
		m /= 10
	}
	w.b = append(w.b, d[:n]...)
}

const hex = "0123456789abcdef"

// String appends a string in quotes. What is no UTF-8 becomes U+FFFD, and what HTML or JavaScript would read is escaped.
func (w *Writer) String(s string) {
	b := append(w.b, '"')
	for {
		n := plain(s)
		b = append(b, s[:n]...)
		if n == len(s) {
			break
		}
		switch c := s[n]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < utf8.RuneSelf:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			u, size := utf8.DecodeRuneInString(s[n:])
			switch {
			case u == utf8.RuneError && size == 1:
				b = append(b, `\ufffd`...)
			case u == '\u2028' || u == '\u2029':
				b = append(b, '\\', 'u', '2', '0', '2', hex[u&15])
			default:
				b = append(b, s[n:n+size]...)
			}
			n += size - 1
		}
		s = s[n+1:]
	}
	w.b = append(b, '"')
}

// plain counts the bytes of s before the first that may have to be escaped.
func plain(s string) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		l, g, a := x^('<'*ones), x^('>'*ones), x^('&'*ones)
		if m := special(x) | ((l-ones)&^l|(g-ones)&^g|(a-ones)&^a|x)&tops; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return i
		}
	}
	return i
}

// Strings appends a list of strings, null for nil.
func (w *Writer) Strings(v []string) {
	WriteSlice(w, v, func(w *Writer, s *string) { w.String(*s) })
}

// Triple appends three whole numbers.
func (w *Writer) Triple(v *[3]int) {
	for i, n := range v {
		w.b = append(w.b, "[,,"[i])
		w.Int(n)
	}
	w.b = append(w.b, ']')
}

// Bytes appends bytes in base64, null for nil.
func (w *Writer) Bytes(v []byte) {
	if v == nil {
		w.Raw("null")
		return
	}
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, v)
	w.b = append(w.b, '"')
}

// Any appends a value of no known type.
func (w *Writer) Any(v any) { w.any(v, maxDepth) }

func (w *Writer) any(v any, depth int) {
	if depth == 0 {
		w.bad = true
		return
	}
	switch x := v.(type) {
	case nil:
		w.Raw("null")
	case string:
		w.String(x)
	case float64:
		w.Float64(x)
	case bool:
		w.Bool(x)
	case int:
		w.Int(x)
	case int64:
		w.Int64(x)
	case map[string]any:
		w.fields(x, depth-1)
	case []any:
		if x == nil {
			w.Raw("null")
			return
		}
		w.b = append(w.b, '[')
		for i, e := range x {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.any(e, depth-1)
		}
		w.b = append(w.b, ']')
	default:
		b, err := json.Marshal(v)
		w.bad = w.bad || err != nil
		w.b = append(w.b, b...)
	}
}

// Map appends an object, its keys in order, null for nil.
func (w *Writer) Map(v map[string]any) { w.fields(v, maxDepth) }

func (w *Writer) fields(v map[string]any, depth int) {
	if v == nil {
		w.Raw("null")
		return
	}
	var few [8]string
	keys := few[:0]
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	w.b = append(w.b, '{')
	for i, k := range keys {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.String(k)
		w.b = append(w.b, ':')
		w.any(v[k], depth)
	}
	w.b = append(w.b, '}')
}

// WriteSlice appends an array, each element by write; null for nil.
func WriteSlice[T any](w *Writer, v []T, write func(*Writer, *T)) {
	if v == nil {
		w.Raw("null")
		return
	}
	w.b = append(w.b, '[')
	for i := range v {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		write(w, &v[i])
	}
	w.b = append(w.b, ']')
}
