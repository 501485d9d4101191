package rules

import (
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// match is a phrase in a sentence.
type match struct {
	phrase      int32
	sent        int32
	first, last int // tokens
}

// findMatches finds the phrases of the chunk.
func (d *document) findMatches(c *chunk) {
	c.match = c.match[:0]
	for k := range c.sents {
		s := &c.sents[k]
		if s.Heading {
			continue
		}
		for i := s.First; i < s.Last; i++ {
			e := c.info[i]
			if e.phrases == 0 && e.flags&(role|roles|placeWord|firm) == 0 || c.runAt[i] > 0 {
				continue
			}
			if e.phrases > 0 {
				for _, p := range d.rs.starts[e.phrases-1] {
					d.tryPhrase(c, s, int32(k), i, p)
				}
			}
			if e.flags&(role|roles|placeWord|firm) != 0 {
				for _, p := range d.rs.roleStart {
					if e.is(d.rs.phrases[p].elems[0].class) {
						d.tryPhrase(c, s, int32(k), i, p)
					}
				}
			}
		}
	}
}

func (d *document) tryPhrase(c *chunk, s *prose.Sentence, sent int32, i int, p int32) {
	ph := &d.rs.phrases[p]
	last := d.matchElems(c, s, i, i, ph.elems)
	if last > 0 {
		c.match = append(c.match, match{phrase: p, sent: sent, first: i, last: last})
	}
}

// matchElems matches the elements from token i and returns where they end, or 0.
func (d *document) matchElems(c *chunk, s *prose.Sentence, start, i int, elems []elem) int {
	for k := range elems {
		e := &elems[k]
		if e.kind == gapWords {
			for n := 1; n <= 3 && i+n < s.Last; n++ {
				if !c.lower(i+n-1) || c.runAt[i+n-1] > 0 || c.info[i+n-1].flags&(conj|relative) != 0 {
					return 0
				}
				if last := d.matchElems(c, s, start, i+n, elems[k+1:]); last > 0 {
					return last
				}
			}
			return 0
		}
		if k > 0 {
			for i < s.Last && e.kind != classWord && c.info[i].is(adverb) && c.runAt[i] == 0 {
				if _, ok := e.find(c.tokens[i].Hash); ok {
					break
				}
				i++ // works mainly for
			}
			if e.kind == classWord { // as chief engineer, as the head
				for n := 0; n < 3 && i < s.Last && c.lower(i) && !c.info[i].is(e.class) && c.info[i].flags&(prep|conj|finite|relative) == 0; n++ {
					i++
				}
			}
		}
		if i >= s.Last || c.runAt[i] > 0 || c.tokens[i].Kind != prose.Word {
			return 0
		}
		if e.kind == classWord {
			if !c.info[i].is(e.class) {
				return 0
			}
			i++
			continue
		}
		f, ok := e.find(c.tokens[i].Hash)
		if !ok || e.kind == activeVerb && !c.active(s, i, f) {
			return 0
		}
		i++
	}
	return i
}

// active tells whether the verb at i is active: "hired" in "Acme hired Ann", not in "was hired" and not in "hired by".
func (c *chunk) active(s *prose.Sentence, i int, f form) bool {
	if f == ingForm { // "the selling of", "is selling"
		return !(i+1 < s.Last && c.tokens[i+1].Hash == hashOf)
	}
	if f == baseForm || f == thirdForm {
		// A noun: "the work at Acme", "its supply".
		return !(i > s.First && c.info[i-1].is(det) && c.tokens[i-1].Kind == prose.Word && !c.info[i-1].is(relative))
	}
	if i+1 < s.Last && c.tokens[i+1].Hash == hashBy {
		return false
	}
	for k := i - 1; k >= s.First && k >= i-4; k-- {
		if c.info[k].is(be) && c.tokens[k].Kind == prose.Word {
			return false
		}
		if c.info[k].flags&(adverb|not) == 0 {
			break
		}
	}
	return true
}

// argument is what stands at one side of a phrase.
type argument struct {
	runs    [8]int32
	n       int
	pronoun int // token of a pronoun that stands there instead, or -1
	penalty float64
	// what the words between say of the statement
	negated, planned bool
}

func (a *argument) add(r int) {
	if a.n < len(a.runs) {
		a.runs[a.n] = int32(r)
		a.n++
	}
}

// left finds the subject of a phrase: before it, or behind it, as in "the winner of the Halden Cup was Ann Roe".
func (d *document) left(c *chunk, m *match) argument {
	a := d.leftOf(c, m)
	if a.n == 0 && a.pronoun < 0 && !a.negated && !a.planned && d.rs.phrases[m.phrase].nominal {
		if r := d.turned(c, &c.sents[m.sent], m); r >= 0 {
			a = argument{pronoun: -1, penalty: 0.03}
			c.groupRight(&a, r, &c.sents[m.sent])
		}
	}
	return a
}

// turned finds the name behind "the new owner of Pendle Hall is the violinist" and "the conductor of the Sinfonia,", or -1.
func (d *document) turned(c *chunk, s *prose.Sentence, m *match) int {
	i := m.first - 1
	for i >= s.First && c.lower(i) && c.runAt[i] == 0 && !c.info[i].is(det) && m.first-i < 4 {
		i--
	}
	many := endsInS(c.word(m.first)) && (i < s.First || i == s.First && !c.info[i].is(prep|conj)) // "Prize winners at"
	if !many && (i < s.First || !c.info[i].is(det) || c.tokens[i].Kind != prose.Word || i > s.First && !(c.tokens[i-1].Is(',') || c.info[i-1].is(conj))) {
		return -1
	}
	r := d.right(c, m)
	if r.n != 1 {
		return -1
	}
	end := c.runs[r.runs[0]].last
	if end >= s.Last || !c.tokens[end].Is(',') && !c.info[end].is(be) && !(many && (c.tokens[end].Hash == hashIncluded || c.tokens[end].Hash == hashInclude)) {
		return -1
	}
	comma := c.tokens[end].Is(',')
	for i = end + 1; i < s.Last && i < end+6 && c.runAt[i] == 0; i++ {
		if c.tokens[i].Kind != prose.Word || !c.lower(i) && !c.info[i].is(honorific) || c.info[i].flags&(prep|conj|be|aux|modal|relative|not|pronoun) != 0 && !c.info[i].is(det) || comma && !c.info[i].is(honorific) {
			return -1
		}
	}
	if i >= s.Last || c.runAt[i] == 0 || c.runs[c.runAt[i]-1].first != i {
		return -1
	}
	at := int(c.runAt[i] - 1)
	if last := c.runs[at].last; last < s.Last && (c.tokens[last].Hash == prose.Possessive || comma && !c.tokens[last].Is(',') && c.tokens[last].Kind != prose.Punct) {
		return -1
	}
	return at
}

// leftOf finds the subject before a phrase, over auxiliaries, adverbs, relative pronouns and insertions.
func (d *document) leftOf(c *chunk, m *match) argument {
	ph := &d.rs.phrases[m.phrase]
	s := &c.sents[m.sent]
	a := argument{pronoun: -1}
	w := walk{d: d, c: c, s: s, a: &a, i: m.first - 1}
	if r := d.fronted(c, s, m); r >= 0 {
		c.groupRight(&a, r, s)
		return a
	}
	if ph.adverbial && w.i >= s.First && !c.info[w.i].is(be) && w.beforeVerb() {
		return a
	}
	linked := false // a form of "be", a comma or "as" stands before
	if ph.nominal {
		w.direct = w.i >= s.First && c.runAt[w.i] > 0
		linked = w.nounPhrase()
	}
	if ph.elems[0].kind == activeVerb {
		w.infinitive()
	}
	for steps := 0; w.i >= s.First && steps < 40; steps++ {
		if r := c.runAt[w.i]; r > 0 {
			if w.candidate(int(r-1), ph, linked) {
				return a
			}
			if w.stop {
				return a
			}
			continue
		}
		t, e := &c.tokens[w.i], c.info[w.i]
		switch {
		case t.Kind == prose.Number:
			w.gap++
			w.i--
		case t.Is(','):
			w.commas++
			w.lastComma = w.i
			linked = true
			w.gap++
			w.i--
		case t.Is(')'):
			w.skipParen()
		case t.Kind == prose.Punct:
			if !t.Is('"') && !t.Is('”') && !t.Is('“') && !t.Is('–') && !t.Is('—') {
				return a
			}
			w.i--
			linked = true
		case e.is(not):
			a.negated = true
			w.i--
		case e.is(be):
			linked = true
			w.i--
		case e.is(aux):
			w.i--
		case e.is(modal) && c.lower(w.i): // not May
			a.planned = true
			w.i--
		case e.is(relative):
			linked, w.relative, w.relativeAt = true, true, w.i
			w.gap++
			w.i--
		case e.is(pronoun) && w.commas == 0, t.Hash == hashBoth && w.i == s.First && m.first < w.i+3:
			a.pronoun = w.i
			return a
		case e.is(conj):
			w.conjunction(m)
			return a
		case e.is(adverb) || strings.HasSuffix(c.word(w.i), "ly") && c.lower(w.i):
			w.gap++
			w.i--
		case c.info[w.i].is(prep) && w.i+1 < len(c.tokens) && c.tokens[w.i+1].Kind == prose.Number, e.month > 0:
			w.i--
		case w.headNoun():
			w.i--
		default:
			if w.definite(ph) {
				a.pronoun = w.i
				return a
			}
			if w.adjunct() || w.others() {
				continue
			}
			if !w.insertion() && !w.copula() {
				return a
			}
			linked = true
		}
	}
	return a
}

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
	if after && run.typ > 0 && len(ph.left.types) > 0 && w.d != nil && !ph.left.suits(w.d.rs, run.typ) {
		after = false // "the museum in Skelle, whose curator"
	}
	if p := w.prepBefore(run); p >= 0 && !after {
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
		} else if !(k > w.s.First && c.lower(k-1) && c.runAt[k+1] > 0 && endsInS(c.word(k-1))) { // two of the engineers, Ann Roe and Bo Berg, work
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
		if w.c.info[i].is(finite) && w.c.lower(i) && !w.c.info[k+1].is(relative|det) {
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
	for i, n := w.i, 0; i >= w.s.First && n < 6; i, n = i-1, n+1 {
		if c.runAt[i] > 0 || !c.lower(i) {
			return false
		}
		if c.info[i].is(be) {
			w.i = i - 1
			return true
		}
		if c.info[i].flags&(prep|conj|finite|modal) != 0 {
			return false
		}
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
