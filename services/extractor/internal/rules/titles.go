package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// Titles of works hold words that no other name holds: "The Quiet Loom", "Salt and Ash", "On Owning Nothing". A run of such words is
// read as one only where something says that a title stands there: quotation marks, a noun or verb of writing before it, a verb of
// writing after it, or an article that is capitalised in the middle of a sentence.

const maxTitle = 10 // tokens

// titleFrom returns the title that begins at token i, or a run that is empty.
func (c *chunk) titleFrom(s *prose.Sentence, i int) (r run, ok bool) {
	t := &c.tokens[i]
	if t.Kind != prose.Word || t.Shape&prose.Upper == 0 || t.Hash == prose.Possessive {
		return r, false
	}
	if i > s.First {
		if n := c.quotedTitle(s, i); n > 0 {
			return run{first: i, last: i + n, head: -1, title: quotedWork}, true
		}
	}
	said := i > s.First && c.workBefore(s, i)
	if i > s.First+1 && c.tokens[i-1].Hash == prose.Possessive && c.runWord(i-2) { // Ann Roe's Letters from a Ferry
		if last := c.titleEnd(s, i, true); last-i >= 3 && c.wordsOfWork(i, last) {
			return run{first: i, last: last, head: -1, title: saidWork}, true
		}
	}
	article := c.info[i].is(stop) && t.Shape&prose.Caps == 0
	if !said && i > s.First && c.info[i-1].is(workVerb) && c.lower(i-1) {
		last := c.titleEnd(s, i, true)
		said = last-i >= 2 && article
		for k := i + 1; k < last && last-i >= 3; k++ {
			said = said || c.lower(k)
		}
	}
	if !said && !article {
		if i > s.First {
			return r, false
		}
		last := c.titleEnd(s, i, true)
		if last-i < 3 || c.lower(last-1) || !c.workAfter(s, last) {
			return r, false
		}
		return run{first: i, last: last, head: -1, title: saidWork}, true
	}
	last := c.titleEnd(s, i, said || i == s.First)
	if last-i < 2 {
		return r, false
	}
	switch {
	case said:
		if last-i == 2 && !article && c.info[i].flags&(given|place) != 0 { // "the author Jane Roe"
			return r, false
		}
		return run{first: i, last: last, head: -1, title: saidWork}, true
	case i == s.First:
		if !c.workAfter(s, last) {
			return r, false
		}
		return run{first: i, last: last, head: -1, title: saidWork}, true
	}
	prev := &c.tokens[i-1]
	if !c.info[i].is(det) || !c.lower(i-1) && !prev.Is(',') || !c.capital(i+1) {
		return r, false
	}
	return run{first: i, last: last, head: -1, title: articleWork}, true
}

// runWord tells a capitalised word that may be a person's last name.
func (c *chunk) runWord(i int) bool { return c.capital(i) && c.info[i].in == 0 }

// wordsOfWork tells whether a small word stands in i…last that names other than titles do not have.
func (c *chunk) wordsOfWork(i, last int) bool {
	for k := i + 1; k < last; k++ {
		if h := c.tokens[k].Hash; c.lower(k) && h != hashOf && h != hashThe && h != hashAnd && h != hashFor && c.info[k].is(prep|det) {
			return true
		}
	}
	return false
}

// What says that a run is a title.
const (
	quotedWork = iota + 1
	saidWork
	articleWork
)

// quotedTitle returns the length of what stands in quotation marks from i on, if it is written like a title.
func (c *chunk) quotedTitle(s *prose.Sentence, i int) int {
	p := &c.tokens[i-1]
	if !(p.Is('"') && p.Space || p.Is('“') || p.Is('«')) {
		return 0
	}
	for k := i; k < s.Last && k-i <= maxTitle; k++ {
		t := &c.tokens[k]
		switch {
		case t.Is('"'), t.Is('”'), t.Is('»'):
			n := k - i
			if c.tokens[k-1].Is(',') {
				n--
			}
			return n
		case t.Is(',') && k+1 < s.Last && (c.tokens[k+1].Is('"') || c.tokens[k+1].Is('”')):
		case t.Kind == prose.Number, t.Hash == prose.Possessive, t.Is(':'), t.Is('-'), t.Is('&'):
		case t.Kind != prose.Word:
			return 0
		case c.lower(k) && !c.titleWord(k):
			return 0
		}
	}
	return 0
}

// titleWord tells a word that stays small in titles.
func (c *chunk) titleWord(i int) bool {
	e := c.info[i]
	return e.is(prep) || e.is(det) || c.tokens[i].Hash == hashAnd || e.is(conj)
}

// titleEnd returns where a title that begins at i ends. wide lets "and" and small prepositions stand in it.
func (c *chunk) titleEnd(s *prose.Sentence, i int, wide bool) int {
	last := i + 1
	words := 1
	if c.info[i].is(det) {
		words = 0
	}
	for last < s.Last && last-i < maxTitle {
		t := &c.tokens[last]
		if t.Kind == prose.Word && t.Shape&(prose.Upper|prose.Mixed) != 0 {
			last, words = last+1, words+1
			continue
		}
		n := 0
		switch {
		case t.Hash == prose.Possessive:
			n = 1
		case !c.lower(last):
		case t.Hash == hashOf, t.Hash == hashThe, t.Hash == hashTo && wide:
			n = 1
		case t.Hash == hashAnd && wide && words == 1:
			n = 1
		case wide && c.info[i].is(stop) && c.info[last].is(prep) && t.Hash != hashBy:
			n = 1
		}
		if n == 0 {
			return last
		}
		if k := last + n; k < s.Last && c.lower(k) && c.info[k].is(det) {
			n++
		}
		k := last + n
		if k >= s.Last || c.tokens[k].Kind != prose.Word || c.tokens[k].Shape&prose.Upper == 0 {
			return last
		}
		if t.Hash != hashOf && t.Hash != prose.Possessive && (c.info[k].flags&(place|given) != 0 || c.info[k].month > 0) {
			return last
		}
		if t.Hash == prose.Possessive && c.info[last-1].is(given) {
			return last
		}
		last, words = k+1, words+1
	}
	return last
}

// workBefore tells whether a noun for a work or a verb of writing stands right before token i.
func (c *chunk) workBefore(s *prose.Sentence, i int) bool {
	k := i - 1
	comma := c.tokens[k].Is(',')
	if comma {
		k--
	}
	if k < s.First || c.tokens[k].Kind != prose.Word || !c.lower(k) && k > s.First {
		return false
	}
	e := c.info[k]
	if e.is(writing) {
		return !comma
	}
	if e.near != tPublication || e.is(role) {
		return false
	}
	if !comma {
		return c.info[i].is(stop) || !c.info[i].is(given)
	}
	for n := 1; n <= 3 && k-n >= s.First; n++ { // "her second novel, X"
		if c.info[k-n].is(det) || c.tokens[k-n].Hash == prose.Possessive {
			return c.tokens[k-n].Hash != hashThe
		}
	}
	return false
}

// workAfter tells whether what follows token i says that a work stands before it: "was written by", "is a novel", ", a novel by".
func (c *chunk) workAfter(s *prose.Sentence, i int) bool {
	if i+1 >= s.Last {
		return false
	}
	comma := c.tokens[i].Is(',')
	if !comma && !c.info[i].is(be) {
		return false
	}
	i++
	for i < s.Last && c.info[i].is(adverb|be) && c.lower(i) {
		i++
	}
	if i < s.Last && c.info[i].is(writing) {
		return !comma
	}
	if i >= s.Last || !c.info[i].is(det) || c.tokens[i].Hash == hashThe && comma {
		return false
	}
	for n := 0; n < 4; n++ {
		if i++; i >= s.Last || !c.lower(i) || c.info[i].flags&(prep|conj|finite) != 0 && c.info[i].near == 0 {
			return false
		}
		if c.info[i].near == tPublication && !c.info[i].is(role) {
			return true
		}
	}
	return false
}

// typeTitle types a title by what says that it is one.
func (d *document) typeTitle(c *chunk, r *run) {
	switch r.title {
	case saidWork:
		r.take(tPublication, 0.8, "title")
	case quotedWork:
		// A quotation of a word or two may be anything.
		if r.last-r.first >= 3 {
			r.take(tPublication, 0.6, "quoted title")
		} else {
			r.implied = tPublication
		}
	}
}

// trimTitle gives back the article of a run that turned out to be no work: The Guardian is Guardian.
func (d *document) trimTitle(c *chunk, r *run) {
	if r.title != articleWork || r.rule == "name" || r.typ == tPublication && r.rule != "head word" || !c.info[r.first].is(det) || r.last-r.first < 2 {
		return
	}
	r.first++
	r.start = int(c.tokens[r.first].Start)
	c.runAt[r.first-1] = 0
	d.keyOf(c, r)
}

// keyOf sets the key of a run by its tokens.
func (d *document) keyOf(c *chunk, r *run) {
	d.hashes = d.hashes[:0]
	for i := r.first; i < r.last; i++ {
		d.hashes = append(d.hashes, c.tokens[i].Hash)
	}
	r.key = hashPhrase(d.hashes)
}
