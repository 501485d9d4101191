// Package token holds the one tokenizer that counts everywhere: chunk sizes, prompts, budgets. Its name in fingerprints is
// "word/1".
//
// A text is read left to right, rune by rune:
//
//   - White space (unicode.IsSpace) separates and is no token.
//   - A Han, Hiragana, Katakana, Hangul or Thai rune is a token of its own, marks of these scripts included.
//   - Other letters, numbers and marks form words. A word is a token while it has at most 12 bytes; a longer one is cut into
//     tokens of as many whole runes as 12 bytes hold, so that an unbroken word of 5,000 letters counts 417 tokens and can
//     be cut between any two of them.
//   - Every other rune (punctuation, symbol, emoji, control, joiner, a byte that is not UTF-8) is a token of its own; but
//     of one ASCII mark repeated, as in "..." or a table's "--------", up to 12 are one token.
//
// So a token is at most 12 bytes long and never crosses white space. For valid UTF-8, and any a and b:
//
//	Count(a)+Count(b)-1 <= Count(a+b) <= Count(a)+Count(b)
//
// with equality on the right unless a word, or a repeated mark, runs across the seam; and no substring counts more than its text.
//
// Nothing here allocates or keeps state. All functions take time linear in the bytes they look at.
package token

import (
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the length of the longest token.
const MaxBytes = 12

// Classes of runes.
const (
	space  = iota // separates
	word          // letter, number or mark of a script with words
	single        // a token of its own
)

// ascii is the class of every ASCII byte.
var ascii = func() (t [utf8.RuneSelf]uint8) {
	for i := range t {
		t[i] = classify(rune(i))
	}
	return t
}()

// class is classify with short cuts for the runes that texts are made of.
func class(r rune) uint8 {
	switch {
	case r < utf8.RuneSelf:
		return ascii[r]
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0xAC00 && r <= 0xD7A3, r >= 0x3041 && r <= 0x3096, r >= 0x30A1 && r <= 0x30FA:
		return single // Han, Hangul syllables, Hiragana, Katakana
	case r >= 0xC0 && r <= 0x24F:
		if r == '×' || r == '÷' {
			return single
		}
		return word // Latin letters
	case r >= 0x400 && r <= 0x481, r >= 0x3A3 && r <= 0x3F5:
		return word // Cyrillic, Greek
	case r >= 0x2010 && r <= 0x2027, r >= 0x1F300 && r <= 0x1F6FF:
		return single // dashes, quotes, bullets; emoji
	default:
		return classify(r)
	}
}

// classify is the definition.
func classify(r rune) uint8 {
	switch {
	case unicode.IsSpace(r):
		return space
	case !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r):
		return single
	case r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
		return single
	default:
		return word
	}
}

// IsSpace says whether r is white space to the tokenizer.
func IsSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return ascii[r&0x7F] == space && r >= 0
	}
	return unicode.IsSpace(r)
}

// at returns the class of the rune at s[i] and its length in bytes.
func at(s string, i int) (uint8, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return class(r), n
}

// Next returns the end of the first token of s[i:], the white space before it skipped; -1 when none is left. i is at a rune's
// start, and a token that began before i is read as if it began there.
func Next(s string, i int) (end int) {
	for i < len(s) {
		k, n := at(s, i)
		if k != space {
			return tokenEnd(s, k, i, i+n)
		}
		i += n
	}
	return -1
}

// tokenEnd extends the token of class k that begins with the rune s[start:i].
func tokenEnd(s string, k uint8, start, i int) int {
	if k == word {
		return wordEnd(s, start, i)
	}
	if c := s[start]; c < utf8.RuneSelf {
		for i < len(s) && s[i] == c && i < start+MaxBytes {
			i++
		}
	}
	return i
}

// wordEnd extends the token that begins with the word rune s[start:i].
func wordEnd(s string, start, i int) int {
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if ascii[c] != word || i+1-start > MaxBytes {
				return i
			}
			i++
			continue
		}
		k, n := at(s, i)
		if k != word || i+n-start > MaxBytes {
			return i
		}
		i += n
	}
	return i
}

// Count returns the number of tokens of s.
func Count(s string) int {
	n, _ := Cut(s, len(s))
	return n
}

// Over says whether s has more than limit tokens. It stops reading where it knows.
func Over(s string, limit int) bool {
	n, end := Cut(s, limit)
	return n == limit && Next(s, end) >= 0
}

// Cut takes at most limit tokens from the front of s: how many there were, and the end of the last of them (0 for none).
func Cut(s string, limit int) (n, end int) {
	for i := 0; i < len(s) && n < limit; {
		k, size := at(s, i)
		if k == space {
			i += size
			continue
		}
		i = tokenEnd(s, k, i, i+size)
		n++
		end = i
	}
	return n, end
}
