package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// emitter holds the items of the chunk that is being read.
type emitter struct {
	entities  []extract.Entity
	relations []extract.Relation
	foci      [][2]focus // by sentence: the person and the thing that a pronoun there may stand for
}

const minConfidence = 0.3

// emit says the items of a settled chunk.
func (d *document) emit(c *chunk) extract.Items {
	b := &d.buf
	b.entities, b.relations, b.foci = b.entities[:0], b.relations[:0], b.foci[:0]
	for i := range c.runs {
		r := &c.runs[i]
		r.emitted = -1
		if r.typ == 0 || r.conf < minConfidence || int(r.typ) <= len(builtinTypes) && !d.rs.types[r.typ-1].declared && r.conf < loneName {
			continue
		}
		r.emitted = len(b.entities)
		b.entities = append(b.entities, extract.Entity{
			Type: d.rs.label(r.typ), Name: collapse(c.text[r.start:r.end]), Of: r.of, Start: r.start, End: r.end,
			Confidence: extract.Scored(round(r.conf)), Rule: r.rule,
		})
	}
	if len(b.entities) == 0 {
		return extract.Items{}
	}
	d.relate(c)
	d.properties(c)
	return extract.Items{Entities: b.entities, Relations: b.relations}
}

// round keeps two digits, so that a confidence reads as it was meant.
func round(v float64) float64 { return float64(int(v*100+0.5)) / 100 }

// focus is what a pronoun may stand for: the subjects of the sentences before.
type focus struct {
	run    int32 // or -1
	sent   int32
	unique bool // no other name of its kind in that sentence
}

func (d *document) relate(c *chunk) {
	person, other := focus{run: -1}, focus{run: -1}
	next := 0
	for k := range c.sents {
		s := &c.sents[k]
		if s.Paragraph {
			person.run, other.run = -1, -1
		}
		from := next
		for next < len(c.match) && int(c.match[next].sent) == k {
			next++
		}
		d.buf.foci = append(d.buf.foci, [2]focus{person, other})
		d.sentenceRelations(c, s, c.match[from:next], person, other)
		d.refocus(c, int32(k), &person, &other)
	}
	if d.rs.worksFor >= 0 {
		d.orgRolePerson(c)
	}
	d.placeInPlace(c)
	d.adjacent(c)
	d.undeclared(c)
}

// refocus moves the focus to the subject of a sentence that was read.
func (d *document) refocus(c *chunk, sent int32, person, other *focus) {
	s := &c.sents[sent]
	w := walk{c: c, s: s}
	people, others := 0, 0
	firstPerson, firstOther, anyPerson := int32(-1), int32(-1), int32(-1)
	for i := s.First; i < s.Last; i++ {
		at := c.runAt[i]
		if at == 0 {
			continue
		}
		r := &c.runs[at-1]
		i = r.last - 1
		if r.emitted < 0 {
			continue
		}
		subject := w.prepBefore(r) < 0 && !(r.last < s.Last && c.tokens[r.last].Hash == prose.Possessive)
		if r.typ == tPerson || d.rs.below(r.typ, tPerson) {
			anyPerson = at - 1
			if people++; firstPerson < 0 && subject {
				firstPerson = at - 1
			}
			continue
		}
		if r.typ == tLocation {
			continue
		}
		if others++; firstOther < 0 && subject {
			firstOther = at - 1
		}
	}
	if i := s.First; i+1 < s.Last && c.tokens[i].Hash == hashThe && c.lower(i+1) && c.info[i+1].near > 0 && c.runAt[i+1] == 0 {
		if run, cost := d.definiteName(c, i+1); run >= 0 && cost < ambiguousRef { // "The survey uses the Merrow Telescope."
			firstOther, others = run, max(others, 1)
		}
	}
	if firstPerson >= 0 {
		*person = focus{firstPerson, sent, people == 1}
	} else if people == 1 && (person.run < 0 || sent-person.sent > 1) { // "Nobody expected much of Ann Roe."
		*person = focus{anyPerson, sent, true}
	} else if sent-person.sent > 2 {
		person.run = -1
	} else if people > 0 {
		person.unique = false
	}
	if firstOther >= 0 {
		*other = focus{firstOther, sent, others == 1}
	} else if sent-other.sent > 2 {
		other.run = -1
	}
}

// thingBefore finds the name that begins the sentence of token i, where "it" follows "that": "Acme said that it".
func (d *document) thingBefore(c *chunk, s *prose.Sentence, i int) int32 {
	if i == s.First || c.tokens[i-1].Hash != hashThat && c.info[i-1].flags&(conj|personVerb|orgVerb|say) == 0 {
		return -1
	}
	for k := s.First; k < min(i, s.First+3); k++ {
		if at := c.runAt[k]; at > 0 {
			if r := &c.runs[at-1]; r.emitted >= 0 && r.typ != tPerson && r.typ != tLocation {
				return at - 1
			}
			return -1
		}
	}
	return -1
}

// personBefore finds the one person named before token i in its sentence.
func (d *document) personBefore(c *chunk, s *prose.Sentence, i int) (run int32, unique bool) {
	run = -1
	unique = true
	for k := s.First; k < i; k++ {
		at := c.runAt[k]
		if at == 0 {
			continue
		}
		r := &c.runs[at-1]
		k = r.last - 1
		if r.typ == tPerson && r.emitted >= 0 {
			if run >= 0 {
				unique = false
			}
			run = at - 1
		}
	}
	return run, unique
}
