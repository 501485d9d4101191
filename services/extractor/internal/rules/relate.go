package rules

import (
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

const (
	inferred = "inferred"
	opinions = "opinion"
)

// sentenceRelations makes relations of the phrases of one sentence.
func (d *document) sentenceRelations(c *chunk, s *prose.Sentence, list []match, person, other focus) {
	for i := range list {
		m := &list[i]
		if d.shadowed(list, i) {
			continue
		}
		ph := &d.rs.phrases[m.phrase]
		if ph.relation == d.rs.worksFor && d.byOwner(c, m, ph) {
			continue
		}
		l := d.left(c, m)
		if l.n == 0 && l.pronoun < 0 {
			continue
		}
		r := d.right(c, m)
		if r.n == 0 && r.pronoun < 0 {
			d.objectBefore(c, s, m, &l, &r)
		}
		if r.n == 0 && r.pronoun < 0 {
			continue
		}
		conf := ph.confidence - l.penalty - r.penalty
		rule := ph.rule
		lo, hi := s.First, s.Last
		for side, a := range []*argument{&l, &r} {
			if a.n > 0 {
				continue
			}
			if d.both(c, s, a) {
				conf -= clearRef
				rule = ph.rule + " (pronoun)"
				lo = min(lo, c.sents[c.runs[a.runs[0]].sent].First)
				continue
			}
			end := d.rs.relations[ph.relation].ends[side]
			if ph.inverse {
				end = d.rs.relations[ph.relation].ends[1-side]
			}
			run, cost := d.resolve(c, s, a.pronoun, person, other, end)
			if run < 0 {
				break
			}
			a.add(int(run))
			conf -= cost
			rule = ph.rule + " (pronoun)"
			lo = min(lo, c.sents[c.runs[run].sent].First)
		}
		if l.n == 0 || r.n == 0 {
			continue
		}
		say := d.assertion(c, s, m, &l)
		for x := 0; x < l.n; x++ {
			for y := 0; y < r.n; y++ {
				a, b := l.runs[x], r.runs[y]
				if ph.inverse {
					a, b = b, a
				}
				d.addRelation(c, ph, a, b, conf, say, rule, lo, hi)
			}
		}
		d.delivered(c, s, m, &l, &r, conf, say, rule, lo, hi)
	}
}

var ownerWords = map[uint64]bool{
	prose.Hash("owner"): true, prose.Hash("co-owner"): true, prose.Hash("proprietor"): true, prose.Hash("shareholder"): true, prose.Hash("owners"): true,
}

// byOwner tells a phrase for work that speaks of the owner, who need not work there.
func (d *document) byOwner(c *chunk, m *match, ph *phrase) bool {
	return ph.elems[0].kind == classWord && ownerWords[c.tokens[m.first].Hash] && d.rs.owns >= 0 && d.rs.relations[d.rs.owns].declared
}

// delivered says who got what a phrase sells or delivers: the customer is supplied, and a completed sale makes the buyer the owner.
func (d *document) delivered(c *chunk, s *prose.Sentence, m *match, l, r *argument, conf float64, say, rule string, lo, hi int) {
	ph := &d.rs.phrases[m.phrase]
	if ph.relation != d.rs.supplies || ph.inverse || ph.elems[0].kind != activeVerb {
		return
	}
	to := d.recipient(c, s, r)
	if to < 0 || !d.isOf(&c.runs[to], tOrganization) && !d.isOf(&c.runs[to], tPerson) {
		return
	}
	seller, buyer, sold := &c.runs[l.runs[0]], &c.runs[to], &c.runs[r.runs[0]]
	schema, source := d.rs.schema, d.rs.label(seller.typ)
	if rel := d.rs.relations[d.rs.supplies].label; seller.emitted >= 0 && sold.typ != tOrganization && sold.typ != tLocation && schema.Allows(rel, source, d.rs.label(buyer.typ)) {
		d.emitRelation(c, rel, seller.emitted, buyer.emitted, conf-0.03, say, rule+" to", lo, hi)
	}
	if c.tokens[m.first].Hash != hashSold || sold.emitted < 0 || d.rs.owns < 0 {
		return
	}
	if rel := d.rs.relations[d.rs.owns].label; schema.Allows(rel, d.rs.label(buyer.typ), d.rs.label(sold.typ)) {
		d.emitRelation(c, rel, buyer.emitted, sold.emitted, conf-0.03, say, "sold to", lo, hi)
	}
}

// shadowed tells whether a longer phrase covers a match: "part of" in "took part of", "division of" in a longer one.
func (d *document) shadowed(list []match, i int) bool {
	m := &list[i]
	for k := range list {
		o := &list[k]
		if k == i || d.rs.phrases[o.phrase].spans || o.last-o.first <= m.last-m.first || m.first < o.first || m.last > o.last {
			continue
		}
		if o.first < m.first || d.rs.phrases[o.phrase].relation == d.rs.phrases[m.phrase].relation {
			return true
		}
	}
	return false
}

// addRelation says a relation between two names, where their types make sense for the phrase.
func (d *document) addRelation(c *chunk, ph *phrase, a, b int32, conf float64, say, rule string, lo, hi int) {
	src, dst := &c.runs[a], &c.runs[b]
	if src.emitted < 0 || dst.emitted < 0 || a == b {
		return
	}
	rel := &d.rs.relations[ph.relation]
	left, right := ph.left, ph.right
	if ph.inverse {
		left, right = right, left
	}
	source, target := d.rs.label(src.typ), d.rs.label(dst.typ)
	if rel.declared {
		// A type of the schema's own is judged by the schema alone; one of ours must suit the phrase too.
		if !left.suits(d.rs, src.typ) || !right.suits(d.rs, dst.typ) {
			return
		}
		if !d.rs.schema.Allows(rel.label, source, target) && !(left.admits(d.rs, src.typ) && right.admits(d.rs, dst.typ)) {
			return
		}
	} else if !left.admits(d.rs, src.typ) || !right.admits(d.rs, dst.typ) {
		return
	}
	d.emitRelation(c, rel.label, src.emitted, dst.emitted, conf, say, rule, lo, hi)
}

func (d *document) emitRelation(c *chunk, label string, source, target int, conf float64, say, rule string, lo, hi int) {
	start, end := c.bounds(lo, hi)
	for i := len(d.buf.relations) - 1; i >= 0; i-- {
		o := &d.buf.relations[i]
		if o.Type == label && o.Source == source && o.Target == target {
			if o.End < start {
				break
			}
			if was, ok := o.Confidence.Value(0); ok && o.Assertion == say && conf > was+0.005 { // the surer of two phrases
				o.Confidence, o.Rule = extract.Scored(round(min(conf, 0.95))), rule
			}
			return
		}
	}
	d.buf.relations = append(d.buf.relations, extract.Relation{
		Type: label, Source: source, Target: target, Start: start, End: end,
		Confidence: extract.Scored(round(min(max(conf, minConfidence), 0.95))), Assertion: say, Rule: rule,
	})
}

// bounds returns the bytes of the tokens lo…hi.
func (c *chunk) bounds(lo, hi int) (int, int) {
	return int(c.tokens[lo].Start), int(c.tokens[hi-1].End)
}

// assertion tells whether the sentence states a match as a fact (""), or denies, plans, asks or supposes it (inferred), or reports
// an opinion.
func (d *document) assertion(c *chunk, s *prose.Sentence, m *match, l *argument) string {
	if m.phrase >= 0 && d.rs.phrases[m.phrase].lack { // what cannot start without another depends on it; what runs without it does not
		if !l.negated || s.Question {
			return inferred
		}
		l = &argument{}
	}
	if l.negated || l.planned || s.Question {
		if d.opinionBefore(c, s, m) {
			return opinions
		}
		return inferred
	}
	if d.opinionBefore(c, s, m) {
		return opinions
	}
	if d.deniedBefore(c, s, m) {
		return inferred
	}
	// A later verb of the same subject: "plans to sell Acme and buy Globex".
	for i := m.first - 1; i >= s.First && i >= m.first-2; i-- {
		if c.info[i].is(modal|not) && c.lower(i) && !(m.phrase >= 0 && d.rs.phrases[m.phrase].lack) {
			return inferred
		}
	}
	return ""
}

// deniedBefore looks for words before a phrase that take back or suppose what it says: "it is false that", "denies that", "if", "was
// fired before", and for "once" where a supply or need must last.
func (d *document) deniedBefore(c *chunk, s *prose.Sentence, m *match) bool {
	thwarted := false
	for i := s.First; i < m.first; i++ {
		e := c.info[i]
		if e.is(ifWord) {
			return true
		}
		if i+1 < m.first && e.is(not|plan) && c.tokens[i+1].Hash == hashThat && d.unnamed(c, i) {
			return true
		}
		if e.is(thwart) && c.lower(i) {
			thwarted = true
		}
		if thwarted && c.tokens[i].Hash == hashBefore {
			return true
		}
	}
	if m.phrase < 0 {
		return false
	}
	if rel := d.rs.phrases[m.phrase].relation; rel == d.rs.supplies || rel == d.rs.depends || rel == d.rs.owns {
		for i := m.first - 1; i >= s.First && i >= m.first-3; i-- {
			switch c.tokens[i].Hash {
			case hashOnce, hashUsed, hashFormerly, hashPreviously:
				return true
			}
		}
		for i := m.last; i < s.Last; i++ {
			if c.tokens[i].Hash == hashUntil {
				return true
			}
		}
	}
	return false
}

// unnamed tells whether token i belongs to no name.
func (d *document) unnamed(c *chunk, i int) bool {
	return c.runAt[i] == 0 || c.runs[c.runAt[i]-1].typ == 0
}

// opinionBefore looks for words that make what follows an opinion, or for a quotation that holds the phrase.
func (d *document) opinionBefore(c *chunk, s *prose.Sentence, m *match) bool {
	doubt, quoted := false, 0
	if c.tokens[s.First].Hash == hashAccord && s.First+1 < m.first && c.tokens[s.First+1].Hash == hashTo {
		return true
	}
	for i := s.First; i < m.first; i++ {
		t, e := &c.tokens[i], c.info[i]
		if t.Kind == prose.Punct {
			switch rune(t.Hash) {
			case '"':
				quoted ^= 1
			case '“', '«', '„':
				quoted = 1
			case '”', '»':
				quoted = 0
			}
			continue
		}
		if e.is(opinion) && d.unnamed(c, i) {
			return true
		}
		if e.is(doubter) && d.unnamed(c, i) {
			doubt = true
		}
		if e.is(say) && c.runAt[i] == 0 && (doubt || i+1 < s.Last && c.tokens[i+1].Hash == hashTo) {
			return true
		}
	}
	if quoted == 0 {
		return false
	}
	for i := m.last; i < s.Last; i++ { // a quoted title does not count: the phrase must be inside
		if t := &c.tokens[i]; t.Is('"') || t.Is('”') || t.Is('»') || t.Is('“') {
			return true
		}
	}
	return false
}

// orgRolePerson: "Acme engineer Bob Stone", "Acme's chief engineer, Bob Stone" and "Bob Stone, Acme's chief engineer".
func (d *document) orgRolePerson(c *chunk) {
	rel := &d.rs.relations[d.rs.worksFor]
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent != b.sent || a.emitted < 0 || b.emitted < 0 || b.first-a.last > 6 {
			continue
		}
		s := &c.sents[a.sent]
		switch {
		case a.typ == tOrganization && b.typ == tPerson && c.roleBetween(a.last, b.first):
			d.emitRelation(c, rel.label, b.emitted, a.emitted, 0.85, c.mood(s), "organization, role, person", s.First, s.Last)
		case a.typ == tPerson && b.typ == tOrganization && b.first == a.last+1 && c.tokens[a.last].Is(',') && c.possessiveRole(s, b.last):
			d.emitRelation(c, rel.label, a.emitted, b.emitted, 0.85, c.mood(s), "person, organization's role", s.First, s.Last)
		}
	}
}

func (c *chunk) mood(s *prose.Sentence) string {
	if s.Question {
		return inferred
	}
	return ""
}

// roleBetween tells whether tokens from…to are an optional 's, adjectives, a role and an optional comma.
func (c *chunk) roleBetween(from, to int) bool {
	found := false
	for i := from; i < to; i++ {
		switch t := &c.tokens[i]; {
		case found && i+1 < to && t.Hash == hashOf && c.tokens[to-1].Is(','): // head of research,
			for i++; i < to-1; i++ {
				if !c.lower(i) || c.info[i].flags&(prep|be|aux|relative|not) != 0 {
					return false
				}
			}
			return true
		case t.Hash == prose.Possessive && i == from:
		case t.Is(',') && i == to-1:
		case t.Kind != prose.Word || c.info[i].flags&(prep|conj|be|aux|finite|relative|det|not) != 0 && !c.info[i].is(role):
			return false
		case c.info[i].is(role):
			found = true
		case found && !c.info[i].is(honorific):
			return false
		}
	}
	return found
}

func (c *chunk) possessiveRole(s *prose.Sentence, i int) bool {
	if i >= s.Last || c.tokens[i].Hash != prose.Possessive {
		return false
	}
	for n := 1; n <= 4 && i+n < s.Last; n++ {
		if c.info[i+n].is(role) && c.tokens[i+n].Kind == prose.Word {
			return true
		}
		if !c.lower(i + n) {
			return false
		}
	}
	return false
}

// placeInPlace: "Halden, Norway".
func (d *document) placeInPlace(c *chunk) {
	if d.rs.located < 0 || !d.rs.types[tLocation-1].declared {
		return
	}
	rel := &d.rs.relations[d.rs.located]
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.emitted < 0 || b.emitted < 0 || a.sent != b.sent || a.typ != tLocation || b.typ != tLocation || b.first != a.last+1 || !c.tokens[a.last].Is(',') {
			continue
		}
		s := &c.sents[a.sent]
		if !c.info[b.first].is(place) && !d.rs.places[b.key] || c.listed(s, b.last-1) || i > 0 && c.between(&c.runs[i-1], a) > 0 || a.heading {
			continue
		}
		if rel.declared && d.rs.schema.Allows(rel.label, d.rs.label(tLocation), d.rs.label(tLocation)) {
			d.emitRelation(c, rel.label, a.emitted, b.emitted, 0.75, c.mood(s), "place, place", s.First, s.Last)
		}
	}
}

// undeclared says relations that no phrase knows: two sure names with one verb between them. The label is the verb.
func (d *document) undeclared(c *chunk) {
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent != b.sent || a.emitted < 0 || b.emitted < 0 || a.conf < loneName || b.conf < loneName || b.first-a.last > 4 || b.first == a.last || a.heading {
			continue
		}
		s := &c.sents[a.sent]
		w := walk{c: c, s: s}
		if s.Question || w.prepBefore(a) >= 0 || b.last < s.Last && c.tokens[b.last].Hash == prose.Possessive {
			continue
		}
		label, ok := d.verbLabel(c, a.last, b.first)
		if !ok {
			continue
		}
		if known, _, ok := d.rs.schema.CanonRelation(label); ok {
			label = known
		}
		if say := d.assertion(c, s, &match{phrase: -1, first: a.last, last: b.first}, &argument{}); say == "" {
			d.emitRelation(c, label, a.emitted, b.emitted, 0.75, "", "verb between names", s.First, s.Last)
		}
	}
}

// verbLabel makes a label of "mentored", "was funded by", "collaborated with" between two names.
func (d *document) verbLabel(c *chunk, from, to int) (string, bool) {
	i := from
	passive := false
	for i < to && c.info[i].flags&(be|adverb) != 0 && c.tokens[i].Kind == prose.Word && !d.past(c, i) {
		passive = passive || c.info[i].is(be)
		i++
	}
	if i >= to || !d.past(c, i) || c.info[i].phrases > 0 && passive != (i+1 < to && c.tokens[i+1].Hash == hashBy) {
		return "", false
	}
	verb := i
	i++
	label := strings.ToUpper(c.word(verb))
	if i < to && c.lower(i) && c.info[i].is(prep) {
		if passive && c.tokens[i].Hash != hashBy || !passive && c.tokens[i].Hash == hashBy {
			return "", false
		}
		label += "_" + strings.ToUpper(c.word(i))
		i++
	} else if passive {
		return "", false
	}
	if i < to && c.info[i].is(det) {
		i++
	}
	if i != to || c.info[verb].phrases > 0 || strings.ContainsAny(label, "-'’.") {
		return "", false
	}
	return label, true
}

// past tells whether the word at i is a past form.
func (d *document) past(c *chunk, i int) bool {
	if !c.lower(i) || c.info[i].flags&(be|aux|adjective|det) != 0 {
		return false
	}
	if w := c.word(i); len(w) >= 5 && strings.HasSuffix(w, "ed") {
		return true
	}
	return d.rs.pasts[c.tokens[i].Hash]
}
