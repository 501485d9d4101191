package rules

import (
	"fmt"
	"strconv"
	"strings"
)

type elemKind uint8

const (
	literal elemKind = iota
	activeVerb
	participle
	classWord // a word with a flag
	gapWords  // one to three lower-case words
	gapName   // a name, with its role or title
)

// form of a verb that an element lists.
type form uint8

const (
	anyForm form = iota
	baseForm
	thirdForm
	pastForm
	ingForm
)

type elemWord struct {
	hash uint64
	form form
}

type elem struct {
	kind  elemKind
	words []elemWord
	class flag
}

func (e *elem) find(hash uint64) (form, bool) {
	for i := range e.words {
		if e.words[i].hash == hash {
			return e.words[i].form, true
		}
	}
	return 0, false
}

// phrase states one relation between what stands before and after it.
type phrase struct {
	relation    int // in ruleset.relations
	inverse     bool
	confidence  float64
	elems       []elem
	nominal     bool // begins with a noun: stands after "is" or a comma
	bound       bool // nominal, and never straight after a name
	spans       bool // holds a name, which shorter phrases may be about
	lack        bool // holds "without": a denial before it makes it true
	adverbial   bool // begins with a preposition: the subject stands before the verb that it belongs to
	left, right slot
	rule        string
}

// slot says what an unknown name at one side of a phrase is taken for.
type slot struct {
	types []uint16 // admitted types, the first is implied; empty: any that the schema allows
	weak  bool
	exact bool // no other types than these
	mute  bool // an unknown name is taken for nothing
}

func (s slot) admits(rs *ruleset, t uint16) bool {
	if len(s.types) == 0 {
		return true
	}
	for _, k := range s.types {
		if k == t || rs.below(t, k) {
			return true
		}
	}
	return false
}

// suits is admits for the types of plain prose, and true for the schema's own.
func (s slot) suits(rs *ruleset, t uint16) bool { return !rs.isBuiltin(t) || s.admits(rs, t) }

// join returns the slot with the types of another one after its own, unless it is exact.
func (s slot) join(base slot) slot {
	if len(s.types) == 0 {
		return base
	}
	if s.exact {
		return s
	}
	s.types = append(append([]uint16{}, s.types...), base.types...)
	return s
}

// relationRule is one relation that phrases state.
type relationRule struct {
	label          string // the schema's label, or our own name where the schema has none
	declared       bool
	source, target slot
	ends           [2]slot // what may stand at its source and its target
}

// parsePhrase reads one phrase line after its confidence: the words, "=", and the [types].
func (rs *ruleset) parsePhrase(line string, verbs map[string]forms) (phrase, error) {
	p := phrase{confidence: 0.9}
	line = strings.TrimSpace(line)
	if at := strings.IndexByte(line, '['); at >= 0 {
		sides := strings.Split(strings.Trim(line[at:], "[] "), ">")
		if len(sides) != 2 {
			return p, fmt.Errorf("phrase %q: types are not [left>right]", line)
		}
		p.left, p.right = rs.parseSlot(sides[0]), rs.parseSlot(sides[1])
		line = strings.TrimSpace(line[:at])
	}
	words := strings.Fields(line)
	if len(words) > 0 {
		if c, err := strconv.ParseFloat(words[0], 64); err == nil {
			p.confidence = c
			words = words[1:]
		}
	}
	if n := len(words); n > 0 && words[n-1] == "=" {
		p.bound = true
		words = words[:n-1]
	}
	if len(words) == 0 {
		return p, fmt.Errorf("phrase %q is empty", line)
	}
	for _, w := range words {
		p.elems = append(p.elems, rs.parseElem(w, verbs))
	}
	for i := range p.elems {
		p.spans = p.spans || p.elems[i].kind == gapName
	}
	k := p.elems[0].kind
	p.nominal = k == classWord || k == literal
	return p, nil
}

func (rs *ruleset) parseSlot(text string) slot {
	text, exact := strings.CutPrefix(strings.TrimSpace(text), "!")
	text, mute := strings.CutPrefix(text, "=")
	s := slot{weak: strings.HasPrefix(text, "?"), exact: exact || mute, mute: mute}
	for _, name := range strings.Fields(strings.TrimPrefix(text, "?")) {
		if t := rs.builtin[name]; t > 0 {
			s.types = append(s.types, t)
		}
	}
	return s
}

func (rs *ruleset) parseElem(w string, verbs map[string]forms) elem {
	switch {
	case w == "*":
		return elem{kind: gapWords}
	case w == "%name":
		return elem{kind: gapName}
	case w == "%role":
		return elem{kind: classWord, class: role | roles}
	case w == "%place":
		return elem{kind: classWord, class: placeWord}
	case w == "%firm":
		return elem{kind: classWord, class: firm}
	}
	e := elem{}
	switch w[0] {
	case '~':
		e.kind, w = activeVerb, w[1:]
	case '@':
		e.kind, w = participle, w[1:]
	}
	for _, alt := range strings.Split(w, "|") {
		f, ok := verbs[alt]
		if !ok {
			f = regular(alt)
		}
		switch e.kind {
		case activeVerb:
			e.words = append(e.words, elemWord{hashWord(f.base), baseForm}, elemWord{hashWord(f.third), thirdForm},
				elemWord{hashWord(f.past), pastForm}, elemWord{hashWord(f.ing), ingForm})
		case participle:
			e.words = append(e.words, elemWord{hashWord(f.participle), anyForm})
		default:
			e.words = append(e.words, elemWord{hashWord(alt), anyForm})
		}
	}
	return e
}

// lemma returns the base of a word that looks like a verb's third person or past, or "".
func lemma(w string, verbs map[string]forms) string {
	found := ""
	for base, f := range verbs {
		if (w == base || w == f.third || w == f.past || w == f.participle || w == f.ing) && (found == "" || base < found) {
			found = base
		}
	}
	if found != "" {
		return found
	}
	n := len(w)
	switch {
	case n > 4 && strings.HasSuffix(w, "ies"):
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "xes")):
		return w[:n-2]
	case n > 3 && w[n-1] == 's' && w[n-2] != 's':
		return w[:n-1]
	case n > 4 && strings.HasSuffix(w, "ied"):
		return w[:n-3] + "y"
	case n > 4 && strings.HasSuffix(w, "ed"):
		for _, base := range []string{w[:n-1], w[:n-2]} {
			if regular(base).past == w && (strings.HasSuffix(base, "e") == endsLikeE(w[:n-2])) {
				return base
			}
		}
		return w[:n-2]
	}
	return ""
}

// endsLikeE tells whether a verb's stem takes an e: advis(e), fus(e), manag(e).
func endsLikeE(stem string) bool {
	n := len(stem)
	if n < 2 {
		return true
	}
	switch stem[n-1] {
	case 's', 'c', 'g', 'v', 'z', 'u':
		return stem[n-2] != 's'
	case 'r', 't', 'd', 'm', 'n', 'l':
		return n > 3 && (strings.HasSuffix(stem, "at") || strings.HasSuffix(stem, "ir") || strings.HasSuffix(stem, "ar") && n > 4 || strings.HasSuffix(stem, "id") || strings.HasSuffix(stem, "in") && n > 5)
	}
	return false
}
