package split

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/token"
)

// A cutter returns the end of the part of text[i:end] that begins at i: more than i, at most end. Each looks at every byte
// a bounded number of times.
type cutter func(text string, i, end int) int

// levels are the cuts to try, in order, of an oversized block of a kind; after the last a word is cut between its tokens.
var levels = map[string][]cutter{
	Text:    {paragraphEnd, sentenceEnd, clauseEnd, wordEnd},
	Heading: {sentenceEnd, clauseEnd, wordEnd},
	List:    {paragraphEnd, lineEnd, sentenceEnd, clauseEnd, wordEnd},
	Code:    {paragraphEnd, lineEnd, clauseEnd, wordEnd},
	Table:   {lineEnd, cellEnd, sentenceEnd, clauseEnd, wordEnd},
}

// paragraphEnd is after the next blank line.
func paragraphEnd(text string, i, end int) int {
	for i < end {
		k := strings.IndexByte(text[i:end], '\n')
		if k < 0 {
			return end
		}
		i += k + 1
		blank := false
		for i < end {
			r, n := utf8.DecodeRuneInString(text[i:end])
			if !token.IsSpace(r) {
				break
			}
			blank = blank || r == '\n'
			i += n
		}
		if blank {
			return i
		}
	}
	return end
}

func lineEnd(text string, i, end int) int {
	if k := strings.IndexByte(text[i:end], '\n'); k >= 0 {
		return i + k + 1
	}
	return end
}

// cellEnd is before the next pipe of a table's row; pipes in a row are one token and stay together.
func cellEnd(text string, i, end int) int {
	for i < end && text[i] == '|' {
		i++
	}
	if k := strings.IndexByte(text[i:end], '|'); k >= 0 {
		return i + k
	}
	return end
}

func wordEnd(text string, i, end int) int {
	seen := false
	for i < end {
		r, n := utf8.DecodeRuneInString(text[i:end])
		if !token.IsSpace(r) {
			seen = true
		} else if seen {
			return i
		}
		i += n
	}
	return end
}

// sentenceEnd is after the next mark that ends a sentence and the closing marks behind it. A Latin mark counts before white
// space only, and a full stop neither after an abbreviation nor before a small letter.
func sentenceEnd(text string, i, end int) int {
	from := i
	for i < end {
		r, n := utf8.DecodeRuneInString(text[i:end])
		at := i
		i += n
		switch r {
		case '.', '!', '?', '…', '؟', '۔', '।':
			i = closers(text, i, end)
			if i < end && !spaceAt(text, i) || r == '.' && (abbreviated(text[from:at]) || smallNext(text[i:end])) {
				continue
			}
			return i
		case '。', '！', '？', '｡':
			return closers(text, i, end)
		}
	}
	return end
}

// clauseEnd is after the next mark that ends a clause, or the next line's end.
func clauseEnd(text string, i, end int) int {
	for i < end {
		r, n := utf8.DecodeRuneInString(text[i:end])
		i += n
		switch r {
		case '\n', '，', '、', '；', '：', '،', '؛':
			return i
		case ',', ';', ':', '—', '–', ')', ']':
			if i >= end || spaceAt(text, i) {
				return i
			}
		}
	}
	return end
}

// closers steps over further ending marks, quotes and brackets that close.
func closers(text string, i, end int) int {
	for i < end {
		r, n := utf8.DecodeRuneInString(text[i:end])
		switch r {
		case '.', '!', '?', '…', '。', '！', '？', '"', '\'', '”', '’', '»', ')', ']', '」', '』', '）', '*', '_':
			i += n
		default:
			return i
		}
	}
	return i
}

func spaceAt(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return token.IsSpace(r)
}

// smallNext says whether the next word begins small. It looks at few bytes: what is far away is another sentence.
func smallNext(rest string) bool {
	for i, r := range rest {
		if !token.IsSpace(r) {
			return unicode.IsLower(r)
		}
		if i > 8 {
			return false
		}
	}
	return false
}

var abbreviations = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "dr": true, "prof": true, "st": true, "sr": true, "jr": true, "vs": true, "no": true,
	"fig": true, "vol": true, "cf": true, "approx": true, "gen": true, "col": true, "sgt": true, "capt": true, "rev": true,
	"hon": true, "gov": true, "sen": true, "rep": true, "mt": true,
}

// abbreviated says whether the word before a full stop is an initial or a common abbreviation.
func abbreviated(before string) bool {
	const longest = 8 // bytes; a longer word is none
	start := len(before)
	for start > 0 && len(before)-start <= longest {
		r, n := utf8.DecodeLastRuneInString(before[:start])
		if !unicode.IsLetter(r) {
			break
		}
		start -= n
	}
	w := before[start:]
	if len(w) == 0 || len(w) > longest {
		return false
	}
	r, n := utf8.DecodeRuneInString(w)
	return n == len(w) && unicode.IsUpper(r) || abbreviations[strings.ToLower(w)]
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) && !unicode.IsDigit(r)
}

// cluster moves a cut at s[:n] back so that it does not part a mark, a joiner, a variation selector or a skin tone from what
// it belongs to. It looks back over few runes: a longer run of them is cut where the cap says. n stays above 0.
func cluster(s string, n int) int {
	const reach = 16 // runes
	at := n
	for range reach {
		next, _ := utf8.DecodeRuneInString(s[at:])
		last, size := utf8.DecodeLastRuneInString(s[:at])
		if !extends(next) && last != zwj {
			return at
		}
		if at -= size; at <= 0 {
			break
		}
	}
	return n
}

const zwj = '\u200d'

func extends(r rune) bool {
	return r == zwj || r >= 0x1F3FB && r <= 0x1F3FF || r >= 0xE0020 && r <= 0xE007F || unicode.IsMark(r)
}
