// Package lexical turns text into search terms, keeps posting lists and scores hits. Pure functions over text and bytes: it
// knows neither the store nor the graph.
package lexical

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxTerm is the most runes a term has; what is longer keeps its first MaxTerm runes, so that a word of megabytes is one
// small key.
const MaxTerm = 40

// Terms calls fn for every term of text in the order of the text, repeats included, as an index keeps them.
//
// A term is a run of Unicode letters, numbers and marks: NFKC, case folded, accents removed (marks without which a script
// cannot be read, such as vowel signs, stay), cut to MaxTerm runes. A word of ASCII letters loses its English plural by
// the s-stemmer of Harman ("How effective is suffixing?", 1991): -ies becomes -y, otherwise one final s goes, save after
// s, u, or in -aes, -ees, -oes, and never from a word of up to three letters. Scripts that are written without spaces (Han, Kana, Hangul, Thai, …)
// give every rune and every pair of neighbours.
//
// term may share memory with text: clone it before keeping it longer than text.
func Terms(text string, fn func(term string)) {
	s := scanner{}
	s.scan(text, func(term []byte, shared string, _, _ int) {
		if shared != "" {
			fn(shared)
			return
		}
		fn(string(term))
	})
}

// QueryTerms returns the distinct terms of a query in the order of their first place, at most limit of them. They are those
// of Terms, except that unspaced scripts give pairs alone where a run has two runes or more: single runes match too much.
func QueryTerms(query string, limit int) []string {
	var out []string
	seen := map[string]bool{}
	s := scanner{query: true}
	s.scan(query, func(term []byte, _ string, _, _ int) {
		if len(out) >= limit || seen[string(term)] {
			return
		}
		t := string(term)
		seen[t] = true
		out = append(out, t)
	})
	return out
}

// Spans calls fn with every term of text and the bytes it stands at. Where normalising moves bytes the span is that of the
// whole word. term is valid during the call only.
func Spans(text string, fn func(term []byte, start, end int)) {
	s := scanner{}
	s.scan(text, func(term []byte, _ string, start, end int) { fn(term, start, end) })
}

// scanner cuts a text into terms. term (and shared, when it is not empty) hold the same text; shared is a slice of the
// scanned text, term is the scanner's own and changes with the next call.
type scanner struct {
	query bool
	buf   []byte
	fold  *cases.Caser
}

type emit func(term []byte, shared string, start, end int)

// asciiClass of a byte: 0 separates, 1 is a digit or lower-case letter, 2 an upper-case letter.
var asciiClass = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z':
			t[c] = 1
		case 'A' <= c && c <= 'Z':
			t[c] = 2
		}
	}
	return t
}()

func (s *scanner) scan(text string, fn emit) {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if asciiClass[c] == 0 {
				i++
				continue
			}
			i = s.word(text, i, fn)
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !isWord(r) {
			i += size
			continue
		}
		i = s.word(text, i, fn)
	}
}

// word emits the word that begins at start and returns where it ends.
func (s *scanner) word(text string, start int, fn emit) int {
	upper, letters := false, true
	i := start
	for i < len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			return s.unicodeWord(text, start, i, fn)
		}
		class := asciiClass[c]
		if class == 0 {
			break
		}
		upper = upper || class == 2
		letters = letters && c > '9'
		i++
	}
	s.ascii(text[start:i], upper, letters, start, i, fn)
	return i
}

func (s *scanner) ascii(word string, upper, letters bool, start, end int, fn emit) {
	if len(word) > MaxTerm {
		word = word[:MaxTerm]
	}
	b := append(s.buf[:0], word...)
	s.buf = b
	if upper {
		for i, c := range b {
			if 'A' <= c && c <= 'Z' {
				b[i] = c + 'a' - 'A'
			}
		}
	}
	changed := upper
	if letters {
		cut, ies := plural(b)
		b = b[:cut]
		if ies {
			b[cut-1] = 'y'
			changed = true
		}
	}
	shared := ""
	if !changed {
		shared = word[:len(b)]
	}
	fn(b, shared, start, end)
}

// plural returns how much of an ASCII word the s-stemmer keeps, and whether the last byte kept becomes y.
func plural(b []byte) (keep int, ies bool) {
	n := len(b)
	if n <= 3 || b[n-1] != 's' {
		return n, false
	}
	switch b[n-2] {
	case 's', 'u':
		return n, false
	case 'e':
		switch before := b[n-3]; {
		case before == 'i':
			if b[n-4] == 'e' || b[n-4] == 'a' {
				return n, false
			}
			return n - 2, true
		case before == 'a' || before == 'e' || before == 'o':
			return n, false
		}
	}
	return n - 1, false
}

// unicodeWord emits a word that has at least one rune beyond ASCII; from is where the first such rune stands.
func (s *scanner) unicodeWord(text string, start, from int, fn emit) int {
	end := from
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !isWord(r) {
			break
		}
		end += size
	}
	raw := text[start:end]
	clean := s.normal(raw)
	if isASCII(clean) { // what was left after accents went is a word like any
		letters := true
		for i := 0; i < len(clean); i++ {
			letters = letters && clean[i] > '9'
		}
		if clean != "" && asciiOnlyWord(clean) {
			s.ascii(clean, true, letters, start, end, fn)
			return end
		}
	}
	same := clean == raw
	for i := 0; i < len(clean); {
		n, dense := segment(clean[i:])
		from, to := start, end
		if same {
			from, to = start+i, start+i+n
		}
		switch {
		case dense:
			s.dense(clean[i:i+n], from, to, same, fn)
		case n > 0:
			term := cutRunes(clean[i : i+n])
			s.buf = append(s.buf[:0], term...)
			fn(s.buf, "", from, to)
		}
		if n == 0 { // a compatibility form can hold what is no word character
			_, n = utf8.DecodeRuneInString(clean[i:])
		}
		i += n
	}
	return end
}

// normal is the folded form: decomposed, without accents, case folded, composed.
func (s *scanner) normal(raw string) string {
	if s.fold == nil {
		c := cases.Fold()
		s.fold = &c
	}
	b := norm.NFKD.AppendString(nil, raw)
	out := b[:0]
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if !isAccent(r) {
			out = append(out, b[i:i+size]...)
		}
		i += size
	}
	return norm.NFKC.String(s.fold.String(string(out)))
}

// dense emits the runes and pairs of a run of an unspaced script.
func (s *scanner) dense(run string, start, end int, exact bool, fn emit) {
	prev := -1
	for i := 0; i < len(run); {
		_, size := utf8.DecodeRuneInString(run[i:])
		from, to := start, end
		if prev >= 0 {
			if exact {
				from, to = start+prev, start+i+size
			}
			s.buf = append(s.buf[:0], run[prev:i+size]...)
			fn(s.buf, "", from, to)
		}
		if !s.query || size == len(run) {
			if exact {
				from, to = start+i, start+i+size
			}
			s.buf = append(s.buf[:0], run[i:i+size]...)
			fn(s.buf, "", from, to)
		}
		prev = i
		i += size
	}
}

// segment returns the length of the leading run of one kind: dense (unspaced scripts) or words; 0 where neither begins.
func segment(s string) (n int, dense bool) {
	for i, r := range s {
		if !isWord(r) {
			return i, dense
		}
		d := isDense(r)
		if i == 0 {
			dense = d
		}
		if d != dense && !unicode.IsMark(r) {
			return i, dense
		}
	}
	return len(s), dense
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 0 && asciiClass[r] != 0
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r))
}

var denseScripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// isDense tells runes of scripts that put no space between words, and the prolonged sound mark that Kana share.
func isDense(r rune) bool {
	return r >= 0x0E00 && (r == '\u30FC' || unicode.In(r, denseScripts...))
}

var accented = []*unicode.RangeTable{
	unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Coptic,
}

// isAccent tells marks that a word can lose and stay itself; Kana voicing is none, it makes another letter.
func isAccent(r rune) bool {
	return r >= 0x300 && r != '\u3099' && r != '\u309A' && unicode.IsMark(r) && unicode.In(r, accented...)
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func asciiOnlyWord(s string) bool {
	for i := 0; i < len(s); i++ {
		if asciiClass[s[i]] == 0 {
			return false
		}
	}
	return true
}

func cutRunes(s string) string {
	n := 0
	for i := range s {
		if n == MaxTerm {
			return s[:i]
		}
		n++
	}
	return s
}
