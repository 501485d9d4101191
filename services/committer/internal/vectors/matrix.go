package vectors

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
)

const (
	// firstRows: a feature's row is its place modulo this; for vectors of up to 256 numbers each feature has one of its own. What comes again in a
	// lane has a row among secondRows.
	firstRows  = 512
	secondRows = 256
	matrixRows = firstRows + secondRows
	// fewLanes are not worth a matrix of 6 KiB.
	fewLanes = 16
	// maxCounts is the most rows that a query counts up, and down.
	maxCounts = 1024
)

// rowSet is the rows of a lane.
type rowSet [matrixRows / 64]uint64

// rowsOf features; again: some came more than once, and extra is how many have no row of their own.
func rowsOf(fs []embed.Feature) (out rowSet, again bool, extra uint8) {
	n := 0
	for _, f := range fs {
		r := int(f) % firstRows
		if out[r>>6]&(1<<(r&63)) != 0 {
			again = true
			if r = firstRows + int(f)%secondRows; out[r>>6]&(1<<(r&63)) != 0 {
				n++
			}
		}
		out[r>>6] |= 1 << (r & 63)
	}
	return out, again, uint8(min(math.MaxUint8, n))
}

// matrix keeps sets of features, a lane each, turned on its side: a row for each feature, 64 lanes to a number. A query then counts what it has in common
// with 64 lanes at once, and reads the rows of its own features alone. Lanes are cut into tiles, so that nothing large is copied when
// one more is added.
type matrix struct {
	tiles []tile
	n     int // lanes
}

const (
	tileShift = 12
	tileLanes = 1 << tileShift
)

// tile is rows of stride numbers: 1, 2, 4 and so on up to 64, which is a full one. The secondRows are there once a lane has one.
type tile struct {
	bits   []uint64 // and columns numbers more, so that each row is the beginning of a column
	stride int
	used   rowSet // rows that a lane has, or had
}

// column is a row of a tile, of which stride numbers are the row's.
type column = [columns]uint64

const columns = tileLanes / 64

func newTile(rows, stride int) []uint64 { return make([]uint64, rows*stride+columns-stride) }

func (t *tile) rows() int { return (len(t.bits) - columns + t.stride) / t.stride }

func (t *tile) has(r uint16) bool { return t.used[r>>6]&(1<<(r&63)) != 0 }

// add makes a lane.
func (m *matrix) add(rows *rowSet) {
	lane := m.n
	m.n++
	if lane>>tileShift == len(m.tiles) {
		m.tiles = append(m.tiles, tile{bits: newTile(firstRows, 1), stride: 1})
	}
	if t := &m.tiles[lane>>tileShift]; lane%tileLanes>>6 >= t.stride {
		t.grow()
	}
	m.set(lane, rows, true)
}

func (t *tile) grow() {
	rows := t.rows()
	next := newTile(rows, 2*t.stride)
	for r := range rows {
		copy(next[r*2*t.stride:], t.bits[r*t.stride:(r+1)*t.stride])
	}
	t.bits, t.stride = next, 2*t.stride
}

// use makes sure that a row is there.
func (t *tile) use(r int) {
	if r >= t.rows() {
		next := newTile(matrixRows, t.stride)
		copy(next, t.bits)
		t.bits = next
	}
	t.used[r>>6] |= 1 << (r & 63)
}

func (m *matrix) set(lane int, rows *rowSet, on bool) {
	t := &m.tiles[lane>>tileShift]
	at, bit := lane%tileLanes>>6, uint64(1)<<(lane&63)
	for k, word := range rows {
		for ; word != 0; word &= word - 1 {
			r := k<<6 + bits.TrailingZeros64(word)
			if on {
				t.use(r)
				t.bits[r*t.stride+at] |= bit
			} else {
				t.bits[r*t.stride+at] &^= bit
			}
		}
	}
}

// replace makes lane what the last one is, and drops that; rows are those of lane and last those of the last one.
func (m *matrix) replace(lane int, rows, last *rowSet) {
	m.set(lane, rows, false)
	m.n--
	if lane != m.n {
		m.set(m.n, last, false)
		m.set(lane, last, true)
	}
}

func (m *matrix) bytes() int64 {
	n := int64(cap(m.tiles)) * 128
	for _, t := range m.tiles {
		n += int64(len(t.bits)) * 8
	}
	return n
}

// counts bound from above what the features of a lane weigh: unit for each time that a row of the lane is listed in rows, less unit for each
// time in down.
type counts struct {
	rows []uint16
	down []uint16
	unit float64
	top  float64 // the highest weight of a feature
	// cols is room for lanes: of the parts, and of the names under one of them, which are looked at in between.
	cols [2][]*column
}

// countsOf weights by feature. Those of a text are whole multiples of one number, and the bound is then nearly exact.
func countsOf(weight []float64) (c counts) {
	var by [matrixRows]float64
	for f, w := range weight {
		first, second := f%firstRows, firstRows+f%secondRows
		by[first], by[second] = max(by[first], w), max(by[second], w)
	}
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
		if math.Abs(times-math.Round(times)) > 1e-6 || times > 15 || total > maxCounts {
			c.unit = c.top / 2 // of other weights, each rounded up
			break
		}
	}
	for r, w := range by {
		for range int(math.Ceil(w/c.unit - 1e-6)) {
			c.rows = append(c.rows, uint16(r))
		}
	}
	if len(weight) <= firstRows {
		for f, w := range weight {
			for n := int(math.Floor(max(0, -w)/c.unit + 1e-6)); n > 0 && len(c.down) < maxCounts; n-- {
				c.down = append(c.down, uint16(f))
			}
		}
	}
	return c
}

// least is how many counts a lane must have to weigh need, with extra features that have no row of their own.
func (c *counts) least(need float64, extra uint8) int {
	if extra == math.MaxUint8 {
		return 0
	}
	need -= float64(extra)*c.top + slack
	need -= float64(len(c.rows)+len(c.down)) * c.unit * 2e-6 // what was rounded the wrong way
	if need <= 0 {
		return 0
	}
	if c.unit == 0 {
		return math.MaxInt
	}
	return int(math.Ceil(need/c.unit - 1e-9))
}

// most is what a lane with n counts weighs at most; of least it is the other way round.
func (c *counts) most(n int, extra uint8) float64 {
	if extra == math.MaxUint8 {
		return math.Inf(1)
	}
	return (float64(n)+1e-9+float64(len(c.rows)+len(c.down))*2e-6)*c.unit + float64(extra)*c.top + slack
}

// anyCount is a count that is not known.
const anyCount = math.MaxInt32

// lanes calls fn with each lane that has least counts or more, and its counts, or anyCount; room is which of c's is used.
func (m *matrix) lanes(c *counts, room, least int, fn func(lane, n int)) {
	switch {
	case least <= 0:
		for i := range m.n {
			fn(i, anyCount)
		}
		return
	case least > len(c.rows):
		return
	}
	for i, t := range m.tiles {
		if left := m.n - i*tileLanes; left > 0 {
			t.lanes(c, room, least, i*tileLanes, min(left, tileLanes), fn)
		}
	}
}

// lanes of a tile, of which n are in use.
func (t *tile) lanes(c *counts, room, least, first, n int, fn func(lane, n int)) {
	cols := c.cols[room][:0]
	for _, r := range c.rows {
		if t.has(r) {
			cols = append(cols, (*column)(t.bits[int(r)*t.stride:]))
		}
	}
	ups := len(cols)
	if ups < least {
		return
	}
	for _, r := range c.down {
		if t.has(r) {
			cols = append(cols, (*column)(t.bits[int(r)*t.stride:]))
		}
	}
	c.cols[room] = cols
	up, down := cols[:ups], cols[ups:]
	for j := 0; j<<6 < n; j++ {
		var a abacus
		a.add(up, j, 0)
		in, off := a.reach(least), 0
		if past := n - j<<6; past < 64 {
			in &= 1<<past - 1
		}
		if in != 0 && len(down) > 0 {
			off = len(down)
			a.add(down, j, math.MaxUint64) // those that the lane does not have
			in &= a.reach(least + off)
		}
		for ; in != 0; in &= in - 1 {
			lane := bits.TrailingZeros64(in)
			fn(first+j<<6+lane, a.of(lane)-off)
		}
	}
}

// abacus is 64 counts on their side: the ones of all, the twos, the fours, and eights from high[0] on. It counts to 4,095.
type abacus struct {
	ones, twos, fours uint64
	high              [9]uint64
}

// add counts number j of all columns, each bit turned over where turn has one.
func (a *abacus) add(cols []*column, j int, turn uint64) {
	ones, twos, fours := a.ones, a.twos, a.fours
	j &= columns - 1
	for ; len(cols) >= 8; cols = cols[8:] {
		b := cols[:8:8]
		a0, a1, a2, a3 := b[0][j]^turn, b[1][j]^turn, b[2][j]^turn, b[3][j]^turn
		a4, a5, a6, a7 := b[4][j]^turn, b[5][j]^turn, b[6][j]^turn, b[7][j]^turn
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
		a.eights(carry)
	}
	for _, col := range cols {
		carry := col[j] ^ turn
		ones, carry = ones^carry, ones&carry
		twos, carry = twos^carry, twos&carry
		fours, carry = fours^carry, fours&carry
		a.eights(carry)
	}
	a.ones, a.twos, a.fours = ones, twos, fours
}

func (a *abacus) eights(carry uint64) {
	for k := 0; carry != 0 && k < len(a.high); k++ {
		a.high[k], carry = a.high[k]^carry, a.high[k]&carry
	}
}

// of is the count of a lane.
func (a *abacus) of(lane int) int {
	n := a.ones>>lane&1 | a.twos>>lane&1<<1 | a.fours>>lane&1<<2
	for k, h := range a.high {
		n |= h >> lane & 1 << (k + 3)
	}
	return int(n)
}

// reach says which counts are least or more.
func (a *abacus) reach(least int) uint64 {
	var more uint64
	equal := ^uint64(0)
	for k := len(a.high) - 1; k >= 0; k-- {
		more, equal = digit(more, equal, a.high[k], least>>(k+3)&1)
	}
	more, equal = digit(more, equal, a.fours, least>>2&1)
	more, equal = digit(more, equal, a.twos, least>>1&1)
	more, equal = digit(more, equal, a.ones, least&1)
	return more | equal
}

// digit goes one digit on: where the digits before were equal, the next one decides.
func digit(more, equal, has uint64, least int) (uint64, uint64) {
	if least == 1 {
		return more, equal & has
	}
	return more | equal&has, equal &^ has
}

// bunch is the names under a part that many have, in matrices of their other parts' features, by length.
type bunch struct {
	key    bunchKey
	matrix matrix
	slots  []uint32
}

// bunchKey is what the names of a bunch have in common: the length, in quarters, rounded down, and the features without a row.
type bunchKey struct {
	quarters uint16
	extra    uint8
}

// quarters of a length, rounded down; the highest one is for all that is longer.
func quarters(length float64) uint16 { return uint16(min(math.MaxUint16, length*4*(1-1e-9))) }

// enter puts a name into the bunch of its length.
func enter(all []bunch, length float64, rest []embed.Feature, at uint32) []bunch {
	rows, _, extra := rowsOf(rest)
	k := bunchKey{quarters(length), extra}
	i, ok := slices.BinarySearchFunc(all, k, func(b bunch, k bunchKey) int {
		return cmp.Or(cmp.Compare(b.key.quarters, k.quarters), cmp.Compare(b.key.extra, k.extra))
	})
	if !ok {
		all = slices.Insert(all, i, bunch{key: k})
	}
	all[i].matrix.add(&rows)
	all[i].slots = append(all[i].slots, at)
	return all
}
