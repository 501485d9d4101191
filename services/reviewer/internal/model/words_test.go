package model

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Café—Zürich":                        "cafe zurich",
		"The U.S. Steel Corp. of the U.S.A.": "the steel corp usa",
		"WORKS_FOR works for":                "works for",
		"C++ C# Go":                          "c++",
		"it is so":                           "",
		"東京都 東京":                             "東京都",
		"LARCH larch (Larch), LARCH-2 `x`":   "larch",
		" \x00\t\u200b":                      "",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, Words(text)...), text)
	}
	long := strings.Repeat("one two three four ", 40) + "zebra"
	require.Contains(t, Words(long), "zebra", "a text is read to its end")
}

// Whatever came and went, and whenever the first search was, a search finds what a look at all groups would.
func TestASearchFindsWhatAScanWould(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	vocabulary := strings.Fields("alder birch cedar dogwood elm fir ginkgo hazel ivy juniper kapok larch")
	some := func(n int) string {
		var out []string
		for range rng.IntN(n + 1) {
			out = append(out, vocabulary[rng.IntN(len(vocabulary))])
		}
		return strings.Join(out, " ")
	}
	m := New(0, 0)
	for no := uint64(1); no <= 4000; no++ {
		kind := kinds[rng.IntN(len(kinds))]
		doc := fmt.Sprint("d", rng.IntN(4))
		it := events.CandidateItem{ID: fmt.Sprint(no), Document: doc, DocumentID: doc, State: states[rng.IntN(3)],
			Candidate: graph.Candidate{Key: fmt.Sprintf("%s|%d", kind, rng.IntN(60)), Kind: kind, Label: some(1), Text: some(2), SourceText: some(1), TargetText: some(1), Count: rng.IntN(3) + 1}}
		verb := []string{"proposed", "proposed", "rejected", "pruned"}[rng.IntN(4)]
		require.True(t, m.Apply(&events.CandidateEvent{Verb: verb, Seq: no, No: no, Items: []events.CandidateItem{it}}))
		if no%13 != 0 || no < 500 {
			continue
		}
		look, only, limit := Words(some(4), vocabulary[0], "unheard"), append([]string{""}, kinds...)[rng.IntN(4)], rng.IntN(30)+1
		all, _, _ := m.List(Filter{Kinds: map[string]bool{}}, nil, 0, 1000, few, 1<<30)
		want := []Found{}
		for _, g := range all {
			has, n := strings.Fields(g.Label+" "+g.Text+" "+g.SourceText+" "+g.TargetText), 0
			for _, w := range look {
				if slices.Contains(has, w) {
					n++
				}
			}
			if n > 0 && g.State != api.StateRejected && (only == "" || g.Kind == only) {
				want = append(want, Found{g, n})
			}
		}
		slices.SortFunc(want, func(a, b Found) int {
			return cmp.Or(cmp.Compare(b.Matched, a.Matched), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key), cmp.Compare(a.State, b.State))
		})
		got, total := m.Search(look, only, limit)
		require.Equal(t, len(want), total, "seed %d event %d", seed, no)
		require.Equal(t, want[:min(limit, len(want))], got, "seed %d event %d %v", seed, no, look)
	}
	for _, p := range m.words.places {
		require.Less(t, p.gone, len(p.entries)/2+1, "entries that are gone are taken out")
	}
}

// A search looks at the groups that have a word, not at all.
func TestASearchLooksAtFewGroups(t *testing.T) {
	m := filled(5000)
	m.Search(Words("observatory"), "", 1)
	one := m.words.places["741"]
	require.NotNil(t, one)
	require.Less(t, len(one.entries), 10)
	require.Less(t, testing.AllocsPerRun(5, func() { m.Search([]string{"741"}, "", 20) }), 200.0)
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range sizes {
		g := filled(n)
		b.Run(fmt.Sprintf("index/%d", n), func(b *testing.B) {
			for b.Loop() {
				g.words = nil
				for _, gr := range g.keys {
					gr.entry = nil
				}
				g.Search([]string{"none"}, "", 20)
			}
		})
		for name, q := range map[string]string{"rare": "observatory 741 instrument", "common": "observatory number station", "one": "741"} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				i := 0
				for b.Loop() {
					i++
					if !g.Apply(again(g, i*7919%n)) {
						b.Fatal("a gap")
					}
					if out, _ := g.Search(Words(q), "", 20); len(out) == 0 {
						b.Fatal("nothing is found")
					}
				}
			})
		}
	}
}
