package vectors

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

// extra is how many of n features have no bit of their own.
func (s *sketch) extra(n int) uint8 {
	return uint8(min(math.MaxUint8, n-s.common(&all)))
}

// all features.
var all = sketch{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}

func (s *sketch) common(o *sketch) int {
	return bits.OnesCount64(s[0]&o[0]) + bits.OnesCount64(s[1]&o[1]) + bits.OnesCount64(s[2]&o[2]) + bits.OnesCount64(s[3]&o[3])
}

// levels bound from above what the features of a sketch weigh: a bit weighs at most lift[0], those in planes[1] up to lift[1] more,
// those in planes[2] up to lift[2] more, bits outside planes[0] nothing, and a feature without a bit at most top.
type levels struct {
	planes [3]sketch
	lift   [3]float64
	top    float64
	n      int // planes that are not empty
}

// levelsOf sets the levels at the median of the positive weights, at their ninth tenth, and at the highest.
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
	bounds := [3]float64{up[len(up)/2], up[len(up)*9/10], up[len(up)-1]}
	l.top = bounds[2]
	under := 0.0
	for i, b := range bounds {
		l.lift[i] = b - under
		if b > under {
			l.n = i + 1
		}
		for f, w := range weight {
			if w > under {
				l.planes[i].add(embed.Feature(f))
			}
		}
		under = b
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

// reaches says whether a sketch with extra features may weigh need or more.
func (l *levels) reaches(s *sketch, extra uint8, need float64) bool {
	need -= float64(extra) * l.top
	if need -= float64(s.common(&l.planes[0])) * l.lift[0]; need <= 0 {
		return true
	}
	if l.n > 1 {
		need -= float64(s.common(&l.planes[1]))*l.lift[1] + float64(s.common(&l.planes[2]))*l.lift[2]
	}
	return need <= 0 || extra == math.MaxUint8 // there may be more
}
