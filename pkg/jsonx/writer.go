package jsonx

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Writer appends JSON to a buffer.
type Writer struct {
	b   []byte // its length is what there is room for
	n   int    // bytes written
	bad bool
}

// Fail gives up: encoding/json is to write the value.
func (w *Writer) Fail() { w.bad = true }

// room makes room for n bytes.
func (w *Writer) room(n int) {
	if len(w.b)-w.n < n {
		w.grow(n)
	}
}

// maxWritten bytes are written here at most: encoding/json, which has buffers to use again, writes what is larger, and what is too large to be sent is
// not held twice.
const maxWritten = 32 << 20

func (w *Writer) grow(n int) {
	if w.n > maxWritten {
		w.bad, w.n = true, 1 // behind the first brace; the rest goes nowhere
	}
	b := slices.Grow(w.b[:w.n], max(n, w.n, 1024))
	w.b = b[:cap(b)]
}

// Raw appends what is JSON already.
func (w *Writer) Raw(s string) {
	w.room(len(s))
	w.n += copy(w.b[w.n:], s)
}

func (w *Writer) byte(c byte) {
	w.room(1)
	w.b[w.n] = c
	w.n++
}

// Field begins a field of an object, of which it may be the first; name has quotes and a colon.
func (w *Writer) Field(name string) {
	if w.b[w.n-1] != '{' {
		w.byte(',')
	}
	w.Raw(name)
}

// Int64 appends a whole number.
func (w *Writer) Int64(n int64) {
	if n >= 0 {
		w.Uint64(uint64(n))
		return
	}
	w.room(20)
	w.n = len(strconv.AppendInt(w.b[:w.n], n, 10))
}

// Int appends a whole number.
func (w *Writer) Int(n int) { w.Int64(int64(n)) }

// Uint64 appends a whole number.
func (w *Writer) Uint64(n uint64) {
	w.room(20)
	if n >= 1e4 {
		w.n = len(strconv.AppendUint(w.b[:w.n], n, 10))
		return
	}
	b := w.b[w.n : w.n+4]
	hi, lo := pairs[n/100*2:], pairs[n%100*2:]
	switch {
	case n < 10:
		b[0] = lo[1]
		w.n++
	case n < 100:
		b[0], b[1] = lo[0], lo[1]
		w.n += 2
	case n < 1000:
		b[0], b[1], b[2] = hi[1], lo[0], lo[1]
		w.n += 3
	default:
		b[0], b[1], b[2], b[3] = hi[0], hi[1], lo[0], lo[1]
		w.n += 4
	}
}

const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869" +
	"707172737475767778798081828384858687888990919293949596979899"

// Bool appends true or false.
func (w *Writer) Bool(v bool) {
	if v {
		w.Raw("true")
	} else {
		w.Raw("false")
	}
}

// Float64 appends a number in the shortest form that reads back as it, with an exponent below 1e-6 and from 1e21.
func (w *Writer) Float64(f float64) {
	// A decimal of at most 15 digits is the only one of its length that reads as its float, so it is the shortest form.
	if f > 0 && f < 1e6 {
		if m := uint64(f*1e6 + 0.5); m > 0 && float64(m)/1e6 == f {
			w.micros(m)
			return
		}
	}
	abs := math.Abs(f)
	if !(abs <= math.MaxFloat64) {
		w.bad = true
		return
	}
	w.room(32)
	if abs == 0 || abs >= 1e-6 && abs < 1e21 {
		w.n = len(strconv.AppendFloat(w.b[:w.n], f, 'f', -1, 64))
		return
	}
	b := strconv.AppendFloat(w.b[:w.n], f, 'e', -1, 64)
	w.n = len(b)
	if e := b[w.n-3:]; e[0] == '-' && e[1] == '0' { // two digits at least, of which the first may be none
		e[1] = e[2]
		w.n--
	}
}

// micros appends m millionths.
func (w *Writer) micros(m uint64) {
	w.Uint64(m / 1e6)
	if m %= 1e6; m == 0 {
		return
	}
	w.room(7)
	d := w.b[w.n : w.n+7]
	d[0] = '.'
	last := 0
	for i := 6; i > 0; i-- {
		d[i] = byte('0' + m%10)
		if last == 0 && d[i] != '0' {
			last = i
		}
		m /= 10
	}
	w.n += last + 1
}

const hex = "0123456789abcdef"

// String appends a string in quotes. What is no UTF-8 becomes U+FFFD, and what HTML or JavaScript would read is escaped.
func (w *Writer) String(s string) {
	w.byte('"')
	for {
		s = s[w.plain(s):]
		if s == "" {
			w.byte('"')
			return
		}
		size := 1
		switch c := s[0]; {
		case c == '"':
			w.Raw(`\"`)
		case c == '\\':
			w.Raw(`\\`)
		case c == '\n':
			w.Raw(`\n`)
		case c == '\r':
			w.Raw(`\r`)
		case c == '\t':
			w.Raw(`\t`)
		case c == '\b':
			w.Raw(`\b`)
		case c == '\f':
			w.Raw(`\f`)
		case c < utf8.RuneSelf:
			w.Raw(`\u00`)
			w.byte(hex[c>>4])
			w.byte(hex[c&15])
		default:
			var u rune
			u, size = utf8.DecodeRuneInString(s)
			switch {
			case u == utf8.RuneError && size == 1:
				w.Raw(`\ufffd`)
			case u == '\u2028' || u == '\u2029':
				w.Raw(`\u202`)
				w.byte(hex[u&15])
			default:
				w.Raw(s[:size])
			}
		}
		s = s[size:]
	}
}

// plain appends the bytes of s before the first that may have to be escaped, and counts them.
func (w *Writer) plain(s string) (i int) {
	w.room(len(s))
	to := w.b[w.n : w.n+len(s)]
	for ; len(s)-i >= 8; i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		binary.LittleEndian.PutUint64(to[i:], x)
		// " and & differ in one bit, and so do < and >.
		q, a, b := x&^('\x04'*ones)^('"'*ones), (x|'\x02'*ones)^('>'*ones), x^('\\'*ones)
		if m := ((x-' '*ones)&^x | (q-ones)&^q | (a-ones)&^a | (b-ones)&^b | x) & tops; m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			w.n += i
			return i
		}
	}
	for ; i < len(s); i++ {
		c := s[i]
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			break
		}
		to[i] = c
	}
	w.n += i
	return i
}

// Strings appends a list of strings, null for nil.
func (w *Writer) Strings(v []string) {
	WriteSlice(w, v, func(w *Writer, s *string) { w.String(*s) })
}

// Triple appends three whole numbers.
func (w *Writer) Triple(v *[3]int) {
	for i, n := range v {
		w.byte("[,,"[i])
		w.Int(n)
	}
	w.byte(']')
}

// Bytes appends bytes in base64, null for nil.
func (w *Writer) Bytes(v []byte) {
	if v == nil {
		w.Raw("null")
		return
	}
	w.byte('"')
	size := base64.StdEncoding.EncodedLen(len(v))
	w.room(size)
	base64.StdEncoding.Encode(w.b[w.n:], v)
	w.n += size
	w.byte('"')
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
		w.byte('[')
		for i, e := range x {
			if i > 0 {
				w.byte(',')
			}
			w.any(e, depth-1)
		}
		w.byte(']')
	default:
		b, err := json.Marshal(v)
		w.bad = w.bad || err != nil
		w.Raw(string(b))
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
	w.byte('{')
	for i, k := range keys {
		if i > 0 {
			w.byte(',')
		}
		w.String(k)
		w.byte(':')
		w.any(v[k], depth)
	}
	w.byte('}')
}

// WriteSlice appends an array, each element by write; null for nil.
func WriteSlice[T any](w *Writer, v []T, write func(*Writer, *T)) {
	if v == nil {
		w.Raw("null")
		return
	}
	w.byte('[')
	for i := range v {
		if i > 0 {
			w.byte(',')
		}
		write(w, &v[i])
	}
	w.byte(']')
}
