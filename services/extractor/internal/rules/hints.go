package rules

import (
	"regexp"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// The `rules:` section of a schema says more than its words: what it says of a word holds before what plain prose says of it.

// hintWord is what the schema's `rules:` say of one word.
type hintWord struct {
	near  uint16 // type of a name right behind the word: "schooner"
	many  uint16 // type of the names behind its plural: "schooners"
	title uint16 // type of a name behind the honorific or the role of people
	tail  bool   // a suffix in small letters, which belongs to the name: "Heron class"
	// caps: the prefix is one in capitals only, so that MS is not Ms.
	caps bool
	// suffixes end with the word, prefixes begin with it.
	suffixes, prefixes []affix
}

// affix is a beginning or an end of names of several words.
type affix struct {
	words []uint64
	typ   uint16
}

// hinted returns what the `rules:` say of a word, to write into.
func (rs *ruleset) hinted(hash uint64) *hintWord {
	e := rs.words.put(hash)
	if e.hint == 0 && len(rs.hintWords) < 1<<16-1 {
		rs.hintWords = append(rs.hintWords, hintWord{})
		e.hint = uint16(len(rs.hintWords))
	}
	if e.hint == 0 {
		return &hintWord{}
	}
	return &rs.hintWords[e.hint-1]
}

var noHint hintWord

// hint returns what the `rules:` say of token i.
func (d *document) hint(c *chunk, i int) *hintWord {
	if h := c.info[i].hint; h > 0 {
		return &d.rs.hintWords[h-1]
	}
	return &noHint
}

// hints takes in the entity part of the schema's `rules:`.
func (rs *ruleset) hints() {
	labels := make([]string, 0, len(rs.schema.Rules().Entities))
	for l := range rs.schema.Rules().Entities {
		labels = append(labels, l)
	}
	sort.Strings(labels)
	for _, l := range labels {
		label, ok := rs.schema.Canon(schema.KindEntity, l)
		if !ok {
			continue
		}
		t, hint := rs.byLabel[label], rs.schema.Rules().Entities[l]
		for _, n := range hint.Names {
			rs.hintName(n, t)
		}
		for _, w := range hint.Suffixes {
			rs.hintSuffix(w, t)
		}
		for _, w := range hint.Prefixes {
			rs.hintPrefix(w, t)
		}
		for _, w := range hint.Honorifics {
			if hashes := hashWords(w); len(hashes) > 0 {
				rs.words.put(hashes[len(hashes)-1]).flags |= honorific
				rs.hinted(hashes[len(hashes)-1]).title = t
			}
		}
		for _, w := range hint.Roles {
			rs.hintRole(w, t)
		}
		for _, p := range hint.Patterns {
			if re, err := regexp.Compile(p); err == nil {
				rs.types[t-1].patterns = append(rs.types[t-1].patterns, re)
				rs.patterns = true
			}
		}
	}
}

// hashWords are the hashes of the words of a text.
func hashWords(text string) []uint64 {
	var out []uint64
	for _, t := range prose.Tokens(text, nil) {
		out = append(out, t.Hash)
	}
	return out
}

// hintName takes in a whole name. One that is written small is looked for in small letters too; one that begins with an article is
// known without it.
func (rs *ruleset) hintName(name string, t uint16) {
	hashes := hashWords(name)
	if len(hashes) == 0 {
		return
	}
	rs.names[hashPhrase(hashes)] = t
	rs.longest = max(rs.longest, min(len(hashes), maxRun))
	if r, _ := utf8.DecodeRuneInString(strings.TrimSpace(name)); !unicode.IsUpper(r) {
		rs.smallNames[hashes[0]] = true
	}
	if h := hashes[0]; len(hashes) > 1 && (h == hashThe || h == hashA || h == hashAn) {
		if bare := hashPhrase(hashes[1:]); len(hashes) > 2 || rs.names[bare] == 0 {
			rs.bareNames[bare] = strings.Join(strings.Fields(name), " ")
		}
	}
}

// hintSuffix takes in the last word or words of names. A word that says what a name is says so beside it as well.
func (rs *ruleset) hintSuffix(text string, t uint16) {
	hashes := hashWords(text)
	if len(hashes) == 0 {
		return
	}
	last := hashes[len(hashes)-1]
	if len(hashes) > 1 {
		h := rs.hinted(last)
		h.suffixes = append(h.suffixes, affix{hashes, t})
		return
	}
	e := rs.words.put(last)
	e.suffix = t
	if text == strings.ToLower(text) {
		rs.hinted(last).tail = true
	}
	if len(text) < 4 || t == tPerson {
		return
	}
	if e.in == 0 || !rs.types[e.in-1].declared {
		e.in = t
	}
	if e.flags&role == 0 && (e.near == 0 || !rs.types[e.near-1].declared) {
		e.near = t
	}
}

func (rs *ruleset) hintPrefix(text string, t uint16) {
	hashes := hashWords(text)
	if len(hashes) == 0 {
		return
	}
	h := rs.hinted(hashes[0])
	if len(hashes) > 1 {
		h.prefixes = append(h.prefixes, affix{hashes, t})
		return
	}
	rs.words.put(hashes[0]).before = t
	h.caps = utf8.RuneCountInString(text) > 1 && text == strings.ToUpper(text) && text != strings.ToLower(text)
}

// hintRole takes in a word beside names: of people what they do, of anything else what it is.
func (rs *ruleset) hintRole(text string, t uint16) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return
	}
	w := words[len(words)-1]
	e := rs.words.put(hashWord(w))
	if t == tPerson || rs.below(t, tPerson) {
		e.flags |= role
		rs.hinted(hashWord(w)).title = t
		return
	}
	e.near = t
	rs.hinted(hashWord(w)).near = t
	if many := hashWord(regular(w).third); rs.words.get(many).near == 0 { // the ferries Halvard and Selma
		rs.hinted(many).many = t
	}
}

// smallName returns the length of the listed name that begins at token i though it is written small, or 0.
func (d *document) smallName(c *chunk, s *prose.Sentence, i int) int {
	if len(d.rs.smallNames) == 0 || !d.rs.smallNames[c.tokens[i].Hash] {
		return 0
	}
	return d.listed(c, s, i)
}

// listed returns the length of the longest name at i that the schema lists, or 0.
func (d *document) listed(c *chunk, s *prose.Sentence, i int) int {
	best := 0
	d.hashes = d.hashes[:0]
	for n := 1; n <= d.rs.longest && i+n <= s.Last; n++ {
		d.hashes = append(d.hashes, c.tokens[i+n-1].Hash)
		if d.rs.names[hashPhrase(d.hashes)] > 0 {
			best = n
		}
	}
	return best
}

// prefixOf returns the type that token i gives to a name that begins with it, or 0.
func (d *document) prefixOf(c *chunk, i int) uint16 {
	e := c.info[i]
	if e.before == 0 || c.tokens[i].Shape&prose.Upper == 0 || d.hint(c, i).caps && c.tokens[i].Shape&prose.Caps == 0 {
		return 0
	}
	return e.before
}

// typeByHint types a run by what the `rules:` say of its first and last words and of the word before it.
func (d *document) typeByHint(c *chunk, r *run) {
	if len(d.rs.hintWords) == 0 {
		return
	}
	for _, a := range d.hint(c, r.last-1).suffixes {
		if n := len(a.words); n < r.last-r.first && c.holds(r.last-n, a.words) {
			r.take(a.typ, 0.95, "suffix")
		}
	}
	for _, a := range d.hint(c, r.first).prefixes {
		if len(a.words) < r.last-r.first && c.holds(r.first, a.words) {
			r.take(a.typ, 0.9, "first words")
		}
	}
	before := r.first - 1
	for before >= 0 && (c.tokens[before].Is('"') || c.tokens[before].Is('“')) {
		before--
	}
	if before < 0 || !c.sameSentence(before, r) || c.tokens[before].Kind != prose.Word && !c.tokens[before].Is(',') || r.honor {
		return
	}
	if r.heading {
		return
	}
	h := d.hint(c, before)
	if !c.lower(before) {
		h = &noHint
	}
	switch {
	case h.near > 0: // the schooner Anna Wren
		r.take(h.near, 0.93, "noun before")
	case h.many > 0: // the schooners Anna Wren and Ida
		r.take(h.many, 0.93, nounsBefore)
	case h.title > 0 && h.title != tPerson && r.last-r.first <= 4 && c.personal(r): // first mate Eva Holm
		r.take(h.title, 0.93, "role before")
	default:
		d.typeAsOneOf(c, r, before)
	}
}

// nounsBefore is the rule of names behind a plural.
const nounsBefore = "nouns before"

// typeAsOneOf types a later name of a list behind a plural; before is the token before it.
func (d *document) typeAsOneOf(c *chunk, r *run, before int) {
	s := &c.sents[r.sent]
	for n := 0; n < 3 && before > s.First && c.runAt[before] == 0; n++ {
		if !c.tokens[before].Is(',') && c.tokens[before].Hash != hashAnd && c.tokens[before].Hash != hashThe {
			return
		}
		before--
	}
	if at := c.runAt[before]; at > 0 && before < r.first-1 && c.runs[at-1].rule == nounsBefore {
		r.take(c.runs[at-1].typ, 0.9, nounsBefore)
	}
}

// holds tells whether the words stand at token i.
func (c *chunk) holds(i int, words []uint64) bool {
	for k, w := range words {
		if c.tokens[i+k].Hash != w {
			return false
		}
	}
	return true
}

// titleOf is the type of people that a word before a name gives it.
func (d *document) titleOf(c *chunk, i int) uint16 {
	if i >= 0 {
		if t := d.hint(c, i).title; t > 0 {
			return t
		}
	}
	return tPerson
}

// userPatterns adds what the schema's regular expressions match, in place of the runs it overlaps.
func (d *document) userPatterns(c *chunk) {
	for t := range d.rs.types {
		for _, re := range d.rs.types[t].patterns {
			for _, at := range re.FindAllStringIndex(c.text, 500) {
				d.patternRun(c, at[0], at[1], uint16(t+1))
			}
		}
	}
}

func (d *document) patternRun(c *chunk, start, end int, t uint16) {
	first, last := -1, -1
	for i := range c.tokens {
		if int(c.tokens[i].Start) == start {
			first = i
		}
		if int(c.tokens[i].End) == end || first >= 0 && int(c.tokens[i].End) == end+1 && c.tokens[i].Shape&prose.Dotted != 0 {
			last = i + 1
		}
	}
	if first < 0 || last <= first || last-first > maxRun {
		return
	}
	r := run{first: first, last: last, start: start, end: end, head: -1, typ: t, conf: 0.9, rule: "pattern", emitted: -1}
	for k := range c.sents {
		if c.sents[k].First <= first && first < c.sents[k].Last {
			if last > c.sents[k].Last {
				return
			}
			r.sent = int32(k)
		}
	}
	d.keyOf(c, &r)
	out := make([]run, 0, len(c.runs)+1)
	done := false
	for _, o := range c.runs {
		if o.first < last && first < o.last {
			if o.rule == "pattern" {
				return
			}
			continue
		}
		if !done && o.first > first {
			out, done = append(out, r), true
		}
		out = append(out, o)
	}
	if !done {
		out = append(out, r)
	}
	c.runs = out
}
