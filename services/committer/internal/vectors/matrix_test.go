package vectors

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/embed"
)

// TestMatrixCountsAsOneByOne: lanes that come and go, and every bound.
func TestMatrixCountsAsOneByOne(t *testing.T) {
	feature := rapid.Custom(func(rt *rapid.T) embed.Feature { return embed.Feature(rapid.IntRange(0, 40).Draw(rt, "f")) })
	rapid.Check(t, func(rt *rapid.T) {
		m := matrix{}
		var lanes [][]embed.Feature
		for range rapid.IntRange(0, 700).Draw(rt, "steps") {
			if len(lanes) > 0 && rapid.IntRange(0, 4).Draw(rt, "drop") == 0 {
				i, last := rapid.IntRange(0, len(lanes)-1).Draw(rt, "lane"), len(lanes)-1
				rows, _, _ := rowsOf(lanes[i])
				end, _, _ := rowsOf(lanes[last])
				m.replace(i, &rows, &end)
				lanes[i] = lanes[last]
				lanes = lanes[:last]
				continue
			}
			fs := rapid.SliceOfN(feature, 0, 12).Draw(rt, "features")
			lanes = append(lanes, fs)
			rows, _, _ := rowsOf(fs)
			m.add(&rows)
		}
		c := counts{}
		row := rapid.Custom(func(rt *rapid.T) uint16 {
			return uint16(feature.Draw(rt, "row")) + firstRows*uint16(rapid.IntRange(0, 1).Draw(rt, "second"))
		})
		c.rows = rapid.SliceOfN(row, 0, 60).Draw(rt, "rows")
		c.down = rapid.SliceOfN(row, 0, 20).Draw(rt, "down")
		for least := range 30 {
			var want, got [][2]int
			for i, fs := range lanes {
				rows, _, _ := rowsOf(fs)
				n := 0
				for _, r := range c.rows {
					n += int(rows[r>>6] >> (r & 63) & 1)
				}
				for _, r := range c.down {
					n -= int(rows[r>>6] >> (r & 63) & 1)
				}
				switch {
				case least == 0:
					want = append(want, [2]int{i, anyCount})
				case n >= least:
					want = append(want, [2]int{i, n})
				}
			}
			m.lanes(&c, 0, least, func(i, n int) { got = append(got, [2]int{i, n}) })
			require.Equal(rt, want, got, "least %d", least)
		}
	})
}

// TestCountsAreABound: whatever the weights, a set of features weighs no more than its counts say.
func TestCountsAreABound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{4, 100, 256, 300}).Draw(rt, "size")
		v := anyUnit(rapid.Uint64().Draw(rt, "seed"), size)
		if text := rapid.StringMatching(`[a-c ]{0,60}|[a-z ]{0,90}`).Draw(rt, "text"); size == 256 && text != "" {
			v = hashed(text)
		}
		q := newQuery(v, 1, 0.8)
		q.weigh()
		require.LessOrEqual(rt, len(q.counts.rows), maxCounts)
		fs := rapid.SliceOfN(rapid.IntRange(0, 2*size-1), 0, 40).Draw(rt, "features")
		var set []embed.Feature
		sum := 0.0
		for _, f := range fs {
			set = append(set, embed.Feature(f))
			sum += q.weight[f]
		}
		m := matrix{}
		rows, _, extra := rowsOf(set)
		m.add(&rows)
		found := false
		m.lanes(&q.counts, 0, q.counts.least(sum, extra), func(_, n int) {
			found = true
			require.True(rt, n == anyCount || q.counts.most(n, extra) >= sum, "%d counts of %v that weigh %g", n, set, sum)
		})
		require.True(rt, found, "%v weigh %g", set, sum)
	})
}

// TestMatrixOfManyTiles: more lanes than one tile has, and fewer again.
func TestMatrixOfManyTiles(t *testing.T) {
	m, c := matrix{}, counts{rows: []uint16{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	setOf := func(i int) *rowSet {
		var fs []embed.Feature
		for f := range 10 {
			if i>>f&1 == 1 {
				fs = append(fs, embed.Feature(f))
			}
		}
		rows, _, _ := rowsOf(fs)
		return &rows
	}
	check := func(n int) {
		want, got := 0, 0
		for i := range n {
			if bits.OnesCount(uint(i>>1&0x1ff)) >= 7 {
				want++
			}
		}
		m.lanes(&c, 0, 7, func(i, _ int) {
			got++
			require.GreaterOrEqual(t, bits.OnesCount(uint(i>>1&0x1ff)), 7)
		})
		require.Equal(t, want, got)
	}
	for i := range 2*tileLanes + 700 {
		m.add(setOf(i))
	}
	check(2*tileLanes + 700)
	for m.n > tileLanes-5 {
		m.replace(m.n-1, setOf(m.n-1), setOf(m.n-1))
	}
	check(tileLanes - 5)
	for i := m.n; i < tileLanes+70; i++ {
		m.add(setOf(i))
	}
	check(tileLanes + 70)
}
