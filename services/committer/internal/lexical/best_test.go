package lexical

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func never() error { return nil }

// lists makes postings out of maps from chunk to frequency, added in an order that commits could give.
func lists(rng *rand.Rand, by ...map[uint32]uint32) []*Postings {
	var out []*Postings
	for _, m := range by {
		nos := make([]uint32, 0, len(m))
		for no := range m {
			nos = append(nos, no)
		}
		slices.Sort(nos)
		var runs [][]uint32
		for len(nos) > 0 {
			n := 1 + rng.IntN(len(nos))
			runs, nos = append(runs, nos[:n]), nos[n:]
		}
		rng.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		p := &Postings{}
		for _, r := range runs {
			for _, no := range r {
				p.Add(no, m[no])
			}
		}
		p.Sort()
		out = append(out, p)
	}
	return out
}

// plain is Best by looking at everything.
func plain(by []map[uint32]uint32, weights []float64, k int, limit uint32, spans []Span) []Scored {
	sum := map[uint32]int64{}
	for i, m := range by {
		for no, tf := range m {
			if no < limit && (spans == nil || slices.ContainsFunc(spans, func(s Span) bool { return s.From <= no && no < s.To })) {
				sum[no] += int64(math.Round(BM25(weights[i], int(min(tf, 255)), 0, 0) * Unit))
			}
		}
	}
	var out []Scored
	for no, s := range sum {
		out = append(out, Scored{no, s})
	}
	slices.SortFunc(out, func(x, y Scored) int { return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.No, y.No)) })
	return out[:min(k, len(out))]
}

func TestBestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		terms, chunks := 1+rng.IntN(5), 1+rng.IntN(3000)
		var by []map[uint32]uint32
		var weights []float64
		for range terms {
			m, share := map[uint32]uint32{}, rng.Float64()*rng.Float64()
			for no := range uint32(chunks) {
				if rng.Float64() < share {
					m[no] = 1 + uint32(rng.ExpFloat64()*1.5)
				}
			}
			by, weights = append(by, m), append(weights, IDF(chunks, len(m)))
		}
		k := rapid.IntRange(1, 60).Draw(t, "k")
		limit := uint32(chunks)
		if rng.IntN(2) == 0 {
			limit = uint32(rng.IntN(chunks + 1))
		}
		var spans []Span
		if rng.IntN(2) == 0 {
			for from := uint32(rng.IntN(50)); len(spans) < 20; from += uint32(rng.IntN(300)) {
				to := from + 1 + uint32(rng.IntN(30))
				spans, from = append(spans, Span{from, to}), to
			}
		}
		ps := lists(rng, by...)
		for i := range ps {
			if ps[i].Len() != len(by[i]) {
				t.Fatalf("list %d has %d chunks, not %d", i, ps[i].Len(), len(by[i]))
			}
			ps[i] = ps[i].Below(limit)
		}
		got, err := Best(ps, weights, k, spans, never)
		want := plain(by, weights, k, limit, spans)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d chunks, not %d: %v", len(got), len(want), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("place %d: %v, not %v", i, got[i], want[i])
			}
			for j := range by {
				if n := int(min(by[j][got[i].No], 255)); ps[j].TF(got[i].No) != n {
					t.Fatalf("chunk %d has term %d %d times, not %d", got[i].No, j, ps[j].TF(got[i].No), n)
				}
			}
		}
	})
}

func TestBestOfOneTermIsTheFirstOfEqualOnes(t *testing.T) {
	m := map[uint32]uint32{}
	for no := range uint32(10_000) {
		m[no] = 1
	}
	m[7000], m[300], m[9000] = 3, 2, 1000
	looked := 0
	got, err := Best(lists(rand.New(rand.NewPCG(1, 2)), m), []float64{1}, 5, nil, func() error { looked++; return nil })
	require.NoError(t, err)
	var nos []uint32
	for _, s := range got {
		nos = append(nos, s.No)
	}
	require.Equal(t, []uint32{9000, 7000, 300, 0, 1}, nos)
	require.Equal(t, 1, looked, "blocks of single mentions are passed over")
	require.Equal(t, 255, lists(rand.New(rand.NewPCG(1, 2)), m)[0].TF(9000))
}

func TestPostingsOfOneChunkAddUp(t *testing.T) {
	var p Postings
	for _, x := range [][2]uint32{{5, 1}, {9, 2}, {3, 1}, {5, 200}, {5, 100}} {
		p.Add(x[0], x[1])
	}
	p.Sort()
	require.Equal(t, []int{1, 255, 2, 0}, []int{p.TF(3), p.TF(5), p.TF(9), p.TF(4)})
	require.Equal(t, 3, p.Len())
	require.Equal(t, 2, p.Below(9).Len())
	require.Zero(t, p.Below(0).Len())
}

func TestBestEndsWithItsCaller(t *testing.T) {
	gone := errors.New("gone")
	m := map[uint32]uint32{1: 1}
	_, err := Best(lists(rand.New(rand.NewPCG(1, 2)), m), []float64{1}, 5, nil, func() error { return gone })
	require.ErrorIs(t, err, gone)
	got, err := Best(nil, nil, 5, nil, never)
	require.NoError(t, err)
	require.Empty(t, got)
}

func BenchmarkBest(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		var ps []*Postings
		var weights []float64
		for _, share := range []float64{0.9, 0.3, 0.1, 0.01} {
			p := &Postings{}
			for no := range uint32(n) {
				if rng.Float64() < share {
					p.Add(no, 1+uint32(rng.ExpFloat64()*0.7))
				}
			}
			p.Sort()
			ps, weights = append(ps, p), append(weights, IDF(n, p.Len()))
		}
		for from := range len(ps) {
			b.Run(fmt.Sprintf("chunks=%d/terms=%d", n, from+1), func(b *testing.B) {
				for b.Loop() {
					if got, err := Best(ps[:from+1], weights[:from+1], 100, nil, never); err != nil || len(got) != 100 {
						b.Fatal(len(got), err)
					}
				}
			})
		}
	}
}
