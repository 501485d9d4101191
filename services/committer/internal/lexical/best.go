package lexical

import (
	"cmp"
	"math"
	"slices"
)

// block is how many postings share one bound.
const block = 128

// Postings are the chunks that hold one term, in memory, in rising order: 5 bytes a chunk and one a block. The zero value is an empty
// list; Add postings in any order, then Sort. Frequencies above 255 count as 255.
type Postings struct {
	nos  []uint32
	tfs  []uint8
	most []uint8 // by block: the highest frequency in it; the first and last block of a slice may be of a longer list
	top  uint8   // the highest of all
	skip int     // how many postings of the first block lie before nos[0]
}

// Add appends a posting.
func (p *Postings) Add(no, tf uint32) {
	p.nos = append(p.nos, no)
	p.tfs = append(p.tfs, uint8(min(tf, math.MaxUint8)))
}

// Sort puts the list in order, which takes little where it consists of a few runs in order, and readies it for Best. Of a chunk that was
// added twice the frequencies are added up.
func (p *Postings) Sort() {
	runs := []int{0}
	for i := 1; i < len(p.nos); i++ {
		if p.nos[i] <= p.nos[i-1] {
			runs = append(runs, i)
		}
	}
	if len(runs) > 1 {
		p.merge(runs)
	}
	p.nos, p.tfs = slices.Clip(p.nos), slices.Clip(p.tfs)
	p.most, p.top, p.skip = make([]uint8, 0, (len(p.tfs)+block-1)/block), 0, 0
	for part := range slices.Chunk(p.tfs, block) {
		m := slices.Max(part)
		p.most, p.top = append(p.most, m), max(p.top, m)
	}
}

// merge puts runs that begin at the given places in order. Those of different commits never overlap.
func (p *Postings) merge(runs []int) {
	end := func(i int) int {
		if i+1 < len(runs) {
			return runs[i+1]
		}
		return len(p.nos)
	}
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.nos[runs[a]], p.nos[runs[b]]) })
	nos, tfs := make([]uint32, 0, len(p.nos)), make([]uint8, 0, len(p.nos))
	apart := true
	for _, r := range order {
		from, to := runs[r], end(r)
		apart = apart && (len(nos) == 0 || nos[len(nos)-1] < p.nos[from])
		nos, tfs = append(nos, p.nos[from:to]...), append(tfs, p.tfs[from:to]...)
	}
	if !apart {
		nos, tfs = united(nos, tfs)
	}
	p.nos, p.tfs = nos, tfs
}

// united sorts postings and adds those of one chunk up.
func united(nos []uint32, tfs []uint8) ([]uint32, []uint8) {
	at := make([]int, len(nos))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(nos[a], nos[b]) })
	outNos, outTFs := make([]uint32, 0, len(nos)), make([]uint8, 0, len(nos))
	for _, i := range at {
		if n := len(outNos); n > 0 && outNos[n-1] == nos[i] {
			outTFs[n-1] = uint8(min(math.MaxUint8, int(outTFs[n-1])+int(tfs[i])))
			continue
		}
		outNos, outTFs = append(outNos, nos[i]), append(outTFs, tfs[i])
	}
	return outNos, outTFs
}

// Len is how many chunks hold the term.
func (p *Postings) Len() int { return len(p.nos) }

// Size is about how many bytes the list takes.
func (p *Postings) Size() int { return 5*cap(p.nos) + cap(p.most) + 96 }

// Below is the list of the chunks with numbers below limit. It shares the memory of p.
func (p *Postings) Below(limit uint32) *Postings {
	n, _ := slices.BinarySearch(p.nos, limit)
	if n == len(p.nos) {
		return p
	}
	return &Postings{nos: p.nos[:n], tfs: p.tfs[:n], most: p.most[:(p.skip+n+block-1)/block], top: p.top, skip: p.skip}
}

// TF is how often the term stands in a chunk.
func (p *Postings) TF(no uint32) int {
	if i, ok := slices.BinarySearch(p.nos, no); ok {
		return int(p.tfs[i])
	}
	return 0
}

// Scored is a chunk with its score, in units of 1/Unit: sums of whole numbers do not depend on the order of the terms.
type Scored struct {
	No    uint32
	Score int64
}

// Unit of scores.
const Unit = 1 << 30

// Span of chunk numbers: From and what follows, without To.
type Span struct{ From, To uint32 }

// Best returns the k chunks whose terms' BM25 without regard to length adds up to most, best first, of equal ones the lowest number.
// weights are the terms' IDFs. With spans, which rise and do not overlap, only the chunks in them count; nil are all. tick is asked now and
// then and ends the search with its error.
//
// The result is exact. Lists whose terms together cannot lift a chunk among the best any more are only asked about chunks that others
// have (MaxScore: Turtle and Flood, "Query evaluation: strategies and optimizations", 1995), and blocks of postings whose highest
// frequency cannot either are passed over (Ding and Suel, "Faster top-k document retrieval using block-max indexes", SIGIR 2011).
func Best(lists []*Postings, weights []float64, k int, spans []Span, tick func() error) ([]Scored, error) {
	b := best{k: k, spans: spans}
	for i, l := range lists {
		if l.Len() > 0 && weights[i] > 0 {
			c := cursor{Postings: l}
			for tf := range c.score {
				c.score[tf] = int64(math.Round(BM25(weights[i], tf, 0, 0) * Unit))
			}
			c.bound = c.score[l.top]
			b.lists = append(b.lists, &c)
		}
	}
	if k <= 0 || len(b.lists) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(b.lists, func(x, y *cursor) int { return cmp.Compare(x.bound, y.bound) })
	b.upTo = make([]int64, len(b.lists))
	sum := int64(0)
	for i, c := range b.lists {
		sum += c.bound
		b.upTo[i] = sum
	}
	if err := b.run(tick); err != nil {
		return nil, err
	}
	slices.SortFunc(b.heap, func(x, y Scored) int { return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.No, y.No)) })
	return b.heap, nil
}

// cursor is a list under way.
type cursor struct {
	*Postings
	at    int
	bound int64 // no posting scores more
	score [math.MaxUint8 + 1]int64
}

// to moves the cursor to the first chunk from no on; false behind the last.
func (c *cursor) to(no uint32) bool {
	nos := c.nos
	if c.at >= len(nos) {
		return false
	}
	if nos[c.at] >= no {
		return true
	}
	// Gallop, then search in between.
	step, lo := 1, c.at
	for lo+step < len(nos) && nos[lo+step] < no {
		lo += step
		step *= 2
	}
	i, _ := slices.BinarySearch(nos[lo:min(lo+step+1, len(nos))], no)
	c.at = lo + i
	return c.at < len(nos)
}

// best is one search for the best chunks.
type best struct {
	lists []*cursor // those that can add least first
	upTo  []int64   // what the lists up to each can add together
	spans []Span
	k     int
	heap  []Scored // the worst first
}

// floor is what a chunk must score more than.
func (b *best) floor() int64 {
	if len(b.heap) < b.k {
		return 0
	}
	return b.heap[0].Score
}

func (b *best) run(tick func() error) error {
	first := 0 // the lists from here on lead; those before it are only asked
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := tick(); err != nil {
				return err
			}
		}
		for first < len(b.lists) && b.upTo[first] <= b.floor() {
			first++
		}
		if first == len(b.lists) {
			return nil
		}
		if first == len(b.lists)-1 && !b.passOver(first) {
			return nil
		}
		no, ok := b.next(first)
		if !ok {
			return nil
		}
		b.look(no, first)
	}
}

// next is the lowest number in the spans that one of the leading lists stands at.
func (b *best) next(first int) (no uint32, ok bool) {
	for {
		no, ok = 0, false
		for _, c := range b.lists[first:] {
			if c.at < len(c.nos) && (!ok || c.nos[c.at] < no) {
				no, ok = c.nos[c.at], true
			}
		}
		if !ok || b.spans == nil {
			return no, ok
		}
		for len(b.spans) > 0 && b.spans[0].To <= no {
			b.spans = b.spans[1:]
		}
		if len(b.spans) == 0 {
			return 0, false
		}
		if no >= b.spans[0].From {
			return no, true
		}
		for _, c := range b.lists[first:] {
			c.to(b.spans[0].From)
		}
	}
}

// passOver moves the only leading list behind blocks that hold nothing good enough; false when that is all.
func (b *best) passOver(first int) bool {
	c, rest := b.lists[first], int64(0)
	if first > 0 {
		rest = b.upTo[first-1]
	}
	floor := b.floor()
	for c.at < len(c.nos) {
		at := (c.at + c.skip) / block
		if c.score[c.most[at]]+rest > floor {
			return true
		}
		c.at = (at+1)*block - c.skip
	}
	return false
}

// look scores a chunk, and moves the leading lists behind it.
func (b *best) look(no uint32, first int) {
	sum := int64(0)
	for _, c := range b.lists[first:] {
		if c.at < len(c.nos) && c.nos[c.at] == no {
			sum += c.score[c.tfs[c.at]]
			c.at++
		}
	}
	floor := b.floor()
	for i := first - 1; i >= 0; i-- {
		if sum+b.upTo[i] <= floor {
			return
		}
		if c := b.lists[i]; c.to(no) && c.nos[c.at] == no {
			sum += c.score[c.tfs[c.at]]
		}
	}
	switch {
	case len(b.heap) < b.k:
		b.heap = append(b.heap, Scored{no, sum})
		for i := len(b.heap) - 1; i > 0; {
			p := (i - 1) / 2
			if !worse(b.heap[i], b.heap[p]) {
				break
			}
			b.heap[i], b.heap[p], i = b.heap[p], b.heap[i], p
		}
	case sum > floor:
		b.heap[0] = Scored{no, sum}
		for i := 0; ; {
			c := 2*i + 1
			if c >= len(b.heap) {
				break
			}
			if c+1 < len(b.heap) && worse(b.heap[c+1], b.heap[c]) {
				c++
			}
			if !worse(b.heap[c], b.heap[i]) {
				break
			}
			b.heap[i], b.heap[c], i = b.heap[c], b.heap[i], c
		}
	}
}

// worse says whether a goes before b.
func worse(a, b Scored) bool {
	return a.Score < b.Score || a.Score == b.Score && a.No > b.No
}
