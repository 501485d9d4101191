// Package render turns replies into what people read: escaped text, aligned tables, facts with their quotes, progress.
package render

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const hexDigits = "0123456789abcdef"

// Line makes text from documents safe for one line of a terminal: control characters, direction overrides, line separators
// and broken UTF-8 become visible escapes (\x1b, \u202e), line ends and tabs \n, \r and \t. Other text stays as it is.
func Line(s string) string { return escape(s, false) }

// Block is Line for text of several lines: line ends and tabs stay.
func Block(s string) string { return escape(s, true) }

func escape(s string, block bool) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			writeHex(&b, `\x`, rune(s[i]), 2)
		case block && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !unsafeRune(r):
			b.WriteString(s[i : i+n])
		case r < 0x100:
			writeHex(&b, `\x`, r, 2)
		case r < 0x10000:
			writeHex(&b, `\u`, r, 4)
		default:
			writeHex(&b, `\U`, r, 8)
		}
		i += n
	}
	return b.String()
}

func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return false
		}
	}
	return true
}

// unsafeRune says whether a terminal could do something else with r than show it.
func unsafeRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == 0x2028, r == 0x2029:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	case r >= 0xe0000 && r <= 0xe007f: // invisible tags
		return true
	}
	return false
}

func writeHex(b *strings.Builder, prefix string, r rune, digits int) {
	b.WriteString(prefix)
	for i := digits - 1; i >= 0; i-- {
		b.WriteByte(hexDigits[(r>>(4*i))&0xf])
	}
}

// Quote shows a span of a document: white space collapsed, escaped, in quotation marks, cut in the middle to about max
// columns (0: whole).
func Quote(s string, max int) string {
	return "\u201c" + Middle(Line(strings.Join(strings.Fields(s), " ")), max) + "\u201d"
}

// Middle cuts s in its middle so that it takes at most max columns; 0 cuts nothing.
func Middle(s string, max int) string {
	if max <= 0 || Width(s) <= max {
		return s
	}
	head := (max - 1) * 2 / 3
	return take(s, head) + "\u2026" + takeEnd(s, max-1-head)
}

// End cuts s at its end so that it takes at most max columns; 0 cuts nothing.
func End(s string, max int) string {
	if max <= 0 || Width(s) <= max {
		return s
	}
	return take(s, max-1) + "\u2026"
}

func take(s string, width int) string {
	state, used, at := -1, 0, 0
	for rest := s; rest != ""; {
		cluster, r, w, st := uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width {
			break
		}
		used, at, rest, state = used+w, at+len(cluster), r, st
	}
	return s[:at]
}

func takeEnd(s string, width int) string {
	var starts []int
	var widths []int
	state, at := -1, 0
	for rest := s; rest != ""; {
		cluster, r, w, st := uniseg.FirstGraphemeClusterInString(rest, state)
		starts, widths = append(starts, at), append(widths, w)
		at, rest, state = at+len(cluster), r, st
	}
	from := len(s)
	for i := len(starts) - 1; i >= 0 && widths[i] <= width; i-- {
		width -= widths[i]
		from = starts[i]
	}
	return s[from:]
}

// Width is the columns that s takes in a terminal.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return uniseg.StringWidth(s)
		}
	}
	return len(s)
}
