package vectors

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

const (
	// matrixRows: a feature's row is its place modulo this; for vectors of up to 256 numbers each feature has one of its own.
	matrixRows = 512
	// fewLanes are not worth a matrix of 4 KiB.
	fewLanes = 16
	// maxCounts is the most rows that a query counts.
	maxCounts = 1000
)

// matrix keeps sets of features, a lane each, turned on its side: a row for each feature, 64 lanes to a number. A query then counts what it has in common
// with 64 lanes at once, and reads the rows of its own features alone.
type matrix struct {
	bits   []uint64 // matrixRows rows of stride numbers
	stride int
	n      int // lanes
}

// add makes a lane.
func (m *matrix) add(fs []embed.Feature) {
	lane := m.n
	if m.n++; (lane >> 6) >= m.stride {
		m.grow()
	}
	for _, f := range fs {
		at, bit := m.at(f, lane)
		m.bits[at] |= bit
	}
}

func (m *matrix) at(f embed.Feature, lane int) (int, uint64) {
	return int(f%matrixRows)*m.stride + lane>>6, 1 << (lane & 63)
}

// grow by half at least. From 8 numbers on a row is an odd number of cache lines, so that rows do not all meet in the same sets of a cache.
func (m *matrix) grow() {
	stride := m.stride + max(1, m.stride/2)
	if stride >= 8 {
		stride = (stride+7)/8*8 | 8
	}
	next := make([]uint64, matrixRows*stride)
	for r := range matrixRows {
		copy(next[r*stride:], m.bits[r*m.stride:(r+1)*m.stride])
	}
	m.bits, m.stride = next, stride
}

// replace makes lane what the last one is, and drops that; fs are the features of lane and last those of the last one.
func (m *matrix) replace(lane int, fs, last []embed.Feature) {
	for _, f := range fs {
		at, bit := m.at(f, lane)
		m.bits[at] &^= bit
	}
	m.n--
	for _, f := range last {
		at, bit := m.at(f, m.n)
		m.bits[at] &^= bit
		if lane != m.n {
			at, bit = m.at(f, lane)
			m.bits[at] |= bit
		}
	}
}

func (m *matrix) bytes() int64 { return int64(cap(m.bits)) * 8 }

// counts bound from above what the features of a lane weigh: unit for each time that the row of one is listed.
type counts struct {
	rows []uint16
	unit float64
	top  float64 // the highest weight of a feature
	// cols is room for lanes: of the parts, and of the names under one of them, which are looked at in between.
	cols [2][][]uint64
}

// countsOf weights by feature. Those of a text are whole multiples of one number, and the bound is then exact but for what counts down.
func countsOf(weight []float64) counts {
	var by [matrixRows]float64
	for f, w := range weight {
		by[f%matrixRows] = max(by[f%matrixRows], w)
	}
	var c counts
	least := math.Inf(1)
	for _, w := range by {
		if w > 0 {
			least, c.top = min(least, w), max(c.top, w)
		}
	}
	if c.top == 0 {
		return c
	}
	c.unit = least
	total := 0.0
	for _, w := range by {
		times := w / c.unit
		total += times
		if math.Abs(times-math.Round(times)) > 1e-5 || times > 15 || total > maxCounts {
			c.unit = c.top / 3 // of other weights: at most 3 times 256 rows, each weight rounded up
			break
		}
	}
	for r, w := range by {
		for range int(math.Ceil(w/c.unit - 1e-5)) {
			c.rows = append(c.rows, uint16(r))
		}
	}
	c.unit *= 1 + 2e-5 // covers what was rounded down
	return c
}

// least is how many counts a lane must have to weigh need, when doubles of its features had a row that was taken.
func (c *counts) least(need float64, doubles int) int {
	if doubles >= math.MaxUint8 {
		return 0
	}
	need -= float64(doubles)*c.top + slack
	if need <= 0 {
		return 0
	}
	if c.unit == 0 {
		return math.MaxInt
	}
	return int(math.Ceil(need/c.unit - 1e-9))
}

// lanes calls fn with each lane that has least counts or more; room is which of c's is used.
func (m *matrix) lanes(c *counts, room, least int, fn func(lane int)) {
	switch {
	case least <= 0:
		for i := range m.n {
			fn(i)
		}
		return
	case least > len(c.rows):
		return
	}
	words := (m.n + 63) >> 6
	cols := c.cols[room][:0]
	for _, r := range c.rows {
		cols = append(cols, m.bits[int(r)*m.stride:][:words])
	}
	c.cols[room] = cols
	for j := range words {
		for in := count64(cols, j, least); in != 0; in &= in - 1 {
			fn(j<<6 + bits.TrailingZeros64(in))
		}
	}
}

// count64 counts the bits that number j of all columns has at each place, and returns the places that have least or more. The counts are kept on their
// side: ones, twos, fours, and eights from high[0] on.
func count64(cols [][]uint64, j, least int) uint64 {
	var ones, twos, fours uint64
	var high [8]uint64
	i := 0
	for ; i+8 <= len(cols); i += 8 {
		b := cols[i : i+8 : i+8]
		a0, a1, a2, a3, a4, a5, a6, a7 := b[0][j], b[1][j], b[2][j], b[3][j], b[4][j], b[5][j], b[6][j], b[7][j]
		u := a0 ^ a1
		t0 := a0&a1 | u&ones
		ones ^= u
		u = a2 ^ a3
		t1 := a2&a3 | u&ones
		ones ^= u
		u = t0 ^ t1
		f0 := t0&t1 | u&twos
		twos ^= u
		u = a4 ^ a5
		t0 = a4&a5 | u&ones
		ones ^= u
		u = a6 ^ a7
		t1 = a6&a7 | u&ones
		ones ^= u
		u = t0 ^ t1
		f1 := t0&t1 | u&twos
		twos ^= u
		u = f0 ^ f1
		carry := f0&f1 | u&fours
		fours ^= u
		for k := 0; carry != 0 && k < len(high); k++ {
			high[k], carry = high[k]^carry, high[k]&carry
		}
	}
	for ; i < len(cols); i++ {
		carry := cols[i][j]
		ones, carry = ones^carry, ones&carry
		twos, carry = twos^carry, twos&carry
		fours, carry = fours^carry, fours&carry
		for k := 0; carry != 0 && k < len(high); k++ {
			high[k], carry = high[k]^carry, high[k]&carry
		}
	}
	var more uint64
	equal := ^uint64(0)
	for k := len(high) - 1; k >= 0; k-- {
		more, equal = compare64(more, equal, high[k], least>>(k+3)&1)
	}
	more, equal = compare64(more, equal, fours, least>>2&1)
	more, equal = compare64(more, equal, twos, least>>1&1)
	more, equal = compare64(more, equal, ones, least&1)
	return more | equal
}

// compare64 goes one digit on: where the digits before were equal, the next one decides.
func compare64(more, equal, digit uint64, least int) (uint64, uint64) {
	if least == 1 {
		return more, equal & digit
	}
	return more | equal&digit, equal &^ digit
}

// bunch is the names under a part that many have, in matrices of their other parts' features, by length.
type bunch struct {
	key    bunchKey
	matrix matrix
	slots  []uint32
}

// bunchKey is what the names of a bunch have in common: the length, in quarters, rounded down, and the doubles.
type bunchKey struct {
	quarters uint16
	doubles  uint8
}

// quarter of a length, rounded down; the highest one is for all that is longer.
func quarters(length float64) uint16 { return uint16(min(math.MaxUint16, length*4*(1-1e-9))) }

// doublesOf features: how many have a row that one before them has taken.
func doublesOf(fs []embed.Feature) uint8 {
	var seen [matrixRows / 64]uint64
	n := 0
	for _, f := range fs {
		r := f % matrixRows
		if seen[r>>6]&(1<<(r&63)) != 0 {
			n++
		}
		seen[r>>6] |= 1 << (r & 63)
	}
	return uint8(min(math.MaxUint8, n))
}

// enter puts a name into the bunch of its length.
func enter(all []bunch, k bunchKey, rest []embed.Feature, at uint32) []bunch {
	i, ok := slices.BinarySearchFunc(all, k, func(c bunch, k bunchKey) int {
		return cmp.Or(cmp.Compare(c.key.quarters, k.quarters), cmp.Compare(c.key.doubles, k.doubles))
	})
	if !ok {
		all = slices.Insert(all, i, bunch{key: k})
	}
	all[i].matrix.add(rest)
	all[i].slots = append(all[i].slots, at)
	return all
}
