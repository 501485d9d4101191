package rules

import (
	"sort"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// resolve returns the name that the pronoun (or "the company") at token i stands for, or -1, and what that costs. end is what the
// relation takes there.
func (d *document) resolve(c *chunk, s *prose.Sentence, i int, person, other focus, end slot) (run int32, cost float64) {
	e := c.info[i]
	f := other
	switch {
	case e.is(pronounHe | pronounShe):
		if e.is(pronounShe) && !d.takesPeople(end) { // ships are she
			return d.resolveThing(c, s, i, other, end)
		}
		f = person
		if in, unique := d.personBefore(c, s, i); in >= 0 {
			f = focus{in, 0, unique}
		}
	case e.is(pronounIt):
		if in := d.thingBefore(c, s, i); in >= 0 {
			f = focus{in, 0, true}
			break
		}
		return d.focused(c, other, end)
	case e.is(pronoun):
		return -1, 0
	default:
		return d.definiteName(c, i)
	}
	if f.run < 0 {
		return -1, 0
	}
	if !f.unique {
		return f.run, ambiguousRef
	}
	return f.run, clearRef
}

// What it costs that a relation stands on a reference.
const (
	clearRef     = 0.13
	ambiguousRef = 0.27
)

// takesPeople tells whether a person may stand at an end of a relation.
func (d *document) takesPeople(end slot) bool {
	if len(end.types) == 0 {
		return true
	}
	for _, t := range end.types {
		if t == tPerson || d.rs.below(t, tPerson) || d.rs.below(tPerson, t) {
			return true
		}
	}
	return false
}

// focused is the subject of the sentences before, where it may stand at the end; another name of its sentence, where that alone may.
func (d *document) focused(c *chunk, f focus, end slot) (run int32, cost float64) {
	if f.run < 0 {
		return -1, 0
	}
	fits := end.admits(d.rs, c.runs[f.run].typ)
	if f.unique && fits {
		return f.run, clearRef
	}
	found, many := int32(-1), false
	for i := range c.runs {
		r := &c.runs[i]
		if r.sent < f.sent || r.emitted < 0 || r.typ == tPerson || r.typ == tLocation || !end.admits(d.rs, r.typ) {
			continue
		}
		if r.sent > f.sent {
			break
		}
		many = many || found >= 0 && nameOf(c, &c.runs[found]) != nameOf(c, r)
		found = int32(i)
	}
	switch {
	case fits && !many:
		return f.run, clearRef
	case fits:
		return f.run, ambiguousRef
	case found >= 0 && !many:
		return found, clearRef + 0.05
	}
	return -1, 0
}

// resolveThing is what "she" stands for where no person may.
func (d *document) resolveThing(c *chunk, s *prose.Sentence, i int, other focus, end slot) (run int32, cost float64) {
	found, many := int32(-1), false
	for k := s.First; k < i; k++ {
		at := c.runAt[k]
		if at == 0 {
			continue
		}
		r := &c.runs[at-1]
		k = r.last - 1
		if r.emitted >= 0 && end.admits(d.rs, r.typ) {
			many = many || found >= 0
			found = at - 1
		}
	}
	switch {
	case found >= 0 && !many:
		return found, clearRef
	case found >= 0:
		return found, ambiguousRef
	}
	return d.focused(c, other, end)
}

// nameOf is the full name of a run.
func nameOf(c *chunk, r *run) string {
	if r.of != "" {
		return r.of
	}
	return c.text[r.start:r.end]
}

// maxBack is how many sentences before it what "the company" stands for may be named last.
const maxBack = 6

// definiteName returns the name that "the survey" stands for, the noun being token i: the one name before it that holds the noun, else the
// one name of the noun's type.
func (d *document) definiteName(c *chunk, i int) (run int32, cost float64) {
	noun, t := c.tokens[i].Hash, c.info[i].near
	holds, typed, kin := named{run: -1}, named{run: -1}, named{run: -1}
	for k := range c.runs {
		r := &c.runs[k]
		if r.first >= i {
			break
		}
		if r.emitted < 0 || r.typ == tPerson || r.typ != t && !d.rs.below(r.typ, t) {
			continue
		}
		if r.typ == t {
			typed.see(c, int32(k))
		} else {
			kin.see(c, int32(k))
		}
		if c.contains(r, noun) {
			holds.see(c, int32(k))
		}
	}
	sent := c.sentenceOf(i)
	if typed.run < 0 { // nothing but names of types below it
		typed = kin
	}
	near := func(n named) bool { return n.run >= 0 && int(sent)-int(c.runs[n.run].sent) <= maxBack }
	switch {
	case near(holds) && !holds.many:
		return holds.run, clearRef
	case near(holds):
		return holds.run, ambiguousRef
	case near(typed) && !typed.many:
		return typed.run, clearRef + 0.02
	case near(typed):
		return typed.run, ambiguousRef
	}
	return -1, 0
}

// named is the last of some names, and whether they were many.
type named struct {
	run  int32
	name string
	many bool
}

func (n *named) see(c *chunk, k int32) {
	name := nameOf(c, &c.runs[k])
	n.many = n.many || n.run >= 0 && n.name != name
	n.run, n.name = k, name
}

// contains tells whether a word is one of a run's, or of what it is short for.
func (c *chunk) contains(r *run, word uint64) bool {
	for i := r.first; i < r.last; i++ {
		if c.tokens[i].Hash == word {
			return true
		}
	}
	if r.of == "" {
		return false
	}
	for _, h := range hashWords(r.of) {
		if h == word {
			return true
		}
	}
	return false
}

// sentenceOf is the number of the sentence that holds token i.
func (c *chunk) sentenceOf(i int) int32 {
	return int32(sort.Search(len(c.sents), func(k int) bool { return c.sents[k].Last > i }))
}

// both fills in the people that "both" or "they" stands for: those that the sentence before begins with. It tells whether there are such.
func (d *document) both(c *chunk, s *prose.Sentence, a *argument) bool {
	h := c.tokens[a.pronoun].Hash
	if h != hashBoth && h != hashThey || a.pronoun > s.First+1 || s.Paragraph || s.First == 0 {
		return false
	}
	sent := c.sentenceOf(s.First) - 1
	for i := range c.runs {
		r := &c.runs[i]
		if r.sent != sent || r.emitted < 0 {
			continue
		}
		if r.first > c.sents[sent].First+2 || !d.isOf(r, tPerson) {
			return false
		}
		var group argument
		c.groupRight(&group, i, &c.sents[sent])
		if group.n < 2 {
			return false
		}
		for k := range group.n {
			if p := &c.runs[group.runs[k]]; p.emitted < 0 || !d.isOf(p, tPerson) {
				return false
			}
		}
		a.runs, a.n = group.runs, group.n
		return true
	}
	return false
}

// objectBefore finds the object of a verb that stands before its subject: "the Corn Exchange, which she bought".
func (d *document) objectBefore(c *chunk, s *prose.Sentence, m *match, l, r *argument) {
	if d.rs.phrases[m.phrase].elems[0].kind != activeVerb || l.n > 1 || l.negated || l.planned {
		return
	}
	subject := l.pronoun
	if l.n == 1 {
		subject = c.runs[l.runs[0]].first
	}
	i := subject - 1
	for i > s.First && c.lower(i) && c.runAt[i] == 0 && c.info[i].is(det) && !c.info[i].is(relative) {
		i--
	}
	if i <= s.First || c.tokens[i].Hash != hashWhich && c.tokens[i].Hash != hashThat || m.first-subject > 6 {
		return
	}
	if i--; c.tokens[i].Is(',') {
		i--
	}
	if i >= s.First && c.runAt[i] > 0 && (m.last >= s.Last || c.runAt[m.last] == 0) {
		r.add(int(c.runAt[i] - 1))
	}
}
