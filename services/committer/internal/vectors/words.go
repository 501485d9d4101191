package vectors

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

// The vectors of an additive embedder are sums over words, and many names share few words. A name is kept as at most maxParts parts
// (a word each, or of a longer name several). With u the query and V1…Vm the parts of a stored name x, its score is
//
//	u·x = (u·V1 + … + u·Vm) / |x|, |x| = |V1 + … + Vm|
//
// Let |x| be shared out among the parts, b1 + … + bm = |x|. Where u·Vj < t·bj for every part, the score is under t: what scores t or
// more is found from some part with u·Vj of t·bj or more, whatever the shares. They are by squared lengths, so that a part has to be
// covered by the query as well as a whole name; frequent parts get more than they can bring, at the cost of the rare ones, so that a name is
// looked for under its rare words. What is said here of all parts is so of those that are not common (common.go).
//
// All parts are looked at in a first pass that takes a few nanoseconds for each: a count of the features that query and part share (matrix) gives an
// upper bound of u·V. Under a part that is near enough, the names that have it are looked at in the same way, with their other parts. The bounds are
// safe: no name of t or more is left out. Time grows with the words that a label has, and with the names that share a word of the query.
const (
	maxParts = 4
	// maxFeatures of a name that is kept as words; what has more (a chunk's text) is kept as numbers.
	maxFeatures = 600
	// steps in 1 of bj / |Vj|: the names of a part are grouped by the least of theirs, rounded down.
	steps = 16
	// many names under a part are kept with sketches.
	many = 8
	// A part that frequent names have, has overShare times its share, as long as that leaves the others underShare of theirs.
	frequent   = 200
	overShare  = 1.3
	underShare = 0.95
	// maxRoot is the largest number whose root is in a table.
	maxRoot = 1<<12 - 1
)

// crowded is how many names under a part are kept in matrices; tests lower it.
var crowded = 8192

// sketch of features: one bit for each, by its place modulo 256. Features beyond the bits are counted beside it.
type sketch [4]uint64

func (s *sketch) has(f embed.Feature) bool { return s[f>>6&3]&(1<<(f&63)) != 0 }

func (s *sketch) add(f embed.Feature) { s[f>>6&3] |= 1 << (f & 63) }

// words is an index of names of one label. Reads may run side by side, a write alone.
type words struct {
	size   int
	slots  []slot
	parts  []part
	known  map[string]uint32 // key of a part → its place
	groups []group           // parts by what they need
	at     map[groupKey]int
	common commons
	dead   int
	chains chains
}

// slot is one name.
type slot struct {
	id      uuid
	parts   [maxParts]uint32
	squares int32 // of the whole vector's length
	n       uint8 // parts
	class   uint8 // 0, or the first part is common: of this class
	dead    bool
}

// part is some words, and the names that have them.
type part struct {
	key     string // its features, two bytes each, low one first; of more words than one, then noFeature and the features of each word
	squares int32
	names   uint32 // that have it as a word
	group   int32  // where it is in groups, and at which place in that; -1 before it is
	place   int32
	n       uint16       // features
	least   [kinds]uint8 // the least share of the names of each class, 255 of none
	lists   []list       // of names without a common part
	light   []light      // names with one
	posts   []post       // of light, when there are many
}

// list is names with a part; those with a higher share of it are apart, for they are hardly looked for here.
type list struct {
	over    bool  // these have overShare of it
	step    uint8 // the least share of these
	slots   []uint32
	more    []post  // in place of slots when there are many
	bunches []bunch // in place of both when there are more; names is then how many
	names   int
}

// post is a name under a part.
type post struct {
	rest    wide   // of its other parts
	twice   sketch // of their features that were there already
	slot    uint32
	squares uint16 // of the whole vector's length, or the highest number
	extra   uint8  // features of the other parts that have neither bit, or the highest number
}

// groupKey is what parts of one group have in common.
type groupKey struct {
	bar   uint16 // about what they need, in quarters rounded down, maxBar for more
	again bool   // a feature comes more than once
}

// maxBar of a group: few parts need more.
const maxBar = 24

// group is parts that need about the same.
type group struct {
	groupKey
	extra  uint8          // features without a row, at most
	least  [kinds]float64 // least share of the length, times that of the part, of names of each class
	matrix matrix         // empty while there are few
	parts  []uint32
	needs  []need // of each part
}

// need of a part is what of it is looked at before anything else: it lies in order of the lanes.
type need struct {
	least   [kinds]uint8
	extra   uint8
	squares uint16 // or the highest number
}

func newWords(size int) *words {
	return &words{size: size, known: map[string]uint32{}, at: map[groupKey]int{}, common: newCommons()}
}

func (p *part) len() int { return int(p.n) }
func (p *part) at(i int) embed.Feature {
	return embed.Feature(p.key[2*i]) | embed.Feature(p.key[2*i+1])<<8
}

// add makes a name known and returns its slot. Names of one index have all a group, or none.
func (x *words) add(id uuid, ws [][]embed.Feature, group uint64) uint32 {
	at := uint32(len(x.slots))
	s := x.split(ws)
	s.id = id
	x.slots = append(x.slots, s)
	if group != 0 {
		x.chains.add(group, at)
	}
	if s.squares == 0 {
		return at // scores 0 with everything
	}
	for i, sh := range x.shares(&s) {
		if sh.of > 0 {
			x.post(s.parts[i], sh, at)
		}
	}
	return at
}

// share of a name's length.
type share struct {
	of   float64
	step uint8 // times the name's length over the part's, in steps, rounded down
	over bool  // it is overShare of what it would be
}

// shares of each part that is not common.
func (x *words) shares(s *slot) (out [maxParts]share) {
	var order []int
	var all, left float64
	for i, p := range s.parts[:s.n] {
		if i > 0 || s.class == 0 {
			order = append(order, i)
			all += float64(x.parts[p].squares)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.parts[s.parts[b]].names, x.parts[s.parts[a]].names), cmp.Compare(a, b))
	})
	var times [maxParts]float64
	rest := all
	left = all
	for _, i := range order {
		p := &x.parts[s.parts[i]]
		sq := float64(p.squares)
		if p.names < frequent || rest-sq <= 0 || left-overShare*sq < underShare*(rest-sq) {
			continue
		}
		times[i], out[i].over = overShare, true
		left, rest = left-overShare*sq, rest-sq
	}
	for _, i := range order {
		if times[i] == 0 {
			times[i] = left / rest
		}
		sq := x.parts[s.parts[i]].squares
		out[i].of = times[i] * float64(sq) / all
		out[i].step = uint8(min(math.MaxUint8-1, times[i]*root(sq)*root(s.squares)/all*steps*(1-1e-9)))
	}
	return out
}

// post enters a slot under a part.
func (x *words) post(p uint32, sh share, at uint32) {
	pt := &x.parts[p]
	s := &x.slots[at]
	if pt.group < 0 || sh.step < pt.least[s.class] {
		x.ungroup(pt)
		pt.least[s.class] = sh.step
		x.group(p)
	}
	if s.class > 0 {
		pt.light = append(pt.light, light{slot: at, common: x.common.known[s.parts[0]], step: sh.step, share: uint8(min(math.MaxUint8, math.Ceil(sh.of*math.MaxUint8*(1+1e-9))))})
		for n := len(pt.posts); len(pt.light) >= manyLight && n < len(pt.light); n++ {
			pt.posts = append(pt.posts, x.postOf(p, pt.light[n].slot))
		}
		return
	}
	i := slices.IndexFunc(pt.lists, func(l list) bool { return l.over == sh.over })
	if i < 0 {
		i = len(pt.lists)
		pt.lists = append(pt.lists, list{over: sh.over, step: sh.step})
	}
	l := &pt.lists[i]
	l.step = min(l.step, sh.step)
	switch {
	case l.bunches != nil:
		x.enter(l, p, at)
	case len(l.more) >= crowded:
		for _, o := range l.more {
			x.enter(l, p, o.slot)
		}
		l.more = nil
		x.enter(l, p, at)
	case l.more == nil && len(l.slots) < many:
		l.slots = append(l.slots, at)
	default:
		for _, o := range l.slots {
			l.more = append(l.more, x.postOf(p, o))
		}
		l.slots = nil
		l.more = append(l.more, x.postOf(p, at))
	}
}

// enter puts a name where many are.
func (x *words) enter(l *list, p, at uint32) {
	l.bunches = enter(l.bunches, root(x.slots[at].squares), x.restOf(p, at), at)
	l.names++
}

// group enters a part where those are that need about the same.
func (x *words) group(p uint32) {
	pt := &x.parts[p]
	rows, again, extra := rowsOf(x.featuresOf(p))
	var least [kinds]float64
	bar := math.Inf(1)
	for c, step := range pt.least {
		least[c] = math.Inf(1)
		if step < math.MaxUint8 {
			least[c] = float64(step) / steps * root(pt.squares) * (1 - 1e-9)
			bar = min(bar, least[c]*usual[c])
		}
	}
	k := groupKey{min(quarters(bar), maxBar), again}
	i, ok := x.at[k]
	if !ok {
		i = len(x.groups)
		x.at[k] = i
		x.groups = append(x.groups, group{groupKey: k, least: least})
	}
	g := &x.groups[i]
	g.extra = max(g.extra, extra)
	for c := range least {
		g.least[c] = min(g.least[c], least[c])
	}
	pt.group, pt.place = int32(i), int32(len(g.parts))
	g.parts = append(g.parts, p)
	g.needs = append(g.needs, need{pt.least, extra, uint16(min(pt.squares, math.MaxUint16))})
	switch {
	case g.matrix.n > 0:
		g.matrix.add(&rows)
	case len(g.parts) == fewLanes:
		for _, p := range g.parts {
			rows, _, _ := rowsOf(x.featuresOf(p))
			g.matrix.add(&rows)
		}
	}
}

// ungroup takes a part out of its group; the group's last one takes its place.
func (x *words) ungroup(pt *part) {
	if pt.group < 0 {
		return
	}
	g := &x.groups[pt.group]
	at, last := int(pt.place), len(g.parts)-1
	if g.matrix.n > 0 {
		rows, _, _ := rowsOf(x.featuresOf(g.parts[at]))
		end, _, _ := rowsOf(x.featuresOf(g.parts[last]))
		g.matrix.replace(at, &rows, &end)
	}
	g.parts[at] = g.parts[last]
	x.parts[g.parts[at]].place = int32(at)
	g.needs[at] = g.needs[last]
	g.parts, g.needs = g.parts[:last], g.needs[:last]
}

// postOf makes the entry of a slot under one of its parts.
func (x *words) postOf(p, at uint32) post {
	s := &x.slots[at]
	out := post{slot: at, squares: uint16(min(s.squares, math.MaxUint16))}
	out.rest, out.twice, out.extra = wideOf(x.restOf(p, at))
	return out
}

// restOf a name is the features of its parts but one.
func (x *words) restOf(p, at uint32) (rest []embed.Feature) {
	s := &x.slots[at]
	left := true
	for _, o := range s.parts[:s.n] {
		if o == p && left {
			left = false
			continue
		}
		rest = append(rest, x.featuresOf(o)...)
	}
	return rest
}

func (x *words) featuresOf(p uint32) []embed.Feature {
	pt := &x.parts[p]
	out := make([]embed.Feature, pt.len())
	for i := range out {
		out[i] = pt.at(i)
	}
	return out
}

// squaresOf is the squared length of the sum of features.
func (x *words) squaresOf(lists ...[]embed.Feature) int32 {
	counts := make([]int32, x.size)
	for _, fs := range lists {
		for _, f := range fs {
			counts[f.Dim()] += f.Sign()
		}
	}
	var sum int32 // at most maxFeatures²
	for _, c := range counts {
		sum += c * c
	}
	return sum
}

func (x *words) remove(at uint32) {
	if !x.slots[at].dead {
		x.slots[at].dead = true
		x.dead++
	}
}

// vector is the name's, as the embedder gave it.
func (x *words) vector(at uint32) []float32 {
	s := &x.slots[at]
	var all [maxParts][]embed.Feature
	for i, p := range s.parts[:s.n] {
		all[i] = x.featuresOf(p)
	}
	return embed.Sum(x.size, all[:s.n]...)
}

// tidy returns x without what is dead, or x itself while that is little; moved is told of each slot's new place.
func (x *words) tidy(moved func(id uuid, at uint32)) *words {
	if x.dead < 1024 || x.dead < len(x.slots)/2 {
		return x
	}
	out := newWords(x.size)
	for i := range x.slots {
		s := &x.slots[i]
		if s.dead {
			continue
		}
		var ws [][]embed.Feature
		for _, p := range s.parts[:s.n] {
			ws = append(ws, x.wordsOf(p)...)
		}
		moved(s.id, out.add(s.id, ws, x.chains.of(uint32(i))))
	}
	return out
}

// bytes is about what x takes in memory.
func (x *words) bytes() int64 {
	n := int64(cap(x.slots))*40 + int64(cap(x.parts))*120 + int64(len(x.known))*40 + x.chains.bytes() + x.common.bytes()
	for i := range x.parts {
		p := &x.parts[i]
		n += int64(len(p.key)) + int64(cap(p.lists))*88 + int64(cap(p.light))*8 + int64(cap(p.posts))*104
		for _, l := range p.lists {
			n += int64(cap(l.slots))*4 + int64(cap(l.more))*104 + int64(cap(l.bunches))*80
			for _, c := range l.bunches {
				n += c.matrix.bytes() + int64(cap(c.slots))*4
			}
		}
	}
	for i := range x.groups {
		g := &x.groups[i]
		n += g.bytes()
	}
	return n
}

func less(a, b uuid) int { return bytes.Compare(a[:], b[:]) }

func featuresIn(ws [][]embed.Feature) (n int) {
	for _, w := range ws {
		n += len(w)
	}
	return n
}

// root of a whole number; rootLow is that or less, and fast.
func root(n int32) float64 { return math.Sqrt(float64(n)) }

var roots = func() (out [maxRoot + 1]float64) {
	for i := range out {
		out[i] = math.Sqrt(float64(i))
	}
	return out
}()

func rootLow[N uint16 | int32](n N) float64 { return roots[min(int(n), maxRoot)] }
