package rules

import (
	"context"
	"fmt"
	"sync"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/prose"
)

// Extractor is the mode "rules" for one schema. It is safe for concurrent use.
type Extractor struct{ rs *ruleset }

// New returns the extractor for a schema. Its tables are shared with every other one of an equal schema.
func New(s *schema.Schema) *Extractor { return &Extractor{rs: compiled(s)} }

// Name implements extract.Extractor.
func (x *Extractor) Name() string { return "rules" }

// maxWindow is how many bytes of chunks are held as tokens at once. A longer document is read window by window; what was
// learnt of a name holds for the windows after it.
const maxWindow = 512 << 10

// maxNames bounds the names that are remembered of one document.
const maxNames = 50_000

// Open implements extract.Extractor. It never fails.
func (x *Extractor) Open(_ context.Context, doc extract.Document) (extract.Reader, error) {
	d, ok := pool.Get().(*document)
	if !ok {
		d = &document{names: map[uint64]*name{}, short: map[uint64]shortForm{}}
	}
	d.rs, d.doc, d.from, d.to = x.rs, doc, 0, 0
	return d, nil
}

var pool sync.Pool

// document is the reading of one document: a window of its chunks as tokens, and the names of all so far.
type document struct {
	rs       *ruleset
	doc      extract.Document
	from, to int // the window's chunks
	chunks   []chunk
	names    map[uint64]*name
	order    []*name // names in the order of their first mention
	short    map[uint64]shortForm
	lowers   wordSet
	hashes   []uint64
	buf      emitter
}

// Close implements extract.Reader.
func (d *document) Close() {
	large := len(d.names) > maxNames/10 // a map keeps its size when it is emptied
	clear(d.names)
	clear(d.short)
	d.order = d.order[:0]
	d.doc = extract.Document{}
	for i := range d.chunks {
		d.chunks[i].text = ""
	}
	if cap(d.chunks) <= 256 && len(d.lowers.slots) <= 1<<16 && !large {
		pool.Put(d)
	}
}

// chunk is one chunk as tokens.
type chunk struct {
	text   string
	tokens []prose.Token
	info   []*entry
	sents  []prose.Sentence
	runs   []run
	runAt  []int32 // by token: its run plus one
	match  []match
}

// run is a piece of text that may name something.
type run struct {
	first, last int // tokens, last exclusive
	start, end  int // bytes of the chunk
	key         uint64
	head        int // token that says what it is, or -1
	sent        int32
	typ         uint16
	implied     uint16 // weakly
	conf        float64
	rule        string
	of          string
	initial     bool // one capitalised word that begins a sentence
	heading     bool // all around is capitalised too
	uncased     bool
	honor       bool
	title       int  // what says that it is the title of a work, or 0
	backed      bool // implied by a phrase whose other side is known
	emitted     int  // place among the chunk's items, or -1
}

// name is what a document says of one name.
type name struct {
	key         uint64
	text        string
	typ         uint16
	conf        float64
	rule        string
	weak        uint16 // type of weak evidence
	weakCount   int
	conflict    bool
	first, last uint64 // hashes of its first and last word
	words       int
	initials    uint64 // hash of the letters its words begin with
	stem        uint64 // key without the tail "of …" or the company suffix
	person      bool
}

// shortForm is a name that a short form stands for.
type shortForm struct {
	full    *name
	rule    string
	conf    float64
	twofold bool
}

// Read implements extract.Reader. Chunks are read in rising order.
func (d *document) Read(ctx context.Context, i int) (extract.Items, error) {
	if err := ctx.Err(); err != nil {
		return extract.Items{}, err
	}
	if i < 0 || i >= len(d.doc.Chunks) {
		return extract.Items{}, fmt.Errorf("chunk %d of %d", i, len(d.doc.Chunks))
	}
	if i < d.from || i >= d.to {
		d.window(i)
	}
	return d.emit(&d.chunks[i-d.from]), nil
}

// window reads the chunks from i on, as many as fit, and learns their names.
func (d *document) window(i int) {
	d.from, d.to = i, i
	size := 0
	for d.to < len(d.doc.Chunks) && (d.to == i || size < maxWindow) {
		text := d.doc.Chunk(d.to)
		if size += len(text); len(d.chunks) <= d.to-i {
			d.chunks = append(d.chunks, chunk{})
		}
		d.chunks[d.to-i].text = text
		d.to++
	}
	list := d.chunks[:d.to-d.from]
	d.lowers.reset()
	for k := range list {
		d.tokenize(&list[k])
	}
	for k := range list {
		c := &list[k]
		d.findRuns(c)
		for r := range c.runs {
			d.typeRun(c, &c.runs[r])
			d.trimTitle(c, &c.runs[r])
		}
		d.coordinate(c)
		d.findMatches(c)
		d.acronyms(c)
	}
	d.learn(list, false)
	for k := range list {
		d.implyTypes(&list[k])
		d.coordinate(&list[k])
	}
	d.learn(list, true)
	d.shortForms()
	for k := range list {
		d.settle(&list[k])
	}
}

func (d *document) tokenize(c *chunk) {
	c.tokens = prose.Tokens(c.text, c.tokens[:0])
	c.sents = prose.Sentences(c.text, c.tokens, c.sents[:0])
	c.info = c.info[:0]
	c.runAt = c.runAt[:0]
	for i := range c.tokens {
		t := &c.tokens[i]
		e := &unknown
		if t.Kind == prose.Word {
			e = d.rs.words.get(t.Hash)
			if t.Shape&prose.Caps != 0 && e.is(stop) && t.End-t.Start <= 5 && !plainCaps[t.Hash] {
				e = &unknown // WHO is not who
			}
			if (t.Hash == hashJan || t.Hash == hashSun) && t.Shape&prose.Upper != 0 && i+1 < len(c.tokens) && c.tokens[i+1].Kind == prose.Word && c.tokens[i+1].Shape&prose.Upper != 0 &&
				!d.rs.words.get(c.tokens[i+1].Hash).is(stop) && !(i > 0 && c.info[i-1].is(prep) && c.tokens[i-1].Hash == hashIn) {
				if e = &janName; t.Hash == hashSun {
					e = &unknown // Sun Yifan
				}
			}
			if t.Shape&(prose.Upper|prose.Uncased|prose.Mixed) == 0 {
				d.lowers.add(t.Hash)
			}
		}
		c.info = append(c.info, e)
		c.runAt = append(c.runAt, 0)
	}
}

// janName is the month's short name where it is a person's: Jan Eide.
var (
	hashJan = prose.Hash("jan")
	hashSun = prose.Hash("sun")
	janName = entry{hash: hashJan, flags: given}
)

// plainCaps are small words that are no acronyms in capitals either: "THE SELE TELESCOPE".
var plainCaps = map[uint64]bool{hashThe: true, hashOf: true, hashAnd: true, hashFor: true, hashBy: true, hashFrom: true, hashWith: true}

func (c *chunk) word(i int) string { return c.text[c.tokens[i].Start:c.tokens[i].End] }

func (c *chunk) lower(i int) bool {
	t := &c.tokens[i]
	return t.Kind == prose.Word && t.Shape&(prose.Upper|prose.Mixed|prose.Uncased) == 0 && t.Hash != prose.Possessive
}

// learn collects what the runs say into the document's names: for each name the best evidence. weak takes in types that are
// only implied too.
func (d *document) learn(list []chunk, weak bool) {
	for k := range list {
		c := &list[k]
		for r := range c.runs {
			if run := &c.runs[r]; run.typ > 0 || weak && run.implied > 0 {
				d.note(c, run)
			}
		}
	}
}

func (d *document) note(c *chunk, r *run) {
	n := d.names[r.key]
	if n == nil {
		if len(d.names) >= maxNames {
			return
		}
		n = &name{key: r.key, text: collapse(c.text[r.start:r.end]), words: r.last - r.first, first: c.tokens[r.first].Hash, last: c.tokens[r.last-1].Hash}
		n.stem, n.initials = d.stem(c, r)
		d.names[r.key] = n
		d.order = append(d.order, n)
	}
	if text := c.text[r.start:r.end]; len(text) == len(n.text)+1 && text[len(text)-1] == '.' && text[:len(n.text)] == n.text {
		n.text = text // "Acme Ltd" at the end of a sentence is "Acme Ltd."
	}
	if r.typ == 0 {
		if n.weak == 0 || n.weak == r.implied {
			n.weak = r.implied
			n.weakCount++
		} else {
			n.conflict = true
		}
		return
	}
	switch {
	case r.conf > n.conf || r.conf == n.conf && d.rs.before(r.typ, n.typ):
		n.typ, n.conf, n.rule = r.typ, r.conf, r.rule
	}
	n.person = n.typ == tPerson || d.rs.below(n.typ, tPerson)
}

// settle gives each run its last type: its own, or what the document says of the name.
func (d *document) settle(c *chunk) {
	for i := range c.runs {
		r := &c.runs[i]
		n := d.names[r.key]
		if s, ok := d.short[r.key]; ok && d.isShort(r, n, s) {
			if s.twofold {
				if r.typ == 0 || r.conf <= loneName {
					r.typ, r.conf, r.rule = s.full.typ, ambiguousShort, s.rule
				}
				continue
			}
			r.typ, r.conf, r.rule, r.of = s.full.typ, s.conf, s.rule, s.full.text
			continue
		}
		if n == nil {
			continue
		}
		if r.end-r.start == len(n.text)-1 && n.text[len(n.text)-1] == '.' && n.text[:len(n.text)-1] == c.text[r.start:r.end] {
			r.of = n.text
		}
		if n.typ > 0 && (r.typ == 0 || r.conf < n.conf-0.05 && (r.typ == n.typ || r.conf < 0.7)) {
			if r.initial && n.conf < 0.6 {
				continue
			}
			r.typ, r.conf, r.rule = n.typ, max(n.conf-0.05, 0.3), "document: "+n.rule
			if r.conf > 0.9 {
				r.conf = 0.9
			}
		}
		if r.typ == 0 && n.weak > 0 && !n.conflict && (!r.initial || r.backed) && !r.heading {
			r.typ, r.conf, r.rule = n.weak, weakName, "argument"
			if n.weakCount > 1 {
				r.conf, r.rule = 0.6, "arguments"
			} else if r.backed && r.implied == n.weak {
				r.conf, r.rule = backedName, "argument"
			}
		}
	}
}

const (
	weakName       = 0.45
	backedName     = 0.55
	loneName       = 0.6
	ambiguousShort = 0.4
)

// isShort tells whether a run is a short form of s.full rather than a name of its own.
func (d *document) isShort(r *run, n *name, s shortForm) bool {
	if n == s.full || r.uncased {
		return false
	}
	if r.typ == 0 || r.typ == s.full.typ {
		return true
	}
	// A name of its own that only a guess told apart.
	return r.conf <= 0.7
}

func collapse(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == ' ' && i > 0 && s[i-1] == ' ' {
			return squeeze(s)
		}
	}
	return s
}

func squeeze(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == ' ' || '\t' <= c && c <= '\r' {
			if n := len(out); n > 0 && out[n-1] != ' ' {
				out = append(out, ' ')
			}
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

// wordSet is a set of word hashes that is cheap to empty.
type wordSet struct {
	slots []uint64
	used  int
}

func (s *wordSet) reset() {
	if s.used > 0 {
		clear(s.slots)
	}
	s.used = 0
	if len(s.slots) == 0 || len(s.slots) > 1<<16 {
		s.slots = make([]uint64, 2048)
	}
}

func (s *wordSet) has(h uint64) bool {
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if s.slots[i] == h {
			return true
		}
	}
	return false
}

func (s *wordSet) add(h uint64) {
	if h == 0 {
		return
	}
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if s.slots[i] == h {
			return
		}
		if s.slots[i] == 0 {
			s.slots[i] = h
			break
		}
	}
	if s.used++; 2*s.used > len(s.slots) {
		old := s.slots
		s.slots, s.used = make([]uint64, 2*len(old)), 0
		for _, x := range old {
			s.add(x)
		}
	}
}
