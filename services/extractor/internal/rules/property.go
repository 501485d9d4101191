package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// value is a property value as the text has it.
type value struct {
	raw         any
	first, last int // tokens
}

// properties finds values of declared properties: a word that announces one, its value after it, its holder before it.
func (d *document) properties(c *chunk) {
	for k := range c.sents {
		s := &c.sents[k]
		if s.Heading || s.Question {
			continue
		}
		for i := s.First; i < s.Last; i++ {
			e := c.info[i]
			if !e.is(cue) || c.runAt[i] > 0 {
				continue
			}
			for n := range d.rs.cues[e.cues-1] {
				d.cued(c, s, int32(k), i, &d.rs.cues[e.cues-1][n])
			}
		}
	}
	d.versions(c)
}

func (d *document) cued(c *chunk, s *prose.Sentence, sent int32, i int, q *cueRule) {
	v, ok := c.valueAfter(s, i, q)
	if !ok {
		return
	}
	holder := d.holder(c, s, sent, i, v, q.types[0])
	if holder < 0 {
		return
	}
	m := match{phrase: -1, sent: sent, first: i, last: i + 1}
	l := argument{}
	for k := i - 1; k >= s.First && k >= i-3; k-- {
		l.planned = l.planned || c.info[k].is(modal|plan) && c.lower(k)
		l.negated = l.negated || c.info[k].is(not) && c.lower(k)
	}
	if d.assertion(c, s, &m, &l) != "" {
		return
	}
	start, end := c.bounds(v.first, v.last)
	d.hold(holder, extract.Property{Name: q.prop.Name, Value: v.raw, Start: start, End: end, Confidence: extract.Scored(0.8)})
}

// hold adds a property to an entity item, once.
func (d *document) hold(entity int, p extract.Property) {
	e := &d.buf.entities[entity]
	for i := range e.Properties {
		if e.Properties[i].Name == p.Name && e.Properties[i].Start == p.Start {
			return
		}
	}
	e.Properties = append(e.Properties, p)
}

// holder finds the name that a value belongs to: the subject of the announcing word, or the first name after "Founded in 1999,".
func (d *document) holder(c *chunk, s *prose.Sentence, sent int32, i int, v value, t uint16) int {
	fits := func(r *run) bool {
		return r.emitted >= 0 && (r.typ == t || d.rs.below(r.typ, t))
	}
	if c.opens(s, i) && v.last < s.Last && c.tokens[v.last].Is(',') {
		for k := v.last + 1; k < s.Last && k < v.last+4; k++ {
			if at := c.runAt[k]; at > 0 {
				if r := &c.runs[at-1]; fits(r) {
					return r.emitted
				}
				return -1
			}
		}
		return -1
	}
	w := walk{c: c, s: s}
	for k := i - 1; k >= s.First && k > i-25; k-- {
		at := c.runAt[k]
		if at == 0 {
			// Another verb between: the value is another subject's.
			if c.tokens[k].Is(';') || c.info[k].is(finite) && c.lower(k) && !c.info[k].is(be|aux) && k < i-1 && !c.info[k].is(cue) {
				return -1
			}
			continue
		}
		r := &c.runs[at-1]
		k = r.first
		if w.prepBefore(r) >= 0 {
			continue
		}
		if fits(r) {
			return r.emitted
		}
		if r.emitted >= 0 {
			return -1
		}
	}
	// "It was founded in 1911", "The observatory was founded"
	f := d.buf.foci[sent]
	for k := s.First; k < min(s.First+2, i); k++ {
		e := c.info[k]
		if c.tokens[k].Kind != prose.Word || e.flags&(pronounHe|pronounShe|pronounIt) == 0 && !(k > s.First && e.near == t && c.tokens[k-1].Hash == hashThe) {
			continue
		}
		if run, cost := d.resolve(c, s, k, f[0], f[1], slot{}); run >= 0 && cost < 0.2 && fits(&c.runs[run]) {
			return c.runs[run].emitted
		}
	}
	return -1
}

// valueAfter finds the value that the word at i announces.
func (c *chunk) valueAfter(s *prose.Sentence, i int, q *cueRule) (value, bool) {
	if q.prop.Name == "version" {
		if i+1 < s.Last && c.tokens[i+1].Kind == prose.Number {
			return value{c.word(i + 1), i + 1, i + 2}, true
		}
		return value{}, false
	}
	for k := i + 1; k < s.Last && k <= i+9; k++ {
		t, e := &c.tokens[k], c.info[k]
		if t.Is(';') || t.Is('(') || t.Kind == prose.Word && c.runAt[k] == 0 && e.flags&(relative|conj|finite) != 0 && c.lower(k) {
			return value{}, false
		}
		switch {
		case q.prop.Enum != nil:
			if v, ok := c.enumAt(k, q.prop.Enum); ok {
				return v, true
			}
		case q.prop.Type == schema.TypeDate:
			if v, ok := c.dateAt(s, k); ok {
				return v, true
			}
		case t.Kind == prose.Number && c.runAt[k] == 0:
			year := t.End-t.Start == 4 && (t.Hash != 0)
			if q.isYear {
				if v, ok := c.dateAt(s, k); ok && len(v.raw.(string)) >= 4 {
					v.raw = v.raw.(string)[:4]
					return v, true
				}
				if !year {
					return value{}, false
				}
			}
			if year && !q.isYear && k > s.First && c.tokens[k-1].Hash == hashIn {
				continue // "in 1999" is a time, not a count
			}
			return value{c.word(k), k, k + 1}, true
		case e.month > 0 && q.isYear:
			if v, ok := c.dateAt(s, k); ok && len(v.raw.(string)) >= 4 {
				v.first = v.last - 1
				v.raw = v.raw.(string)[:4]
				return v, true
			}
		}
	}
	return value{}, false
}

func (c *chunk) enumAt(k int, enum []string) (value, bool) {
	if c.tokens[k].Kind == prose.Punct {
		return value{}, false
	}
	for _, e := range enum {
		if strings.EqualFold(c.word(k), e) {
			return value{c.word(k), k, k + 1}, true
		}
	}
	return value{}, false
}

// dateAt reads "3 March 1999", "March 3, 1999", "March 1999", "1999-03-03" or "1999" as an ISO date.
func (c *chunk) dateAt(s *prose.Sentence, k int) (value, bool) {
	number := func(i, lo, hi int) int {
		if i >= s.Last || c.tokens[i].Kind != prose.Number {
			return -1
		}
		n, err := strconv.Atoi(c.word(i))
		if err != nil || n < lo || n > hi {
			return -1
		}
		return n
	}
	monthAt := func(i int) int {
		if i < s.Last && c.info[i].month > 0 && c.tokens[i].Shape&prose.Upper != 0 {
			return int(c.info[i].month)
		}
		return -1
	}
	const firstYear, lastYear = 1000, 2199
	if m := monthAt(k); m > 0 {
		if y := number(k+1, firstYear, lastYear); y > 0 {
			return value{fmt.Sprintf("%04d-%02d", y, m), k, k + 2}, true
		}
		if d := number(k+1, 1, 31); d > 0 {
			next := k + 2
			if next < s.Last && c.tokens[next].Is(',') {
				next++
			}
			if y := number(next, firstYear, lastYear); y > 0 {
				return value{fmt.Sprintf("%04d-%02d-%02d", y, m, d), k, next + 1}, true
			}
		}
		return value{}, false
	}
	if d := number(k, 1, 31); d > 0 {
		if m := monthAt(k + 1); m > 0 {
			if y := number(k+2, firstYear, lastYear); y > 0 {
				return value{fmt.Sprintf("%04d-%02d-%02d", y, m, d), k, k + 3}, true
			}
		}
		return value{}, false
	}
	if y := number(k, firstYear, lastYear); y > 0 && c.tokens[k].End-c.tokens[k].Start == 4 {
		if k+4 < s.Last && c.tokens[k+1].Is('-') && c.tokens[k+3].Is('-') && !c.tokens[k+1].Space {
			if m, d := number(k+2, 1, 12), number(k+4, 1, 31); m > 0 && d > 0 {
				return value{fmt.Sprintf("%04d-%02d-%02d", y, m, d), k, k + 5}, true
			}
		}
		return value{fmt.Sprintf("%04d", y), k, k + 1}, true
	}
	return value{}, false
}

// versions: "Skyloom 2.1", "Skyloom version 2.1", "Skyloom v2".
func (d *document) versions(c *chunk) {
	prop, ok := d.rs.schema.Property(d.rs.types[tSoftware-1].label, "version")
	if !ok || !d.rs.types[tSoftware-1].declared {
		return
	}
	for i := range c.runs {
		r := &c.runs[i]
		if r.emitted < 0 || r.typ != tSoftware {
			continue
		}
		s := &c.sents[r.sent]
		k := r.last
		if k < s.Last && c.tokens[k].Hash == hashVer {
			k++
		}
		if k >= s.Last || c.tokens[k].Kind != prose.Number || k == r.last && !dotted(c.word(k)) {
			continue
		}
		start, end := c.bounds(k, k+1)
		d.hold(r.emitted, extract.Property{Name: prop.Name, Value: c.word(k), Start: start, End: end, Confidence: extract.Scored(0.85)})
	}
}
