package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// typeByVerb types a name by the verb after it, or by words for people before it.
func (d *document) typeByVerb(c *chunk, r *run) {
	s := &c.sents[r.sent]
	if r.conf >= 0.7 || r.heading {
		return
	}
	before := r.first - 1
	det0 := before
	for det0 >= s.First && c.lower(det0) && c.info[det0].is(det|adjective) {
		det0--
	}
	if det0 > s.First && (c.tokens[det0].Hash == hashAt || c.tokens[det0].Hash == hashOf && c.tokens[det0-1].Hash == hashStaff) && c.tokens[det0].Kind == prose.Word {
		if e := c.info[det0-1]; e.is(staff|role) && !e.is(placeWord) {
			r.take(tOrganization, 0.75, "people at")
			return
		}
	}
	n := r.last - r.first
	if n == 1 && c.softwareBeside(s, r) {
		r.take(tSoftware, 0.7, "program beside")
		return
	}
	if c.yearBeside(s, r) {
		r.take(tEvent, 0.75, "year beside")
		return
	}
	// "his wife, Maeve", "her brother Tom"
	if before >= s.First && n <= 3 && c.personal(r) {
		k := before
		if c.tokens[k].Is(',') {
			k--
		}
		if k > s.First && c.info[k].is(relNoun) && c.lower(k) && c.info[k-1].is(det) && c.tokens[k-1].Hash != hashThe {
			r.take(tPerson, 0.75, "relative before")
			return
		}
	}
	if before >= s.First && c.tokens[before].Kind == prose.Word && c.info[before].is(prep) || det0 != before && n == 1 {
		return
	}
	i := r.last
	for k := 0; k < 3 && i < s.Last && c.lower(i) && c.info[i].flags&(adverb|aux|not) != 0; k++ {
		i++
	}
	if i >= s.Last || !c.lower(i) || r.initial && d.lowers.has(c.tokens[r.first].Hash) {
		return
	}
	e := c.info[i]
	switch {
	case e.is(personVerb) && n >= 2 && n <= 4 && c.personal(r) && det0 == before && c.plainName(r):
		r.take(tPerson, 0.75, "verb after")
	case e.is(orgVerb) && i == r.last && n <= 4 && (n > 1 || !endsInS(c.text[r.start:r.end])) && c.info[r.first].flags&(notName|topic|given|soft) == 0:
		r.take(tOrganization, 0.7, "verb after")
	}
}

// softwareBeside tells whether the words beside a name of one word say that it is a program: "written in X", "a bug in X",
// "ported X", "X compiles".
func (c *chunk) softwareBeside(s *prose.Sentence, r *run) bool {
	if c.info[r.first].flags&(notName|given|place|topic) != 0 || r.initial && c.info[r.first].is(soft) {
		return false
	}
	if i := r.last; i < s.Last && c.lower(i) {
		if c.info[i].is(softSubject) {
			return true
		}
		if c.info[i].is(be) && i+2 < s.Last && c.tokens[i+2].Hash == hashIn && coded[c.tokens[i+1].Hash] {
			return i+3 < s.Last && c.info[i+3].flags&notName == 0
		}
	}
	p := r.first - 1
	if p < s.First || c.tokens[p].Kind != prose.Word || !c.lower(p) {
		return false
	}
	if c.info[p].is(softVerb) {
		return true
	}
	if p == s.First {
		return false
	}
	switch c.tokens[p].Hash {
	case hashIn:
		return coded[c.tokens[p-1].Hash] && p-1 > s.First && (c.info[p-2].is(be|conj|adverb) || c.runAt[p-2] > 0) || c.info[p-1].is(softNoun)
	case hashOf:
		if c.tokens[p-1].Kind == prose.Number && p-2 >= s.First {
			return c.tokens[p-2].Hash == hashVer
		}
		return c.info[p-1].is(softNoun)
	}
	return false
}

var coded = map[uint64]bool{prose.Hash("written"): true, prose.Hash("rewritten"): true, prose.Hash("coded"): true, prose.Hash("implemented"): true, prose.Hash("programmed"): true}

// yearBeside: "the 2019 Halden Regatta", "Halden Regatta 2019".
func (c *chunk) yearBeside(s *prose.Sentence, r *run) bool {
	if r.last-r.first < 2 || r.typ > 0 {
		return false
	}
	if p := r.first - 1; p > s.First && c.year(p) && (c.tokens[p-1].Hash == hashThe || c.tokens[p-1].Hash == prose.Possessive) {
		return true
	}
	return r.last < s.Last && c.year(r.last) && c.tokens[r.last].Space && (r.last+1 >= s.Last || c.tokens[r.last+1].Kind == prose.Punct || c.info[r.last+1].flags&(prep|be|aux|conj) != 0) &&
		r.first > s.First && c.info[r.first-1].is(det|prep)
}

func (c *chunk) year(i int) bool {
	t := &c.tokens[i]
	if t.Kind != prose.Number || t.End-t.Start != 4 {
		return false
	}
	w := c.word(i)
	return w >= "1000" && w < "2200"
}

// plainName tells whether no word of a run is one of everyday use.
func (c *chunk) plainName(r *run) bool {
	for i := r.first; i < r.last; i++ {
		if c.info[i].flags&(soft|adjective|topic|notName|thing|placeWord|firm|role|surname) != 0 && !c.info[i].is(given) && !(i == r.last-1 && c.info[i].is(surname|role)) {
			return false
		}
		if c.info[i].is(place) || c.tokens[i].Shape&(prose.Digit|prose.Caps) != 0 && c.tokens[i].Shape&prose.Initial == 0 {
			return false
		}
	}
	return true
}

// coordinate gives a name without a type that of its neighbour in a list: "Halden, Tarn and Orrin".
func (d *document) coordinate(c *chunk) {
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent != b.sent || a.heading || b.heading || (a.typ == 0) == (b.typ == 0) || c.between(a, b) == 0 {
			continue
		}
		from, to := a, b
		if a.typ == 0 {
			from, to = b, a
		}
		if from.conf < 0.65 || to.uncased || to.initial || to.title > 0 || from.typ == tPerson && (to.last-to.first < 2 || !c.plainName(to)) {
			continue
		}
		if a.last < b.first && c.tokens[a.last].Is(',') && b.first == a.last+1 && !(i+2 < len(c.runs) && c.between(b, &c.runs[i+2]) > 0) &&
			!(i > 0 && c.between(&c.runs[i-1], a) > 0) {
			continue // "Acme, Leeds"
		}
		to.take(from.typ, min(from.conf-0.05, 0.7), "list")
	}
	for i := len(c.runs) - 2; i >= 0; i-- { // and back
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent == b.sent && a.typ == 0 && b.typ > 0 && b.rule == "list" && !a.initial && !a.uncased && c.between(a, b) > 0 {
			a.take(b.typ, b.conf, "list")
		}
	}
}

// placeByPreposition returns how sure it is that a preposition makes a name a place, and by which rule.
func (d *document) placeByPreposition(c *chunk, s *prose.Sentence, r *run) (float64, string) {
	p := r.first - 1
	if p < s.First || c.tokens[p].Kind != prose.Word || c.info[r.first].flags&(notName|topic|soft) != 0 {
		return 0, ""
	}
	if r.last < s.Last && (c.compound(s, r.last) || c.tokens[r.last].Hash == prose.Possessive || c.tokens[r.last].Kind == prose.Number && !(r.last > s.First && c.info[r.last-1].is(place))) {
		return 0, ""
	}
	if c.info[r.first].is(given) && !c.info[r.first].is(place) && r.last-r.first > 1 {
		return 0, ""
	}
	if c.tokens[p].Hash == hashThe && p > s.First && c.tokens[p-1].Hash == hashAlong && r.last-r.first == 1 {
		return 0.7, "place after along"
	}
	if c.quarter(p) && p > s.First && c.tokens[p-1].Hash == hashIn {
		p-- // in northern Karelin
	}
	w := &unknown
	if p > s.First && c.tokens[p-1].Kind == prose.Word {
		w = c.info[p-1]
	}
	switch c.tokens[p].Hash {
	case hashIn:
		if w.is(noPlace) || p == s.First && !(r.last < s.Last && c.tokens[r.last].Is(',')) {
			return 0, ""
		}
		if p == s.First {
			return 0.65, "place after in"
		}
		return 0.72, "place after in"
	case hashTo:
		for k := p - 1; k >= s.First && k >= p-3; k-- {
			if c.info[k].is(toPlace) && c.lower(k) {
				return 0.72, "place after to"
			}
		}
	case hashFrom:
		if w.is(be) || c.tokens[max(p-1, 0)].Hash == hashComes || c.tokens[max(p-1, 0)].Hash == hashCame || c.tokens[max(p-1, 0)].Hash == hashHails {
			return 0.7, "place after from"
		}
		for k := p - 1; k >= s.First && k >= p-3; k-- {
			if c.info[k].is(toPlace) && c.lower(k) {
				return 0.7, "place after from"
			}
		}
	case hashAt:
		if w.is(placeIn) && !w.is(staff) {
			return 0.65, "place after at"
		}
	case hashAcross:
		return 0.65, "place after across"
	case hashNear, hashOutside:
		return 0.75, "place after near"
	case hashOf:
		if w.is(side) && c.lower(p-1) {
			return 0.75, "place after of"
		}
	case hashBetween:
		if r.last < s.Last && c.tokens[r.last].Hash == hashAnd {
			return 0.65, "place after between"
		}
	}
	return 0, ""
}

// quarter tells a word for a part of a place: in northern Karelin.
func (c *chunk) quarter(i int) bool { return c.lower(i) && quarters[c.tokens[i].Hash] }

var quarters = map[uint64]bool{
	prose.Hash("northern"): true, prose.Hash("southern"): true, prose.Hash("eastern"): true, prose.Hash("western"): true, prose.Hash("central"): true,
	prose.Hash("northeastern"): true, prose.Hash("northwestern"): true, prose.Hash("southeastern"): true, prose.Hash("southwestern"): true,
	prose.Hash("north-eastern"): true, prose.Hash("north-western"): true, prose.Hash("south-eastern"): true, prose.Hash("south-western"): true,
	prose.Hash("rural"): true, prose.Hash("upper"): true, prose.Hash("lower"): true, prose.Hash("downtown"): true,
}
