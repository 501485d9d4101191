package query

import (
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// snippetBytes is about how long a snippet is.
const snippetBytes = 240

// snippet cuts about snippetBytes around the place of text where most different words of the query stand together; cuts are
// marked with "…" and white space is one space. Without a match it is the beginning.
func snippet(text string, words map[string]float64) string {
	from, to, _ := densest(text, words)
	return around(text, from, min(to, from+snippetBytes))
}

// densest is the place of about two thirds of a snippet where different words of most weight stand together, and which they
// are. Without a match it is empty.
func densest(text string, words map[string]float64) (from, to int, found []string) {
	type match struct {
		start, end int
		word       string
	}
	var window []match // matches that end within snippetBytes of the window's start
	count := map[string]int{}
	best, sum := 0.0, 0.0
	lexical.Spans(text, func(term []byte, start, end int) {
		weight, ok := words[string(term)]
		if !ok {
			return
		}
		w := string(term)
		if count[w]++; count[w] == 1 {
			sum += weight
		}
		window = append(window, match{start, end, w})
		for window[0].start < end-snippetBytes*2/3 && len(window) > 1 {
			first := window[0].word
			if count[first]--; count[first] == 0 {
				sum -= words[first]
			}
			window = window[1:]
		}
		if sum > best+1e-9 {
			best, from, to = sum, window[0].start, end
			found = found[:0]
			for w, n := range count {
				if n > 0 {
					found = append(found, w)
				}
			}
		}
	})
	return from, to, found
}

// around widens text[from:to] to about snippetBytes at word ends.
func around(text string, from, to int) string {
	rest := max(0, snippetBytes-(to-from))
	lo, hi := max(0, from-rest/2), min(len(text), to+rest/2)
	if lo == 0 {
		hi = min(len(text), max(hi, snippetBytes))
	}
	if hi == len(text) {
		lo = max(0, min(lo, len(text)-snippetBytes))
	}
	lo, hi = wordStart(text, lo, from), wordEnd(text, hi, to)
	out := strings.Join(strings.Fields(text[lo:hi]), " ")
	if lo > 0 {
		out = "…" + out
	}
	if hi < len(text) {
		out += "…"
	}
	return out
}

// wordStart moves a cut forward to the next word within reach, else to a rune's start, not beyond limit.
func wordStart(text string, at, limit int) int {
	if at == 0 {
		return 0
	}
	for i := at; i < min(limit, at+32); i++ {
		if text[i-1] == ' ' || text[i-1] == '\n' {
			return i
		}
	}
	for at < limit && !utf8.RuneStart(text[at]) {
		at++
	}
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// wordEnd moves a cut back to the end of a word within reach, else to a rune's start, not before limit.
func wordEnd(text string, at, limit int) int {
	if at >= len(text) {
		return len(text)
	}
	for i := at; i > max(limit, at-32); i-- {
		if text[i] == ' ' || text[i] == '\n' {
			return i
		}
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return at
}
