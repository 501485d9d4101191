package split

import (
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/token"
)

// bytesPerToken bounds a chunk's length: a token has at most 12 bytes, so what is longer than this is mostly white space.
const bytesPerToken = 64

// packer joins pieces of the text, given in order, into chunks.
type packer struct {
	text    string
	size    int // most tokens of a chunk
	minSize int
	// limit is what a chunk's own text may have: size less the prefix's tokens.
	limit        int
	prefix       string
	prefixTokens int

	out []graph.Chunk
	cur open
}

// open is the chunk being filled. A run of headings at its end (tail) can still move to the next chunk, so that no heading is
// parted from what it heads.
type open struct {
	span
	tokens int
	kind   string // "" while there are only headings
	path   []string

	tail       bool
	tailStart  int
	tailTokens int
	tailPath   []string
	bodyEnd    int // end of what stands before the tail
}

func (p *packer) empty() bool { return p.cur.end == 0 }

// fits says whether a piece of n tokens that ends at end can join the open chunk.
func (p *packer) fits(n, end int) bool {
	return p.cur.tokens+n <= p.limit && end-p.cur.start <= p.limit*bytesPerToken
}

// section ends the open chunk at a section's start once it has the minimum.
func (p *packer) section() {
	if p.cur.tokens >= p.minSize {
		p.flush()
	}
}

// block adds a block, taken apart where it is over the cap.
func (p *packer) block(s span, kind string, path []string) {
	p.add(s, kind, path, levels[kind])
}

// add adds a piece; rest are the cuts that are left to try when it is too large.
func (p *packer) add(s span, kind string, path []string, rest []cutter) {
	s = trim(p.text, s)
	if s.start == s.end {
		return
	}
	body := p.text[s.start:s.end]
	if len(body) <= p.limit*bytesPerToken {
		if n, end := token.Cut(body, p.limit); end == len(body) {
			p.join(s, n, kind, path)
			return
		}
	}
	if len(rest) == 0 {
		p.addWord(s, kind, path)
		return
	}
	if p.cur.tokens >= p.minSize {
		p.flushBefore(0)
	}
	for i := s.start; i < s.end; {
		end := rest[0](p.text, i, s.end)
		p.add(span{i, end}, kind, path, rest[1:])
		i = end
	}
}

// join adds a piece of n tokens that is under the cap.
func (p *packer) join(s span, n int, kind string, path []string) {
	if !p.empty() && !p.fits(n, s.end) {
		p.flushBefore(n)
		if !p.empty() && !p.fits(n, s.end) {
			p.flush()
		}
	}
	c := &p.cur
	if p.empty() {
		*c = open{span: span{s.start, s.start}, path: path, bodyEnd: s.start}
	}
	if kind == Heading {
		if !c.tail {
			c.tail, c.tailStart, c.tailTokens, c.tailPath, c.bodyEnd = true, s.start, 0, path, c.end
		}
		c.tailTokens += n
	} else {
		c.tail = false
		switch c.kind {
		case "", kind:
			c.kind = kind
		default:
			c.kind = Text
		}
	}
	c.end = s.end
	c.tokens += n
}

// addWord adds a word that is over the cap, cut between its tokens.
func (p *packer) addWord(s span, kind string, path []string) {
	if p.cur.tokens >= p.minSize {
		p.flushBefore(0)
	}
	for s.start < s.end {
		room := p.limit - p.cur.tokens
		_, n := token.Cut(p.text[s.start:s.end], room)
		if s.start+n < s.end {
			n = cluster(p.text[s.start:s.end], n)
		}
		if n == 0 { // only where the open chunk leaves no room: a full one takes at least a token
			p.flush()
			continue
		}
		end := s.start + n
		if !p.empty() && end-p.cur.start > p.limit*bytesPerToken {
			p.flush()
			continue
		}
		p.join(span{s.start, end}, token.Count(p.text[s.start:end]), kind, path)
		s.start = end
		if s.start < s.end {
			p.flush()
		}
	}
}

// flush ends the open chunk.
func (p *packer) flush() {
	if p.empty() {
		return
	}
	c := p.cur
	p.cur = open{}
	kind := c.kind
	if kind == "" {
		kind = Heading
	}
	p.out = append(p.out, graph.Chunk{
		Start: c.start, End: c.end, Prefix: p.prefix, Heading: c.path, Content: kind, Tokens: c.tokens + p.prefixTokens,
	})
}

// flushBefore ends the open chunk before a piece of n tokens; headings at its end go over to the next chunk where they are
// small and the piece fits beside them.
func (p *packer) flushBefore(n int) {
	c := p.cur
	if !c.tail || c.tailStart == c.start || c.tailTokens > p.limit/2 || c.tailTokens+n > p.limit {
		p.flush()
		return
	}
	p.cur.end, p.cur.tokens = c.bodyEnd, c.tokens-c.tailTokens
	p.flush()
	p.cur = open{
		span: span{c.tailStart, c.end}, tokens: c.tailTokens, path: c.tailPath,
		tail: true, tailStart: c.tailStart, tailTokens: c.tailTokens, tailPath: c.tailPath, bodyEnd: c.tailStart,
	}
}

// table adds a table as a chunk of its own, or as groups of rows. s reaches from its caption or header to its end; head is
// where the header begins, rows where each row begins. The first group owns the bytes of caption and header; the others have
// them as their prefix. A caption, then a header, that would take over half of the chunk is not repeated.
func (p *packer) table(s span, head int, rows []int, path []string) {
	p.flush()
	defer func() {
		p.flush()
		p.limit, p.prefix, p.prefixTokens = p.size, "", 0
	}()
	body := s.end
	if len(rows) > 0 {
		body = rows[0]
	}
	prefix := p.text[s.start:body]
	if tooLong(prefix, p.size) {
		prefix = p.text[head:body]
		if tooLong(prefix, p.size) {
			prefix = ""
		}
	}
	prefixTokens := token.Count(prefix)
	repeat := func() {
		p.flush()
		p.prefix, p.prefixTokens, p.limit = prefix, prefixTokens, p.size-prefixTokens
	}
	p.add(span{s.start, body}, Table, path, levels[Table])
	for i, from := range rows {
		row := span{from, s.end}
		if i+1 < len(rows) {
			row.end = rows[i+1]
		}
		row = trim(p.text, row)
		// Only the first group has no prefix: the row that does not fit beside the header begins the second.
		if n, end := token.Cut(p.text[row.start:row.end], p.limit); p.prefix == "" && prefix != "" &&
			(end < row.end-row.start || !p.fits(n, row.end)) {
			repeat()
		}
		p.add(row, Table, path, levels[Table])
	}
}

// tooLong says whether a prefix leaves less than half of a chunk.
func tooLong(prefix string, size int) bool {
	return len(prefix) > size*bytesPerToken/2 || token.Over(prefix, size/2)
}
