package linkage

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// token is one word of a name.
type token struct {
	orig    string // as written
	latin   string // folded, without accents, in Latin letters
	second  string // the same by the second spelling of umlauts
	turned  bool   // was in another script
	dotted  bool   // a dot follows at once
	caps    bool   // two or more letters, all capitals
	shouted bool   // the whole name is in capitals
	upper   int    // capitals in it
}

func (t token) initial() bool { return utf8.RuneCountInString(t.latin) == 1 && !hasDigit(t.latin) }

// pieces splits a token at its inner capitals: HyperText is hyper, text.
func (t token) pieces() []string {
	if t.caps || t.upper < 2 || !isASCII(t.orig) || len(t.orig) != len(t.latin) {
		return []string{t.latin}
	}
	var out []string
	from := 0
	for i := 1; i < len(t.orig); i++ {
		if unicode.IsUpper(rune(t.orig[i])) && !unicode.IsUpper(rune(t.orig[i-1])) {
			out = append(out, t.latin[from:i])
			from = i
		}
	}
	return append(out, t.latin[from:])
}

// clean makes the bytes a string of compatibility-composed characters, without signs that say nothing.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '™', '®', '©', '℠':
			return -1
		case '’', 'ʼ', '`', '´', '‘':
			return '\''
		case utf8.RuneError:
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(norm.NFKC.String(s))
}

// plainTokens are the runs of letters and digits of a merge key, as token-sort compares them.
func plainTokens(fold string) []string {
	return strings.FieldsFunc(fold, func(r rune) bool { return !isWord(r) })
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

func sortedWords(s string) string {
	w := strings.Split(s, " ")
	slices.Sort(w)
	return strings.Join(w, " ")
}

// brackets takes what stands in brackets at the end: an acronym of the name is an alias, anything else a qualifier.
func (n *Name) brackets(s string) string {
	i := strings.LastIndexByte(s, '(')
	if i < 1 || !strings.HasSuffix(s, ")") {
		return s
	}
	body, in := strings.TrimSpace(s[:i]), s[i+1:len(s)-1]
	words := plainTokens(strings.ToLower(in))
	if len(plainTokens(body)) == 0 || len(words) == 0 {
		return s
	}
	if len(words) == 1 && n.class != person && in == strings.ToUpper(in) && len(in) >= 2 && len(in) <= 7 && !hasDigit(in) {
		n.aliases = append(n.aliases, words[0])
		return body
	}
	n.quals = append(n.quals, strings.Join(words, " "))
	return body
}

// commas puts "Babbage, Charles" into its spoken order and takes the qualifiers of a place.
func (n *Name) commas(s string) string {
	if !strings.Contains(s, ",") {
		return s
	}
	if n.class == other {
		return s
	}
	var parts []string
	for _, p := range strings.Split(s, ",") {
		if len(plainTokens(p)) > 0 {
			parts = append(parts, strings.TrimSpace(p))
		}
	}
	if len(parts) < 2 {
		return s
	}
	if n.class == place {
		var quals []string
		for _, q := range parts[1:] {
			w := strings.Join(plainTokens(strings.ReplaceAll(cases.Fold().String(q), ".", "")), " ")
			if long, ok := states[w]; ok {
				w = long
			}
			quals = append(quals, w)
		}
		n.quals = append(quals, n.quals...)
		return parts[0]
	}
	last := len(parts)
	for last > 1 && allBehind(parts[last-1]) {
		last--
	}
	behind := strings.Join(parts[last:], " ")
	if last == 2 {
		return strings.TrimSpace(parts[1] + " " + parts[0] + " " + behind)
	}
	return strings.Join(parts, " ")
}

// allBehind says whether every word is one that stands behind a person's name.
func allBehind(s string) bool {
	for _, w := range strings.Fields(strings.ToLower(strings.ReplaceAll(s, ".", ""))) {
		_, gen := generations[w]
		_, num := roman(w)
		if !postnominals[w] && !gen && (!num || w == "v" || w == "x") {
			return false
		}
	}
	return true
}

// scanner cuts a cleaned name into tokens and finds its marks.
type scanner struct {
	runes []rune
	cur   []rune
	toks  []token
	marks []rune
	ended int // index behind the last token or mark
}

func (s *scanner) at(i int) rune {
	if i < 0 || i >= len(s.runes) {
		return ' '
	}
	return s.runes[i]
}

func tokenize(text string, n *Name) []token {
	s := scanner{runes: []rune(text), ended: -1}
	for i, r := range s.runes {
		s.step(i, r)
	}
	s.flush(len(s.runes), false)
	n.marks = string(s.marks)
	shouted := text == strings.ToUpper(text) && len(s.toks) > 1
	for i := range s.toks {
		t := &s.toks[i]
		t.shouted = shouted
		t.latin, t.second, t.turned = romanize(cases.Fold().String(t.orig))
	}
	return slices.DeleteFunc(joinAnd(s.toks), func(t token) bool { return t.latin == "" })
}

func (s *scanner) step(i int, r rune) {
	prev, next := s.at(i-1), s.at(i+1)
	switch {
	case isWord(r):
		s.cur = append(s.cur, r)
	case r == '\'' && len(s.cur) > 0 && isWord(next):
	case r == '.' && unicode.IsDigit(prev) && unicode.IsDigit(next) && len(s.cur) > 0:
		s.cur = append(s.cur, r)
	case r == ',' && unicode.IsDigit(prev) && unicode.IsDigit(next) && unicode.IsDigit(s.at(i+2)) && unicode.IsDigit(s.at(i+3)) && !unicode.IsDigit(s.at(i+4)):
	case r == '.':
		if len(s.cur) == 0 && unicode.IsLetter(next) && !isWord(prev) && prev != '.' {
			s.mark(i, r)
			return
		}
		s.flush(i, true)
	case r == '&' || r == '+' && prev == ' ' && next == ' ':
		s.flush(i, false)
		s.toks = append(s.toks, token{orig: "&"})
	case r == '+' || r == '#' || r == '*':
		s.flush(i, false)
		if s.ended == i {
			s.mark(i, r)
		}
	case unicode.Is(unicode.Sm, r) || unicode.Is(unicode.Sc, r) || r == '%':
		s.flush(i, false)
		s.mark(i, r)
	default:
		s.flush(i, false)
	}
}

func (s *scanner) mark(i int, r rune) {
	s.marks = append(s.marks, r)
	s.ended = i + 1
}

func (s *scanner) flush(i int, dotted bool) {
	if len(s.cur) == 0 {
		return
	}
	t := token{orig: string(s.cur), dotted: dotted}
	letters := 0
	for _, r := range s.cur {
		if unicode.IsLetter(r) {
			letters++
		}
		if unicode.IsUpper(r) {
			t.upper++
		}
	}
	t.caps = letters >= 2 && t.upper == letters
	s.toks = append(s.toks, t)
	s.cur = s.cur[:0]
	s.ended = i
}

// joinAnd reads & as the word and, but joins short neighbours: AT&T is att.
func joinAnd(toks []token) []token {
	var out []token
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		if t.orig != "&" {
			out = append(out, t)
			continue
		}
		if len(out) == 0 || i+1 == len(toks) || toks[i+1].orig == "&" {
			continue
		}
		left, right := &out[len(out)-1], toks[i+1]
		if len(left.latin) <= 2 && len(right.latin) <= 2 && left.latin != "" {
			left.orig, left.latin, left.second = left.orig+right.orig, left.latin+right.latin, left.second+right.second
			left.upper += right.upper
			left.caps = left.upper >= 2
			i++
			continue
		}
		out = append(out, token{orig: "and", latin: "and", second: "and"})
	}
	return out
}

// joinLetters makes one token of neighbouring single letters: U. S. A. is usa.
func joinLetters(toks []token) []token {
	var out []token
	for i := 0; i < len(toks); {
		j := i
		for j < len(toks) && toks[j].initial() && toks[j].upper+boolInt(toks[j].dotted) > 0 {
			j++
		}
		if j-i < 2 {
			out = append(out, toks[i])
			i++
			continue
		}
		t := token{caps: true, shouted: toks[i].shouted}
		for _, l := range toks[i:j] {
			t.orig += strings.ToUpper(l.orig)
			t.latin += l.latin
			t.second += l.second
			t.turned = t.turned || l.turned
			t.upper++
		}
		out = append(out, t)
		i = j
	}
	return out
}

// expandInitials makes the J, R and R of JRR Tolkien.
func expandInitials(toks []token) []token {
	var out []token
	for i, t := range toks {
		_, numeral := roman(t.latin)
		if i == len(toks)-1 || !t.caps || t.shouted || len(t.latin) > 3 || !isASCII(t.latin) || len(t.orig) != len(t.latin) || titles[t.latin] != 0 || postnominals[t.latin] ||
			numeral || hasDigit(t.latin) {
			out = append(out, t)
			continue
		}
		for k := range len(t.latin) {
			out = append(out, token{orig: t.orig[k : k+1], latin: t.latin[k : k+1], second: t.latin[k : k+1], upper: 1})
		}
	}
	return out
}

func joinLatin(toks []token) string {
	w := make([]string, len(toks))
	for i, t := range toks {
		w[i] = t.latin
	}
	return strings.Join(w, " ")
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
