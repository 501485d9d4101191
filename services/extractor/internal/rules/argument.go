package rules

import (
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// right finds the object of a phrase: the first name after it, over articles and adjectives.
func (d *document) right(c *chunk, m *match) argument {
	s := &c.sents[m.sent]
	a := argument{pronoun: -1}
	skipped := 0
	for i := m.last; i < s.Last && skipped < 6; i++ {
		if r := c.runAt[i]; r > 0 {
			run := &c.runs[r-1]
			if run.first != i {
				return a
			}
			if run.last < s.Last && c.tokens[run.last].Hash == prose.Possessive {
				return a
			}
			a.penalty += 0.01 * float64(skipped)
			if run.last < s.Last && run.rule != "noun after" && c.compound(s, run.last) && !d.ownNoun(c, run) && !c.modelled(run) {
				a.penalty += 0.25
			}
			c.groupRight(&a, int(r-1), s)
			return a
		}
		t, e := &c.tokens[i], c.info[i]
		if t.Kind == prose.Number { // the 2019 Halden Regatta
			continue
		}
		if t.Kind == prose.Punct {
			if t.Is('"') || t.Is('“') || t.Is('‘') || t.Is('«') {
				continue
			}
			return a
		}
		if e.is(pronoun) && t.Kind == prose.Word && skipped == 0 {
			if !(i+1 < s.Last && c.lower(i+1) && c.info[i+1].flags == 0) || !e.is(det) { // "her team" is nobody
				a.pronoun = i
			}
			return a
		}
		if t.Hash == hashOf && t.Kind == prose.Word && i > m.last && (c.info[i-1].is(piece) || c.tokens[i-1].Kind == prose.Number && i-2 >= m.last && c.tokens[i-2].Hash == hashVer) {
			continue // three volumes of, a third of, version 2 of
		}
		if t.Hash == hashOf && t.Kind == prose.Word && i > m.last && c.info[i-1].is(placeWord) && c.lower(i-1) {
			continue // in the town of
		}
		if t.Hash == hashIn && t.Kind == prose.Word && i > m.last && c.info[i-1].is(piece) {
			continue // a stake in
		}
		if t.Kind != prose.Word || e.flags&(prep|conj|relative|modal|not) != 0 && !e.is(det) {
			return a
		}
		if !c.lower(i) && !e.is(honorific|role) {
			return a
		}
		skipped++
	}
	return a
}

// compound tells whether the noun at i makes the name before it a mere modifier: "acquired Acme shares".
func (c *chunk) compound(s *prose.Sentence, i int) bool {
	if !c.lower(i) {
		return false
	}
	e := c.info[i]
	if e.near > 0 || e.flags&(stop|prep|conj|be|aux|modal|not|plan|adverb|relative|finite|ifWord|det|pronoun|say|cue) != 0 {
		return false
	}
	w := c.word(i)
	n := len(w)
	if n > 3 && (w[n-2:] == "ly" || w[n-2:] == "ed") {
		return false
	}
	return i+1 >= s.Last || !c.info[i+1].is(det)
}

// modelled tells a name that an article or owner makes one of what the noun behind it says: "its Hilltop butter", not "Acme shares".
func (c *chunk) modelled(r *run) bool {
	return (r.typ == tProduct || r.typ == tSoftware || r.typ == tDataset) && r.first > 0 && c.info[r.first-1].is(det) && c.tokens[r.first-1].Kind == prose.Word
}

// ownNoun tells whether the word behind a name is only what it is, one or many: "two Sulvan W46 engines".
func (d *document) ownNoun(c *chunk, r *run) bool {
	if e := c.info[r.last]; e.near > 0 && (e.near == r.typ || d.rs.below(r.typ, e.near)) {
		return true
	}
	w := c.word(r.last)
	if !endsInS(w) || r.typ == 0 || d.rs.isBuiltin(r.typ) {
		return false
	}
	for _, one := range []string{w[:len(w)-1], strings.TrimSuffix(w, "es"), strings.TrimSuffix(w, "ies") + "y"} {
		if e := d.rs.words.get(hashWord(one)); e.near == r.typ || e.near > 0 && d.rs.below(r.typ, e.near) {
			return true
		}
	}
	return false
}

// between tells how the names a and b, neighbours in order, are joined: 0 not, 1 by a comma, 2 by "and".
func (c *chunk) between(a, b *run) int {
	joint := 0
	for i := a.last; i < b.first; i++ {
		t, e := &c.tokens[i], c.info[i]
		switch {
		case t.Is(','):
			joint = max(joint, 1)
		case t.Is('&'), t.Hash == hashAnd && t.Kind == prose.Word:
			joint = 2
		case e.is(det) && t.Hash == hashThe, e.is(honorific) && i == b.first-1:
		default:
			return 0
		}
	}
	return joint
}

// group adds the name r and, where r is the last of "A, B and C", the names before it.
func (c *chunk) group(a *argument, r int, s *prose.Sentence) {
	first := r
	sawAnd := false
	for first > 0 && c.runs[first-1].sent == c.runs[r].sent {
		j := c.between(&c.runs[first-1], &c.runs[first])
		if j == 0 || !sawAnd && j != 2 || sawAnd && j != 1 {
			break
		}
		sawAnd = true
		first--
	}
	// The first of a list of subjects is no object of another verb.
	if first < r {
		i := c.runs[first].first - 1
		for i >= s.First && c.info[i].flags&(det|honorific) != 0 && c.tokens[i].Kind == prose.Word {
			i--
		}
		if i >= s.First && c.tokens[i].Kind == prose.Word && !c.info[i].is(conj|role|roles) && c.info[i].flags&(adverb|relative|ifWord) == 0 {
			first = r
		}
	}
	for k := first; k <= r; k++ {
		a.add(k)
	}
}

// groupRight adds the name r and, where r is the first of "A, B and C", the names after it.
func (c *chunk) groupRight(a *argument, r int, s *prose.Sentence) {
	last := r
	for last+1 < len(c.runs) && c.runs[last+1].sent == c.runs[r].sent {
		j := c.between(&c.runs[last], &c.runs[last+1])
		if j == 0 {
			break
		}
		last++
		if j == 2 {
			break
		}
	}
	joined := last > r && c.between(&c.runs[last-1], &c.runs[last]) == 2
	if joined {
		// "Acme and Bob works for": the last of the list is the subject of what follows.
		end := c.runs[last].last
		if end < s.Last && c.tokens[end].Kind == prose.Word && c.info[end].flags&(finite|be|aux|modal) != 0 && c.lower(end) {
			last--
			joined = last > r && c.between(&c.runs[last-1], &c.runs[last]) == 2
		}
	}
	if !joined {
		last = r
	}
	for k := r; k <= last; k++ {
		a.add(k)
	}
}

// implyTypes gives unknown names the types that the phrases beside them ask for.
func (d *document) implyTypes(c *chunk) {
	for i := range c.match {
		m := &c.match[i]
		ph := &d.rs.phrases[m.phrase]
		if c.holdsWorkRole(m) {
			continue
		}
		l, r := d.left(c, m), d.right(c, m)
		if d.contradicts(c, &l, ph.left) || d.contradicts(c, &r, ph.right) {
			continue
		}
		plural := d.pluralVerb(c, m, ph)
		same := ph.relation == d.rs.partOf
		d.imply(c, &l, ph.left, plural, d.knows(c, &r, ph.right), same)
		d.imply(c, &r, ph.right, false, d.knows(c, &l, ph.left), same)
	}
}

// pluralVerb tells whether the verb is one of a plural: "Farmers sell".
func (d *document) pluralVerb(c *chunk, m *match, ph *phrase) bool {
	if ph.elems[0].kind != activeVerb {
		return false
	}
	f, ok := ph.elems[0].find(c.tokens[m.first].Hash)
	return ok && f == baseForm
}

// contradicts tells whether a known name at one side is of a type that the phrase does not take there.
func (d *document) contradicts(c *chunk, a *argument, s slot) bool {
	for k := 0; k < a.n; k++ {
		r := &c.runs[a.runs[k]]
		t, conf := r.typ, r.conf
		if n := d.names[r.key]; n != nil && n.conf > conf {
			t, conf = n.typ, n.conf
		}
		if t > 0 && conf >= loneName && !s.suits(d.rs, t) {
			return true
		}
	}
	return false
}

// holdsWorkRole tells whether a phrase speaks of the author, captain or mayor of something, which is no organization.
func (c *chunk) holdsWorkRole(m *match) bool {
	for i := m.first; i < m.last; i++ {
		if c.info[i].is(workRole) {
			return true
		}
	}
	return false
}

// knows returns the type of the first name of an argument where it is certain and suits its slot, else 0.
func (d *document) knows(c *chunk, a *argument, s slot) uint16 {
	if a.n == 0 {
		return 0
	}
	if r := &c.runs[a.runs[0]]; r.typ > 0 && r.conf >= 0.7 && s.admits(d.rs, r.typ) {
		return r.typ
	}
	return 0
}

// imply gives the unknown names of an argument the type that its slot asks for. other is the type of the other argument where it is
// certain: what is known there makes a weak guess good enough. same says that both ends are of one type.
func (d *document) imply(c *chunk, a *argument, s slot, plural bool, other uint16, same bool) {
	if len(s.types) == 0 || s.mute {
		return
	}
	for k := 0; k < a.n; k++ {
		r := &c.runs[a.runs[k]]
		t := s.types[0]
		if r.title > 0 && t != tPublication {
			continue
		}
		if e := c.info[r.first]; r.last == r.first+1 && e.in > 0 && e.flags&(given|place) == 0 {
			continue // a bare "Observatory"
		}
		if t == tSoftware && !s.weak && r.first > 0 && c.info[r.first-1].is(det) && s.admits(d.rs, tProduct) {
			t = tProduct // the Vireo One depends on
		}
		if t == tSoftware && !s.weak && (r.last-r.first > 2 || r.initial && abstract(c.text[r.start:r.end])) {
			continue
		}
		if r.typ == t && r.conf < 0.8 && !s.weak {
			r.conf = max(r.conf, 0.75)
			continue
		}
		if r.typ > 0 && r.conf >= 0.5 || r.heading {
			continue
		}
		if n := d.names[r.key]; n != nil && n.conf >= loneName {
			continue
		}
		if s2, ok := d.short[r.key]; ok && s2.full.typ > 0 {
			continue
		}
		if r.initial && (plural && endsInS(c.text[r.start:r.end]) || d.lowers.has(c.tokens[r.first].Hash) || s.weak && other == 0) {
			continue
		}
		if r.uncased && (t != tPerson && t != tOrganization || s.weak || r.end-r.start > 18) {
			continue
		}
		if e := c.info[r.first]; r.last == r.first+1 && e.flags&(adjective|topic|notName) != 0 {
			continue
		}
		if s.weak {
			switch {
			case other == 0:
			case t == tPublication && r.last == r.first+1 && r.title == 0:
				other = 0 // what is called by one word may be a program too
			case (same || other > tLocation) && s.admits(d.rs, other):
				t = other // software runs on software, a volume is part of a publication
			case c.article(r) && s.admits(d.rs, tProduct) && r.last-r.first <= 2:
				t = tProduct // bought a Brisa
			case t == tOrganization && (other == tPerson || r.first > 0 && c.info[r.first-1].is(det)) && s.admits(d.rs, tProduct):
				other = 0 // what a person buys is seldom a company
			}
			if r.implied == 0 || r.implied == t {
				r.implied, r.backed = t, r.backed || other > 0
			}
			continue
		}
		conf := 0.7
		if r.uncased {
			conf = 0.6
		}
		r.typ, r.conf, r.rule = t, conf, "argument"
	}
}

// abstract tells the ending of a noun of everyday use: Production, Movement.
func abstract(w string) bool {
	for _, end := range []string{"tion", "sion", "ment", "ness", "ity", "ing", "ance", "ence", "ism", "ship", "ure", "ers", "hood", "age"} {
		if strings.HasSuffix(w, end) {
			return true
		}
	}
	return false
}

// article tells whether "a" or "an" stands before a name.
func (c *chunk) article(r *run) bool {
	if r.first == 0 || c.tokens[r.first-1].Kind != prose.Word {
		return false
	}
	h := c.tokens[r.first-1].Hash
	return h == hashA || h == hashAn
}

func endsInS(s string) bool { return len(s) > 2 && s[len(s)-1] == 's' && s[len(s)-2] != 's' }
