package pdf

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// place is where a character stands: its baseline, in points from the page's foot, and the size of its font.
type place struct{ y, size float64 }

// line is one line of a page. Where a word was divided it goes on to the next line of print, so it has two baselines.
type line struct {
	text        string
	first, last float64 // baselines
	size        float64
	known       bool // all of them are
}

// maxLines bounds the lines of one page whose places are asked for; a page with more is none that people read.
const maxLines = 5000

// layout makes paragraphs of a page's text: lines stay lines, and a blank line stands where the page leaves more room than between
// the lines of one paragraph, where the size of the letters changes, and where another column begins. where tells the place
// of a character, by its index in UTF-16 units.
func layout(text string, where func(at int) (place, bool)) string {
	var lines []line
	at := 0
	for raw := range strings.SplitSeq(text, "\r\n") {
		n := utf16Len(raw)
		if s := clean(raw); s != "" {
			l := line{text: s}
			if len(lines) < maxLines {
				l.locate(at, n, where)
			}
			lines = append(lines, l)
		}
		at += n + 2
	}
	lead := leading(lines)
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
			if apart(lines[i-1], l, lead) {
				b.WriteByte('\n')
			}
		}
		b.WriteString(l.text)
	}
	return b.String()
}

// locate asks for the places of the n characters at at.
func (l *line) locate(at, n int, where func(at int) (place, bool)) {
	first, ok1 := where(at)
	middle, ok2 := where(at + n/2) // the first character is often a bullet or a mark of another size
	last, ok3 := where(at + n - 1)
	l.first, l.last, l.size = first.y, last.y, middle.size
	l.known = ok1 && ok2 && ok3 && sane(l.first) && sane(l.last) && sane(l.size)
}

func sane(f float64) bool { return !math.IsNaN(f) && math.Abs(f) < 1e6 }

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// leading is the distance between the lines of a paragraph: the smallest on the page that is not that of a superscript or of
// parts of one line. 0 when there is none.
func leading(lines []line) float64 {
	least := 0.0
	for i := 1; i < len(lines); i++ {
		a, b := lines[i-1], lines[i]
		gap := a.last - b.first
		if !a.known || !b.known || gap < 0.95*b.size || gap <= 0 {
			continue
		}
		if least == 0 || gap < least {
			least = gap
		}
	}
	return least
}

// apart tells whether b begins another paragraph than a.
func apart(a, b line, lead float64) bool {
	if !a.known || !b.known {
		return false
	}
	gap := a.last - b.first
	if gap < -0.5*b.size { // further up: another column, where a sentence may go on
		r, _ := utf8.DecodeRuneInString(b.text)
		return ended(a.text) || !unicode.IsLower(r)
	}
	if big, small := max(a.size, b.size), min(a.size, b.size); small > 0 && big > 1.2*small {
		return true
	}
	return lead > 0 && gap > 1.4*lead
}

func ended(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s, `"'”’)]»`))
	return strings.ContainsRune(".!?:…。！？", r)
}

// hyphen stands where a word was divided at the end of a line: the parts are joined already.
const hyphen = '\uFFFE'

// clean takes what is no text out of a line: control characters, and the marks of divided words. A part that goes on with a capital
// or a digit keeps its hyphen, for it is a name or a number more often than a divided word.
func clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == hyphen:
			next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
			if !unicode.IsLower(next) {
				b.WriteByte('-')
			}
		case r == '\t' || r == '\r' || r == '\n' || r == '\v' || r == '\f':
			b.WriteByte(' ')
		case r < 0x20 || r == 0x7f || r == 0xFFFF || r == utf8.RuneError:
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
