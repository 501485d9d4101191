package linkage

import (
	"slices"
	"strings"
)

// readPerson takes titles, what stands behind a name, and the generation off; at least one token stays.
func (n *Name) readPerson(toks []token) []token {
	var said []string
	title := func(t token) {
		said = append(said, t.latin)
		if g := titles[t.latin]; g == 'm' || g == 'f' {
			n.gender = g
		}
	}
	for len(toks) > 1 && titles[toks[0].latin] != 0 && !(toks[0].initial()) {
		title(toks[0])
		toks = toks[1:]
	}
	toks = n.regnal(toks)
	for len(toks) > 1 {
		t := toks[len(toks)-1]
		if g, ok := generations[t.latin]; ok && n.gen == "" {
			n.gen = g
		} else if g, ok := n.numeral(t, toks); ok && n.gen == "" {
			n.gen = g
		} else if postnominals[t.latin] && len(toks) > 2 && (t.caps || t.dotted || t.upper > 1 || len(t.latin) > 2) {
			said = append(said, t.latin)
		} else {
			break
		}
		toks = toks[:len(toks)-1]
	}
	// Ph. D. and M. D. come as letters
	if k := len(toks); k > 3 && toks[k-2].latin == "ph" && toks[k-1].latin == "d" {
		said = append(said, "phd")
		toks = toks[:k-2]
	}
	n.titles = strings.Join(said, " ")
	return surnameLast(toks)
}

// mostRegnal is the highest number of a ruler of one name.
const mostRegnal = 40

// regnal takes the number of a ruler out of the middle of a name: Elizabeth II of England, Nicholas I Romanov. One letter alone behind an initial
// is another initial.
func (n *Name) regnal(toks []token) []token {
	for i := 1; i < len(toks)-1; i++ {
		t := toks[i]
		v, ok := roman(t.latin)
		if !ok || v > mostRegnal || t.dotted || t.upper != len(t.latin) || len(t.latin) == 1 && (toks[i-1].initial() || toks[i+1].initial()) {
			continue
		}
		if n.gen == "" {
			n.gen = itoa(v)
		}
		return append(toks[:i:i], toks[i+1:]...)
	}
	return toks
}

// stateBehind takes the state off "Portland OR", as if it stood behind a comma.
func (n *Name) stateBehind(toks []token) []token {
	k := len(toks)
	if k < 2 || len(n.quals) > 0 {
		return toks
	}
	t := toks[k-1]
	long, ok := states[t.latin]
	if !ok || len(t.latin) != 2 || !t.caps || t.shouted {
		return toks
	}
	n.quals = append(n.quals, long)
	return toks[:k-1]
}

// numeral reads the number of a king or a third of his name.
func (n *Name) numeral(t token, toks []token) (string, bool) {
	if t.dotted {
		return "", false
	}
	v, ok := roman(t.latin)
	if !ok || t.upper == 0 && len(t.latin) < 2 {
		return "", false
	}
	if len(t.latin) == 1 && (len(toks) != 2 || !isGiven(toks[0].latin)) {
		return "", false
	}
	if len(t.latin) == 2 && !t.caps && t.upper > 0 { // Xi and Vi are names
		return "", false
	}
	return itoa(v), true
}

func isGiven(t string) bool { return variants[t] != nil || formal[t] != "" || distinct[t] != nil }

// surnameLast turns "Babbage C." round.
func surnameLast(toks []token) []token {
	k := len(toks)
	if k < 2 || toks[0].initial() || !toks[k-1].initial() {
		return toks
	}
	i := k
	for i > 0 && toks[i-1].initial() {
		i--
	}
	return append(slices.Clone(toks[i:]), toks[:i]...)
}

// readThing takes the article off, writes abbreviations out and numerals in digits.
func (n *Name) readThing(toks []token) []token {
	if len(toks) > 1 && toks[0].latin == "the" {
		n.article = true
		toks = toks[1:]
	}
	out := make([]token, 0, len(toks))
	for i, t := range toks {
		if v, ok := thingNumber(t, i, len(toks)); ok {
			t.latin, t.second = v, v
		} else if len(t.latin) > 1 && t.latin[0] == 'v' && hasDigit(t.latin[1:2]) {
			t.latin, t.second = t.latin[1:], t.latin[1:]
		} else if long, ok := n.unabbreviate(t, i, len(toks)); ok {
			t.latin, t.second = long, long
		}
		if hasDigit(t.latin) && len(out) > 1 {
			if m := out[len(out)-1].latin; numberMarkers[m] || m == "version" || m == "v" {
				out = out[:len(out)-1]
			}
		}
		out = append(out, t)
	}
	return out
}

func thingNumber(t token, i, count int) (string, bool) {
	if v, ok := number(t.latin); ok {
		return v, true
	}
	v, ok := roman(t.latin)
	if !ok || i == 0 && len(t.latin) < 3 {
		return "", false
	}
	switch {
	case len(t.latin) == 1:
		ok = t.upper == 1 && i == count-1 && !t.dotted
	case len(t.latin) == 2:
		ok = t.caps || t.upper == 0
	}
	return itoa(v), ok
}

func (n *Name) unabbreviate(t token, i, count int) (string, bool) {
	if count < 2 {
		return "", false
	}
	switch t.latin {
	case "st":
		if i == count-1 {
			return "street", true
		}
		return "saint", true
	case "dr":
		return "drive", n.class == place && i == count-1
	}
	if t.caps && !t.shouted && !t.dotted && len(t.latin) < 4 {
		return "", false
	}
	long, ok := abbreviations[t.latin]
	return long, ok
}

// legalForm takes legal forms off the end; at least one token stays.
func (n *Name) legalForm(toks []token) []token {
	for {
		cut := n.oneForm(toks)
		if cut == 0 {
			break
		}
		toks = toks[:len(toks)-cut]
		if len(toks) > 1 && toks[len(toks)-1].latin == "and" {
			toks = toks[:len(toks)-1]
		}
	}
	slices.Sort(n.suffix)
	if k := len(toks); k > 1 && weakSuffixes[toks[k-1].latin] {
		for _, t := range toks[:k-1] {
			n.weak += t.latin
		}
	}
	return toks
}

// oneForm returns how many tokens at the end are one legal form, and keeps it.
func (n *Name) oneForm(toks []token) int {
	for w := min(suffixWords, len(toks)-1); w > 0; w-- {
		if form, ok := suffixes[joinLatin(toks[len(toks)-w:])]; ok {
			n.suffix = append(n.suffix, form)
			return w
		}
	}
	return 0
}
