package researcher

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Span is a part of a document's text: its bytes from Start to End.
type Span struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Quote string `json:"quote"`
}

// focus is the sentence of a piece with the most of the words, the first of those that have as many; where a piece has one sentence, all of it.
func focus(e Evidence, words map[string]bool) Span {
	best, most := Span{}, -1
	for _, s := range split(e.Quote) {
		n := 0
		for w := range contentWords(s.Quote) {
			if words[w] || shareWord(words, map[string]bool{w: true}) {
				n++
			}
		}
		if n > most {
			best, most = s, n
		}
	}
	best.Start += e.Start
	best.End += e.Start
	return best
}

// closers may stand between the end of a sentence and the space behind it.
const closers = `)]}"'»”’`

// split cuts a text into its sentences and lines, without the white space around them. It is for showing: abbreviations are not known.
func split(text string) []Span {
	var out []Span
	from := 0
	cut := func(to int) {
		part := text[from:to]
		trimmed := strings.TrimSpace(part)
		if trimmed != "" {
			start := from + strings.Index(part, trimmed)
			out = append(out, Span{start, start + len(trimmed), trimmed})
		}
		from = to
	}
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		switch {
		case r == '\n' && strings.HasPrefix(strings.TrimLeft(text[end:], " \t"), "\n"), strings.ContainsRune("。！？", r):
			cut(end)
		case strings.ContainsRune(".!?", r):
			rest := strings.TrimLeft(text[end:], closers)
			next, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(rest, unicode.IsSpace))
			if first, _ := utf8.DecodeRuneInString(rest); unicode.IsSpace(first) && !unicode.IsLower(next) && !initial(text[:i]) {
				cut(len(text) - len(rest))
			}
		}
	}
	cut(len(text))
	return out
}

// initial says whether a text ends in a single letter: what a dot behind it is of.
func initial(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	before, _ := utf8.DecodeLastRuneInString(s[:len(s)-n])
	return unicode.IsUpper(r) && (len(s) == n || unicode.IsSpace(before) || before == '.')
}
