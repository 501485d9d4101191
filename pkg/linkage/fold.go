package linkage

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func itoa(i int) string { return strconv.Itoa(i) }

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// special letters that no decomposition takes apart, and the Cyrillic and Greek alphabets as they are most often written in Latin.
var latin = map[rune]string{
	'ß': "ss", 'æ': "ae", 'ø': "o", 'œ': "oe", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ı': "i", 'ħ': "h", 'ŋ': "ng",
	'а': "a", 'б': "b", 'в': "v", 'г': "g", 'д': "d", 'е': "e", 'ё': "yo", 'ж': "zh", 'з': "z", 'и': "i", 'й': "y", 'к': "k", 'л': "l", 'м': "m",
	'н': "n", 'о': "o", 'п': "p", 'р': "r", 'с': "s", 'т': "t", 'у': "u", 'ф': "f", 'х': "kh", 'ц': "ts", 'ч': "ch", 'ш': "sh", 'щ': "shch",
	'ъ': "", 'ы': "y", 'ь': "", 'э': "e", 'ю': "yu", 'я': "ya", 'і': "i", 'ї': "yi", 'є': "ye", 'ґ': "g", 'ў': "u", 'ђ': "dj", 'ј': "j",
	'љ': "lj", 'њ': "nj", 'ћ': "c", 'џ': "dz",
	'α': "a", 'β': "v", 'γ': "g", 'δ': "d", 'ε': "e", 'ζ': "z", 'η': "i", 'θ': "th", 'ι': "i", 'κ': "k", 'λ': "l", 'μ': "m", 'ν': "n", 'ξ': "x",
	'ο': "o", 'π': "p", 'ρ': "r", 'σ': "s", 'ς': "s", 'τ': "t", 'υ': "y", 'φ': "f", 'χ': "ch", 'ψ': "ps", 'ω': "o",
}

// umlauts are letters with a second spelling in Latin without accents.
var umlauts = map[rune]string{'ä': "ae", 'ö': "oe", 'ü': "ue", 'ø': "oe", 'å': "aa"}

// romanize returns a folded token without accents and in Latin letters where it is Latin, Greek or Cyrillic; a second
// spelling where a letter has one (Müller: muller, mueller); and whether letters of another script were turned.
func romanize(tok string) (plain, second string, turned bool) {
	if isASCII(tok) {
		return tok, tok, false
	}
	var p, s strings.Builder
	for _, r := range norm.NFC.String(tok) {
		if u, ok := umlauts[r]; ok {
			s.WriteString(u)
		}
		if l, ok := latin[r]; ok {
			turned = turned || r >= 0x370
			p.WriteString(l)
			if _, ok := umlauts[r]; !ok {
				s.WriteString(l)
			}
			continue
		}
		base := string(r)
		if r < 0x250 || r >= 0x370 && r < 0x530 || r >= 0x1e00 && r < 0x2000 {
			base = strip(base)
		}
		for _, b := range base { // what a decomposition left may be Greek or Cyrillic
			l, ok := latin[b]
			turned = turned || ok && b >= 0x370
			if !ok {
				l = string(b)
			}
			p.WriteString(l)
			if _, ok := umlauts[r]; !ok {
				s.WriteString(l)
			}
		}
	}
	return p.String(), s.String(), turned
}

// strip drops the combining accents of a decomposed letter.
func strip(s string) string {
	var out strings.Builder
	for _, r := range norm.NFD.String(s) {
		if !unicode.Is(unicode.Mn, r) {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// slavic undoes the differences between romanisations of Russian, Ukrainian and their kin; it changes no
// short token. Dostoyevsky and Dostoevskii, Tschaikowsky and Chaikovsky come out equal.
func slavic(t string) string {
	if len(t) < 5 || !isASCII(t) {
		return t
	}
	for _, p := range [...][2]string{{"shch", "sch"}, {"tsch", "ch"}, {"tch", "ch"}, {"kh", "h"}, {"ks", "x"}} {
		t = strings.ReplaceAll(t, p[0], p[1])
	}
	for _, e := range [...]string{"skyy", "skiy", "skii", "skij", "skyi", "sky", "ski"} {
		if cut, ok := strings.CutSuffix(t, e); ok && len(cut) >= 2 {
			return soften(strings.ReplaceAll(cut, "w", "v")) + "ski"
		}
	}
	for _, e := range [...][2]string{{"off", "ov"}, {"ow", "ov"}, {"eff", "ev"}, {"yov", "ev"}, {"iov", "ev"}} {
		if cut, ok := strings.CutSuffix(t, e[0]); ok && len(cut) >= 3 {
			t = cut + e[1]
			break
		}
	}
	for _, e := range [...]string{"iy", "yy", "ii", "ij", "yi", "y", "j"} {
		if cut, ok := strings.CutSuffix(t, e); ok && len(cut) >= 3 {
			t = cut + "i"
			break
		}
	}
	return soften(t)
}

// soften takes the y out of ye behind a vowel and at the start, and writes ya and yu with i.
func soften(t string) string {
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		c := t[i]
		if c == 'y' && i+1 < len(t) {
			if t[i+1] == 'e' && (i == 0 || isVowel(t[i-1])) {
				continue
			}
			if i > 0 && (t[i+1] == 'a' || t[i+1] == 'u') {
				c = 'i'
			}
		}
		if (c == 'y' || c == 'j') && i > 0 && isVowel(t[i-1]) {
			c = 'i'
		}
		b = append(b, c)
	}
	return string(b)
}

func isVowel(c byte) bool {
	return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y'
}

// coarse is a token by its consonants: spellings that only sound alike come out equal. It is a function of slavic(t), so
// that whatever slavic makes equal is equal here.
func coarse(t string) string {
	if !isASCII(t) {
		return t
	}
	for _, p := range [...][2]string{{"ph", "f"}, {"ck", "k"}, {"dt", "t"}, {"th", "t"}, {"sch", "sh"}} {
		t = strings.ReplaceAll(t, p[0], p[1])
	}
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case isVowel(c) || c == 'j':
			c = 'a'
		case c == 'w':
			c = 'v'
		case c == 'q' || c == 'c' && (i+1 == len(t) || t[i+1] != 'h'):
			c = 'k'
		case c == 'z':
			c = 's'
		}
		if len(b) == 0 || b[len(b)-1] != c {
			b = append(b, c)
		}
	}
	return string(b)
}

// number reads a token as a whole number: digits with an ordinal ending, number words, Roman numerals of two or more
// letters. The second result is false for other tokens.
func number(tok string) (string, bool) {
	if tok == "" {
		return "", false
	}
	if tok[0] >= '0' && tok[0] <= '9' {
		for _, e := range [...]string{"st", "nd", "rd", "th"} {
			if cut, ok := strings.CutSuffix(tok, e); ok && digits(cut) {
				tok = cut
				break
			}
		}
		if digits(tok) {
			t := strings.TrimLeft(tok, "0")
			if t == "" {
				t = "0"
			}
			return t, true
		}
		return "", false
	}
	n, ok := numberWords[tok]
	return n, ok
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

var romanUnits = [...]string{"", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"}

// roman reads a numeral under forty in its one right form.
func roman(tok string) (int, bool) {
	if tok == "" || len(tok) > 7 {
		return 0, false
	}
	tens := 0
	rest := tok
	for strings.HasPrefix(rest, "x") && tens < 3 && rest != "x" {
		rest, tens = rest[1:], tens+1
	}
	if rest == "x" && tens < 3 {
		return (tens + 1) * 10, true
	}
	for u, s := range romanUnits {
		if rest == s {
			return tens*10 + u, tens+u > 0
		}
	}
	return 0, false
}

// squeeze writes each run of one character once.
func squeeze(s string) string {
	var out strings.Builder
	var last rune = -1
	for _, r := range s {
		if r != last {
			out.WriteRune(r)
		}
		last = r
	}
	return out.String()
}
