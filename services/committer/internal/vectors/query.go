package vectors

import (
	"cmp"
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

// Stats says what one search took.
type Stats struct {
	Sketched int // words and names of which only the sketch was looked at, or first
	Summed   int // words whose sketch was not enough to leave them
	Words    int // found near enough to look at the names that have them
	Compared int // stored vectors whose score was computed, roughly or exactly
	Exact    int // of these exactly: embed.Cosine
}

// slack is more than a sum of products in float64 and embed.Cosine of the float32 vectors can differ.
const slack = 1e-6

// scanUnder is the threshold under which every name is looked at: words that a query hardly contains lead nowhere.
const scanUnder = 0.5

// found is a vector that may be a hit: rough is within slack of its score (dense: within its own error, which is added).
type found struct {
	id    uuid
	rough float64
	exact func() (float64, error)
}

// query is one search. Its floor rises with what is found, so that the best k come out of it whatever the order.
type query struct {
	vector []float32
	weight []float64 // by feature
	levels levels
	counts counts
	k      int
	drop   float64
	floor  float64   // no score under it can be among the hits
	cut    float64   // floor less slack: no rough score under it can be
	best   []float64 // lower bounds of the scores of the best k found, a heap with the least first
	found  []found
	stats  Stats
}

func newQuery(vector []float32, k int, drop float64) *query {
	return &query{vector: vector, k: k, drop: drop, floor: drop, cut: drop - slack, best: make([]float64, 0, min(k, 1024))}
}

// weigh prepares the query for names.
func (q *query) weigh() {
	if q.weight != nil {
		return
	}
	q.weight = make([]float64, 2*len(q.vector))
	for d, v := range q.vector {
		q.weight[2*d], q.weight[2*d+1] = float64(v), -float64(v)
	}
	q.levels = levelsOf(q.weight)
	q.counts = countsOf(q.weight)
}

// take remembers a vector whose score lies within low and high, and raises the floor when k are known to be better.
func (q *query) take(low float64, f found) {
	q.found = append(q.found, f)
	switch {
	case len(q.best) < q.k:
		q.best = append(q.best, low)
		siftUp(q.best)
	case low > q.best[0]:
		q.best[0] = low
		siftDown(q.best)
	}
	if len(q.best) == q.k {
		q.floor = max(q.floor, q.best[0])
		q.cut = q.floor - slack
	}
	if len(q.found) > 4*q.k+256 {
		q.found = slices.DeleteFunc(q.found, func(f found) bool { return f.rough < q.cut })
	}
}

func siftUp(h []float64) {
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if h[p] <= h[i] {
			return
		}
		h[p], h[i] = h[i], h[p]
		i = p
	}
}

func siftDown(h []float64) {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// hits computes the exact scores of what may be a hit: the best k of drop and more, best first, of equal ones the least id.
func (q *query) hits() ([]Hit, error) {
	type scored struct {
		id    uuid
		score float64
	}
	var out []scored
	for _, f := range q.found {
		if f.rough < q.cut {
			continue
		}
		s, err := f.exact()
		if err != nil {
			return nil, err
		}
		q.stats.Exact++
		if s >= q.drop {
			out = append(out, scored{f.id, s})
		}
	}
	slices.SortFunc(out, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), less(a.id, b.id)) })
	hits := make([]Hit, 0, min(q.k, len(out)))
	for _, s := range out[:min(q.k, len(out))] {
		hits = append(hits, Hit{ID: s.id.String(), Score: s.score})
	}
	return hits, nil
}

// shortChain of a group is looked at name by name; so is what is less than a 50th of the names.
const shortChain = 2000

// names looks through an index of names; those of one group unless group is any64.
func (q *query) names(x *words, group uint64) {
	if len(x.slots) == x.dead {
		return
	}
	q.weigh()
	if group != any64 {
		i, ok := x.chains.known[group]
		if !ok {
			return
		}
		if n := int(x.chains.groups[i].n); n <= max(shortChain, len(x.slots)/50) {
			q.chain(x, x.chains.groups[i].last)
			return
		}
	}
	if q.floor < scanUnder {
		q.scan(x, group)
		return
	}
	s := search{query: q, words: x, group: group, seen: map[uint32]bool{}}
	s.common()
	for i := range x.groups {
		s.look(&x.groups[i])
	}
}

// chain looks at the names of a group.
func (q *query) chain(x *words, at uint32) {
	for {
		if sl := &x.slots[at]; !sl.dead {
			q.stats.Compared++
			var rough float64
			if sl.squares > 0 {
				for _, p := range sl.parts[:sl.n] {
					rough += q.score(&x.parts[p])
				}
				rough /= root(sl.squares)
			}
			if rough >= q.cut {
				q.keep(x, at, rough)
			}
		}
		next := x.chains.next[at]
		if next == at {
			return
		}
		at = next
	}
}

// search is one walk through names.
type search struct {
	*query
	words *words
	group uint64          // any64: all
	seen  map[uint32]bool // slots in found: most are met under several of their parts
	// Parts that are to be summed up, some at a time: their memory is then waited for at once.
	ahead   [16]uint32
	aheads  int
	touched byte
	// What common parts score at most: each, and those of a class over the name's length.
	commons []float32
	lower   [kinds]float64
}

// look for parts that the query contains well enough.
func (s *search) look(g *group) {
	s.stats.Sketched += len(g.parts)
	if g.matrix.n == 0 {
		for _, p := range g.parts {
			s.part(p)
		}
		return
	}
	least := math.Inf(1)
	for c, l := range g.least {
		if !math.IsInf(l, 1) {
			least = min(least, max(0, s.cut-s.lower[c])*l)
		}
	}
	g.matrix.lanes(&s.counts, 0, s.counts.least(least, g.extra), func(lane, n int) {
		if d := &g.needs[lane]; s.needed(&d.least, s.counts.most(n, d.extra), rootLow(d.squares)/steps) {
			s.ahead[s.aheads] = g.parts[lane]
			if s.aheads++; s.aheads == len(s.ahead) {
				s.sum()
			}
		}
	})
	s.sum()
}

// sum sums up what is ahead. What a part needs lies in three places, far apart in a large index; they are asked for before the first is looked at.
func (s *search) sum() {
	ahead := s.ahead[:s.aheads]
	for _, p := range ahead {
		pt := &s.words.parts[p]
		if len(pt.key) > 0 {
			s.touched += pt.key[0]
		}
		if len(pt.light) > 0 {
			s.touched += pt.light[0].step
		}
		if len(pt.posts) > 0 {
			s.touched += pt.posts[0].extra
		}
	}
	for _, p := range ahead {
		s.part(p)
	}
	s.aheads = 0
}

// needed says whether a sum may be enough for some of the names of a part, by their least shares in steps of its length.
func (s *search) needed(least *[kinds]uint8, sum, length float64) bool {
	for c, step := range least {
		if cut := s.cut - s.lower[c]; step < math.MaxUint8 && (cut <= 0 || sum >= cut*float64(step)*length) {
			return true
		}
	}
	return false
}

// part sums one up, and looks at its names where that is enough.
func (s *search) part(at uint32) {
	s.stats.Summed++
	p := &s.words.parts[at]
	sum, length := s.score(p), rootLow(p.squares)/steps
	for i := 0; i < len(p.lists) && sum >= s.cut*float64(p.least[0])*length; i++ {
		if l := &p.lists[i]; sum >= s.cut*float64(l.step)*length {
			s.list(at, l, sum)
		}
	}
	for c, step := range p.least[1:] {
		if cut := s.cut - s.lower[c+1]; step < math.MaxUint8 && (cut <= 0 || sum >= cut*float64(step)*length) {
			s.light(at, p, sum)
			return
		}
	}
}

// list looks at names that have a part.
func (s *search) list(part uint32, l *list, sum float64) {
	s.stats.Words++
	for _, o := range l.slots {
		s.slot(part, sum, o)
	}
	s.stats.Sketched += len(l.more) + l.names
	for i := range l.bunches {
		c := &l.bunches[i]
		least := s.counts.least(s.cut*float64(c.key.quarters)/4-sum, c.key.extra)
		c.matrix.lanes(&s.counts, 1, least, func(lane, _ int) { s.slot(part, sum, c.slots[lane]) })
	}
	for i := range l.more {
		if o := &l.more[i]; s.reaches(o, sum) {
			s.slot(part, sum, o.slot)
		}
	}
}

// reaches says whether a post may score enough with a part of a known sum.
func (s *search) reaches(o *post, sum float64) bool {
	need := s.cut*rootLow(o.squares) - sum
	n := o.rest.common(&s.levels.up[0]) + o.twice.common(&s.levels.planes[0]) + int(o.extra)
	if float64(n)*s.levels.top*(1+slack) < need && o.extra != math.MaxUint8 {
		return false
	}
	return s.levels.wideReaches(o, need)
}

// slot computes the score of a name that has a part with a known sum.
func (s *search) slot(part uint32, sum float64, at uint32) {
	sl := &s.words.slots[at]
	if sl.dead || s.group != any64 && s.words.chains.of(at) != s.group {
		return
	}
	s.stats.Compared++
	left := true
	for _, p := range sl.parts[:sl.n] {
		if p == part && left {
			left = false
			continue
		}
		sum += s.score(&s.words.parts[p])
	}
	if sum < s.cut*rootLow(sl.squares) {
		return
	}
	if rough := sum / root(sl.squares); rough >= s.cut && !s.seen[at] {
		s.seen[at] = true
		s.keep(s.words, at, rough)
	}
}

// score sums a part up.
func (q *query) score(p *part) (sum float64) {
	key := p.key[:2*p.n]
	for i := 0; i+1 < len(key); i += 2 {
		sum += q.weight[embed.Feature(key[i])|embed.Feature(key[i+1])<<8]
	}
	return sum
}

// keep takes a name with its rough score.
func (q *query) keep(x *words, at uint32, rough float64) {
	q.take(rough-slack, found{id: x.slots[at].id, rough: rough, exact: func() (float64, error) {
		return embed.Cosine(q.vector, x.vector(at)), nil
	}})
}

// scan looks at every name.
func (q *query) scan(x *words, group uint64) {
	scores := make([]float64, len(x.parts))
	for i := range x.parts {
		scores[i] = q.score(&x.parts[i])
	}
	for at := range x.slots {
		sl := &x.slots[at]
		if sl.dead || group != any64 && x.chains.of(uint32(at)) != group {
			continue
		}
		q.stats.Compared++
		var rough float64
		if sl.squares > 0 {
			for _, p := range sl.parts[:sl.n] {
				rough += scores[p]
			}
			rough /= root(sl.squares)
		}
		if rough >= q.cut {
			q.keep(x, uint32(at), rough)
		}
	}
}
