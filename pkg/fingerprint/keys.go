package fingerprint

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxPart is the length in characters above which a part of a content key is cut.
const maxPart = 200

// EntityKey returns the content key of an entity candidate.
func EntityKey(label, text string) string {
	return "entity|" + CNorm(label) + "|" + CNorm(text)
}

// RelationKey returns the content key of a relation candidate; source and target are the texts of its ends.
func RelationKey(label, source, target string) string {
	return "relation|" + CNorm(label) + "|" + CNorm(source) + "|" + CNorm(target)
}

// PropertyKey returns the content key of a property candidate: label is the property's name, holder the text of the
// entity it belongs to.
func PropertyKey(label, holder, value string) string {
	return "property|" + CNorm(label) + "|" + CNorm(holder) + "|" + CNorm(value)
}

// CNorm returns s as a part of a content key: NFKD without marks, case fold, one leading "the", "an" or "a" off, dots
// between word characters deleted, other runs of non-word characters and "_" one space, trimmed; "+" and "#" after a
// word character and a dot between digits stay. What is over 200 characters keeps the first 200, then "~" and 16 hex
// digits of the SHA-256 of all of it.
//
// Word characters are letters, numbers, and the marks without which a script's words are not told apart (vowel signs,
// kana voicing); accents and points go. A text that leaves nothing is its Fold, so a part is empty only for an empty
// text. A part never holds "|".
func CNorm(s string) string {
	out, ok := cnormASCII(s)
	if !ok {
		out = cnormText(s)
	}
	if out == "" {
		// No result of the rule holds "~7c", so the escape cannot meet another text's part.
		out = strings.ReplaceAll(Fold(s), "|", "~7c")
	}
	return cut(out)
}

func cut(s string) string {
	if len(s) <= maxPart {
		return s
	}
	count := 0
	for i := range s {
		if count == maxPart {
			return s[:i] + "~" + h16([]byte(s))
		}
		count++
	}
	return s
}

// cnormASCII is the rule for an ASCII text; ok is false for another one.
func cnormASCII(s string) (string, bool) {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return "", false
		}
	}
	for len(s) > 0 && isASCIISpace(s[0]) {
		s = s[1:]
	}
	s = s[articleASCII(s):]
	buf := make([]byte, 0, len(s))
	pending, sticky := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case isASCIIWord(c):
			if pending && len(buf) > 0 {
				buf = append(buf, ' ')
			}
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			buf = append(buf, c)
			pending, sticky = false, true
		case (c == '+' || c == '#') && sticky:
			buf = append(buf, c)
		case c == '.' && i > 0 && i+1 < len(s) && isASCIIWord(s[i-1]) && isASCIIWord(s[i+1]):
			if isASCIIDigit(s[i-1]) && isASCIIDigit(s[i+1]) {
				buf = append(buf, '.')
			}
			sticky = false
		default:
			pending, sticky = true, false
		}
	}
	return string(buf), true
}

// articleASCII returns the length of a leading article with the space after it, where something else follows.
func articleASCII(s string) int {
	word := 0
	for word < len(s) && !isASCIISpace(s[word]) {
		word++
	}
	if word > 3 || !isArticle(s[:word]) {
		return 0
	}
	for i := word; i < len(s); i++ {
		if !isASCIISpace(s[i]) {
			return i
		}
	}
	return 0
}

func isArticle(word string) bool {
	return strings.EqualFold(word, "the") || strings.EqualFold(word, "an") || strings.EqualFold(word, "a")
}

func isASCIIDigit(c byte) bool { return '0' <= c && c <= '9' }

func isASCIIWord(c byte) bool {
	return isASCIIDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// cnormText is the rule for any text.
func cnormText(s string) string {
	s = cases.Fold().String(stripMarks(norm.NFKD.String(s)))
	rs := []rune(stripMarks(norm.NFKD.String(s)))
	for len(rs) > 0 && isBlank(rs[0]) {
		rs = rs[1:]
	}
	rs = rs[article(rs):]
	var out strings.Builder
	out.Grow(len(s))
	pending, sticky := false, false
	for i, r := range rs {
		switch {
		case isWord(r):
			if pending && out.Len() > 0 {
				out.WriteByte(' ')
			}
			out.WriteRune(r)
			pending, sticky = false, true
		case (r == '+' || r == '#') && sticky:
			out.WriteRune(r)
		case r == '.' && i > 0 && i+1 < len(rs) && isWord(rs[i-1]) && isWord(rs[i+1]):
			if unicode.IsDigit(rs[i-1]) && unicode.IsDigit(rs[i+1]) {
				out.WriteByte('.')
			}
			sticky = false
		default:
			pending, sticky = true, false
		}
	}
	return out.String()
}

func article(rs []rune) int {
	word := 0
	for word < len(rs) && !isBlank(rs[word]) {
		word++
	}
	if word > 3 || !isArticle(string(rs[:word])) {
		return 0
	}
	for i := word; i < len(rs); i++ {
		if !isBlank(rs[i]) {
			return i
		}
	}
	return 0
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// accented are the scripts whose marks are accents or points on a letter that stays a word without them.
var accented = []*unicode.RangeTable{
	unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Coptic,
}

func stripMarks(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x300 || !unicode.IsMark(r) {
			return r
		}
		const voiced, semiVoiced = '\u3099', '\u309A'
		if r != voiced && r != semiVoiced && unicode.In(r, accented...) {
			return -1
		}
		return r
	}, s)
}
