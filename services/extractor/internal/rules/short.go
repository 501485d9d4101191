package rules

import (
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// stem returns the key of a name without its tail ("of Astronomy") or company suffix, and the hash of its initials.
func (d *document) stem(c *chunk, r *run) (stem, initials uint64) {
	cut := r.last
	for i := r.first + 1; i < r.last; i++ {
		if h := c.tokens[i].Hash; h == hashOf || h == hashFor {
			cut = i
			break
		}
	}
	if cut == r.last && c.info[r.last-1].is(orgSuffix) {
		for cut > r.first+1 && (c.info[cut-1].is(orgSuffix) || c.tokens[cut-1].Kind == prose.Punct) {
			cut--
		}
	}
	if cut < r.last && cut > r.first {
		if cut-r.first > 1 || c.info[r.last-1].is(orgSuffix) && c.info[r.first].in == 0 {
			d.hashes = d.hashes[:0]
			for i := r.first; i < cut; i++ {
				d.hashes = append(d.hashes, c.tokens[i].Hash)
			}
			stem = hashPhrase(d.hashes)
		}
	}
	var letters [16]byte
	n := 0
	for i := r.first; i < r.last && n < len(letters); i++ {
		if t := &c.tokens[i]; t.Kind == prose.Word && t.Shape&prose.Upper != 0 && !c.info[i].is(orgSuffix) {
			letters[n] = c.text[t.Start]
			n++
		}
	}
	if n >= 2 {
		initials = prose.Hash(string(letters[:n]))
	}
	return stem, initials
}

// acronyms notes "World Health Organization (WHO)" and "WHO (World Health Organization)".
func (d *document) acronyms(c *chunk) {
	for i := 0; i+1 < len(c.runs); i++ {
		a, b := &c.runs[i], &c.runs[i+1]
		if a.sent != b.sent || b.first != a.last+1 || !c.tokens[a.last].Is('(') || b.last >= len(c.tokens) || !c.tokens[b.last].Is(')') {
			continue
		}
		full, short := a, b
		if c.isAcronym(a) && !c.isAcronym(b) {
			full, short = b, a
		}
		if !c.isAcronym(short) || full.last-full.first < 2 {
			continue
		}
		if full.typ == 0 {
			continue
		}
		_, initials := d.stem(c, full)
		if initials != c.tokens[short.first].Hash {
			continue
		}
		d.note(c, full)
		if n := d.names[full.key]; n != nil {
			d.offer(short.key, shortForm{full: n, rule: "acronym", conf: 0.85})
		}
	}
}

func (c *chunk) isAcronym(r *run) bool {
	t := &c.tokens[r.first]
	return r.last == r.first+1 && t.Shape&prose.Caps != 0 && t.End-t.Start >= 2 && t.End-t.Start <= 8
}

// shortForms finds the short forms that each full name of the document may have. A short form of several names is nobody's.
func (d *document) shortForms() {
	for _, n := range d.order {
		if n.typ == 0 || n.conf < 0.6 || n.words < 2 {
			continue
		}
		if n.person {
			d.offer(n.last, shortForm{full: n, rule: "surname", conf: 0.75})
			if n.first != n.last {
				d.offer(n.first, shortForm{full: n, rule: "first name", conf: 0.7})
			}
			continue
		}
		if n.stem > 0 {
			d.offer(n.stem, shortForm{full: n, rule: "short form", conf: 0.8})
		}
		if n.initials > 0 && n.words >= 3 {
			d.offer(n.initials, shortForm{full: n, rule: "initials", conf: 0.65})
		}
	}
}

func (d *document) offer(key uint64, s shortForm) {
	old, ok := d.short[key]
	switch {
	case !ok:
		d.short[key] = s
	case old.full != s.full:
		if old.rule == "acronym" && s.rule != "acronym" {
			return // written out once is better than letters that fit
		}
		if s.rule == "acronym" && old.rule != "acronym" {
			d.short[key] = s
			return
		}
		old.twofold = true
		d.short[key] = old
	}
}
