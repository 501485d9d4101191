package vectors

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/crowd"
)

// TestGroupsSurviveARestart, and are not used when the grouping is another one.
func TestGroupsSurviveARestart(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	o := OptionsFor(embed.NewHash())
	o.Group, o.Groups = numbersOf, "digits-1"
	x, err := Open(t.Context(), st, g, o)
	require.NoError(t, err)
	whole := item(5, "A", "Sensor 51") // of numbers, as those of a model
	whole.Vector = anyUnit(9, embed.HashSize)
	require.NoError(t, x.Upsert(t.Context(), []Item{item(1, "A", "Sensor 51"), item(2, "A", "Sensor 52"), item(3, "A", "Sensor"), item(4, "A", "51. Sensor"), whole}))
	names := func(x *Index, name string, v []float32) (out []string) {
		hits, err := x.SearchGroup(t.Context(), "A", name, v, 50, 0.3)
		require.NoError(t, err)
		for _, h := range hits {
			out = append(out, h.ID)
		}
		return out
	}
	check := func(x *Index) {
		require.ElementsMatch(t, []string{idOf(1), idOf(4)}, names(x, "Sensor 51", hashed("Sensor 51")))
		require.Equal(t, []string{idOf(2)}, names(x, "52 Sensors", hashed("52 Sensors")))
		require.Equal(t, []string{idOf(3)}, names(x, "Sensor", hashed("Sensor")))
		require.Empty(t, names(x, "Sensor 7", hashed("Sensor 7")))
		require.Equal(t, []string{idOf(5)}, names(x, "Sensor 51", whole.Vector))
		require.Empty(t, names(x, "Sensor 52", whole.Vector))
		all, err := x.Search(t.Context(), Entity, "A", hashed("Sensor 51"), 50, 0.3)
		require.NoError(t, err)
		require.Len(t, all, 4)
		n, err := x.Count(t.Context(), Entity)
		require.NoError(t, err)
		require.Equal(t, int64(5), n)
	}
	check(x)
	x, err = Open(t.Context(), st, g, o)
	require.NoError(t, err)
	check(x)
	o.Groups = "digits-2"
	x, err = Open(t.Context(), st, g, o)
	require.NoError(t, err)
	require.Len(t, names(x, "Sensor 51", hashed("Sensor 51")), 4, "stored groups are of another grouping")
	x, err = Open(t.Context(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(t, err)
	require.Len(t, names(x, "Sensor 51", hashed("Sensor 51")), 4)
}

// TestBigGroupsEqualBruteForce: a group too big to look at each name, beside many small ones, half of them written anew.
func TestBigGroupsEqualBruteForce(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	o := OptionsFor(embed.NewHash())
	o.Group, o.Groups = numbersOf, "digits-1"
	x, err := Open(t.Context(), st, g, o)
	require.NoError(t, err)
	c := crowd.New(3)
	items := map[Ref]Item{}
	for round := range 2 {
		var b Batch
		for i := range 5000 {
			name := c.Name(c.Organization) + " 2019"
			if i%4 == 0 {
				name = fmt.Sprintf("%s %d", c.Name(c.Organization), i*(round+1))
			}
			it := item(i, "A", name)
			b.Upserts = append(b.Upserts, it)
			items[it.Ref] = it
		}
		require.NoError(t, x.Apply(t.Context(), b))
	}
	group, some, compared := map[Ref]Item{}, []Item{}, 0
	for r, it := range items {
		if numbersOf("", it.Text) == "2019" {
			group[r] = it
			some = append(some, it)
		}
	}
	require.Greater(t, len(group), shortChain)
	for i := range 60 {
		name := c.Slip(some[i].Text)
		if numbersOf("", name) != "2019" {
			continue
		}
		for _, drop := range []float64{0.8, 0.4} {
			got, stats, err := x.searchGroup(t.Context(), "A", name, hashed(name), 50, drop)
			require.NoError(t, err)
			require.Equal(t, brute(group, Entity, "A", hashed(name), 50, drop), got)
			if drop == 0.8 {
				compared += stats.Compared
			}
		}
	}
	require.Less(t, compared/60, len(group)/4, "most names are never looked at")
}
