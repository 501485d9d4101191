package fingerprint

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const bom = "\uFEFF"

// maxFolds bounds the passes of Fold; two reach the fixed point for nearly every text.
const maxFolds = 16

// maxQuoted is the length in bytes above which a text is no name and keeps its quotes: dropping pairs is quadratic.
const maxQuoted = 1024

// Normalize returns text as Factmill stores it: one leading byte order mark dropped, CRLF and CR turned into LF, then
// NFKC. All offsets are UTF-8 bytes of the result.
//
// text is expected to be valid UTF-8 (the loader decodes); a run of invalid bytes becomes one U+FFFD, so the result is
// always valid. Normalize is idempotent, save for a text that begins with several byte order marks: each call drops
// one, as the rule says. NFKC is that of x/text, which keeps to the stream-safe format: a run of over 30 combining
// marks is broken by U+034F.
func Normalize(text string) string {
	if isPlain(text) {
		return text
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	text = strings.TrimPrefix(text, bom)
	if strings.IndexByte(text, '\r') >= 0 {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return norm.NFKC.String(text)
}

// ContentHash returns the content hash of a text that Normalize returned: its SHA-256 as 64 hex digits.
func ContentHash(normalized string) string {
	return SHA256Hex([]byte(normalized))
}

// isPlain tells whether s is ASCII without CR, which Normalize keeps as it is.
func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] == '\r' {
			return false
		}
	}
	return true
}

// Fold returns the merge key of a name: NFKC, Unicode case fold, white space (no-break and zero-width space and joiners
// included) collapsed to one space and trimmed, surrounding quotes dropped as often as they match (in texts of up to
// 1024 bytes). Punctuation stays, so C, C++, C# and .NET keep their keys. Two names of one label are one entity exactly if their keys are equal.
//
// Fold is idempotent. It is empty only for a name that is empty or white space; a name of nothing but zero-width
// characters is its own key.
func Fold(name string) string {
	if key, ok := foldASCII(name); ok {
		return key
	}
	key := name
	for range maxFolds {
		next := foldOnce(key)
		if next == key {
			break
		}
		key = next
	}
	if key == "" {
		return strings.TrimSpace(name)
	}
	return key
}

func foldOnce(s string) string {
	s = norm.NFKC.String(s)
	s = cases.Fold().String(s)
	s = norm.NFKC.String(s)
	return trimQuotes(collapse(s))
}

// foldASCII is Fold of an ASCII name; ok is false for another one.
func foldASCII(name string) (key string, ok bool) {
	clean := true
	space := true // as if a space stood before the name
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= utf8.RuneSelf:
			return "", false
		case c == ' ':
			clean = clean && !space
			space = true
		case isASCIISpace(c) || 'A' <= c && c <= 'Z':
			clean = false
			space = false
		default:
			space = false
		}
	}
	if clean && !space {
		return trimQuotes(name), true
	}
	buf := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		if isASCIISpace(c) {
			if len(buf) > 0 && buf[len(buf)-1] != ' ' {
				buf = append(buf, ' ')
			}
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf = append(buf, c)
	}
	if n := len(buf); n > 0 && buf[n-1] == ' ' {
		buf = buf[:n-1]
	}
	return trimQuotes(string(buf)), true
}

// collapse turns every run of blanks into one space and trims.
func collapse(s string) string {
	var out strings.Builder
	out.Grow(len(s))
	pending := false
	for _, r := range s {
		if isBlank(r) {
			pending = true
			continue
		}
		if pending && out.Len() > 0 {
			out.WriteByte(' ')
		}
		pending = false
		out.WriteRune(r)
	}
	return out.String()
}

func isASCIISpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

// isBlank tells white space, with the zero-width characters that stand for it.
func isBlank(r rune) bool {
	switch r {
	case '\u200B', '\u200C', '\u200D', '\u2060', '\uFEFF':
		return true
	}
	return unicode.IsSpace(r)
}

// quote closers by opener. Marks that look the same at both ends, and single ones, which are apostrophes too, are told
// apart by what stands around them; the others by what they are.
var quotes = map[rune]string{
	'"': `"”“`, '\'': `'’`, '`': "`'", '‘': "’‘'", '’': "’", '‚': "‘’", '‛': "’",
	'“': `”"`, '”': "”", '„': "“”", '‟': "”", '«': "»", '»': "«»", '‹': "›", '›': "‹›", '「': "」", '『': "』",
}

// trimQuotes drops pairs of quotes that surround all of s, and the spaces inside them, while something is left.
func trimQuotes(s string) string {
	if len(s) > maxQuoted {
		return s
	}
	for {
		inner, ok := unquote(s)
		if !ok {
			return s
		}
		s = inner
	}
}

func unquote(s string) (string, bool) {
	opener, size := utf8.DecodeRuneInString(s)
	closers, ok := quotes[opener]
	if !ok {
		return s, false
	}
	closer, closerSize := utf8.DecodeLastRuneInString(s)
	if len(s) < size+closerSize || !strings.ContainsRune(closers, closer) {
		return s, false
	}
	inner := s[size : len(s)-closerSize]
	trimmed := strings.TrimFunc(inner, isBlank)
	if trimmed == "" || !surrounds(inner, opener, closer) {
		return s, false
	}
	return trimmed, true
}

// surrounds tells whether the pair around inner is one pair, which it is not in `"A" and "B"`.
func surrounds(inner string, opener, closer rune) bool {
	byPlace := opener == closer || strings.ContainsRune("'’‘`", closer) || strings.ContainsRune("'\"", opener)
	depth := 1
	before := ' ' // the opener counts as a gap
	for i, r := range inner {
		after := ' '
		if next := i + utf8.RuneLen(r); next < len(inner) {
			after, _ = utf8.DecodeRuneInString(inner[next:])
		}
		switch {
		case byPlace && (r == opener || r == closer):
			if isGap(before) && !isBlank(after) {
				depth++
			} else if !isGap(before) && isGap(after) {
				depth--
			}
		case !byPlace && r == opener:
			depth++
		case !byPlace && r == closer:
			depth--
		}
		if depth == 0 {
			return false
		}
		before = r
	}
	return true
}

// isGap tells what is no letter, digit or mark, so may stand between a quote and the next word.
func isGap(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
}
