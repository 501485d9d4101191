package linkage

import (
	"slices"
	"strings"
)

// slips judges names that differ by little: in one word by one edit, or by few letters in all of them.
func slips(a, b *Name, least float64) Verdict {
	typo, known := typoOf(a, b)
	if typo.Outcome == Link || known {
		return typo
	}
	if r := ratio(a.plain, b.plain, least); r > 0 && fewWordsDiffer(a, b) {
		return link(TokenSort, r)
	}
	return typo
}

// fewWordsDiffer: one word of each, or two that begin with the same letters, or the blanks alone.
func fewWordsDiffer(a, b *Name) bool {
	x, y := strings.Split(string(a.plain), " "), strings.Split(string(b.plain), " ")
	var onlyX, onlyY []string
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		switch strings.Compare(x[i], y[j]) {
		case 0:
			i, j = i+1, j+1
		case -1:
			onlyX = append(onlyX, x[i])
			i++
		default:
			onlyY = append(onlyY, y[j])
			j++
		}
	}
	onlyX, onlyY = append(onlyX, x[i:]...), append(onlyY, y[j:]...)
	switch {
	case len(onlyX) <= 1 && len(onlyY) <= 1:
		return true
	case len(onlyX) == 2 && len(onlyY) == 2 && len(x) <= manyWords:
		return leads(onlyX...) == leads(onlyY...)
	}
	return strings.Join(x, "") == strings.Join(y, "")
}

// leads are the first letters of words, sorted.
func leads(words ...string) string {
	var out []string
	for _, w := range words {
		out = append(out, leadOf(w))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// typoOf judges one edit in one word; known says that the two words are known to be right both, or are a person's and
// differ at the end (Andre, Andrea), so that alike letters prove nothing.
func typoOf(a, b *Name) (v Verdict, known bool) {
	none := Verdict{Outcome: None}
	if !near(a, b) && a.squeezed != b.squeezed {
		return none, false
	}
	x, y, ok := differing(a.tokens, b.tokens)
	if !ok || hasDigit(x) || hasDigit(y) {
		return none, false
	}
	n := min(runes(x), runes(y))
	kind, p, q := oneEdit(x, y)
	if kind == manyEdits && squeeze(x) == squeeze(y) {
		kind = doubled
	}
	if kind == noEdit || kind == manyEdits {
		return none, false
	}
	known = share(distinct, x, y)
	if n < shortTypo || !sameSuffix(a, b) {
		return none, known
	}
	score := 1 - 1/float64(max(runes(a.sorted), runes(b.sorted)))
	if !known && likely(a, b, x, y, kind, p, q, n) {
		return link(Typo, min(score, scoreTypo)), false
	}
	return unclear(Typo, min(score, scoreLoose)), known || a.class == person && kind == atEnd
}

// likely says whether a slip is likelier than another word. x and y are the words, n is the length of the shorter one.
func likely(a, b *Name, x, y string, kind edit, p, q rune, n int) bool {
	whole := len(a.core) == 1
	human := a.class == person
	if human && (whole || a.hasInitial() || b.hasInitial()) {
		return false
	}
	switch kind {
	case swapped:
		return n >= 6 && (!whole || n >= 7)
	case doubled:
		if human && (x != a.surname && y != a.surname || doubledByHabit(x, y)) {
			return false
		}
		return n >= 6 && (!whole || n >= 8)
	case inserted:
		return n >= 7 && (!whole || n >= 8)
	case replaced: // a vowel for a vowel is often another word: chlorite, chlorate
		return n >= 9 && !(isVowelRune(p) && isVowelRune(q)) || human && n == 8 && !isVowelRune(p) && !isVowelRune(q)
	}
	return false
}

// doubledByHabit: family names that are right with one letter and with two (Hoffman, Hoffmann; Gustafson, Gustafsson).
func doubledByHabit(x, y string) bool {
	long := x
	if len(y) > len(x) {
		long = y
	}
	return strings.HasSuffix(long, "sson") || long[len(long)-1] == long[len(long)-2]
}

func isVowelRune(r rune) bool { return r < 128 && isVowel(byte(r)) }
