package linkage

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func l(a, b string, s float64) ScoredLink { return ScoredLink{A: a, B: b, Score: s} }

func TestClusters(t *testing.T) {
	for _, c := range []struct {
		name     string
		links    []ScoredLink
		rejected []Pair
		clusters [][]string
		removed  []ScoredLink
	}{
		{name: "nothing"},
		{name: "a chain", links: []ScoredLink{l("a", "b", 0.95), l("b", "c", 0.9)}, clusters: [][]string{{"a", "b", "c"}}},
		{
			name:  "the forbidden chain of the spec: of equal links the later ids go",
			links: []ScoredLink{l("B", "C", 0.95), l("A", "B", 0.95)}, rejected: []Pair{{"C", "A"}},
			clusters: [][]string{{"A", "B"}}, removed: []ScoredLink{l("B", "C", 0.95)},
		},
		{
			name:  "the weakest link between the two goes, not a weaker one aside",
			links: []ScoredLink{l("a", "b", 0.99), l("b", "c", 0.9), l("c", "d", 0.97), l("d", "e", 0.5)}, rejected: []Pair{{"a", "d"}},
			clusters: [][]string{{"a", "b"}, {"c", "d", "e"}}, removed: []ScoredLink{l("b", "c", 0.9)},
		},
		{
			name:  "every way between the two goes",
			links: []ScoredLink{l("a", "b", 0.9), l("a", "c", 0.8), l("b", "d", 0.7), l("c", "d", 0.95)}, rejected: []Pair{{"a", "d"}},
			clusters: [][]string{{"a", "b"}, {"c", "d"}}, removed: []ScoredLink{l("b", "d", 0.7), l("a", "c", 0.8)},
		},
		{
			name: "a rejected link", links: []ScoredLink{l("b", "a", 1)}, rejected: []Pair{{"a", "b"}}, removed: []ScoredLink{l("a", "b", 1)},
		},
		{
			name:  "repeated, turned round, to itself, no number, of strangers",
			links: []ScoredLink{l("b", "a", 0.2), l("a", "b", 0.9), l("a", "a", 1), l("b", "c", math.NaN()), l("a", "c", 0.1)}, rejected: []Pair{{"x", "a"}, {"a", "a"}},
			clusters: [][]string{{"a", "b", "c"}},
		},
	} {
		clusters, removed := Clusters(c.links, c.rejected)
		require.Equal(t, c.clusters, clusters, c.name)
		require.Equal(t, c.removed, removed, c.name)
	}
}

func TestClustersHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(rt, "entities")
		id := rapid.Map(rapid.IntRange(0, n-1), func(i int) string { return fmt.Sprintf("e%02d", i) })
		links := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ScoredLink {
			return l(id.Draw(rt, "a"), id.Draw(rt, "b"), float64(rapid.IntRange(0, 4).Draw(rt, "score"))/4)
		}), 0, 25).Draw(rt, "links")
		rejected := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Pair { return Pair{id.Draw(rt, "x"), id.Draw(rt, "y")} }), 0, 10).Draw(rt, "rejected")
		clusters, removed := Clusters(links, rejected)

		turned := slices.Clone(rapid.Permutation(links).Draw(rt, "order"))
		for i := range turned {
			turned[i].A, turned[i].B = turned[i].B, turned[i].A
		}
		again, out := Clusters(turned, rapid.Permutation(rejected).Draw(rt, "order of pairs"))
		require.Equal(rt, clusters, again)
		require.Equal(rt, removed, out)

		in := map[string]int{}
		for i, c := range clusters {
			require.GreaterOrEqual(rt, len(c), 2)
			for _, e := range c {
				require.NotContains(rt, in, e, "an entity is in one cluster")
				in[e] = i + 1
			}
		}
		foes := func(a, b string) bool {
			return a != b && (slices.Contains(rejected, Pair{a, b}) || slices.Contains(rejected, Pair{b, a}))
		}
		for _, c := range clusters {
			for _, a := range c {
				for _, b := range c {
					require.False(rt, foes(a, b), "%s and %s are in one cluster", a, b)
				}
			}
		}
		members := func(e string) []string {
			if in[e] == 0 {
				return []string{e}
			}
			return clusters[in[e]-1]
		}
		gone := map[Pair]bool{}
		for _, r := range removed {
			gone[Pair{r.A, r.B}] = true
			reason := false
			for _, a := range members(r.A) {
				for _, b := range members(r.B) {
					reason = reason || foes(a, b)
				}
			}
			require.True(rt, reason, "%v went without need", r)
		}
		for _, k := range links {
			if k.A != k.B && !gone[Pair{min(k.A, k.B), max(k.A, k.B)}] {
				require.NotZero(rt, in[k.A])
				require.Equal(rt, in[k.A], in[k.B], "a link that stays is within one cluster")
			}
		}
	})
}
