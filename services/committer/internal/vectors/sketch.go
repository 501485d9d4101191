package vectors

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

// sketches of features: of all, and of those whose bit was taken; extra is how many had neither.
func sketches(fs []embed.Feature) (once, twice sketch, extra uint8) {
	for _, f := range fs {
		if once.has(f) {
			twice.add(f)
		}
		once.add(f)
	}
	return once, twice, uint8(min(math.MaxUint8, len(fs)-once.common(&all)-twice.common(&all)))
}

// wide has a bit for each feature, by its place modulo 512: for vectors of up to 256 numbers it says which features there are.
type wide [8]uint64

func (s *wide) has(f embed.Feature) bool { return s[f>>6&7]&(1<<(f&63)) != 0 }

func (s *wide) add(f embed.Feature) { s[f>>6&7] |= 1 << (f & 63) }

func (s *wide) common(o *wide) (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i] & o[i])
	}
	return n
}

// wideOf features: of all, of those that were there already, and how many had neither bit.
func wideOf(fs []embed.Feature) (once wide, twice sketch, extra uint8) {
	n := 0
	for _, f := range fs {
		switch {
		case !once.has(f):
			once.add(f)
		case !twice.has(f):
			twice.add(f)
		default:
			n++
		}
	}
	return once, twice, uint8(min(math.MaxUint8, n))
}

// all features.
var all = sketch{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}

func (s *sketch) common(o *sketch) int {
	return bits.OnesCount64(s[0]&o[0]) + bits.OnesCount64(s[1]&o[1]) + bits.OnesCount64(s[2]&o[2]) + bits.OnesCount64(s[3]&o[3])
}

// levels bound from above what the features of a sketch weigh: a bit of planes[0] weighs at most lift[0], one of planes[i] up to lift[i] more
// than one of planes[i-1], bits outside planes[0] nothing, and a feature without a bit at most top.
type levels struct {
	planes [4]sketch
	lift   [4]float64
	top    float64
	n      int // planes in use
	// up is planes for wide; those in down[i] weigh at least lift[i] less than down[i-1] alone would say, from 0 on. Where features share a bit, down is empty.
	up, down [4]wide
}

// levelsOf sets the levels at the lowest positive weights and at the highest, or, where there are many, evenly among them.
func levelsOf(weight []float64) (l levels) {
	var up []float64
	for _, w := range weight {
		if w > 0 {
			up = append(up, w)
		}
	}
	if len(up) == 0 {
		return l
	}
	slices.SortFunc(up, cmp.Compare)
	bounds := slices.Compact(slices.Clone(up)) // of a text these are 1, 2, 3… times one number
	switch n := len(up); {
	case len(bounds) > 12:
		bounds = []float64{up[n/2], up[n*3/4], up[n*15/16], up[n-1]}
	case len(bounds) > len(l.lift):
		bounds = append(bounds[:len(l.lift)-1], up[n-1])
	}
	l.top = up[len(up)-1]
	under := 0.0
	for _, b := range bounds {
		if b <= under {
			continue
		}
		l.lift[l.n] = b - under
		for f, w := range weight {
			if w > under {
				l.planes[l.n].add(embed.Feature(f))
				l.up[l.n].add(embed.Feature(f))
			}
			if w <= -b && len(weight) <= 512 {
				l.down[l.n].add(embed.Feature(f))
			}
		}
		under, l.n = b, l.n+1
	}
	return l
}

// least is how many bits of planes[0] a sketch with extra features must have to weigh need: a first, coarse bound.
func (l *levels) least(need float64, extra uint8) int {
	switch {
	case need <= 0 || extra == math.MaxUint8:
		return 0
	case l.top == 0:
		return math.MaxInt
	}
	return int(math.Ceil(need/l.top*(1-slack))) - int(extra)
}

// wideReaches is reaches of a wide sketch; it takes off what weighs less than nothing.
func (l *levels) wideReaches(o *post, need float64) bool {
	need -= float64(o.extra) * l.top
	for i := range l.n {
		need -= float64(o.rest.common(&l.up[i])-o.rest.common(&l.down[i])+o.twice.common(&l.planes[i])) * l.lift[i]
	}
	return need <= slack || o.extra == math.MaxUint8
}

// reaches says whether features may weigh need or more: those of a sketch, those whose bit in it was taken, and extra ones.
func (l *levels) reaches(s, twice *sketch, extra uint8, need float64) bool {
	need -= float64(extra) * l.top
	for i := range l.n {
		need -= float64(s.common(&l.planes[i])+twice.common(&l.planes[i])) * l.lift[i]
	}
	return need <= 0 || extra == math.MaxUint8
}
