// Package prose reads plain text as tokens and sentences, with byte offsets into it. It knows no schema.
package prose

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind of a token.
type Kind uint8

// The kinds of tokens. A symbol (an emoji, a bracket) is Punct.
const (
	Word Kind = iota
	Number
	Punct
)

// Shape says how a word is written; several bits may be set.
type Shape uint8

// The shapes. Upper: the first letter is upper case. Caps: two letters or more, all upper case. Mixed: an upper-case letter after
// a lower-case one, or a lower-case first letter before an upper-case one. Digit: holds a digit. Uncased: a script without
// spaces between words and without case. Dotted: the token ends with a dot that belongs to it. Initial: one letter and a dot.
const (
	Upper Shape = 1 << iota
	Caps
	Mixed
	Digit
	Uncased
	Dotted
	Initial
)

// Token is a piece of text. Hash is Hash of the word, or the rune of a Punct.
type Token struct {
	Hash       uint64
	Start, End int32
	Kind       Kind
	Shape      Shape
	// Break before the token: 0 none or spaces, 1 a line break, 2 a blank line.
	Break uint8
	// Space says that white space or the start of the text stands before the token.
	Space bool
}

// Is tells whether the token is this punctuation mark.
func (t Token) Is(r rune) bool { return t.Kind == Punct && t.Hash == uint64(r) }

const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
)

// Hash of a word with case folded: equal words have equal hashes, and two different ones practically never.
func Hash(word string) uint64 {
	h := uint64(hashSeed)
	for i := 0; i < len(word); {
		c := word[i]
		if c < utf8.RuneSelf {
			h = mix(h, lower(c))
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(word[i:])
		h = mixRune(h, r)
		i += n
	}
	return h
}

// Join continues a hash over the words of a name.
func Join(h, next uint64) uint64 {
	h ^= next + 0x9e3779b97f4a7c15 + h<<6 + h>>2
	return h * hashPrime
}

func mix(h uint64, c byte) uint64 { return (h ^ uint64(c)) * hashPrime }

func mixRune(h uint64, r rune) uint64 {
	if r == '’' {
		return mix(h, '\'')
	}
	if r >= utf8.RuneSelf {
		r = unicode.ToLower(r)
	}
	for r >= utf8.RuneSelf {
		h = mix(h, byte(r))
		r >>= 8
	}
	return mix(h, byte(r)|0x80)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// class of a rune.
type class uint8

const (
	other class = iota
	space
	letterLower
	letterUpper
	digit
	uncased
	mark
)

var ascii = asciiClasses()

func asciiClasses() (table [utf8.RuneSelf]class) {
	for c := range table {
		switch {
		case 'a' <= c && c <= 'z' || c == '_':
			table[c] = letterLower
		case 'A' <= c && c <= 'Z':
			table[c] = letterUpper
		case '0' <= c && c <= '9':
			table[c] = digit
		case c == ' ' || '\t' <= c && c <= '\r':
			table[c] = space
		}
	}
	return table
}

// solid are the scripts that do not separate words, or separate them elsewhere than names end.
var solid = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// Solid tells a letter of a script that does not separate words where names end (Han, Kana, Hangul, Thai and such).
func Solid(r rune) bool {
	return r >= 0xE00 && (unicode.IsLetter(r) || unicode.IsMark(r)) && unicode.In(r, solid...)
}

func classify(r rune) class {
	switch {
	case r == 0xFEFF || r == 0x200B || r == 0x2060 || unicode.IsSpace(r):
		return space
	case unicode.IsUpper(r) || unicode.IsTitle(r):
		return letterUpper
	case Solid(r):
		return uncased
	case unicode.IsLetter(r):
		return letterLower
	case unicode.IsNumber(r):
		return digit
	case unicode.IsMark(r) && r != 0xFE0F && r != 0xFE0E:
		return mark
	}
	return other
}

type scanner struct {
	text string
	out  []Token
}

func (s *scanner) at(i int) (rune, int, class) {
	if i >= len(s.text) {
		return 0, 0, space
	}
	if c := s.text[i]; c < utf8.RuneSelf {
		return rune(c), 1, ascii[c]
	}
	r, n := utf8.DecodeRuneInString(s.text[i:])
	return r, n, classify(r)
}

// Tokens appends the tokens of text to buf. Any bytes are accepted.
func Tokens(text string, buf []Token) []Token {
	s := scanner{text: text, out: buf}
	newlines, blank := 0, true
	for i := 0; i < len(text); {
		r, n, c := s.at(i)
		if c == space {
			if r == '\n' || r == 0x2028 || r == 0x2029 {
				newlines++
			}
			blank = true
			i += n
			continue
		}
		from := len(s.out)
		switch {
		case c == letterLower || c == letterUpper:
			i = s.word(i)
		case r == '.' && blank && s.capsAt(i+1):
			i = s.dotted(i)
		case c == digit:
			i = s.number(i)
		case c == uncased:
			i = s.uncased(i)
		default:
			s.out = append(s.out, Token{Hash: uint64(r), Start: int32(i), End: int32(i + n), Kind: Punct})
			i += n
		}
		s.out[from].Break = uint8(min(newlines, 2))
		s.out[from].Space = blank
		newlines, blank = 0, false
	}
	return s.out
}

// capsAt tells whether two capitals stand at i: a dot before them, with space before it, begins a name such as .NET and ends no
// sentence.
func (s *scanner) capsAt(i int) bool {
	_, n, first := s.at(i)
	_, _, second := s.at(i + n)
	return first == letterUpper && second == letterUpper
}

// dotted reads a word that begins with a dot.
func (s *scanner) dotted(start int) int {
	from := len(s.out)
	end := s.word(start + 1)
	t := &s.out[from]
	t.Start, t.Hash = int32(start), Hash(s.text[start:t.End])
	return end
}

func (s *scanner) uncased(i int) int {
	start, h := i, uint64(hashSeed)
	for i < len(s.text) {
		r, n, c := s.at(i)
		if c != uncased {
			break
		}
		h = mixRune(h, r)
		i += n
	}
	s.out = append(s.out, Token{Hash: h, Start: int32(start), End: int32(i), Kind: Word, Shape: Uncased})
	return i
}

// number reads digits with separators between them; letters that follow make it a word.
func (s *scanner) number(start int) int {
	i := start
	for i < len(s.text) {
		_, n, c := s.at(i)
		if c == digit {
			i += n
			continue
		}
		if r := s.text[i]; r == '.' || r == ',' {
			if _, _, next := s.at(i + 1); next == digit {
				i++
				continue
			}
		}
		if c == letterLower || c == letterUpper {
			return s.word(start)
		}
		break
	}
	s.out = append(s.out, Token{Hash: Hash(s.text[start:i]), Start: int32(start), End: int32(i), Kind: Number})
	return i
}

// word reads letters, digits and what joins them: a hyphen, an apostrophe, a dot inside an abbreviation, & between capitals.
func (s *scanner) word(start int) int {
	i, h := start, uint64(hashSeed)
	letters, uppers, lowers := 0, 0, 0
	var shape Shape
	for i < len(s.text) {
		r, n, c := s.at(i)
		switch c {
		case letterUpper:
			if letters == 0 && i == start {
				shape |= Upper
			} else if lowers > 0 {
				shape |= Mixed
			}
			letters, uppers = letters+1, uppers+1
		case letterLower:
			letters, lowers = letters+1, lowers+1
		case digit:
			shape |= Digit
		case mark:
		default:
			if !s.joins(start, i, r, n) {
				goto done
			}
			if r == '-' || r == 0x2010 || r == 0x2011 {
				lowers = 0 // Jean-Luc is not mixed
			}
		}
		if r < utf8.RuneSelf {
			h = mix(h, lower(byte(r)))
		} else {
			h = mixRune(h, r)
		}
		i += n
	}
done:
	if letters >= 2 && uppers == letters {
		shape |= Caps
	}
	if i < len(s.text) && s.text[i] == '.' && s.ownsDot(start, i, h, letters, uppers) {
		shape |= Dotted
		if letters == 1 && i-start <= 4 {
			shape |= Initial
		}
		i++
	}
	if i < len(s.text) && (s.text[i] == '+' || s.text[i] == '#') {
		i, h = s.plus(i, h)
	}
	s.out = append(s.out, Token{Hash: h, Start: int32(start), End: int32(i), Kind: Word, Shape: shape})
	if end := s.possessive(i); end > i {
		s.out = append(s.out, Token{Hash: Possessive, Start: int32(i), End: int32(end), Kind: Word})
		return end
	}
	return i
}

// Possessive is the Hash of the token 's.
var Possessive = Hash("'s")

func (s *scanner) apostrophe(i int) int {
	if i >= len(s.text) {
		return 0
	}
	if s.text[i] == '\'' {
		return 1
	}
	if r, n := utf8.DecodeRuneInString(s.text[i:]); r == '’' {
		return n
	}
	return 0
}

// possessive returns where a 's that ends the word at i ends, or i.
func (s *scanner) possessive(i int) int {
	n := s.apostrophe(i)
	if n == 0 || i+n >= len(s.text) || s.text[i+n] != 's' && s.text[i+n] != 'S' {
		return i
	}
	if _, _, c := s.at(i + n + 1); c == letterLower || c == letterUpper || c == digit {
		return i
	}
	return i + n + 1
}

// joins tells whether the rune r of n bytes at i stands inside the word that starts at start.
func (s *scanner) joins(start, i int, r rune, n int) bool {
	_, _, next := s.at(i + n)
	inside := next == letterLower || next == letterUpper
	switch r {
	case '-', 0x2010, 0x2011:
		if strings.HasPrefix(s.text[i+n:], "based") && s.text[start] >= 'A' && s.text[start] <= 'Z' {
			return false // Leeds-based: the place is a word of its own
		}
		return inside || next == digit
	case '\'', '’':
		return inside && s.possessive(i) == i
	case '.':
		if next == digit {
			return s.text[i-1] >= '0' && s.text[i-1] <= '9'
		}
		single := i-start == 1 || i >= 2 && s.text[i-2] == '.'
		return inside && (next == letterLower || single)
	case '&':
		return next == letterUpper
	}
	return false
}

// plus reads the end of C++, C# and their like.
func (s *scanner) plus(i int, h uint64) (int, uint64) {
	end := i
	for end < len(s.text) && end-i < 2 && (s.text[end] == '+' || s.text[end] == '#') {
		end++
	}
	if _, _, c := s.at(end); c == letterLower || c == letterUpper || c == digit {
		return i, h
	}
	for ; i < end; i++ {
		h = mix(h, s.text[i])
	}
	return i, h
}

// ownsDot tells whether the dot at i belongs to the word before it: an initial, an abbreviation, or letters with dots.
func (s *scanner) ownsDot(start, i int, h uint64, letters, uppers int) bool {
	if letters == 1 && uppers == 1 && i-start <= 4 {
		// An initial stands before a name, so a letter follows on the same line.
		j := i + 1
		for j < len(s.text) && s.text[j] == ' ' {
			j++
		}
		_, _, c := s.at(j)
		return c == letterUpper
	}
	for k := start; k < i; k++ {
		if s.text[k] == '.' {
			return i-start <= 8 && s.text[i-2] == '.'
		}
	}
	switch abbreviations[h] {
	case abbrNone:
		return false
	case abbrNumber:
		j := i + 1
		for j < len(s.text) && s.text[j] == ' ' {
			j++
		}
		_, _, c := s.at(j)
		return c == digit
	}
	return true
}
