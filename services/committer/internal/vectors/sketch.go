package vectors

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

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

// wideReaches says whether the features of a post may weigh need or more; it takes off what weighs less than nothing.
func (l *levels) wideReaches(o *post, need float64) bool {
	need -= float64(o.extra) * l.top
	for i := range l.n {
		need -= float64(o.rest.common(&l.up[i])-o.rest.common(&l.down[i])+o.twice.common(&l.planes[i])) * l.lift[i]
	}
	return need <= slack || o.extra == math.MaxUint8
}
