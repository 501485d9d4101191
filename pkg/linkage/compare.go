package linkage

import (
	"slices"
	"strings"
)

// Scores of the methods that measure nothing: how much a pair is worth to whoever has to order links.
const (
	scoreExact, scorePunctuation, scoreDiacritics   = 1, 0.995, 0.99
	scoreOrder, scoreSpacing, scoreArticle          = 0.985, 0.98, 0.975
	scoreAlias, scoreSuffix, scoreHonorific         = 0.97, 0.965, 0.965
	scoreAbbreviation, scoreKnown, scoreTranslit    = 0.96, 0.95, 0.94
	scoreTypo, scoreInitials, scoreAcronym          = 0.93, 0.92, 0.91
	scoreNickname                                   = 0.9
	scoreCapped, scoreLoose, scoreMiddle, scoreWeak = 0.88, 0.85, 0.82, 0.8
	scoreSound, scoreShort                          = 0.75, 0.7
)

// The fewest letters of a name of other blanks (three with a digit), of a name without its article, of an acronym, and
// of a word with a typing error.
const (
	shortSpacing = 4
	shortArticle = 5
	shortAcronym = 4
	shortTypo    = 5
	manyWords    = 12 // the most words of a name of which two may differ
)

// Compare says what speaks for two names being of one thing. It is symmetric and pure; names of two labels get None.
func Compare(a, b *Name, opt Options) Verdict {
	if a.label != b.label || a.fold == "" || b.fold == "" {
		return Verdict{Outcome: None}
	}
	if a.fold == b.fold {
		return link(Exact, scoreExact)
	}
	if a.long || b.long {
		return veto(TooLong)
	}
	if b.fold < a.fold {
		a, b = b, a
	}
	v := compare(a, b, opt)
	if v.Outcome == Link && len(opt.Review) > 0 && slices.Contains(opt.Review, v.Method) {
		v.Outcome = Unclear
	}
	return v
}

func link(m Method, score float64) Verdict    { return Verdict{m, score, Link} }
func unclear(m Method, score float64) Verdict { return Verdict{m, score, Unclear} }
func veto(m Method) Verdict                   { return Verdict{m, 0, Vetoed} }

func compare(a, b *Name, opt Options) Verdict {
	if a.codes == b.codes || a.codes == "" || b.codes == "" {
		if contains(a.named, b.fold) || contains(b.named, a.fold) {
			return link(Alias, scoreAlias)
		}
	}
	if v, ok := vetoes(a, b); ok {
		return v
	}
	v := aliased(a, b)
	if v.Outcome == None {
		v = same(a, b)
	}
	if v.Outcome == None && a.class == person {
		v = people(a, b)
		if v.Outcome == Vetoed {
			return v
		}
	}
	if v.Outcome == None {
		v = things(a, b)
	}
	if v.Outcome == None {
		v = slips(a, b, max(opt.TokenSort, DefaultTokenSort))
	}
	if v.Outcome == None && a.coarse != "" && a.coarse == b.coarse {
		v = unclear(Transliteration, scoreSound)
	}
	if v.Outcome == Link && v.Method != Alias {
		return capped(a, b, v)
	}
	return v
}

// TokenSortRatio is the ratio of the sorted words of two merge keys, 0…1.
func TokenSortRatio(a, b *Name) float64 {
	if a.long || b.long {
		return 0
	}
	total := len(a.plain) + len(b.plain)
	if total == 0 {
		return 0
	}
	return 1 - float64(indels(a.plain, b.plain, total))/float64(total)
}

// differing returns the one word in which two sorted lists differ, if it is one, and at the same place.
func differing(a, b []string) (x, y string, ok bool) {
	if len(a) != len(b) {
		return "", "", false
	}
	at := -1
	for i := range a {
		if a[i] != b[i] {
			if at >= 0 {
				return "", "", false
			}
			at = i
		}
	}
	if at < 0 {
		return "", "", false
	}
	return a[at], b[at], true
}

func aliased(a, b *Name) Verdict {
	if len(a.aliases)+len(b.aliases) == 0 {
		return Verdict{Outcome: None}
	}
	if contains(a.aliases, b.calling) || contains(b.aliases, a.calling) {
		return link(Alias, scoreAlias)
	}
	for _, x := range a.aliases {
		if contains(b.aliases, x) {
			return unclear(Alias, scoreLoose)
		}
	}
	return Verdict{Outcome: None}
}

// same finds names that are the same words, letters or core, and says by which reduction.
func same(a, b *Name) Verdict {
	switch {
	case a.text != "" && a.text == b.text:
		return link(Punctuation, scorePunctuation)
	case a.concat != "" && a.concat == b.concat:
		if a.sorted == b.sorted {
			return reduced(a, b)
		}
		if a.class == person && (a.hasInitial() != b.hasInitial()) || runes(a.concat) < shortSpacing && (a.codes == "" || runes(a.concat) < 3) {
			return unclear(Spacing, scoreWeak)
		}
		return link(Spacing, scoreSpacing)
	case a.sorted != "" && a.sorted == b.sorted:
		if !sameSuffix(a, b) {
			return unclear(LegalSuffix, scoreLoose)
		}
		return link(Order, scoreOrder)
	case a.second != "" && a.second == b.concat || b.second != "" && b.second == a.concat:
		return link(Diacritics, scoreDiacritics)
	case a.slavic != "" && a.slavic == b.slavic:
		return romanised(a, b)
	case a.weak != "" && (a.weak == b.concat || a.weak == b.weak) || b.weak != "" && b.weak == a.concat:
		return unclear(LegalSuffix, scoreWeak)
	}
	return Verdict{Outcome: None}
}

func (n *Name) hasInitial() bool {
	for _, g := range n.core {
		if runes(g) == 1 {
			return true
		}
	}
	return false
}

// reduced names the strongest reduction that made two cores equal.
func reduced(a, b *Name) Verdict {
	switch {
	case !slices.Equal(a.suffix, b.suffix):
		if !sameSuffix(a, b) {
			return unclear(LegalSuffix, scoreLoose)
		}
		return link(LegalSuffix, scoreSuffix)
	case a.titles != b.titles:
		if len(a.core) < 2 && a.gen == "" {
			return unclear(Honorific, scoreLoose)
		}
		return link(Honorific, scoreHonorific)
	case a.article != b.article:
		if runes(a.concat) < shortArticle {
			return unclear(Article, scoreLoose)
		}
		return link(Article, scoreArticle)
	case string(a.plain) == string(b.plain):
		return link(Order, scoreOrder)
	case a.turned != b.turned:
		return link(Transliteration, scoreTranslit)
	case a.latin != b.latin:
		if sortedWords(a.latin) == sortedWords(b.latin) {
			return link(Order, scoreOrder)
		}
		return link(Abbreviation, scoreAbbreviation)
	case len(a.quals) > 0 && len(b.quals) > 0:
		return link(Abbreviation, scoreAbbreviation) // Portland, OR and Portland, Oregon
	case isASCII(a.text) && isASCII(b.text):
		return link(Punctuation, scorePunctuation) // U.S. and US, O'Brien and OBrien
	}
	return link(Diacritics, scoreDiacritics)
}

// sameSuffix: the legal forms of one are among those of the other.
func sameSuffix(a, b *Name) bool {
	if len(a.suffix) > len(b.suffix) {
		a, b = b, a
	}
	for _, s := range a.suffix {
		if !slices.Contains(b.suffix, s) {
			return false
		}
	}
	return true
}

// romanised judges names that are equal by romanisation: it links unless two words are known as different.
func romanised(a, b *Name) Verdict {
	if a.turned != b.turned {
		return link(Transliteration, scoreTranslit)
	}
	if x, y, ok := differing(a.tokens, b.tokens); ok && (share(distinct, x, y) || strings.TrimRight(x, "y") == y || strings.TrimRight(y, "y") == x) {
		return unclear(Transliteration, scoreSound)
	}
	return link(Transliteration, scoreTranslit)
}

// capped takes back a link that a part outside the core speaks against.
func capped(a, b *Name, v Verdict) Verdict {
	switch {
	case a.codes == b.codes && a.codeRow != b.codeRow:
		return unclear(Numbers, min(v.Score, scoreCapped))
	case a.gen != b.gen:
		return unclear(Generation, min(v.Score, scoreCapped))
	case (len(a.quals) == 0) != (len(b.quals) == 0) && sortedWords(a.text) != sortedWords(b.text):
		return unclear(Qualifier, min(v.Score, scoreCapped))
	}
	return v
}

// things are the methods for everything but persons.
func things(a, b *Name) Verdict {
	if a.class == person {
		return Verdict{Outcome: None}
	}
	if a.known != 0 && a.known == b.known {
		return link(KnownPlace, scoreKnown)
	}
	for _, p := range [...][2]*Name{{a, b}, {b, a}} {
		if acronymOf(p[0], p[1]) {
			if runes(p[0].acronym) < shortAcronym {
				return unclear(Acronym, scoreLoose)
			}
			return link(Acronym, scoreAcronym)
		}
	}
	if a.leads != "" && a.leads == b.leads && (a.abridged || b.abridged) {
		if v := cutShort(a, b); v.Outcome != None {
			return v
		}
	}
	if a.bag == b.bag || len(a.core) != len(b.core) {
		return contentOrder(a, b)
	}
	return Verdict{Outcome: None}
}

func acronymOf(short, long *Name) bool {
	return short.acronym != "" && len(long.expands) > 0 && len(long.core) > 1 && contains(long.expands, short.acronym)
}

// cutShort compares word by word where dots cut words short; words as "of" are passed over.
func cutShort(a, b *Name) Verdict {
	i, j, longest := 0, 0, 0
	for {
		for i < len(a.core) && stops[a.core[i]] {
			i++
		}
		for j < len(b.core) && stops[b.core[j]] {
			j++
		}
		if i == len(a.core) || j == len(b.core) {
			break
		}
		x, y := a.core[i], b.core[j]
		switch {
		case x == y:
		case a.dotted[i] && strings.HasPrefix(y, x):
			longest = max(longest, runes(x))
		case b.dotted[j] && strings.HasPrefix(x, y):
			longest = max(longest, runes(y))
		case len(x) == 1 && strings.HasPrefix(y, x) || len(y) == 1 && strings.HasPrefix(x, y):
		default:
			return Verdict{Outcome: None}
		}
		i, j = i+1, j+1
	}
	if i < len(a.core) || j < len(b.core) || longest == 0 {
		return Verdict{Outcome: None}
	}
	if longest >= 3 {
		return link(Abbreviation, scoreAbbreviation)
	}
	return unclear(Abbreviation, scoreWeak)
}

// contentOrder: the same words but for those as "of".
func contentOrder(a, b *Name) Verdict {
	i, j, words := 0, 0, 0
	for {
		for i < len(a.tokens) && stops[a.tokens[i]] {
			i++
		}
		for j < len(b.tokens) && stops[b.tokens[j]] {
			j++
		}
		if i == len(a.tokens) || j == len(b.tokens) {
			break
		}
		if a.tokens[i] != b.tokens[j] {
			return Verdict{Outcome: None}
		}
		i, j, words = i+1, j+1, words+1
	}
	if i < len(a.tokens) || j < len(b.tokens) || words < 2 {
		return Verdict{Outcome: None}
	}
	return unclear(Order, scoreLoose)
}
