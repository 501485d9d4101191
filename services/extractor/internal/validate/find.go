package validate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// span is bytes of a chunk, end-exclusive.
type span struct{ start, end int }

func (s span) within(t span) bool { return t.start <= s.start && s.end <= t.end }

// find returns where name stands in text[in.start:in.end]: whole words where the script separates words, any white space for
// any white space, exact before case-folded. ok is false when it stands nowhere.
func find(text, name string, in span) (span, bool) {
	words := strings.FieldsFunc(name, blank)
	if len(words) == 0 {
		return span{}, false
	}
	if s, ok := scan(text, words, in, matchExact); ok {
		return s, true
	}
	return scan(text, words, in, matchFolded)
}

type matcher func(text, word string) int

func scan(text string, words []string, in span, match matcher) (span, bool) {
	head, _ := utf8.DecodeRuneInString(words[0])
	headFold := simpleFold(head)
	for i := in.start; i < in.end; {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == head || simpleFold(r) == headFold {
			if end := follow(text, words, i, match); end >= 0 && end <= in.end && wholeWords(text, i, end) {
				return span{i, end}, true
			}
		}
		i += n
	}
	return span{}, false
}

// follow matches the words from i and returns where they end, or -1.
func follow(text string, words []string, i int, match matcher) int {
	for k, w := range words {
		if k > 0 {
			j := i
			for j < len(text) {
				r, n := utf8.DecodeRuneInString(text[j:])
				if !blank(r) {
					break
				}
				j += n
			}
			if j == i {
				return -1
			}
			i = j
		}
		n := match(text[i:], w)
		if n < 0 {
			return -1
		}
		i += n
	}
	return i
}

func matchExact(text, word string) int {
	if strings.HasPrefix(text, word) {
		return len(word)
	}
	return -1
}

func matchFolded(text, word string) int {
	i := 0
	for _, w := range word {
		if i >= len(text) {
			return -1
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r != w && simpleFold(r) != simpleFold(w) {
			return -1
		}
		i += n
	}
	return i
}

// simpleFold returns one rune for all runes that differ by case only.
func simpleFold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if 'A' <= least && least <= 'Z' { // the Kelvin sign and its like
		least += 'a' - 'A'
	}
	return least
}

// wholeWords tells whether neither end of text[start:end] stands inside a word.
func wholeWords(text string, start, end int) bool {
	if start > 0 {
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		first, _ := utf8.DecodeRuneInString(text[start:])
		if glued(before, first) || before == '.' && dotted(text[:start-1]) && unicode.IsLetter(first) {
			return false
		}
	}
	if end < len(text) {
		last, _ := utf8.DecodeLastRuneInString(text[:end])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if glued(last, after) || wordRune(last) && marked(text[end:]) {
			return false
		}
	}
	return true
}

// dotted tells whether a dot behind this text begins a word, as in .NET.
func dotted(before string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	return before == "" || unicode.IsSpace(r) || r == '(' || r == '/'
}

// marked tells whether a text goes on with a mark that belongs to the word before it, as in C++ and C#.
func marked(rest string) bool {
	switch {
	case strings.HasPrefix(rest, "#"), strings.HasPrefix(rest, "++"):
		next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, "#+"))
		return !wordRune(next)
	}
	return false
}

// glued tells whether two neighbours are inside one word.
func glued(a, b rune) bool {
	return wordRune(a) && wordRune(b) && !prose.Solid(a) && !prose.Solid(b)
}

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// blank tells white space and the zero-width characters that stand for it.
func blank(r rune) bool {
	switch r {
	case 0x200B, 0x2060, 0xFEFF:
		return true
	}
	return unicode.IsSpace(r)
}

// collapse turns every run of blanks into one space and trims.
func collapse(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, blank), " ")
}

// same tells whether two names differ in white space only.
func same(a, b string) bool { return a == b || collapse(a) == collapse(b) }
