package rules

import (
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

var (
	hashThe        = prose.Hash("the")
	hashOf         = prose.Hash("of")
	hashFor        = prose.Hash("for")
	hashAnd        = prose.Hash("and")
	hashBy         = prose.Hash("by")
	hashTo         = prose.Hash("to")
	hashIn         = prose.Hash("in")
	hashAs         = prose.Hash("as")
	hashUsed       = prose.Hash("used")
	hashManaged    = prose.Hash("managed")
	hashVer        = prose.Hash("version")
	hashSt         = prose.Hash("st")
	hashAt         = prose.Hash("at")
	hashFrom       = prose.Hash("from")
	hashNear       = prose.Hash("near")
	hashOn         = prose.Hash("on")
	hashOutside    = prose.Hash("outside")
	hashBetween    = prose.Hash("between")
	hashComes      = prose.Hash("comes")
	hashCame       = prose.Hash("came")
	hashHails      = prose.Hash("hails")
	hashStaff      = prose.Hash("staff")
	hashBased      = prose.Hash("based")
	hashBefore     = prose.Hash("before")
	hashA          = prose.Hash("a")
	hashAn         = prose.Hash("an")
	hashThat       = prose.Hash("that")
	hashWith       = prose.Hash("with")
	hashSold       = prose.Hash("sold")
	hashUntil      = prose.Hash("until")
	hashOnce       = prose.Hash("once")
	hashAccord     = prose.Hash("according")
	hashFormerly   = prose.Hash("formerly")
	hashPreviously = prose.Hash("previously")
	hashOne        = prose.Hash("one")
	hashAlong      = prose.Hash("along")
	hashAcross     = prose.Hash("across")
	hashIts        = prose.Hash("its")
	hashWithout    = prose.Hash("without")
	hashIncluded   = prose.Hash("included")
	hashInclude    = prose.Hash("include")
	hashBoth       = prose.Hash("both")
	hashThey       = prose.Hash("they")
	hashWhich      = prose.Hash("which")
	hashTheir      = prose.Hash("their")
	hashGeneral    = prose.Hash("general")
	hashAfter      = prose.Hash("after")
	hashSince      = prose.Hash("since")
	hashHaving     = prose.Hash("having")
)

const maxRun = 12 // tokens

// findRuns finds the runs of the chunk, in order.
func (d *document) findRuns(c *chunk) {
	c.runs = c.runs[:0]
	for k := range c.sents {
		s := &c.sents[k]
		if c.codeLike(s) {
			continue
		}
		heading := s.Heading || c.titleCase(s)
		for i := s.First; i < s.Last; {
			if r, ok := c.titleFrom(s, i); ok && !heading {
				r.sent = int32(k)
				if n := d.listed(c, s, i); n > r.last-r.first {
					r.last = i + n // a listed title may hold what no other does
				}
				d.add(c, r)
				i = r.last
				continue
			}
			next := d.runFrom(c, s, int32(k), i, heading)
			i = max(next, i+1)
		}
	}
	if d.rs.patterns {
		d.userPatterns(c)
	}
	for i := range c.runs {
		r := &c.runs[i]
		for t := r.first; t < r.last; t++ {
			c.runAt[t] = int32(i + 1)
		}
	}
}

// codeLike tells a sentence that holds data, not prose: "key": value, or braces around quotes.
func (c *chunk) codeLike(s *prose.Sentence) bool {
	for i := s.First; i+1 < s.Last; i++ {
		if t := &c.tokens[i]; t.Kind == prose.Punct && !c.tokens[i+1].Space {
			switch rune(t.Hash) {
			case '"':
				if c.tokens[i+1].Is(':') {
					return true
				}
			case '{', '[':
				if c.tokens[i+1].Is('"') || c.tokens[i+1].Is('{') {
					return true
				}
			}
		}
	}
	return false
}

// titleCase tells a line whose capitals say nothing: most words are capitalised and no full stop ends it, or all are in capitals.
func (c *chunk) titleCase(s *prose.Sentence) bool {
	words, upper, caps := 0, 0, 0
	for i := s.First; i < s.Last; i++ {
		t := &c.tokens[i]
		if t.Kind != prose.Word || t.End-t.Start < 4 {
			continue
		}
		words++
		if t.Shape&prose.Upper != 0 {
			upper++
		}
		if t.Shape&prose.Caps != 0 {
			caps++
		}
	}
	if words >= 4 && caps*10 >= words*7 {
		return true
	}
	last := &c.tokens[s.Last-1]
	ended := last.Is('.') || last.Is('!') || last.Is('?') || last.Is('|')
	return !ended && words >= 3 && upper == words && s.Last-s.First > 4
}

// capital tells whether token i may stand in a name.
func (c *chunk) capital(i int) bool {
	t := &c.tokens[i]
	if t.Kind != prose.Word || t.Shape&(prose.Upper|prose.Mixed) == 0 || t.Hash == prose.Possessive {
		return false
	}
	return c.info[i].flags&stop == 0
}

// runFrom reads the run at token i, if there is one, and returns where to go on.
func (d *document) runFrom(c *chunk, s *prose.Sentence, sent int32, i int, heading bool) int {
	t := &c.tokens[i]
	if n := d.smallName(c, s, i); n > 0 && t.Shape&prose.Uncased == 0 {
		d.add(c, run{first: i, last: i + n, sent: sent, head: -1, heading: heading})
		return i + n
	}
	if t.Kind != prose.Word {
		return i + 1
	}
	if t.Shape&prose.Uncased != 0 {
		if n := t.End - t.Start; n <= 30 {
			d.add(c, run{first: i, last: i + 1, sent: sent, uncased: true, head: -1})
		}
		return i + 1
	}
	if t.Shape&(prose.Upper|prose.Mixed) == 0 {
		return i + 1
	}
	if n := d.gazetteer(c, s, i); n > 0 && !(n == 1 && c.extends(s, i)) && !(n > 1 && c.headNext(s, i+n-1)) {
		d.add(c, run{first: i, last: i + n, sent: sent, head: -1, heading: heading})
		return i + n
	}
	first, honor := i, false
	for first < s.Last && c.info[first].is(honorific) && d.prefixOf(c, first) == 0 && c.tokens[first].Shape&prose.Upper != 0 && first+1 < s.Last && c.capital(first+1) && !(c.tokens[first].Hash == hashGeneral && c.info[first+1].in == tOrganization && c.headNext(s, first)) {
		first, honor = first+1, true
	}
	if !c.capital(first) || c.info[first].is(role) && !c.info[first].is(given) && !c.headNext(s, first) {
		return first + 1
	}
	last, head := c.extend(s, first, honor)
	if last < s.Last && first > s.First && d.hint(c, first-1).near > 0 && c.capital(last) && !(last+1 < s.Last && c.capital(last+1)) {
		last, head = last+1, last // the cutter Wren Dancer
	}
	if last < s.Last && c.lower(last) && d.hint(c, last).tail && !c.info[last].is(given) {
		last, head = last+1, last
	}
	return d.finish(c, s, run{first: first, last: last, head: head, sent: sent, honor: honor, heading: heading})
}

// extends tells whether a name goes on after token i, so that a place alone is not all of it.
func (c *chunk) extends(s *prose.Sentence, i int) bool {
	if i+1 >= s.Last {
		return false
	}
	if c.capital(i+1) && c.tokens[i+1].Hash != prose.Possessive {
		return true
	}
	return c.tokens[i+1].Is('&')
}

// gazetteer returns the length of the longest name at i that the schema or the list of places knows.
func (d *document) gazetteer(c *chunk, s *prose.Sentence, i int) int {
	best := 0
	h := uint64(0)
	d.hashes = d.hashes[:0]
	for n := 1; n <= d.rs.longest && i+n <= s.Last; n++ {
		h = c.tokens[i+n-1].Hash
		d.hashes = append(d.hashes, h)
		key := hashPhrase(d.hashes)
		if d.rs.names[key] > 0 || n > 1 && d.rs.places[key] || n == 1 && c.info[i].is(place) && !c.info[i].is(stop) {
			best = n
		}
	}
	return best
}

// extend returns where the run that begins at first ends, and the token of its head noun.
func (c *chunk) extend(s *prose.Sentence, first int, honor bool) (last, head int) {
	last, head = first+1, first
	fixed := false // the head stands before "of"
	for last < s.Last && last-first < maxRun {
		prev, next := last-1, last
		if c.tokens[prev].Shape&prose.Dotted != 0 && c.info[prev].is(orgSuffix) && !c.info[next].is(orgSuffix) {
			return last, head
		}
		t, e := &c.tokens[next], c.info[next]
		switch {
		case c.capital(next):
			if e.is(role) && !e.is(given) && !c.roleIsSurname(s, first, next) && e.in == 0 && !c.headNext(s, next) {
				return last, head
			}
			if e.is(honorific) && e.in == 0 && !c.info[prev].is(given) && !(t.Hash == hashGeneral && c.headNext(s, next)) { // Tavelund General Hospital
				return last, head
			}
			last++
			if !fixed {
				head = next
			}
			continue
		case t.Kind == prose.Word && t.Shape&prose.Upper != 0 && e.is(stop) && c.countWord(t.Hash) && (!c.info[prev].is(given) || first > s.First && c.tokens[first-1].Hash == hashThe):
			return next + 1, head // the Vireo One
		case c.lower(next) && c.joinedCapital(next):
			last++ // Abd al-Rahman
			if !fixed {
				head = next
			}
			continue
		case t.Is('&') && next+1 < s.Last && c.capital(next+1):
			last += 2
			if !fixed {
				head = next + 1
			}
			continue
		case t.Hash == hashOf && t.Kind == prose.Word && c.headed(prev, fixed), t.Hash == hashFor && c.info[prev].in == tOrganization && !fixed:
			if n := c.ofTail(s, next); n > 0 {
				fixed = true
				last = next + n
				continue
			}
		case t.Hash == hashAnd && fixed && c.info[prev].is(topic) && next+1 < s.Last && c.capital(next+1) && c.info[next+1].is(topic):
			last += 2
			continue
		case e.is(particle) && c.lower(next) && e.flags&(det|pronoun) == 0 && next+1 < s.Last:
			n := 1
			if c.info[next+1].is(particle) && c.lower(next+1) && next+2 < s.Last {
				n = 2
			}
			if c.capital(next + n) {
				last = next + n + 1
				if !fixed {
					head = last - 1
				}
				continue
			}
		case t.Hash == prose.Possessive && next+1 < s.Last && c.capital(next+1) && c.info[next+1].in > 0 &&
			(c.tokens[first].Hash == hashSt || c.info[first].is(honorific)): // St. Mary's Hospital, King's College
			last, head = next+2, next+1
			continue
		case t.Kind == prose.Number && c.numbered(s, next):
			return last + 1, head
		}
		break
	}
	if last+1 < s.Last && c.tokens[last].Is(',') && c.info[last+1].is(orgSuffix) && c.capital(last+1) {
		return last + 2, last + 1
	}
	return last, head
}

var countWords = map[uint64]bool{
	prose.Hash("one"): true, prose.Hash("two"): true, prose.Hash("three"): true, prose.Hash("four"): true, prose.Hash("five"): true,
	prose.Hash("six"): true, prose.Hash("seven"): true, prose.Hash("nine"): true, prose.Hash("ten"): true,
}

// countWord tells a number that may end a name when it is capitalised.
func (c *chunk) countWord(h uint64) bool { return countWords[h] }

// joinedCapital tells al-Rahman: small letters, a hyphen, a capital.
func (c *chunk) joinedCapital(i int) bool {
	w := c.word(i)
	at := strings.IndexByte(w, '-')
	return at > 0 && at <= 3 && at+1 < len(w) && w[at+1] >= 'A' && w[at+1] <= 'Z'
}

// headNext tells whether a head noun follows a word for a role that is part of its name: Weaver Street, Mason County.
func (c *chunk) headNext(s *prose.Sentence, i int) bool {
	if i+1 >= s.Last || !c.capital(i+1) {
		return false
	}
	e := c.info[i+1]
	return (e.in > 0 || e.suffix > 0) && !e.is(given|role)
}

// headed tells whether a name goes on with "of" after token i.
func (c *chunk) headed(i int, fixed bool) bool {
	e := c.info[i]
	return !fixed && (e.in > 0 || e.is(thing) || e.near > 0 && !e.is(role)) && !e.is(role)
}

// ofTail returns the length of "of (the) Name" at i, up to its first name word.
func (c *chunk) ofTail(s *prose.Sentence, i int) int {
	n := 1
	if i+n < s.Last && c.tokens[i+n].Hash == hashThe {
		n++
	}
	if i+n >= s.Last || !c.capital(i+n) {
		return 0
	}
	if c.info[i-1].in == tLocation && i-2 >= s.First && c.capital(i-2) && !c.info[i-1].is(realm) {
		return 0 // the Old Quarter of Wickham
	}
	// "Cardiology Department of Penhale Hospital": two names.
	if i-2 >= s.First && c.capital(i-2) && c.info[i-1].in == tOrganization {
		k := i + n
		for k+1 < s.Last && c.capital(k+1) {
			k++
		}
		if k > i+n && (c.info[k].in == tOrganization || c.info[k].suffix == tOrganization) {
			return 0
		}
	}
	return n + 1
}

// roleIsSurname: Baker in "Jane Baker", not Director in "Acme Director Jane Roe".
func (c *chunk) roleIsSurname(s *prose.Sentence, first, i int) bool {
	if !c.info[i-1].is(given) && c.tokens[i-1].Shape&prose.Initial == 0 {
		return false
	}
	return i+1 >= s.Last || !c.capital(i+1)
}

// numbered tells whether the number at i belongs to the name before it: Apollo 11, not "Acme 12 people" and not a year.
func (c *chunk) numbered(s *prose.Sentence, i int) bool {
	t := &c.tokens[i]
	if t.End-t.Start > 3 || !t.Space || strings.ContainsAny(c.word(i), ".,") {
		return false
	}
	if c.info[i-1].month > 0 || c.info[i-1].known > 0 {
		return false
	}
	if i+1 >= s.Last {
		return true
	}
	n := &c.tokens[i+1]
	if c.lower(i+1) && (c.info[i+1].near > 0 || c.info[i+1].flags&(thing|soft) != 0 && endsInS(c.word(i+1))) {
		return true // Heron 4 drones
	}
	return n.Kind == prose.Punct && !n.Is('%') && !n.Is('.') && !n.Is('-') && !n.Is('–') || c.info[i+1].flags&(be|aux|modal|finite|conj|relative) != 0 ||
		n.Is('.') && i+2 >= s.Last
}

// finish trims a run and adds it where something is left. It returns where to go on.
func (d *document) finish(c *chunk, s *prose.Sentence, r run) int {
	end := r.last
	r.first = d.trimFirst(c, s, r)
	for r.last > r.first && c.trimmed(r.last-1) && r.head != r.last-1 {
		r.last--
	}
	for r.first < r.last && c.info[r.first].is(notName) && !c.hasHead(&r) && !(c.info[r.first].is(given) && r.last-r.first > 1) {
		r.first++
	}
	for r.last > r.first && c.info[r.last-1].is(notName) && c.info[r.last-1].in == 0 {
		r.last--
	}
	if r.first >= r.last {
		return end
	}
	if r.last == r.first+1 && c.info[r.first].is(soft) && !c.info[r.first].is(given) {
		return end
	}
	if r.head < r.first || r.head >= r.last {
		r.head = r.last - 1
	}
	r.initial = r.last == r.first+1 && c.opens(s, r.first)
	if r.last < s.Last && c.lower(r.last) && c.info[r.last].is(eventTail) && r.first > s.First && c.info[r.first-1].is(det) && c.nounEnds(s, r.last) {
		r.head = r.last
		r.last++
		end = r.last
	}
	d.add(c, r)
	return end
}

func (c *chunk) trimmed(i int) bool {
	return c.tokens[i].Kind == prose.Punct || c.lower(i)
}

func (c *chunk) hasHead(r *run) bool {
	e := c.info[r.last-1]
	return r.last-r.first > 1 && (e.in > 0 || e.suffix > 0 || e.is(orgSuffix) || e.is(thing) || r.head >= r.first && r.head < r.last && c.info[r.head].in > 0)
}

// opens tells whether token i begins its sentence, marks aside.
func (c *chunk) opens(s *prose.Sentence, i int) bool {
	for k := i - 1; k >= s.First; k-- {
		if c.tokens[k].Kind == prose.Word && !(c.tokens[k+1].Is(',') && c.info[k].flags&(adverb|stop) != 0) {
			return false
		}
		if c.tokens[k].Is(':') {
			return true
		}
	}
	return true
}

// trimFirst drops a first word that is capitalised because a sentence begins with it.
func (d *document) trimFirst(c *chunk, s *prose.Sentence, r run) int {
	if r.honor || !c.opens(s, r.first) || r.last-r.first < 2 {
		return r.first
	}
	e := c.info[r.first]
	if e.is(soft) && !e.is(given) && !c.hasHead(&r) {
		return r.first + 1
	}
	if len(d.hint(c, r.first).prefixes) > 0 || e.flags&(given|place|orgSuffix) != 0 || c.tokens[r.first].Shape&(prose.Initial|prose.Caps) != 0 {
		return r.first
	}
	if e.is(adjective) || e.in > 0 || e.before > 0 {
		if c.hasHead(&r) || e.before > 0 || e.in > 0 && r.head == r.first {
			return r.first
		}
		return r.first + 1
	}
	if d.lowers.has(c.tokens[r.first].Hash) || e.flags&(adverb|prep|finite|relative|ifWord|opinion) != 0 || strings.HasSuffix(c.word(r.first), "ly") {
		return r.first + 1
	}
	return r.first
}

// add appends a run with its bounds and key.
func (d *document) add(c *chunk, r run) {
	if n := len(c.runs); n > 0 && c.runs[n-1].last > r.first {
		return
	}
	r.start, r.end = int(c.tokens[r.first].Start), int(c.tokens[r.last-1].End)
	if last := &c.tokens[r.last-1]; last.Shape&prose.Dotted != 0 && c.info[r.last-1].is(orgSuffix) && r.last >= c.sents[r.sent].Last {
		r.end-- // the dot may be the sentence's: a name has it where it cannot be
	} else if last.Shape&prose.Initial != 0 && r.last == r.first+1 && r.last >= c.sents[r.sent].Last {
		r.end-- // "written in C."
	}
	d.keyOf(c, &r)
	r.emitted = -1
	c.runs = append(c.runs, r)
}
