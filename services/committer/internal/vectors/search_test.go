package vectors

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/crowd"
)

// brute is what Search must equal.
func brute(items map[Ref]Item, k Kind, label string, v []float32, top int, drop float64) []Hit {
	out := []Hit{}
	for r, it := range items {
		if r.Kind != k || it.Label != label {
			continue
		}
		if s := embed.Cosine(v, it.Vector); s >= drop {
			out = append(out, Hit{r.ID, s})
		}
	}
	slices.SortFunc(out, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out[:min(top, len(out))]
}

// TestSearchEqualsBruteForce: names of few letters and words, so that much is alike, written, replaced and deleted at random.
func TestSearchEqualsBruteForce(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	defer func() { require.NoError(t, st.Close()) }()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		graph := fmt.Sprintf("g%d", run)
		_, ok := st.Graph(graph, true)
		require.True(rt, ok)
		o := OptionsFor(embed.NewHash())
		o.Group, o.Groups = numbersOf, "test-1"
		x, err := Open(t.Context(), st, graph, o)
		require.NoError(rt, err)
		setCommonFrom(t, rapid.SampledFrom([]uint32{1, 4, 30, 500}).Draw(rt, "common from"))
		word := rapid.StringMatching(`[a-c]{1,6}|[0-9]{4}|anna|anne|smith|smyth|[a-z]{2,9}`)
		name := rapid.Custom(func(rt *rapid.T) string {
			return strings.Join(rapid.SliceOfN(word, 0, 6).Draw(rt, "words"), " ")
		})
		items := map[Ref]Item{}
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			var b Batch
			for range rapid.IntRange(0, 120).Draw(rt, "upserts") {
				it := item(rapid.IntRange(0, 400).Draw(rt, "id"), rapid.SampledFrom([]string{"A", "A", "B"}).Draw(rt, "label"), name.Draw(rt, "name"))
				if rapid.IntRange(0, 9).Draw(rt, "other vector") == 0 {
					it.Vector = anyUnit(rapid.Uint64().Draw(rt, "seed"), embed.HashSize)
				}
				b.Upserts = append(b.Upserts, it)
				items[it.Ref] = it
			}
			for range rapid.IntRange(0, 40).Draw(rt, "deletes") {
				r := Ref{Entity, idOf(rapid.IntRange(0, 400).Draw(rt, "gone"))}
				b.Deletes = append(b.Deletes, r)
				delete(items, r)
			}
			require.NoError(rt, x.Apply(t.Context(), b))
		}
		for range 12 {
			asked := name.Draw(rt, "query")
			v := hashed(asked)
			if len(items) > 0 && rapid.Bool().Draw(rt, "stored") {
				refs := make([]Ref, 0, len(items))
				for r := range items {
					refs = append(refs, r)
				}
				slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.ID, b.ID) })
				it := items[refs[rapid.IntRange(0, len(refs)-1).Draw(rt, "which")]]
				v, asked = it.Vector, it.Text
			}
			drop := rapid.SampledFrom([]float64{0.8, 0.8, 0.95, 0.6, 0.5, 0.3, 0, -1, 1}).Draw(rt, "drop")
			top := rapid.SampledFrom([]int{1, 3, 50, 1000}).Draw(rt, "top")
			got, err := x.Search(t.Context(), Entity, "A", v, top, drop)
			require.NoError(rt, err)
			require.Equal(rt, brute(items, Entity, "A", v, top, drop), got, "top %d drop %g", top, drop)
			group := map[Ref]Item{}
			for r, it := range items {
				if numbersOf("", it.Text) == numbersOf("", asked) {
					group[r] = it
				}
			}
			got, err = x.SearchGroup(t.Context(), "A", asked, v, top, drop)
			require.NoError(rt, err)
			require.Equal(rt, brute(group, Entity, "A", v, top, drop), got, "%q top %d drop %g", asked, top, drop)
		}
	})
}

func anyUnit(seed uint64, size int) []float32 {
	rnd := rand.New(rand.NewPCG(seed, 3))
	v := make([]float32, size)
	var squares float64
	for i := range v {
		x := rnd.NormFloat64() + 2*math.Sin(float64(i)*float64(seed%3)) // some directions are shared
		v[i] = float32(x)
		squares += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(squares))
	}
	return v
}

// TestCrowdEqualsBruteForce: names of a big collection, so that all paths are walked: parts with many names, long names, tops that
// are cut off.
func TestCrowdEqualsBruteForce(t *testing.T) {
	for what, make := range makers {
		t.Run(what+"/common", func(t *testing.T) {
			setCommonFrom(t, 20)
			w := crowdEqualsBruteForce(t, make)
			require.NotEmpty(t, w.common.known)
		})
		t.Run(what+"/crowded", func(t *testing.T) {
			was := crowded
			crowded = 100
			t.Cleanup(func() { crowded = was })
			w := crowdEqualsBruteForce(t, make)
			require.True(t, slices.ContainsFunc(w.parts, func(p part) bool {
				return slices.ContainsFunc(p.lists, func(l list) bool { return len(l.bunches) > 0 })
			}), "there are matrices under words")
		})
	}
}

func crowdEqualsBruteForce(t *testing.T, make func(*crowd.Crowd) string) *words {
	x := openIndex(t)
	c := crowd.New(11)
	items := map[Ref]Item{}
	var b Batch
	var names []string
	for i := range 6000 {
		it := item(i, "A", c.Name(func() string { return make(c) }))
		items[it.Ref] = it
		b.Upserts = append(b.Upserts, it)
		names = append(names, it.Text)
	}
	require.NoError(t, x.Apply(t.Context(), b))
	some, compared := 0, 0
	for i := range 150 {
		v := hashed(c.Slip(names[i*7919%len(names)]))
		drop := []float64{0.8, 0.8, 0.7, 0.55}[i%4]
		got, stats, err := x.SearchStats(t.Context(), Entity, "A", v, 50, drop)
		require.NoError(t, err)
		require.Equal(t, brute(items, Entity, "A", v, 50, drop), got)
		some += len(got)
		if drop == 0.8 {
			compared += stats.Compared
		}
	}
	require.Greater(t, some, 150)
	require.Less(t, compared/75, 6000/4, "most names are never looked at")
	return x.shards[shardKey{Entity, "A"}].words
}

// setCommonFrom for a test, which must not run beside others.
func setCommonFrom(t *testing.T, n uint32) {
	was := commonFrom
	commonFrom = n
	t.Cleanup(func() { commonFrom = was })
}

// TestCommonPartsComeAndGo: a bounded number of them, and the words of a name outlive the sweep of what is dead.
func TestCommonPartsComeAndGo(t *testing.T) {
	setCommonFrom(t, 15)
	x, c, items := openIndex(t), crowd.New(3), map[Ref]Item{}
	var b Batch
	for i := range 4000 {
		it := item(i, "A", c.Name(c.Organization))
		items[it.Ref] = it
		b.Upserts = append(b.Upserts, it)
	}
	require.NoError(t, x.Apply(t.Context(), b))
	w := x.shards[shardKey{Entity, "A"}].words
	before := len(w.common.known)
	require.Greater(t, before, 20)
	var gone Batch
	for _, it := range b.Upserts[:2600] {
		gone.Deletes = append(gone.Deletes, it.Ref)
		delete(items, it.Ref)
	}
	require.NoError(t, x.Apply(t.Context(), gone))
	w = x.shards[shardKey{Entity, "A"}].words
	require.Len(t, w.slots, 1400)
	require.NotEmpty(t, w.common.known)
	of := func(name string) *slot {
		for i := range w.slots {
			if w.slots[i].id.String() == name {
				return &w.slots[i]
			}
		}
		return nil
	}
	withCommon, some := 0, 0
	for _, it := range b.Upserts[2600:] {
		s := of(it.ID)
		if s.class > 0 {
			withCommon++
		}
		var ws [][]embed.Feature
		for _, p := range s.parts[:s.n] {
			ws = append(ws, w.wordsOf(p)...)
		}
		require.ElementsMatch(t, embed.Hash{}.Words(it.Text), ws)
	}
	require.Greater(t, withCommon, 300)
	for i := range 60 {
		v := hashed(c.Slip(b.Upserts[2600+i*20].Text))
		drop := []float64{0.9, 0.8, 0.55}[i%3]
		got, err := x.Search(t.Context(), Entity, "A", v, 50, drop)
		require.NoError(t, err)
		require.Equal(t, brute(items, Entity, "A", v, 50, drop), got)
		some += len(got)
	}
	require.Greater(t, some, 60)
}

// numbersOf a name: its runs of digits, sorted.
func numbersOf(_, name string) string {
	runs := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsDigit(r) })
	slices.Sort(runs)
	return strings.Join(runs, " ")
}

var makers = map[string]func(*crowd.Crowd) string{"persons": (*crowd.Crowd).Person, "organizations": (*crowd.Crowd).Organization, "numbered": (*crowd.Crowd).Numbered}

// BenchmarkGrowth measures a search of one label as linking makes it, by the number of names stored.
func BenchmarkGrowth(b *testing.B) {
	sizes := []int{10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	const drop = 0.90 // what linking searches from unless a judge is asked: the review floor
	for _, what := range []string{"persons", "organizations", "numbered", "numbered-grouped"} {
		ix := &Index{opt: Options{Embedder: "hash-1", Size: embed.HashSize}, apart: true, shards: map[shardKey]*shard{}}
		ix.shards[shardKey{Entity, "A"}] = newShard(shardKey{Entity, "A"}, embed.HashSize)
		x, grouped := ix.shards[shardKey{Entity, "A"}].words, strings.HasSuffix(what, "-grouped")
		if grouped {
			x, ix.opt.Group = ix.shards[shardKey{Entity, "A"}].grouped, numbersOf
		}
		c := crowd.New(5)
		var queries []string
		for _, n := range sizes {
			for len(x.slots) < n {
				s := c.Name(func() string { return makers[strings.TrimSuffix(what, "-grouped")](c) })
				x.add(uuid{byte(len(x.slots)), byte(len(x.slots) >> 8), byte(len(x.slots) >> 16)}, embed.Hash{}.Words(s), ix.opt.groupOf(Entity, "A", s))
				if len(queries) < 400 && len(x.slots)%20 == 0 {
					queries = append(queries, c.Slip(s))
				}
			}
			b.Run(fmt.Sprintf("%s/%d", what, n), func(b *testing.B) {
				var sum Stats
				hits, i := 0, 0
				best := make([]float64, len(queries)) // of each query's repeats: others use the machine, too
				runtime.GC()                          // what filled the index is not to be paid here
				for b.Loop() {
					name := queries[i%len(queries)]
					v := hashed(name)
					begun := time.Now()
					h, st, err := ix.searchGroup(context.Background(), "A", name, v, 50, drop)
					if err != nil {
						b.Fatal(err)
					}
					if ms := time.Since(begun).Seconds() * 1000; best[i%len(best)] == 0 || ms < best[i%len(best)] {
						best[i%len(best)] = ms
					}
					i++
					hits += len(h)
					sum.Sketched += st.Sketched
					sum.Summed += st.Summed
					sum.Words += st.Words
					sum.Compared += st.Compared
				}
				per := func(n int) float64 { return float64(n) / float64(i) }
				mean := 0.0
				for _, ms := range best[:min(i, len(best))] {
					mean += ms / float64(min(i, len(best)))
				}
				b.ReportMetric(b.Elapsed().Seconds()*1000/float64(i), "ms/query")
				b.ReportMetric(mean, "best-ms/query")
				b.ReportMetric(per(sum.Compared), "compared/query")
				b.ReportMetric(per(sum.Sketched), "sketched/query")
				b.ReportMetric(per(sum.Summed), "summed/query")
				b.ReportMetric(per(sum.Words), "words/query")
				b.ReportMetric(per(hits), "hits/query")
				b.ReportMetric(float64(x.bytes()+80*int64(n))/float64(n), "bytes/vector")
				b.ReportMetric(float64(len(x.parts)), "words")
			})
		}
	}
}
