package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// snippetBytes is about how long a snippet is.
const snippetBytes = 240

// snip is a part of a text and the matches in it, by bytes of it, in order.
type snip struct {
	text  string
	marks [][2]int
}

// snippet cuts about snippetBytes around the place of text where most different words of the query stand together, and marks every word
// of the query in it; cuts are shown as "…" and white space is one space. Without a match it is the beginning.
func snippet(text string, words map[string]float64) snip {
	from, to, _ := densest(text, words)
	return around(text, from, min(to, from+snippetBytes), matches(text, words))
}

// matches are the places of words in a text; those that touch or overlap are one.
func matches(text string, words map[string]float64) [][2]int {
	var out [][2]int
	if len(words) == 0 {
		return nil
	}
	lexical.Spans(text, func(term []byte, start, end int) {
		if _, ok := words[string(term)]; !ok {
			return
		}
		if n := len(out); n > 0 && start <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], end)
			return
		}
		out = append(out, [2]int{start, end})
	})
	return out
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

// around widens text[from:to] to about snippetBytes at word ends, and keeps the marks, places of the text in order, as far as they are in it.
func around(text string, from, to int, marks [][2]int) snip {
	rest := max(0, snippetBytes-(to-from))
	lo, hi := max(0, from-rest/2), min(len(text), to+rest/2)
	if lo == 0 {
		hi = min(len(text), max(hi, snippetBytes))
	}
	if hi == len(text) {
		lo = max(0, min(lo, len(text)-snippetBytes))
	}
	lo, hi = wordStart(text, lo, from), wordEnd(text, hi, to)
	var out snip
	var b strings.Builder
	if lo > 0 {
		b.WriteString("…")
	}
	gap, begun, open := false, false, -1 // where in text the last mark begins that was kept
	for i := lo; i < hi; {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsSpace(r) {
			gap = begun
			i += size
			continue
		}
		if gap {
			b.WriteByte(' ')
		}
		gap, begun = false, true
		for len(marks) > 0 && marks[0][1] <= i {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0][0] <= i {
			if open != marks[0][0] {
				open = marks[0][0]
				out.marks = append(out.marks, [2]int{b.Len(), 0})
			}
			out.marks[len(out.marks)-1][1] = b.Len() + size
		}
		b.WriteString(text[i : i+size])
		i += size
	}
	if hi < len(text) {
		b.WriteString("…")
	}
	out.text = b.String()
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
