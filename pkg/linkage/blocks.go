package linkage

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
)

// Kinds of keys. Where a method binds a short form to a long one (J. Smith to John Smith, WHO to a name in full), two
// kinds are used: short forms are filed under both, long ones under the lower-case one alone, so that long
// forms need not be read for each other.
const (
	keyText     = 't' // sorted words of the merge key: exact, punctuation, token-sort of 1
	keyLetters  = 'c' // core, second spelling, core without Group, aliases; all without blanks
	keyWords    = 'q' // squeezed sorted core, also without stop words
	keySlavic   = 's' // core by romanisation
	keySound    = 'o' // core by consonants
	keyEdit     = 'e' // all words but one, and half of that: one edit
	keyBlank    = 'b' // sorted words of the merge key without blanks
	keyPiece    = 'z' // all words but one or two, or a piece of one or two words: a few indels in a long name
	keyPlace    = 'k' // a known place
	keyFull     = 'f' // family name and formal given name
	keyVariant  = 'v' // family name and a set of variants of a given name
	keyInitial  = 'i' // family name and initial
	keyFamily   = 'n' // family name
	keyAcronym  = 'a' // acronym
	keyShortcut = 'p' // first letters of words cut short by dots
)

// Blocks are the keys that a name is filed under: whenever Compare links two names of one label or finds them unclear, they
// share at least one. They say nothing of the label; file names of each label apart. Few names share a key: it holds nearly
// all of a name, or what a short form leaves of it. The keys are printable, sorted, and each comes once.
func Blocks(n *Name) []string {
	k := keys{codes: n.codes}
	k.fill(n, true)
	return k.done()
}

// Probes are the keys under which every possible partner of a name is filed: looking these up is enough, and finds fewer
// names than Blocks, for two long forms are not met for the sake of a short one.
func Probes(n *Name) []string {
	k := keys{codes: n.codes}
	k.fill(n, false)
	return k.done()
}

type keys struct {
	out   []string
	buf   []byte
	codes string // of the name
}

// add makes one key of the parts. Names with other numbers are vetoed unless all their letters are the same or one is the other's
// acronym: in every other kind of key the numbers are a part, so that Task 5 is not looked at for Task 6
// (the sorted words hold them anyway).
func (k *keys) add(kind byte, parts ...string) {
	h := uint64(14695981039346656037)
	mix := func(p string) {
		for i := 0; i < len(p); i++ {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0x1ff) * 1099511628211
	}
	for _, p := range parts {
		mix(p)
	}
	if k.codes != "" && kind != keyLetters && kind != keyText && kind|0x20 != keyAcronym {
		mix(k.codes)
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], h)
	k.buf = append(k.buf[:0], kind)
	k.buf = base64.RawURLEncoding.AppendEncode(k.buf, b[:])
	k.out = append(k.out, string(k.buf))
}

// pair adds the keys of a method that binds short forms to long ones.
func (k *keys) pair(kind byte, short, filing bool, parts ...string) {
	upper := kind - 'a' + 'A'
	if short {
		k.add(upper, parts...)
	}
	if short || filing {
		k.add(kind, parts...)
	}
	if !short && !filing {
		k.add(upper, parts...)
	}
}

func (k *keys) done() []string {
	slices.Sort(k.out)
	return slices.Compact(k.out)
}

func (k *keys) fill(n *Name, filing bool) {
	switch {
	case len(n.plain) > 0:
		k.add(keyText, string(n.plain))
	case n.fold != "": // too long, or no word in it
		k.add(keyText, n.fold)
	}
	for _, s := range [...]string{n.concat, n.second, n.weak} {
		if s != "" {
			k.add(keyLetters, s)
		}
	}
	if n.calling != n.concat {
		k.add(keyLetters, n.calling)
	}
	for _, a := range n.aliases {
		k.add(keyLetters, a)
	}
	for _, a := range n.named {
		if w := plainTokens(a); len(w) > 0 {
			slices.Sort(w)
			a = strings.Join(w, " ")
		}
		k.add(keyText, a)
	}
	if n.concat == "" {
		return
	}
	k.add(keyWords, n.squeezed)
	k.add(keySlavic, n.slavic)
	if n.coarse != "" {
		k.add(keySound, n.coarse)
	}
	k.edits(n)
	if n.class == person {
		k.person(n, filing)
	} else {
		k.thing(n, filing)
	}
}

func (k *keys) thing(n *Name, filing bool) {
	if content := slices.DeleteFunc(slices.Clone(n.tokens), func(t string) bool { return stops[t] }); len(content) < len(n.tokens) {
		k.add(keyWords, squeeze(strings.Join(content, " ")))
	}
	if n.known != 0 {
		k.add(keyPlace, itoa(n.known))
	}
	if n.acronym != "" {
		k.pair(keyAcronym, true, filing, n.acronym)
	}
	if len(n.core) > 1 {
		for _, e := range n.expands {
			k.pair(keyAcronym, false, filing, e)
		}
	}
	if n.leads != "" {
		k.pair(keyShortcut, n.abridged, filing, n.leads)
	}
}

func (k *keys) person(n *Name, filing bool) {
	if n.rareSurname() {
		k.pair(keyFamily, len(n.core) == 1, filing, n.family)
	}
	if len(n.given) == 0 {
		return
	}
	first := n.given[0]
	if runes(first) == 1 {
		k.pair(keyInitial, true, filing, n.family, first)
		return
	}
	for _, l := range leadsOf(first) {
		k.pair(keyInitial, false, filing, n.family, l)
	}
	k.add(keyFull, n.family, formalOf(first))
	for _, v := range variants[first] {
		k.add(keyVariant, n.family, itoa(v))
	}
	for _, v := range variants[formalOf(first)] {
		k.add(keyVariant, n.family, itoa(v))
	}
}

// edits adds the keys of typo and token-sort.
func (k *keys) edits(n *Name) {
	k.oneWord(n.tokens, shortTypo)
	size := len(n.plain)
	if apart(size) == 0 {
		return
	}
	plain := strings.Split(string(n.plain), " ")
	k.oneWord(plain, 1)
	k.add(keyBlank, strings.Join(plain, ""))
	if apart(size) < 2 {
		return
	}
	k.without(plain)
	if len(plain) <= 2 {
		for l := size; l > 0 && apart(l) > 1; l-- {
			if t := apart(l); size-l <= t {
				k.pieces(n.plain, l, t)
			}
		}
	}
}

// apart is the most indels by which a text may differ from another of l runes or more that token-sort links with it.
func apart(l int) int {
	d := 0
	for budget(2*l+d+1, DefaultTokenSort) > d {
		d++
	}
	return d
}

// oneWord adds keys of all words but one, and what one edit leaves of that: one of its halves, or two of its thirds when
// it is the only word. It is cut as a word of its own length and as one that lost a letter: what lies before the edit
// is counted from the start, what lies behind it from the end; two letters that changed places are whole in one cut or the other. Words of under least letters are not looked at.
func (k *keys) oneWord(words []string, least int) {
	for i, w := range words {
		if runes(w) < least || i > 0 && words[i-1] == w {
			continue
		}
		rest := strings.Join(words[:i], " ") + " " + strings.Join(words[i+1:], " ")
		rest = strings.TrimSpace(rest)
		r := []rune(w)
		for l := len(r); l >= len(r)-1 && l > 0; l-- {
			size := itoa(l)
			switch {
			case rest != "" || l < shortTypo:
				k.add(keyEdit, rest, size, "1", string(r[:l/2]))
				k.add(keyEdit, rest, size, "2", string(r[len(r)-(l-l/2):]))
			default:
				p1 := l / 3
				p2 := (l - p1) / 2
				p3 := l - p1 - p2
				k.add(keyEdit, rest, size, "3", string(r[:p1+p2]))
				k.add(keyEdit, rest, size, "1", string(r[len(r)-p2-p3:]))
				k.add(keyEdit, rest, size, "2", string(r[:p1]), string(r[len(r)-p3:]))
			}
		}
	}
}

// without adds keys of all words, of all but one, and of all but two with the first letters of those, as long as one is left.
func (k *keys) without(words []string) {
	rest := slices.Clone(words)
	k.add(keyPiece, strings.Join(rest, " "))
	if len(words) < 2 {
		return
	}
	for i := range words {
		rest = append(append(rest[:0], words[:i]...), words[i+1:]...)
		k.add(keyPiece, strings.Join(rest, " "))
		for j := i; j < len(rest) && len(rest) > 1 && len(words) <= manyWords; j++ {
			left := strings.Join(rest[:j], " ") + " " + strings.Join(rest[j+1:], " ")
			k.add(keyPiece, strings.TrimSpace(left), leads(words[i], rest[j]))
		}
	}
}

// pieces cuts a text as one of l runes into t+1 pieces, of which t edits leave one whole, shifted by no more than the
// edits before it and those behind it allow (the substring selection of PassJoin, Li et al. 2011).
func (k *keys) pieces(s []rune, l, t int) {
	delta := len(s) - l
	from := 0
	for i := 0; i <= t; i++ {
		length := l / (t + 1)
		if i > t-l%(t+1) {
			length++
		}
		lo := max(-i, delta-(t-i))
		hi := min(i, delta+(t-i))
		for shift := lo; shift <= hi; shift++ {
			if p := from + shift; p >= 0 && p+length <= len(s) {
				k.add(keyPiece, itoa(l), itoa(i), string(s[p:p+length]))
			}
		}
		from += length
	}
}
