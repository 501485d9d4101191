package jsonx

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unicode/utf8"
)

// nameSize is the most bytes of a string that is looked up in names.
const nameSize = 40

var seed = maphash.MakeSeed()

// span returns where the plain bytes from i end: at a quote, a backslash or a control character, never at the end of the input, which is a
// fault. high says that bytes beyond ASCII are among them.
func (r *Reader) span(i int) (end int, high bool) {
	b := r.b
	var over uint64
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		if m := special(x); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, (over|x&(m&-m-1))&tops != 0
		}
		over |= x
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"', c == '\\', c < ' ':
			return i, over&tops != 0
		default:
			over |= uint64(c)
		}
	}
	r.Fail()
	return 0, false
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// special marks, of eight bytes, the first quote, backslash or control character in its top bit; what is marked above that is meaningless.
func special(x uint64) uint64 {
	q, s := x^('"'*ones), x^('\\'*ones)
	return ((x-' '*ones)&^x | (q-ones)&^q | (s-ones)&^s) & tops
}

// bytes reads a string; what it returns is valid until the next call.
func (r *Reader) bytes() []byte {
	r.take('"')
	start := r.i
	end, high := r.span(start)
	if r.bad {
		return nil
	}
	if r.b[end] != '"' {
		return r.escaped(start, end, high)
	}
	r.i = end + 1
	if s := r.b[start:end]; !high || utf8.Valid(s) {
		return s
	}
	r.Fail()
	return nil
}

// escaped reads on a string from start whose first escape, or fault, is at end.
func (r *Reader) escaped(start, end int, high bool) []byte {
	t := r.text[:0]
	for !r.bad {
		t = append(t, r.b[start:end]...)
		if r.b[end] == '"' {
			r.i = end + 1
			break
		}
		start = end + 2
		if r.b[end] != '\\' || start > len(r.b) {
			r.Fail()
			break
		}
		switch c := r.b[end+1]; c {
		case '"', '\\', '/':
			t = append(t, c)
		case 'b':
			t = append(t, '\b')
		case 'f':
			t = append(t, '\f')
		case 'n':
			t = append(t, '\n')
		case 'r':
			t = append(t, '\r')
		case 't':
			t = append(t, '\t')
		case 'u':
			u, ok := hex4(r.b[start:])
			if !ok || 0xd800 <= u && u <= 0xdfff {
				r.Fail()
				break
			}
			t = utf8.AppendRune(t, u)
			start += 4
		default:
			r.Fail()
		}
		if !r.bad {
			var more bool
			end, more = r.span(start)
			high = high || more
		}
	}
	r.text = t
	if high && !r.bad && !utf8.Valid(t) {
		r.Fail()
	}
	return t
}

func hex4(b []byte) (u rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | rune(c)
	}
	return u, true
}

// String reads a string.
func (r *Reader) String() string {
	if r.Null() {
		return ""
	}
	s := r.bytes()
	if r.bad || len(s) == 0 {
		return ""
	}
	if len(s) > nameSize {
		return string(s)
	}
	at := &r.names[byte(maphash.Bytes(seed, s))]
	if *at != string(s) {
		*at = string(s)
	}
	return *at
}
