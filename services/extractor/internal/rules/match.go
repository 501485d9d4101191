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
		if e.kind == gapName {
			for i < s.Last && c.runAt[i] == 0 && (c.info[i].is(honorific|role) || c.tokens[i].Hash == hashThe) {
				i++
			}
			if i >= s.Last || c.runAt[i] == 0 || c.runs[c.runAt[i]-1].first != i {
				return 0
			}
			i = c.runs[c.runAt[i]-1].last
			continue
		}
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
			for i++; k > 0 && i < s.Last && c.lower(i) && c.runAt[i] == 0 && c.info[i].is(e.class); i++ { // chief executive
			}
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
	w := walk{d: d, c: c, s: s, a: &a, i: m.first - 1, from: m.first - 1}
	if r := d.fronted(c, s, m); r >= 0 {
		c.groupRight(&a, r, s)
		return a
	}
	if ph.adverbial && w.i >= s.First && !c.info[w.i].is(be) && w.beforeVerb() {
		return a
	}
	if c.pastClause(s, m, ph) { // worked for Keel Bank before joining
		w.conjunction(m)
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
