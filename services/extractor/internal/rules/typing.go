package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// typeRun gives a run its type by what it is made of and what stands beside it. The best rule wins.
func (d *document) typeRun(c *chunk, r *run) {
	if r.typ > 0 { // a pattern of the schema
		return
	}
	if t, ok := d.rs.names[r.key]; ok {
		r.typ, r.conf, r.rule = t, 0.95, "name"
		return
	}
	if full, ok := d.rs.bareNames[r.key]; ok && !r.initial {
		r.typ, r.conf, r.rule, r.of = d.rs.names[hashPhrase(hashWords(full))], 0.9, "name without article", full
		return
	}
	if r.uncased {
		return
	}
	d.typeByHint(c, r)
	if r.title == 0 || r.title == articleWork {
		d.typeByHead(c, r)
		d.typeAsPerson(c, r)
	}
	d.typeTitle(c, r)
	if e := c.info[r.first]; e.known > 0 && r.last == r.first+1 && c.tokens[r.first].Shape&(prose.Upper|prose.Mixed) != 0 &&
		(!r.initial || c.tokens[r.first].Shape&(prose.Caps|prose.Mixed) != 0 || !d.lowers.has(c.tokens[r.first].Hash)) {
		r.take(e.known, 0.8, "known program")
	}
	if r.conf < 0.9 || (r.typ == tLocation || r.typ == tProduct) && r.rule == "head word" {
		d.typeByNeighbours(c, r)
	}
	if r.conf < 0.9 && r.title == 0 {
		d.typeAsPlace(c, r)
		d.typeByVerb(c, r)
	}
	if r.heading && r.conf < 0.85 {
		r.typ, r.conf, r.rule = 0, 0, ""
	}
}

func (r *run) take(t uint16, conf float64, rule string) {
	if t > 0 && conf > r.conf {
		r.typ, r.conf, r.rule = t, conf, rule
	}
}

// typeByHead looks at the words of the name itself.
func (d *document) typeByHead(c *chunk, r *run) {
	n := r.last - r.first
	last := c.info[r.last-1]
	if n > 1 && last.suffix > 0 {
		if t := &c.tokens[r.last-1]; c.tokens[r.last-2].Hash == hashThe {
			// "CHARTER OF THE INSTITUTE"
		} else if last.suffix != tOrganization || d.hint(c, r.last-1).tail || t.Shape&prose.Caps != 0 || t.Shape&prose.Upper != 0 && !shortSuffix(c.word(r.last-1)) {
			r.take(last.suffix, 0.95, "suffix")
		}
	}
	if r.head < 0 || r.head >= r.last {
		return
	}
	if t := d.prefixOf(c, r.first); n > 1 && t > 0 {
		r.take(t, 0.85, "first word")
	} else if n > 2 && c.info[r.first].is(adjective) && c.info[r.first+1].before > 0 {
		r.take(c.info[r.first+1].before, 0.85, "first word")
	}
	e := c.info[r.head]
	if n == 1 && !(c.info[r.first].in == 0) {
		return
	}
	if n > 1 && e.in > 0 {
		conf := 0.9
		if (e.in == tLocation || e.is(surname)) && n == 2 && c.info[r.first].is(given) && !c.info[r.first].is(ambiguous) {
			return // Anna Hill
		}
		r.take(e.in, conf, "head word")
	}
	if n > 1 && e.in == 0 && d.rs.types[tOrganization-1].declared {
		if w := c.word(r.head); endsInS(w) && d.rs.words.get(hashWord(w[:len(w)-1])).in == tOrganization {
			r.take(tOrganization, 0.8, "head word") // Brightside Cinemas
		}
		for i := r.first + 1; i < r.last; i++ {
			if c.tokens[i].Is('&') {
				r.take(tOrganization, 0.85, "ampersand")
			}
		}
	}
	if n > 1 && e.in == 0 && e.is(thing) {
		d.takeThing(c, r, r.head, 0.8, "head word")
	}
}

// shortSuffix tells a suffix that is one only in capitals: SA, AB, AG. Co is one anyhow.
func shortSuffix(w string) bool { return len(w) <= 2 && w != "Co" }

// takeThing types a run by a noun that the schema has no type for: the label is made of the noun.
func (d *document) takeThing(c *chunk, r *run, noun int, conf float64, rule string) {
	e := c.info[noun]
	t := e.near
	if t == 0 {
		t = e.in
	}
	if t == 0 {
		t = d.thingType(c.word(noun))
	}
	r.take(t, conf, rule)
}

// thingType is the number of a type that no schema declares; it is 0 where there are too many.
func (d *document) thingType(noun string) uint16 {
	r, n := utf8.DecodeRuneInString(noun)
	label := string(unicode.ToUpper(r))
	for _, x := range noun[n:] {
		if x == '-' {
			continue
		}
		label += string(unicode.ToLower(x))
	}
	return d.rs.thing(label)
}

func (d *document) typeAsPerson(c *chunk, r *run) {
	n := r.last - r.first
	first := c.info[r.first]
	if r.honor {
		if n <= 4 && r.conf < 0.9 {
			r.take(d.titleOf(c, r.first-1), 0.95, "honorific")
		}
		return
	}
	if n > 5 {
		return
	}
	if n == 2 && c.info[r.last-1].in == tLocation && c.info[r.first].before == 0 && c.roleBefore(r) && c.lower(r.first-1) && c.info[r.first-1].near == 0 {
		r.take(tPerson, 0.92, "role before") // the pianist Ludo Marsh
		return
	}
	caps := c.tokens[r.last-1].Shape&prose.Caps != 0 || c.tokens[r.first].Shape&prose.Digit != 0
	switch {
	case first.is(given) && d.ship(c, r):
	case first.is(given) && n == 1 && !first.is(ambiguous|place|notName):
		if !(c.tokens[r.first].Shape&prose.Caps != 0) {
			r.take(tPerson, loneName, "given name")
		}
	case first.is(given) && n > 1 && n <= 4 && !caps && c.personal(r):
		conf := 0.9
		if first.is(ambiguous) || first.is(place) {
			conf = 0.7
		}
		r.take(tPerson, conf, "given name and surname")
	case n > 1 && n <= 4 && c.tokens[r.first].Shape&prose.Initial != 0 && !caps && c.personal(r):
		r.take(tPerson, 0.8, "initials and surname")
	}
	if r.conf >= 0.85 || caps || n > 4 || !c.personal(r) {
		return
	}
	corp := !first.is(given) && c.tokens[r.first].Shape&prose.Initial == 0
	if c.roleBefore(r) && !(corp && c.info[r.first-1].is(corpRole)) {
		if near := c.info[r.first-1].near; near > 0 && near != tOrganization && n == 1 && !first.is(given) {
			r.take(near, 0.75, "noun before") // the text editor Inkwell
			return
		}
		r.take(d.titleOf(c, r.first-1), 0.85, "role before")
	} else if c.roleAfter(r, corp) {
		r.take(tPerson, 0.85, "role after")
	}
}

// ship tells a name that would be a person's but for the article before it: "the Anna Wren". Only a schema with types of its own has
// something better to take it for.
func (d *document) ship(c *chunk, r *run) bool {
	if len(d.rs.types) == len(builtinTypes) || r.title > 0 || r.first == 0 || !c.sameSentence(r.first-1, r) || c.tokens[r.first-1].Hash != hashThe {
		return false
	}
	return r.last >= len(c.tokens) || !(c.lower(r.last) && (c.info[r.last].near > 0 || c.info[r.last].is(thing)))
}

// personal tells whether the words of a run can be a person's name: no head noun, no digits.
func (c *chunk) personal(r *run) bool {
	for i := r.first; i < r.last; i++ {
		t := &c.tokens[i]
		if t.Kind != prose.Word || t.Shape&prose.Digit != 0 || t.Hash == hashOf || c.info[i].is(orgSuffix) && t.Shape&prose.Caps == 0 && i == r.last-1 {
			return false
		}
	}
	if w := c.word(r.last - 1); r.last-r.first > 1 && len(w) > 6 && strings.HasSuffix(w, "ics") {
		return false // Aurel Cryogenics
	}
	last := c.info[r.last-1]
	return last.in == 0 || (last.in == tLocation || last.is(surname)) && c.info[r.first].is(given)
}

// roleBefore: "engineer Bob Stone", not "the engineer at Acme" and not "an Acme engineer".
func (c *chunk) roleBefore(r *run) bool {
	i := r.first - 1
	return i >= 0 && c.info[i].is(role) && c.tokens[r.first].Space && c.tokens[i].Kind == prose.Word && c.sameSentence(i, r)
}

func (c *chunk) sameSentence(i int, r *run) bool {
	return i >= c.sents[r.sent].First && i < c.sents[r.sent].Last
}

// roleAfter: "Mara Quill, an engineer", "Mara Quill was the chief engineer".
func (c *chunk) roleAfter(r *run, corp bool) bool {
	s := &c.sents[r.sent]
	i := r.last
	if i >= s.Last {
		return false
	}
	comma := c.tokens[i].Is(',')
	if comma {
		i++
	} else if !c.info[i].is(be) {
		return false
	} else {
		i++
	}
	for n := 0; i < s.Last && n < 5; n++ {
		if c.info[i].is(role) && c.tokens[i].Kind == prose.Word {
			if corp && c.info[i].is(corpRole) {
				return false
			}
			// "Acme, president Bob said" has a name after it.
			return !(i+1 < s.Last && c.capital(i+1))
		}
		if c.tokens[i].Kind != prose.Word || c.info[i].flags&(prep|conj|relative|modal|not|pronoun|finite) != 0 && !c.info[i].is(det) {
			return false
		}
		if !c.lower(i) && !comma {
			return false
		}
		i++
	}
	return false
}

// typeByNeighbours looks at the nouns beside a name.
func (d *document) typeByNeighbours(c *chunk, r *run) {
	s := &c.sents[r.sent]
	before, after := r.first-1, r.last
	if before >= s.First && c.tokens[before].Is('"') || before >= s.First && c.tokens[before].Is('“') {
		before--
		if after < s.Last && c.tokens[after].Kind == prose.Punct {
			after++
		}
	}
	if before >= s.First && c.lower(before) && c.info[before].near > 0 && !c.info[before].is(role) && !r.initial {
		if r.conf <= loneName { // the company Acme, the library Skyloom
			r.take(c.info[before].near, 0.85, "noun before")
		}
	}
	if before >= s.First && c.lower(before) && c.info[before].is(thing) && c.info[before].near == 0 && before > s.First && c.info[before-1].is(det|adjective) {
		d.takeThing(c, r, before, 0.75, "noun before")
	}
	d.typeByAppositive(c, s, r)
	for before >= s.First && c.lower(before) && c.info[before].is(adjective) && before > s.First {
		before--
	}
	if after+1 < s.Last && c.lower(after) && c.lower(after+1) && c.info[after].flags == 0 && (c.info[after+1].near > 0 || c.info[after+1].is(thing)) && c.nounEnds(s, after+1) {
		after++ // the Brisa fuel pump
	}
	if after < s.Last && c.lower(after) && before >= s.First && (c.info[before].is(det) || c.tokens[before].Hash == prose.Possessive) && c.nounEnds(s, after) &&
		(r.conf <= 0.75 || (r.typ == tLocation || r.typ == tProduct) && r.rule == "head word" && c.info[after].near > tLocation && c.info[after].near != r.typ) {
		e := c.info[after]
		if r.conf > 0.85 && (r.typ == tLocation || r.typ == tProduct) {
			r.typ, r.conf, r.rule = 0, 0, "" // the Deep Quay project
		}
		if e.near > 0 && !e.is(role) { // the LARCH dataset
			r.take(e.near, 0.85, "noun after")
		} else if e.is(thing) {
			d.takeThing(c, r, after, 0.75, "noun after")
		}
	}
	if after+1 < s.Last && c.tokens[after].Hash == hashOf && before >= s.First && c.info[before].is(prep) && r.last-r.first == 1 {
		return
	}
	d.typeByPlaceOf(c, s, r)
	d.typeByCopula(c, s, r)
	if after < s.Last && r.conf < 0.7 {
		t := &c.tokens[after]
		versioned := t.Kind == prose.Number && dotted(c.word(after)) && t.Space
		if t.Hash == hashVer && after+1 < s.Last && c.tokens[after+1].Kind == prose.Number {
			versioned = true
		}
		if versioned && !c.info[r.first].is(given) {
			r.take(tSoftware, 0.7, "version")
		}
	}
}

// typeByAppositive: "her second novel, Winter Bees", "the company's first product, the Kolibri".
func (d *document) typeByAppositive(c *chunk, s *prose.Sentence, r *run) {
	k := r.first - 1
	for k >= s.First && (c.tokens[k].Hash == hashThe || c.tokens[k].Is('"') || c.tokens[k].Is('“')) {
		k--
	}
	if k <= s.First || !c.tokens[k].Is(',') && !c.info[k].is(be) || r.conf > loneName {
		return
	}
	comma := c.tokens[k].Is(',')
	noun := k - 1
	e := c.info[noun]
	if !c.lower(noun) || e.near == 0 || e.is(role) || comma && r.last < s.Last && !c.tokens[r.last].Is(',') && c.tokens[r.last].Kind != prose.Punct {
		return
	}
	for n := 1; n <= 4 && noun-n >= s.First; n++ {
		p := noun - n
		if t := &c.tokens[p]; t.Hash == prose.Possessive || c.info[p].is(det) && t.Kind == prose.Word && t.Hash != hashThe && c.info[p].is(pronounIt|pronounShe|owner) {
			r.take(e.near, 0.8, "apposition")
			return
		}
		if !c.lower(p) && p > s.First {
			return
		}
	}
}

func dotted(s string) bool {
	for i := 1; i+1 < len(s); i++ {
		if s[i] == '.' {
			return true
		}
	}
	return false
}

// nounEnds tells whether the noun at i is not itself before another noun.
func (c *chunk) nounEnds(s *prose.Sentence, i int) bool {
	if i+1 >= s.Last || c.tokens[i+1].Kind == prose.Punct {
		return true
	}
	if c.lower(i+1) && c.info[i+1].near == 0 && !c.info[i+1].is(thing|role|soft|roles) {
		if w := c.word(i + 1); strings.HasSuffix(w, "ed") || endsInS(w) || c.info[i+1].is(personVerb|orgVerb) {
			return true
		}
	}
	return c.tokens[i+1].Kind == prose.Word && c.info[i+1].flags&(prep|conj|be|aux|modal|finite|relative|adverb|not|cue) != 0
}

// typeByPlaceOf: "the city of Halden", "the town of Orrin".
func (d *document) typeByPlaceOf(c *chunk, s *prose.Sentence, r *run) {
	if i := r.first - 2; i >= s.First && c.tokens[i+1].Hash == hashOf && c.info[i].is(placeWord) && c.lower(i) {
		r.take(tLocation, 0.9, "place of")
	}
}

// typeByCopula: "Acme is a small company", "LARCH is a spectrograph".
func (d *document) typeByCopula(c *chunk, s *prose.Sentence, r *run) {
	i := r.last
	if i+2 >= s.Last || r.conf > loneName || i-1 < s.First {
		return
	}
	apposition := c.tokens[i].Is(',')
	governed := false
	if p := r.first - 1; p >= s.First && c.info[p].is(prep|conj) {
		if !apposition || c.info[p].is(conj) {
			return
		}
		governed = true
	}
	if !apposition && !c.info[i].is(be) {
		return
	}
	if i++; !c.info[i].is(det) {
		return
	}
	best, bestConf, soft := -1, 0.0, false
	for n := 0; n < 6 && i+1 < s.Last; n++ {
		i++
		if c.runAt[i] > 0 || c.capital(i) {
			continue // a Python library
		}
		if !c.lower(i) || c.info[i].flags&(prep|conj|relative|finite|pronoun) != 0 && c.info[i].near == 0 && !c.info[i].is(thing) &&
			!(n == 0 && c.info[i].flags&(prep|conj|relative|pronoun) == 0 && strings.HasSuffix(c.word(i), "ing")) { // a drawing program
			break
		}
		if e := c.info[i]; e.is(thing|role) || e.near > 0 {
			soft = c.info[i-1].is(softMod) && e.flags&(role|thing) != 0 // a search engine, a package manager
			if best, bestConf = i, 0.85; e.is(role) && !soft && e.near == 0 {
				best = -1
			}
		} else if e.is(roles) {
			best = -1
		}
	}
	if governed && best >= 0 && best+1 < s.Last && c.tokens[best+1].Kind != prose.Punct && c.info[best+1].flags&(prep|relative) == 0 {
		return // "In Halden, a museum opened"
	}
	if soft && best >= 0 {
		r.take(tSoftware, 0.8, "is a")
		return
	}
	if best < 0 {
		return
	}
	if apposition {
		bestConf = 0.8
	}
	if e := c.info[best]; e.near > 0 {
		r.take(e.near, bestConf, "is a")
		return
	}
	d.takeThing(c, r, best, bestConf-0.05, "is a")
}

func (d *document) typeAsPlace(c *chunk, r *run) {
	s := &c.sents[r.sent]
	n := r.last - r.first
	known := n == 1 && c.info[r.first].is(place) && !c.info[r.first].is(stop) || n > 1 && d.rs.places[r.key]
	before := r.first - 1
	for before >= s.First && c.info[before].is(det|adjective) && c.lower(before) {
		before--
	}
	inPlace := before >= s.First && c.info[before].is(placePrep) && c.tokens[before].Kind == prose.Word
	if known {
		conf := 0.85
		if c.info[r.first].is(given) && !inPlace {
			conf = 0.55
		}
		r.take(tLocation, conf, "known place")
		return
	}
	if r.conf >= loneName || n > 3 || r.heading || c.tokens[r.last-1].Shape&(prose.Digit|prose.Mixed) != 0 {
		return
	}
	if k := r.last + 2; k < s.Last && c.tokens[r.last].Is('-') && c.tokens[k-1].Hash == hashBased && (c.runAt[k] > 0 || c.lower(k) && (c.info[k].near == tOrganization || c.info[k].is(role))) {
		r.take(tLocation, 0.85, "place-based")
		return
	}
	// Halden, Norway
	if r.last+1 < s.Last && c.tokens[r.last].Is(',') && c.info[r.last+1].is(place) && !c.listed(s, r.last+1) && (inPlace || before < s.First) {
		r.take(tLocation, 0.85, "before a country")
		return
	}
	if c.tokens[r.first].Shape&prose.Caps != 0 {
		return
	}
	if conf, rule := d.placeByPreposition(c, s, r); conf > 0 {
		r.take(tLocation, conf, rule)
	} else if inPlace && c.tokens[before].Hash == hashIn && before == r.first-1 {
		r.implied = tLocation
	}
}

// listed tells whether the name at i is one of a list: "Paris, London and Rome".
func (c *chunk) listed(s *prose.Sentence, i int) bool {
	if i+1 < s.Last && c.info[i+1].is(conj) && i+2 < s.Last && c.capital(i+2) {
		return true
	}
	return i+2 < s.Last && c.tokens[i+1].Is(',') && c.capital(i+2)
}
