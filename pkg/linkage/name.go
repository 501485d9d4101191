package linkage

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// MaxRunes is the length of the longest name that is compared, in runes of its merge key.
const MaxRunes = 80

// maxAliases bounds the declared aliases that one name keeps: the first ones in byte order.
const maxAliases = 32

type class uint8

const (
	other class = iota // organisations, products, and every label nothing else is known of
	person
	place
)

// Name is an entity's name, taken apart once so that a comparison is cheap. It is a function of what Prepare was given
// and safe for concurrent use. The zero Name equals nothing.
type Name struct {
	label string
	fold  string // the merge key: equal keys are one entity
	class class
	long  bool // over MaxRunes; nothing below is filled

	text  string // words of the merge key, in order
	plain []rune // the same, sorted: what token-sort compares
	latin string // the words without accents, in Latin letters

	core     []string // what is left without title, legal form, article, with abbreviations and numerals written out
	tokens   []string // core, sorted
	sorted   string   // tokens, apart by blanks
	concat   string   // core, in order, without blanks
	second   string   // concat by the second spelling of umlauts; "" where it is concat
	weak     string   // concat without a word as Group at the end; "" without one
	squeezed string   // sorted, each run of one letter once
	slavic   string   // core by romanisation, sorted
	coarse   string   // core by consonants, sorted; "" for short names and for all but persons
	bag      uint64   // the letters of sorted
	turned   bool     // was written in another script

	suffix   []string // legal forms
	titles   string   // words before and behind a person's name
	gender   byte     // m or f by title, else 0
	article  bool
	quals    []string // qualifiers of a place, or the one in brackets
	gen      string   // generation of a person: jr, sr or a number
	codes    string   // tokens with digits, sorted
	codeRow  string   // the same, in order
	digits   string   // runs of digits, in order
	marks    string   // C++ has ++, .NET has a dot
	letters  string   // words of one letter
	capitals []string // core tokens that are all capitals in a name that is not
	contrast []contrast

	acronym  string   // the name as an acronym; "" for another one
	expands  []string // acronyms of the name, sorted
	dotted   []bool   // by core token: it was cut short by a dot
	leads    string   // first letters of the words that say something; "" for persons and single words
	abridged bool     // some token is dotted

	surname string
	family  string   // surname by romanisation
	given   []string // without particles
	parts   string   // particles

	known   int      // a place with several names; 0 for others
	calling string   // what an alias is compared by: concat, with what no comparison may pass over
	aliases []string // calling of each alias, sorted
	named   []string // merge key of each declared alias, sorted
}

// Label is the label that the name was prepared for.
func (n *Name) Label() string { return n.label }

// Numbers are what the name's numbers come to: names of which these differ are vetoed, unless one is the other's acronym or alias, or
// they have the same letters.
func (n *Name) Numbers() string { return n.codes }

// Key is the merge key of the name, as fingerprint.Fold gives it.
func (n *Name) Key() string { return n.fold }

// Prepare takes a name apart: display as it was chosen for the entity, aliases that were declared for it (by the
// registry or the document), in any order. It accepts any bytes.
func Prepare(label, display string, aliases []string) Name {
	n := Name{label: label, fold: fingerprint.Fold(display), class: classOf(label)}
	if utf8.RuneCountInString(n.fold) > MaxRunes || len(display) > 16*MaxRunes {
		n.long = true
		return n
	}
	n.text = strings.Join(plainTokens(n.fold), " ")
	n.plain = []rune(sortedWords(n.text))
	n.read(display)
	n.alias(aliases)
	return n
}

// alias keeps the declared aliases beside the one that stood in brackets.
func (n *Name) alias(declared []string) {
	for _, d := range declared {
		if len(d) > 4*MaxRunes {
			continue
		}
		a := Name{class: n.class}
		a.read(d)
		if a.calling != "" && a.calling != n.calling {
			n.aliases = append(n.aliases, a.calling)
		}
		if f := fingerprint.Fold(d); f != "" && f != n.fold {
			n.named = append(n.named, f)
		}
	}
	for _, list := range [...]*[]string{&n.aliases, &n.named} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
		if len(*list) > maxAliases {
			*list = (*list)[:maxAliases:maxAliases]
		}
	}
}

// Labels that say that a name is of a person or a place, as they end when small and without separators.
var (
	personLabels = []string{"person", "people", "human", "individual", "author", "scientist", "researcher", "character", "actor", "actress", "politician", "employee", "artist", "player", "inventor"}
	placeLabels  = []string{"location", "place", "city", "country", "region", "gpe", "town", "village", "state", "address", "river", "mountain", "island"}
)

func classOf(label string) class {
	l := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(label))
	for _, p := range personLabels {
		if strings.HasSuffix(l, p) {
			return person
		}
	}
	for _, p := range placeLabels {
		if strings.HasSuffix(l, p) {
			return place
		}
	}
	return other
}

// read fills what depends on the spelling of display.
func (n *Name) read(display string) {
	s := clean(display)
	s = n.brackets(s)
	parts := n.commas(s)
	toks := tokenize(parts, n)
	if n.class == person {
		toks = expandInitials(toks)
	} else {
		toks = joinLetters(toks)
	}
	n.latin = joinLatin(toks)
	switch n.class {
	case person:
		toks = n.readPerson(toks)
	case place:
		toks = n.readThing(n.stateBehind(toks))
	default:
		toks = n.readThing(toks)
		toks = n.legalForm(toks)
	}
	n.finish(toks)
}

// finish derives every form of the core.
func (n *Name) finish(toks []token) {
	var second, slav, rough []string
	var codes, runs []string
	for _, t := range toks {
		n.core = append(n.core, t.latin)
		n.dotted = append(n.dotted, t.dotted && !t.initial())
		n.abridged = n.abridged || t.dotted && !t.initial() && n.class != person
		second = append(second, t.second)
		sl := slavic(t.latin)
		slav = append(slav, sl)
		rough = append(rough, coarse(sl))
		n.turned = n.turned || t.turned
		if hasDigit(t.latin) {
			codes = append(codes, t.latin)
			runs = append(runs, strings.FieldsFunc(t.latin, func(r rune) bool { return r < '0' || r > '9' })...)
		}
		if t.caps && !t.shouted {
			n.capitals = append(n.capitals, t.latin)
		}
		if n.class != person {
			n.contrast = append(n.contrast, contrasts[t.latin]...)
			if t.initial() && t.upper > 0 {
				n.letters += t.latin
			}
		}
	}
	n.tokens = slices.Sorted(slices.Values(n.core))
	n.sorted = strings.Join(n.tokens, " ")
	n.concat = strings.Join(n.core, "")
	if sec := strings.Join(second, ""); sec != n.concat {
		n.second = sec
	}
	slices.Sort(slav)
	n.slavic = strings.Join(slav, " ")
	if n.class == person && len(n.concat) >= 8 && len(n.core) > 1 {
		slices.Sort(rough)
		n.coarse = strings.Join(rough, " ")
	}
	n.codeRow = strings.Join(codes, " ")
	slices.Sort(codes)
	n.codes = strings.Join(codes, " ")
	n.digits = strings.Join(runs, " ")
	n.calling = n.concat + n.marks + n.gen
	if n.gender != 0 {
		n.calling += " " + string(n.gender)
	}
	if strings.Contains(n.digits, " ") {
		n.calling += " " + n.digits
	}
	n.squeezed = squeeze(n.sorted)
	n.bag = bagOf(n.sorted)
	switch n.class {
	case person:
		n.parsePerson()
	case place:
		n.known = places[strings.Join(n.core, " ")]
		n.acronyms(toks)
	default:
		n.acronyms(toks)
	}
}

// parsePerson tells the family name from the given ones.
func (n *Name) parsePerson() {
	if len(n.core) == 0 {
		return
	}
	n.surname = n.core[len(n.core)-1]
	n.family = slavic(n.surname)
	var parts []string
	for _, t := range n.core[:len(n.core)-1] {
		if particles[t] && len(t) > 1 {
			parts = append(parts, t)
		} else {
			n.given = append(n.given, t)
		}
	}
	n.parts = strings.Join(parts, " ")
}

// acronyms says whether the name is one, and what it would be short for.
func (n *Name) acronyms(toks []token) {
	if len(toks) == 1 {
		t := toks[0]
		if l := utf8.RuneCountInString(t.latin); l >= 2 && l <= 7 && t.upper >= 2 && 2*t.upper >= l {
			n.acronym = t.latin
		}
	}
	var all, content, numerals, leads []byte
	words := 0
	for _, t := range toks {
		for _, p := range t.pieces() {
			lead := leadOf(p)
			all = append(all, lead...)
			if !stops[p] {
				content = append(content, lead...)
				numerals = append(numerals, numeral(lead)...)
				words++
			}
		}
		if !stops[t.latin] {
			leads = append(leads, leadOf(t.latin)...)
		}
	}
	if words < 2 {
		return
	}
	n.expand(string(all), string(content), string(numerals))
	if len(n.suffix) > 0 { // the British Broadcasting Corporation keeps its C
		n.expand(string(content) + n.suffix[len(n.suffix)-1][:1])
	}
	if len(leads) >= 2 {
		n.leads = string(leads)
	}
}

func (n *Name) expand(acronyms ...string) {
	for _, a := range acronyms {
		if l := utf8.RuneCountInString(a); l >= 2 && l <= 10 && !slices.Contains(n.expands, a) {
			n.expands = append(n.expands, a)
		}
	}
	slices.Sort(n.expands)
}

// leadOf is the first letter of a word, or all of a number.
func leadOf(word string) string {
	if hasDigit(word) && len(word) <= 3 {
		return word
	}
	_, size := utf8.DecodeRuneInString(word)
	return word[:size]
}

// numeral is a small number as a Roman one (World War 2 is WWII), or lead itself.
func numeral(lead string) string {
	if len(lead) == 1 && lead[0] >= '1' && lead[0] <= '9' {
		return romanUnits[lead[0]-'0']
	}
	return lead
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// bagOf is the set of characters of s, one bit for each letter and digit, a few for all others.
func bagOf(s string) uint64 {
	var b uint64
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z':
			b |= 1 << (r - 'a')
		case r >= '0' && r <= '9':
			b |= 1 << (26 + r - '0')
		case r != ' ':
			b |= 1 << (36 + r%28)
		}
	}
	return b
}
