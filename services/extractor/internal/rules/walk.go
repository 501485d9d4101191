package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// walk goes left from a phrase.
type walk struct {
	d         *document // only in left
	c         *chunk
	s         *prose.Sentence
	a         *argument
	i         int
	gap       int
	commas    int
	lastComma int
	relative  bool
	direct    bool // a name stands right before a nominal phrase
	// relativeAt is the token of the relative pronoun.
	relativeAt int
	apposed    int // the comma before a nominal phrase, or 0
	stop       bool
	from       int // the token before the phrase
}

// nounPhrase goes over what stands before the noun of a nominal phrase: "the chief" in "is the chief engineer at". It tells
// whether the noun is linked to something before it.
func (w *walk) nounPhrase() bool {
	c := w.c
	for n := 0; w.i >= w.s.First && n < 5; n++ {
		e := c.info[w.i]
		if c.tokens[w.i].Hash == hashOf && w.i > w.s.First && c.tokens[w.i-1].Hash == hashOne {
			w.i-- // one of nine partners
			continue
		}
		if c.runAt[w.i] > 0 || !c.lower(w.i) || e.flags&(be|prep|conj|relative|modal|not|finite) != 0 && !e.is(det) {
			break
		}
		w.i--
		if e.is(det) && w.i >= w.s.First && (!c.info[w.i].is(prep) || c.info[w.i].is(be)) && (c.info[w.i].is(be) || c.tokens[w.i].Is(',') || c.lower(w.i) && c.info[w.i].flags == 0) {
			break // "was for many years the chief engineer"
		}
	}
	if w.i < w.s.First {
		return false
	}
	if c.tokens[w.i].Hash == hashAs {
		if w.i--; w.i < w.s.First {
			return false
		}
	}
	if c.tokens[w.i].Is(',') {
		w.apposed = w.i
	}
	return c.info[w.i].is(be) || c.tokens[w.i].Is(',')
}

// adjunct jumps over "for many years", a preposition and small words.
func (w *walk) adjunct() bool {
	c := w.c
	for i, n := w.i, 0; i > w.s.First && n < 5; i, n = i-1, n+1 {
		if c.runAt[i] > 0 || !c.lower(i) || c.info[i].flags&(conj|finite|modal|be|relative) != 0 {
			return false
		}
		if c.info[i].is(prep) {
			if n == 0 || c.tokens[i].Hash == hashOf || !(c.info[i-1].is(be|adverb|aux) || c.runAt[i-1] > 0 || c.tokens[i-1].Is(',')) {
				return false
			}
			w.i = i - 1
			return true
		}
	}
	return false
}

// motion are verbs after which "to" tells of what was done.
var motion = map[uint64]bool{
	prose.Hash("went"): true, prose.Hash("came"): true, prose.Hash("began"): true, prose.Hash("started"): true, prose.Hash("continued"): true,
	prose.Hash("continues"): true, prose.Hash("returned"): true, prose.Hash("moved"): true, prose.Hash("goes"): true, prose.Hash("left"): true,
}

// others goes over "and two rivals": people or things without names beside the subject.
func (w *walk) others() bool {
	c := w.c
	i := w.i
	for n := 0; n < 3 && i > w.s.First && c.runAt[i] == 0 && c.lower(i) && c.info[i].flags&(prep|conj|be|aux|modal|relative|finite|not) == 0 && !c.info[i].is(det) && !countWords[c.tokens[i].Hash]; n++ {
		i--
	}
	if i == w.i || i <= w.s.First+1 || !c.info[i].is(det) && c.tokens[i].Kind != prose.Number && !countWords[c.tokens[i].Hash] {
		return false
	}
	if c.tokens[i-1].Hash != hashAnd || c.runAt[i-2] == 0 {
		return false
	}
	w.i = i - 2
	return true
}

// infinitive goes over "plans to", "agreed to", "is said to have".
func (w *walk) infinitive() {
	c := w.c
	i := w.i
	for i >= w.s.First && c.info[i].is(aux) && i > w.s.First {
		i--
	}
	if i < w.s.First || c.tokens[i].Hash != hashTo {
		return
	}
	if i > w.s.First && (c.tokens[i-1].Hash == hashUsed || c.tokens[i-1].Hash == hashManaged) {
		w.i = i - 2 // "used to work for" is a past job
		return
	}
	if i > w.s.First && motion[c.tokens[i-1].Hash] {
		w.i = i - 2 // "went to work for", "began to teach at"
		return
	}
	for k := i - 1; k >= w.s.First && k >= i-3; k-- {
		if c.info[k].is(plan) || c.info[k].is(say|opinion|not) {
			w.a.planned = !c.info[k].is(not)
			w.a.negated = c.info[k].is(not)
			w.i = k - 1
			return
		}
	}
}

// candidate looks at a name left of the phrase. It returns true when that is the subject; else the walk goes on before it.
func (w *walk) candidate(r int, ph *phrase, linked bool) bool {
	c := w.c
	run := &c.runs[r]
	if run.last < len(c.tokens) && c.tokens[run.last].Hash == prose.Possessive && run.last < w.s.Last {
		w.stop = true
		return false
	}
	// "by Ann Roe, who works for": the clause is about the name right before it.
	after := w.apposed > 0 && w.apposed == run.last || w.relative && (w.relativeAt == run.last || w.relativeAt == run.last+1 && c.tokens[run.last].Is(','))
	if !after && w.commas == 1 && w.lastComma == w.from && run.last == w.from && len(ph.left.types) > 0 {
		after = ph.elems[0].kind == participle // "of the charity Clearwell, based in"
	}
	if after && run.typ > 0 && len(ph.left.types) > 0 && w.d != nil && !ph.left.suits(w.d.rs, run.typ) {
		after = false // "the museum in Skelle, whose curator"
	}
	p := w.prepBefore(run)
	if p < 0 && !after && w.d != nil && w.commas == 0 && r > 0 && run.typ == tOrganization {
		if b := &c.runs[r-1]; b.sent == run.sent && b.typ == tOrganization && c.between(b, run) == 2 {
			if q := w.prepBefore(b); q > w.s.First && c.tokens[q].Hash == hashFrom && c.info[q-1].is(soft|roles) {
				p = q // "Researchers from Acme and Globex joined"
			}
		}
	}
	if p >= 0 && !after {
		w.i = p - 1
		w.a.penalty += 0.03
		// Over the noun that the preposition belongs to, as far as an insertion holds it.
		if w.i >= w.s.First && c.runAt[w.i] == 0 && c.lower(w.i) && !w.insertion() && !w.copula() {
			w.stop = true
		}
		return false
	}
	if (ph.nominal || ph.bound) && !linked && !(w.direct && run.rule == "noun after") { // "the Kell district of Halden"
		w.stop = true
		return false
	}
	// A comma that closes an insertion: "Acme, which employs Bob, acquired"
	if w.commas == 1 && !w.relative && !ph.nominal && ph.elems[0].kind == activeVerb && (w.lastComma == run.last || w.clauseFrom(w.commaBefore(run.first))) {
		if k := w.commaBefore(run.first); k > w.s.First && c.runAt[k-1] > 0 {
			w.i = k - 1
			w.commas = 2
			return false
		} else if !(k > w.s.First && c.lower(k-1) && c.runAt[k+1] > 0 && (endsInS(c.word(k-1)) || c.roleEnds(w.s, k-1) && c.runs[c.runAt[k+1]-1].typ == tPerson)) { // two of the engineers, Ann Roe and Bo Berg, work
			w.stop = true
			return false
		}
	}
	w.a.penalty += 0.01 * float64(w.gap)
	c.group(w.a, r, w.s)
	return true
}

// prepBefore returns the preposition that governs a name, or -1.
func (w *walk) prepBefore(r *run) int {
	c := w.c
	i := r.first - 1
	for n := 0; n < 3 && i >= w.s.First && c.lower(i) && c.runAt[i] == 0; n++ {
		e := c.info[i]
		if e.is(prep) {
			if c.tokens[i].Hash == hashOf && i > w.s.First && c.info[i-1].is(placeWord) && c.lower(i-1) {
				i-- // "the village of Orrin" is Orrin
				continue
			}
			return i
		}
		if e.flags&(be|aux|conj|relative|finite|modal|not|pronoun) != 0 && !e.is(det) {
			return -1
		}
		i--
	}
	return -1
}

// clauseFrom tells whether a relative clause begins behind the comma at k, or k is none.
func (w *walk) clauseFrom(k int) bool {
	return k > w.s.First && w.c.info[k+1].is(relative) && w.c.lower(k+1)
}

func (w *walk) commaBefore(i int) int {
	for k := i - 1; k >= w.s.First && k > i-14; k-- {
		if w.c.tokens[k].Is(',') {
			return k
		}
	}
	return -1
}

// insertion jumps over ", a small maker of tea," when the walk has passed its second comma.
func (w *walk) insertion() bool {
	if w.commas == 0 {
		return false
	}
	k := w.commaBefore(w.i + 1)
	if k <= w.s.First || w.c.runAt[k-1] == 0 && !w.definiteAt(k-1) {
		return false
	}
	for i := k + 1; i <= w.i; i++ {
		if w.c.info[i].is(finite) && w.c.lower(i) && !w.c.info[k+1].is(relative|det) && !(i == k+1 && w.d != nil && w.d.reduced(w.c, i)) {
			return false
		}
	}
	w.i = k - 1
	w.commas = 2
	return true
}

// copula jumps over "is a small company" before a participle or noun: "Acme is a company based in".
func (w *walk) copula() bool {
	c := w.c
	denied := false
	for i, n := w.i, 0; i >= w.s.First && n < 6; i, n = i-1, n+1 {
		if c.runAt[i] > 0 || !c.lower(i) {
			return false
		}
		if c.info[i].is(be) {
			w.i = i - 1
			w.a.negated = w.a.negated || denied
			return true
		}
		if c.info[i].flags&(prep|conj|finite|modal) != 0 {
			return false
		}
		denied = denied || c.info[i].is(not) // "is no longer a unit of"
	}
	return false
}

func (w *walk) skipParen() {
	for k := w.i - 1; k >= w.s.First && k > w.i-20; k-- {
		if w.c.tokens[k].Is('(') {
			w.i = k - 1
			return
		}
	}
	w.i = w.s.First - 1
}

// headNoun tells whether the walk stands on the noun of the name before it: "the LARCH dataset".
func (w *walk) headNoun() bool {
	c := w.c
	if w.i <= w.s.First || c.runAt[w.i-1] == 0 || !c.lower(w.i) {
		return false
	}
	r, e := &c.runs[c.runAt[w.i-1]-1], c.info[w.i]
	return e.near > 0 && e.near == r.typ || e.is(thing) && r.rule == "noun after" || w.d != nil && r.last == w.i && w.d.ownNoun(c, r)
}

// definite tells whether "the company" ends at the walk: a noun that stands for a name before.
func (w *walk) definite(ph *phrase) bool {
	c := w.c
	return !ph.nominal && (w.commas == 0 || w.commas == 2) && w.definiteAt(w.i) &&
		(w.i-1 == w.s.First || c.info[w.i-2].is(conj) || c.tokens[w.i-2].Kind == prose.Number || c.tokens[w.i-2].Is(','))
}

// definiteAt tells whether "the company" ends at token i.
func (w *walk) definiteAt(i int) bool {
	c := w.c
	return i > w.s.First && c.lower(i) && c.info[i].near > 0 && !c.info[i].is(role) && c.runAt[i] == 0 && c.tokens[i-1].Hash == hashThe
}

// conjunction: the subject of "and lives in" is that of the verb before.
func (w *walk) conjunction(m *match) {
	c := w.c
	for i := w.s.First; i < m.first; i++ {
		r := c.runAt[i]
		if r == 0 {
			if c.info[i].is(pronoun) && c.tokens[i].Kind == prose.Word && i <= w.s.First+1 {
				w.a.pronoun = i
				w.a.penalty += 0.03
				return
			}
			continue
		}
		run := &c.runs[r-1]
		if w.prepBefore(run) < 0 && !(run.last < w.s.Last && c.tokens[run.last].Hash == prose.Possessive) {
			w.a.penalty += 0.05
			c.groupRight(w.a, int(r-1), w.s)
			return
		}
		i = run.last - 1
	}
}

// reduced tells whether a clause without its pronoun begins at token i: "based in", "owned by", "maintained by".
func (d *document) reduced(c *chunk, i int) bool {
	return i+1 < len(c.tokens) && d.past(c, i) && c.info[i+1].is(prep) && c.lower(i+1)
}

// roleEnds tells whether a person's work ends at token i: "chief executive", "head of research".
func (c *chunk) roleEnds(s *prose.Sentence, i int) bool {
	for n := 0; n < 4 && i >= s.First && c.lower(i) && c.runAt[i] == 0; i, n = i-1, n+1 {
		if c.info[i].is(role) {
			return true
		}
		if n > 0 && c.info[i].is(finite) || c.info[i].flags&(be|aux|relative|conj|not|det) != 0 {
			return false
		}
	}
	return false
}
