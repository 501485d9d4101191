package researcher

import (
	"maps"
	"math"
	"slices"
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

// weigh gives each word of a question a weight: the rarer it is among the sentences of pieces, the more (ln(1 + n/df), as in an idf).
func weigh(words map[string]bool, pieces []Evidence) map[string]float64 {
	n, df := 0, map[string]int{}
	for _, e := range pieces {
		for _, s := range split(e.Quote) {
			n++
			have := contentWords(s.Quote)
			for w := range words {
				if shareWord(map[string]bool{w: true}, have) {
					df[w]++
				}
			}
		}
	}
	out := map[string]float64{}
	for w := range words {
		out[w] = math.Log1p(float64(n) / float64(max(df[w], 1)))
	}
	return out
}

// focus is the sentence of a piece whose words weigh the most, the first of those that weigh as much. A heading is one where there is
// nothing else.
func focus(e Evidence, weights map[string]float64) Span {
	best, most := Span{}, math.Inf(-1)
	for _, s := range split(e.Quote) {
		sum := 0.0
		if strings.HasPrefix(s.Quote, "# ") || strings.HasPrefix(s.Quote, "##") {
			sum = math.Inf(-1)
		}
		have := contentWords(s.Quote)
		for _, w := range slices.Sorted(maps.Keys(weights)) { // sums of the same order are the same
			if shareWord(map[string]bool{w: true}, have) {
				sum += weights[w]
			}
		}
		if sum > most || best.Quote == "" {
			best, most = s, sum
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
