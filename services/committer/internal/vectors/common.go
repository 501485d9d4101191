package vectors

import (
	"cmp"
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

// A name is not looked for under words that very many names have, as long as they are not nearly all of it: these make its common part C,
// and it is listed under its other parts R1 … Rm alone. What they have to bring is what C leaves: with the shares b1 + … + bm = 1
//
//	x scores t or more ⇒ some u·Rj ≥ bj·(t·|x| - u·C) ≥ bj·|x|·(t - s·c), where u·C ≤ s·|C| and |C| ≤ c·|x|
//
// There are few different common parts, so that s is computed for each query; c is rounded up to a class.
const (
	// commonMass of the sum of a name's squared words is the most that its common part has.
	commonMass = 0.75
	// maxCommon is how many common parts there are; names that would make another one have a smaller one, or none.
	maxCommon = 1 << 13
	// leastCommon is what s is at least; what scores less is not looked at more closely.
	leastCommon = 0.25
	// manyLight under a part are kept with sketches, too.
	manyLight = 32
	// noFeature: vectors have at most 32,766 numbers.
	noFeature = embed.Feature(math.MaxUint16)
)

// classes are the highest |C| / |x| of each.
var classes = [...]float64{0.3, 0.4, 0.5, 0.56, 0.62, 0.67, 0.72, 0.77, 0.82, 0.86, 0.9}

// kinds of names: without a common part, and of each class.
const kinds = len(classes) + 1

// usual is about what is left of a threshold; parts are grouped by it.
var usual = func() (out [kinds]float64) {
	out[0] = 0.9
	for i, c := range classes {
		out[i+1] = 0.9 - 0.75*c
	}
	return out
}()

// light is a name with a common part, under another one of its parts.
type light struct {
	slot   uint32
	common uint16 // which one
	step   uint8
	share  uint8 // of 255, rounded up
}

// commonFrom is how many names have a word before it goes into a common part; tests lower it.
var commonFrom uint32 = 3000

// commons are the common parts, by length.
type commons struct {
	known  map[uint32]uint16 // part → its number
	groups []commonGroup
	at     map[groupKey]int
}

type commonGroup struct {
	groupKey
	extra   uint8 // features without a row, at most
	matrix  matrix
	parts   []uint32
	numbers []uint16
}

// noShares are those of a part without names.
var noShares = func() (out [kinds]uint8) {
	for i := range out {
		out[i] = math.MaxUint8
	}
	return out
}()

func newCommons() commons { return commons{known: map[uint32]uint16{}, at: map[groupKey]int{}} }

// split makes a slot of a name's words. It depends on what was added before; a score does not.
func (x *words) split(ws [][]embed.Feature) (s slot) {
	s.squares = x.squaresOf(ws...)
	each := eachOf(ws)
	singles := make([]uint32, len(each))
	for i, w := range each {
		singles[i] = x.part(w...)
		x.parts[singles[i]].names++
	}
	in := x.frequentOf(singles)
	for ; len(in) > 0; in = in[:len(in)-1] {
		var of [][]embed.Feature
		for i, w := range each {
			if slices.Contains(in, i) {
				of = append(of, w...)
			}
		}
		if p, class := x.commonPart(of, s.squares); class > 0 {
			s.parts[0], s.n, s.class = p, 1, class
			break
		}
	}
	var rest [][][]embed.Feature
	for i, w := range each {
		switch {
		case slices.Contains(in, i):
		case len(rest) < maxParts-int(s.n):
			rest = append(rest, w)
		default:
			least := 0
			for k := range rest {
				if featuresIn(rest[k]) < featuresIn(rest[least]) {
					least = k
				}
			}
			rest[least] = slices.Concat(rest[least], w)
		}
	}
	for _, w := range rest {
		s.parts[s.n] = x.part(w...)
		s.n++
	}
	return s
}

// eachOf the different words, as often as it is there, in an order that does not depend on theirs.
func eachOf(ws [][]embed.Feature) (out [][][]embed.Feature) {
	ws = slices.Clone(ws)
	slices.SortFunc(ws, func(a, b []embed.Feature) int { return cmp.Or(cmp.Compare(len(b), len(a)), slices.Compare(a, b)) })
	for i := 0; i < len(ws); {
		j := i + 1
		for j < len(ws) && slices.Equal(ws[i], ws[j]) {
			j++
		}
		out = append(out, ws[i:j:j])
		i = j
	}
	return out
}

// frequentOf a name's words are those that may be common together, the most frequent first.
func (x *words) frequentOf(singles []uint32) (in []int) {
	all, mass := 0.0, 0.0
	for i, p := range singles {
		all += float64(x.parts[p].squares)
		if x.parts[p].names >= commonFrom {
			in = append(in, i)
		}
	}
	slices.SortFunc(in, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.parts[singles[b]].names, x.parts[singles[a]].names), cmp.Compare(a, b))
	})
	return slices.DeleteFunc(in, func(i int) bool {
		sq := float64(x.parts[singles[i]].squares)
		if mass+sq > commonMass*all {
			return true
		}
		mass += sq
		return false
	})
}

// keyOf a part of words.
func keyOf(ws [][]embed.Feature) string {
	key := make([]byte, 0, 2*(featuresIn(ws)+1+len(ws)))
	put := func(f embed.Feature) { key = append(key, byte(f), byte(f>>8)) }
	for _, w := range ws {
		for _, f := range w {
			put(f)
		}
	}
	if len(ws) > 1 {
		put(noFeature)
		for _, w := range ws {
			put(embed.Feature(len(w)))
		}
	}
	return string(key)
}

// part finds or makes a part of words.
func (x *words) part(ws ...[]embed.Feature) uint32 {
	key := keyOf(ws)
	p, ok := x.known[key]
	if !ok {
		p = uint32(len(x.parts))
		x.known[key] = p
		x.parts = append(x.parts, part{key: key, n: uint16(featuresIn(ws)), squares: x.squaresOf(ws...), group: -1, least: noShares})
	}
	return p
}

// wordsOf a part.
func (x *words) wordsOf(p uint32) (out [][]embed.Feature) {
	all, pt := x.featuresOf(p), &x.parts[p]
	for i := pt.len() + 1; i < len(pt.key)/2; i++ {
		n := int(pt.at(i))
		out, all = append(out, all[:n]), all[n:]
	}
	if len(out) == 0 {
		return append(out, all)
	}
	return out
}

// commonPart of some words for a name of a squared length, and its class, 0 if it cannot be one.
func (x *words) commonPart(ws [][]embed.Feature, squares int32) (uint32, uint8) {
	sq := x.squaresOf(ws...)
	ratio := root(sq) / root(max(1, squares)) * (1 + 1e-9)
	class := 1 + slices.IndexFunc(classes[:], func(c float64) bool { return ratio <= c })
	if class == 0 || sq == 0 {
		return 0, 0
	}
	c := &x.common
	if len(c.known) >= maxCommon {
		p, ok := x.known[keyOf(ws)]
		if _, is := c.known[p]; !ok || !is {
			return 0, 0
		}
		return p, uint8(class)
	}
	p := x.part(ws...)
	if _, ok := c.known[p]; ok {
		return p, uint8(class)
	}
	c.known[p] = uint16(len(c.known))
	rows, again, extra := rowsOf(x.featuresOf(p))
	k := groupKey{bar: quarters(root(sq)) &^ 3, again: again}
	i, ok := c.at[k]
	if !ok {
		i = len(c.groups)
		c.at[k] = i
		c.groups = append(c.groups, commonGroup{groupKey: k})
	}
	g := &c.groups[i]
	g.extra = max(g.extra, extra)
	g.parts = append(g.parts, p)
	g.numbers = append(g.numbers, c.known[p])
	g.matrix.add(&rows)
	return p, uint8(class)
}

// common finds what common parts score at most.
func (s *search) common() {
	x := s.words
	s.commons = make([]float32, len(x.common.known))
	most := 0.0
	for i := range x.common.groups {
		g := &x.common.groups[i]
		s.stats.Sketched += len(g.parts)
		floor := leastCommon * float64(g.bar) / 4
		for _, n := range g.numbers {
			s.commons[n] = float32(floor)
		}
		most = max(most, leastCommon)
		g.matrix.lanes(&s.counts, 0, s.counts.least(floor, g.extra), func(lane, _ int) {
			p := &x.parts[g.parts[lane]]
			sum := s.score(p)
			s.commons[g.numbers[lane]] = float32(max(0, sum) * (1 + 1e-6))
			most = max(most, sum/root(p.squares)*(1+1e-9))
		})
	}
	for i, c := range classes {
		s.lower[i+1] = most * c
	}
}

// light looks at the names with a common part: with what that one scores.
func (s *search) light(at uint32, p *part, sum float64) {
	s.stats.Sketched += len(p.light)
	s.stats.Words++
	step, share := s.cut*rootLow(p.squares)/steps, 1.0/math.MaxUint8
	for i := range p.light {
		l := &p.light[i]
		if sum >= step*float64(l.step)-share*float64(l.share)*float64(s.commons[l.common]) {
			if i >= len(p.posts) || s.reaches(&p.posts[i], sum) {
				s.slot(at, sum, l.slot)
			}
		}
	}
}

func (g *commonGroup) bytes() int64 { return 100 + g.matrix.bytes() + int64(cap(g.parts))*6 }

func (g *group) bytes() int64 {
	return 130 + g.matrix.bytes() + int64(cap(g.parts))*4 + int64(cap(g.needs))*16
}

func (c *commons) bytes() (n int64) {
	for i := range c.groups {
		n += c.groups[i].bytes()
	}
	return n + int64(len(c.known))*16
}
