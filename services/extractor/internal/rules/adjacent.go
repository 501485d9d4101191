package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// adjacent says relations between neighbours with next to nothing between them: "Ann Roe of Acme", "Acme in Leeds", "Ann Roe's novel
// Winter Bees", "the Leeds-based firm Acme".
func (d *document) adjacent(c *chunk) {
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent != b.sent || a.emitted < 0 || b.emitted < 0 || b.first-a.last > 7 {
			continue
		}
		s := &c.sents[a.sent]
		d.based(c, s, i)
		if b.first == a.last {
			continue
		}
		switch t := &c.tokens[a.last]; {
		case t.Hash == prose.Possessive:
			d.possession(c, s, a, b)
		case (t.Is('\'') || t.Is('’')) && !t.Space && c.tokens[a.last-1].Kind == prose.Word && endsInS(c.word(a.last-1)) && !(a.first > s.First && c.tokens[a.first-1].Kind == prose.Punct && !c.tokens[a.first-1].Is(',')):
			d.possession(c, s, a, b) // Avon Holdings' unit Tidewell
		case t.Kind == prose.Word && c.lower(a.last):
			d.prepositional(c, s, a, b)
		case t.Is('('):
			if b.first == a.last+1 && b.last < s.Last && c.tokens[b.last].Is(')') {
				d.join(c, s, a, b, tPerson, tOrganization, d.rs.worksFor, 0.75, "person (organization)")
			}
		case t.Is(','):
			d.commaJoined(c, s, a, b)
		case (t.Is('"') || t.Is('”')) && c.tokens[a.last+1].Hash == hashBy && b.first == a.last+2:
			d.join(c, s, b, a, tPerson, tPublication, d.rs.authored, 0.8, "work by person")
		}
	}
	if d.rs.attended >= 0 {
		d.atEvent(c)
	}
}

// atEvent: what the subject of a sentence did at or in an event, it took part in.
func (d *document) atEvent(c *chunk) {
	rel := &d.rs.relations[d.rs.attended]
	for i := range c.runs {
		e := &c.runs[i]
		if e.emitted < 0 || e.typ != tEvent || c.titled(&c.sents[e.sent], e) {
			continue
		}
		s := &c.sents[e.sent]
		p := e.first - 1
		for p > s.First && (c.tokens[p].Kind == prose.Number || c.tokens[p].Hash == hashThe) {
			p--
		}
		if p < s.First || c.tokens[p].Hash != hashAt && c.tokens[p].Hash != hashIn || s.Question {
			continue
		}
		if p == s.First {
			d.frontedEvent(c, s, i)
			continue
		}
		subject := -1
		for k := 0; k < i; k++ {
			if c.runs[k].sent == e.sent {
				subject = k
				break
			}
		}
		if subject < 0 {
			continue
		}
		r := &c.runs[subject]
		if w := (walk{c: c, s: s}); r.first > s.First+2 || w.prepBefore(r) >= 0 || c.titled(s, r) || !d.isOf(r, tPerson) && !d.isOf(r, tOrganization) {
			continue
		}
		var group argument
		c.groupRight(&group, subject, s)
		last := c.runs[group.runs[group.n-1]].last
		verb := d.didAt(c, s, last, p)
		if verb < 0 || d.assertion(c, s, &match{phrase: -1, first: verb, last: verb + 1}, &argument{}) != "" {
			continue
		}
		for k := range group.n {
			if a := &c.runs[group.runs[k]]; a.emitted >= 0 && d.rs.schema.Allows(rel.label, d.rs.label(a.typ), d.rs.label(e.typ)) {
				d.emitRelation(c, rel.label, a.emitted, e.emitted, 0.75, "", "subject at event", s.First, s.Last)
			}
		}
	}
}

// frontedEvent reads "At the Ashdown Fair, Lucia Venn read": run i is the event, the next one did something there.
func (d *document) frontedEvent(c *chunk, s *prose.Sentence, i int) {
	e := &c.runs[i]
	if i+1 >= len(c.runs) || c.runs[i+1].sent != e.sent || e.last >= s.Last {
		return
	}
	from := e.last
	for from < s.Last && (c.tokens[from].Is(',') || c.tokens[from].Kind == prose.Number) {
		from++
	}
	for from < s.Last && c.lower(from) && c.info[from].is(det|role|honorific) {
		from++
	}
	if c.runs[i+1].first != from || !d.isOf(&c.runs[i+1], tPerson) && !d.isOf(&c.runs[i+1], tOrganization) {
		return
	}
	var group argument
	c.groupRight(&group, i+1, s)
	last := c.runs[group.runs[group.n-1]].last
	if last >= s.Last || c.titled(s, &c.runs[i+1]) {
		return
	}
	verb := d.didAt(c, s, last, min(last+2, s.Last))
	if verb < 0 || d.assertion(c, s, &match{phrase: -1, first: verb, last: verb + 1}, &argument{}) != "" {
		return
	}
	label := d.rs.relations[d.rs.attended].label
	for k := range group.n {
		if a := &c.runs[group.runs[k]]; a.emitted >= 0 && d.rs.schema.Allows(label, d.rs.label(a.typ), d.rs.label(e.typ)) {
			d.emitRelation(c, label, a.emitted, e.emitted, 0.75, "", "subject at event", s.First, s.Last)
		}
	}
}

// didAt finds the one verb between a subject that ends at from and a preposition at to; -1 where it is none that takes part.
func (d *document) didAt(c *chunk, s *prose.Sentence, from, to int) int {
	if from < s.Last && c.tokens[from].Is(',') { // ", both of the Centre,"
		for from++; from < to && !c.tokens[from].Is(','); from++ {
		}
		from++
	}
	for from < to && c.lower(from) && c.info[from].is(adverb) {
		from++
	}
	if from >= to || !c.lower(from) || !d.past(c, from) && !c.info[from].is(personVerb|orgVerb|finite) || c.info[from].flags&(bystander|be|aux|modal|not|plan|say|opinion) != 0 {
		return -1
	}
	for k := from + 1; k < to; k++ {
		if t := &c.tokens[k]; t.Is(';') || t.Is(':') || t.Kind == prose.Word && c.info[k].flags&(relative|conj) != 0 && c.runAt[k] == 0 {
			return -1
		}
	}
	return from
}

// join says a relation of two names of these types.
func (d *document) join(c *chunk, s *prose.Sentence, a, b *run, source, target uint16, relation int, conf float64, rule string) bool {
	if relation < 0 || !d.isOf(a, source) || !d.isOf(b, target) {
		return false
	}
	rel := &d.rs.relations[relation]
	if rel.declared && !d.rs.schema.Allows(rel.label, d.rs.label(a.typ), d.rs.label(b.typ)) {
		return false
	}
	d.emitRelation(c, rel.label, a.emitted, b.emitted, conf, c.mood(s), rule, s.First, s.Last)
	return true
}

func (d *document) isOf(r *run, t uint16) bool {
	return r.emitted >= 0 && (r.typ == t || d.rs.below(r.typ, t))
}

func (d *document) prepositional(c *chunk, s *prose.Sentence, a, b *run) {
	next := a.last + 1
	if next < b.first && c.tokens[next].Hash == hashThe {
		next++
	}
	if next != b.first {
		return
	}
	p := c.tokens[a.last].Hash
	named := b.last < s.Last && c.tokens[b.last].Hash == prose.Possessive
	switch p {
	case hashOf:
		if named {
			return
		}
		_ = d.join(c, s, a, b, tPerson, tOrganization, d.rs.worksFor, 0.8, "person of organization") ||
			d.join(c, s, a, b, tOrganization, tOrganization, d.rs.partOf, 0.8, "organization of organization") ||
			d.join(c, s, a, b, tLocation, tLocation, d.rs.partOf, 0.8, "place of place") ||
			d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.75, "organization of place")
	case hashFrom:
		_ = !named && d.join(c, s, a, b, tPerson, tOrganization, d.rs.worksFor, 0.75, "person from organization") ||
			d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.75, "organization from place")
	case hashAt:
		if w := (walk{c: c, s: s}); w.prepBefore(a) >= 0 || a.first == s.First || c.tokens[a.first-1].Kind == prose.Punct {
			d.join(c, s, a, b, tPerson, tOrganization, d.rs.worksFor, 0.75, "person at organization")
		}
		d.join(c, s, a, b, tEvent, tLocation, d.rs.located, 0.75, "event at place")
	case hashIn, hashNear, hashOn, hashOutside:
		if c.titled(s, b) {
			return
		}
		_ = d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.8, "organization in place") ||
			d.join(c, s, a, b, tEvent, tLocation, d.rs.located, 0.8, "event in place") ||
			d.join(c, s, a, b, tLocation, tLocation, d.rs.located, 0.75, "place in place")
	case hashBy:
		if w := (walk{c: c, s: s}); w.prepBefore(a) >= 0 {
			return // rewritten in OCaml by Ann Roe
		}
		_ = d.join(c, s, b, a, tPerson, tPublication, d.rs.authored, 0.8, "work by person") ||
			d.join(c, s, b, a, tPerson, tSoftware, d.rs.authored, 0.75, "work by person")
	}
}

// titled tells whether a name is only the owner of what follows: "Acme in Leeds's Harbour Street".
func (c *chunk) titled(s *prose.Sentence, r *run) bool {
	return r.last < s.Last && c.tokens[r.last].Hash == prose.Possessive
}

// possession reads "A's B", with words for a work between: "Ann Roe's second novel, Winter Bees".
func (d *document) possession(c *chunk, s *prose.Sentence, a, b *run) {
	noun := uint16(0)
	for i := a.last + 1; i < b.first; i++ {
		t, e := &c.tokens[i], c.info[i]
		switch {
		case t.Is(','), t.Is('"'), t.Is('“'), t.Hash == hashThe:
			if i < b.first-3 {
				return
			}
		case !c.lower(i) || e.flags&(prep|conj|finite|be|aux|relative) != 0 && e.near == 0:
			d.seat(c, s, a, b, i)
			return
		default:
			noun = e.near
		}
	}
	if noun > 0 && noun != b.typ && b.typ > tPerson {
		return
	}
	direct := b.first == a.last+1
	if !direct && partNouns[c.tokens[a.last+1].Hash] && b.first == a.last+2 {
		direct = d.isOf(a, tOrganization) && d.isOf(b, tOrganization) // Acme's subsidiary Tidewell
	}
	switch {
	case d.isOf(a, tLocation) && direct:
		_ = d.join(c, s, b, a, tOrganization, tLocation, d.rs.located, 0.75, "place's organization") ||
			d.join(c, s, b, a, tLocation, tLocation, d.rs.located, 0.75, "place's place")
	case d.isOf(a, tOrganization) && direct:
		d.join(c, s, b, a, tOrganization, tOrganization, d.rs.partOf, 0.75, "organization's part")
	case d.isOf(a, tPerson) && (direct || noun > 0):
		_ = d.join(c, s, a, b, tPerson, tPublication, d.rs.authored, 0.85, "person's work") ||
			d.join(c, s, a, b, tPerson, tSoftware, d.rs.authored, 0.75, "person's work")
	}
}

// partNouns are what an organization calls one that belongs to it.
var partNouns = map[uint64]bool{
	prose.Hash("subsidiary"): true, prose.Hash("unit"): true, prose.Hash("division"): true, prose.Hash("affiliate"): true, prose.Hash("arm"): true, prose.Hash("offshoot"): true,
	prose.Hash("department"): true, prose.Hash("imprint"): true,
}

// teams are people around one.
var teams = map[uint64]bool{
	prose.Hash("team"): true, prose.Hash("group"): true, prose.Hash("lab"): true, prose.Hash("laboratory"): true, prose.Hash("students"): true, prose.Hash("colleagues"): true,
	prose.Hash("colleague"): true, prose.Hash("office"): true,
}

// seat reads "Acme's headquarters in Leeds"; i is the word that ended the walk.
func (d *document) seat(c *chunk, s *prose.Sentence, a, b *run, i int) {
	next := i + 1
	if next < b.first && c.tokens[next].Hash == hashThe {
		next++
	}
	if next == b.first && c.tokens[i].Hash == hashAt && i == a.last+2 && teams[c.tokens[i-1].Hash] {
		d.join(c, s, a, b, tPerson, tOrganization, d.rs.worksFor, 0.75, "person's team at organization")
		return
	}
	if i+1 != b.first || c.tokens[i].Hash != hashIn || i-1 <= a.last || !c.info[i-1].is(placeIn) {
		return
	}
	d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.8, "organization's seat")
}

// based reads "Leeds-based Acme", "the Leeds-based firm Acme" and "Acme, a Leeds-based firm".
func (d *document) based(c *chunk, s *prose.Sentence, i int) {
	for k := i; k <= i+1; k++ {
		p := &c.runs[k]
		if p.typ != tLocation || p.last+1 >= s.Last || !c.tokens[p.last].Is('-') || c.tokens[p.last+1].Hash != hashBased {
			continue
		}
		if k == i+1 {
			if a := &c.runs[i]; p.first-a.last <= 3 && c.tokens[a.last].Kind == prose.Punct || c.info[a.last].is(be) {
				d.join(c, s, a, p, tOrganization, tLocation, d.rs.located, 0.85, "place-based")
			}
			continue
		}
		b := &c.runs[i+1]
		for j := p.last + 2; j < b.first; j++ {
			if !c.lower(j) || c.info[j].flags&(prep|conj|be|finite) != 0 && c.info[j].near == 0 {
				return
			}
		}
		_ = d.join(c, s, b, p, tOrganization, tLocation, d.rs.located, 0.85, "place-based") ||
			d.join(c, s, b, p, tPerson, tLocation, d.rs.located, 0.8, "place-based")
	}
}

// commaJoined reads "the chef at Acme, Ann Roe," and "Acme, in Leeds,".
func (d *document) commaJoined(c *chunk, s *prose.Sentence, a, b *run) {
	if b.first == a.last+1 {
		if d.isOf(a, tOrganization) && d.isOf(b, tPerson) && (b.last >= s.Last || c.tokens[b.last].Is(',') || c.tokens[b.last].Is('.')) {
			p := a.first - 1
			for p > s.First && c.tokens[p].Hash == hashThe {
				p--
			}
			if p > s.First && (c.tokens[p].Hash == hashOf || c.tokens[p].Hash == hashAt || c.tokens[p].Hash == hashFor) && c.info[p-1].is(role) {
				d.join(c, s, b, a, tPerson, tOrganization, d.rs.worksFor, 0.85, "role at organization, person")
			}
		}
		if d.isOf(a, tOrganization) && d.isOf(b, tLocation) && !c.listed(s, b.last-1) {
			d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.75, "organization, place")
		}
		return
	}
	if h := c.tokens[a.last+1].Hash; b.first == a.last+2 || b.first == a.last+3 && c.quarter(a.last+2) {
		switch h {
		case hashIn, hashNear:
			_ = d.join(c, s, a, b, tOrganization, tLocation, d.rs.located, 0.75, "organization in place") ||
				d.join(c, s, a, b, tLocation, tLocation, d.rs.located, 0.75, "place in place")
		case hashBy:
			d.join(c, s, b, a, tPerson, tPublication, d.rs.authored, 0.8, "work by person")
		}
	}
}

// recipient finds "to Globex" behind what a phrase delivers or sells: "sold the mill to Globex". It returns the run or -1.
func (d *document) recipient(c *chunk, s *prose.Sentence, r *argument) int {
	if r.n == 0 {
		return -1
	}
	last := c.runs[r.runs[r.n-1]].last
	for i := last; i+1 < s.Last && i < last+4; i++ {
		if c.tokens[i].Hash == hashTo && c.tokens[i].Kind == prose.Word {
			i++
			for i < s.Last && c.lower(i) && c.info[i].is(det|adjective) || i < s.Last && c.info[i].is(honorific) {
				i++
			}
			if i < s.Last && c.runAt[i] > 0 && c.runs[c.runAt[i]-1].first == i {
				return int(c.runAt[i] - 1)
			}
			return -1
		}
		if !c.lower(i) || c.info[i].flags&(prep|conj|finite|be) != 0 {
			return -1
		}
	}
	return -1
}

// fronted returns the name that a participle at the start of a sentence is about, or -1: "Written by Ann Roe, Winter Bees".
func (d *document) fronted(c *chunk, s *prose.Sentence, m *match) int {
	ph := &d.rs.phrases[m.phrase]
	switch {
	case m.first == s.First && ph.elems[0].kind == participle:
	case m.first == s.First+1 && ph.elems[0].kind == activeVerb && c.tokens[s.First].Hash == hashHaving:
	case m.first == s.First+1 && c.pastClause(s, m, ph):
	case ph.nominal && m.first > s.First && m.first < s.First+4 && c.tokens[s.First].Hash == hashAs: // "As head of sales at Acme, Ann Roe"
	default:
		return -1
	}
	for i := m.last; i < s.Last && i < m.last+12; i++ {
		if !c.tokens[i].Is(',') {
			if c.tokens[i].Kind == prose.Punct && !c.tokens[i].Is('"') {
				return -1
			}
			continue
		}
		for i++; i < s.Last && (c.lower(i) && (c.info[i].is(det|role|adjective) || c.info[i].near > 0) || c.tokens[i].Is('"')); i++ {
		}
		if i < s.Last && c.runAt[i] > 0 && c.runs[c.runAt[i]-1].first == i {
			r := int(c.runAt[i] - 1)
			if last := c.runs[r].last; last < s.Last && (c.tokens[last].Is(',') || c.tokens[last].Hash == prose.Possessive) && c.tokens[last].Kind != prose.Punct {
				return -1
			}
			return r
		}
		return -1
	}
	return -1
}

// pastClause tells whether "before joining", "after leaving" or "since joining" begins a phrase in a sentence that says what came to pass.
func (c *chunk) pastClause(s *prose.Sentence, m *match, ph *phrase) bool {
	if ph.elems[0].kind != activeVerb || m.first <= s.First || s.Question {
		return false
	}
	switch c.tokens[m.first-1].Hash {
	case hashBefore, hashAfter, hashSince:
	default:
		return false
	}
	if f, ok := ph.elems[0].find(c.tokens[m.first].Hash); !ok || f != ingForm {
		return false
	}
	for i := s.First; i < s.Last; i++ {
		if c.lower(i) && c.info[i].flags&(modal|plan|not|ifWord|thwart|say|opinion) != 0 {
			return false
		}
	}
	return true
}
