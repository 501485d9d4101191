package linkage

import (
	"slices"
	"strings"
)

// fit is how two given names stand to each other.
type fit uint8

const (
	equal   fit = iota
	initial     // one is the first letter of the other
	nick        // a short form of no other name
	variant     // a form of one name among several
	alike       // a slip or another spelling apart
	clash       // neither
)

// people compares persons by family and given names.
func people(a, b *Name) Verdict {
	if a.surname == "" || a.surname != b.surname && !sameSlavic(a, b) {
		return Verdict{Outcome: None}
	}
	if len(a.core) == 1 || len(b.core) == 1 {
		if !a.rareSurname() || !b.rareSurname() {
			return Verdict{Outcome: None}
		}
		if addressed(a, b) || addressed(b, a) {
			return link(ShortName, scoreNickname)
		}
		return unclear(ShortName, scoreShort)
	}
	if len(a.given) == 0 || len(b.given) == 0 {
		return Verdict{Outcome: None}
	}
	worst := equal
	spelt := false // some given name is written out and equal on both sides
	for i := range min(len(a.given), len(b.given)) {
		f := fitOf(a.given[i], b.given[i])
		if f == clash {
			return veto(GivenName)
		}
		worst = max(worst, f)
		spelt = spelt || f == equal && len(a.given[i]) > 1
	}
	return judgeGiven(a, b, worst, spelt)
}

// addressed says whether a person is called by a title that goes before a family name, and the other is that name in full.
func addressed(short, full *Name) bool {
	if len(short.core) != 1 || len(full.given) == 0 || runes(full.given[0]) < 2 || short.titles == "" || short.gen != "" {
		return false
	}
	for _, t := range strings.Fields(short.titles) {
		if !familyTitles[t] {
			return false
		}
	}
	g := givenGender[full.given[0]]
	return short.gender == 0 || g == 0 || short.gender == g
}

// rareSurname says whether a family name alone says something.
func (n *Name) rareSurname() bool { return len(n.surname) >= 3 && !commonNames[n.surname] }

func sameSlavic(a, b *Name) bool { return a.family == b.family }

func judgeGiven(a, b *Name, worst fit, spelt bool) Verdict {
	common := commonNames[a.surname] || commonNames[b.surname]
	more := len(a.given) != len(b.given)
	switch {
	case worst == alike:
		return Verdict{Outcome: None} // typo and transliteration judge it
	case worst == variant && a.turned != b.turned && !more && a.parts == b.parts:
		return link(Transliteration, scoreTranslit)
	case worst == variant:
		return unclear(Nickname, scoreSound)
	case more || a.parts != b.parts:
		return unclear(MiddleName, scoreMiddle)
	case share(distinct, a.surname, b.surname) && a.surname != b.surname:
		return unclear(Transliteration, scoreSound)
	case worst == nick && common && !spelt:
		return unclear(Nickname, scoreWeak)
	case worst == nick:
		return link(Nickname, scoreNickname)
	case worst == initial && common && !spelt && len(a.given) == 1:
		return unclear(Initials, scoreWeak)
	case worst == initial:
		return link(Initials, scoreInitials)
	}
	return Verdict{Outcome: None}
}

func fitOf(x, y string) fit {
	if x == y {
		return equal
	}
	if len(x) > len(y) {
		x, y = y, x
	}
	if runes(x) == 1 {
		if slices.Contains(leadsOf(y), x) {
			return initial
		}
		return clash
	}
	fx, fy := formalOf(x), formalOf(y)
	switch {
	case fx == fy:
		return nick
	case share(variants, x, y), share(variants, fx, fy):
		return variant
	case coarse(slavic(x)) == coarse(slavic(y)), levenshtein(x, y)*2 <= runes(y) && x[0] == y[0]:
		return alike
	}
	if k, _, _ := oneEdit(x, y); k != manyEdits && runes(x) > 3 {
		return alike
	}
	return clash
}

func formalOf(x string) string {
	if f, ok := formal[x]; ok {
		return f
	}
	return x
}

// leadsOf are the initials that a given name may be shortened to: its own, and that of the name it is short for.
func leadsOf(x string) []string {
	l := []string{leadOf(x)}
	if f, ok := formal[x]; ok && leadOf(f) != l[0] {
		l = append(l, leadOf(f))
	}
	return l
}
