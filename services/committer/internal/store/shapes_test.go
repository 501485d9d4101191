package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
)

// shapesOf lists "label [names] entity…" of each shape, and checks that it counts its entities.
func shapesOf(tb T, s *Store, seq uint64, labels ...string) []string {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	defer sn.Close()
	out := []string{}
	for _, label := range labels {
		require.NoError(tb, sn.Shapes(label, func(x Shape) error {
			var names, ids []string
			require.NoError(tb, sn.Shaped(x, "", func(v string) error {
				e, ok, err := sn.Entity(v)
				require.NoError(tb, err)
				require.True(tb, ok)
				names, ids = append(names, e.Display()), append(ids, v)
				return nil
			}))
			require.Len(tb, names, x.Entities)
			require.True(tb, slices.IsSorted(ids))
			behind := []string{}
			require.NoError(tb, sn.Shaped(x, ids[0], func(v string) error { behind = append(behind, v); return nil }))
			require.Equal(tb, ids[1:], behind)
			slices.Sort(names)
			out = append(out, fmt.Sprintf("%s %v %s", label, x.Names, strings.Join(names, " ")))
			return nil
		}))
	}
	slices.Sort(out)
	return out
}

// Entities are found by the properties that they have values of, over whatever history and in batches of whatever size; and what people
// accepted as missing is forgotten when a value comes.
func TestShapesFollowTheProperties(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 11))
		o := options(vfs.NewMem())
		o.BatchBytes = []int{1 << 24, 1 << 12, 1}[seed%3]
		s := openStore(t, o)
		people := []string{"A", "B", "C", "D"}
		type doc struct{ mentions, props map[string]bool }
		live := map[string]doc{}
		accepted := map[string]bool{}
		has := func(what string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(live)), func(d doc) bool { return d.mentions[what] || d.props[what] })
		}
		for order := range int64(24) {
			var changes []DocChange
			for range 1 + rng.IntN(3) {
				k := fmt.Sprint("d", rng.IntN(5))
				if slices.ContainsFunc(changes, func(c DocChange) bool { return c.Meta.Key == k }) {
					continue
				}
				if rng.IntN(4) == 0 {
					changes = append(changes, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order + 1}})
					delete(live, k)
					continue
				}
				d, src, props := doc{map[string]bool{}, map[string]bool{}}, fmt.Sprint(order), ""
				for _, p := range people {
					if rng.IntN(2) == 0 {
						continue
					}
					d.mentions[p] = true
					src += " [Person:" + p + "]"
					for _, name := range []string{"born", "height", "job"} {
						if rng.IntN(3) == 0 {
							d.props[p+" "+name] = true
							props += fmt.Sprintf("\n. 0 %s=%d Person:%s", name, rng.IntN(2), p)
						}
					}
				}
				c := mustFixture(t, k, src+props)
				c.Order.Time = order + 1
				changes = append(changes, c)
				live[k] = d
			}
			commit(t, s, changes...)
			want := map[string][]string{}
			for _, p := range people {
				names := []string{}
				for _, name := range []string{"born", "height", "job"} {
					if has(p + " " + name) {
						names = append(names, name)
						delete(accepted, p+" "+name)
					}
				}
				if has(p) {
					k := fmt.Sprintf("Person %v", names)
					want[k] = append(want[k], p)
				}
			}
			lines := []string{}
			for k, who := range want {
				lines = append(lines, k+" "+strings.Join(who, " "))
			}
			slices.Sort(lines)
			require.Equal(t, lines, shapesOf(t, s, 0, "Person"), "seed %d", seed)
			if p := people[rng.IntN(4)]; !has(p + " born") {
				inTxn(t, s, func(txn *Txn) {
					require.NoError(t, txn.PutRuling((*Ruling)(nil).Then(RuleKeepAll, "", nil).of(entityID("Person", strings.ToLower(p)), MissingProperty("born"))))
				})
				accepted[p+" born"] = true
			}
			stands := map[string]bool{}
			sn, err := s.Snapshot(g, 0)
			require.NoError(t, err)
			for _, p := range people {
				if _, ok, err := sn.Ruling(entityID("Person", strings.ToLower(p)), MissingProperty("born")); ok {
					stands[p+" born"] = true
				} else {
					require.NoError(t, err)
				}
			}
			require.NoError(t, sn.Close())
			require.Equal(t, accepted, stands, "seed %d", seed)
			verified(t, s)
		}
	}
}

// A store that an older version wrote lacks the rows; an entity gets its own with the next property.
func TestShapeThatHadNoRow(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "d0", "[Person:Ada] [Person:Bo]\n. 0 born=1 Person:Ada"))
	commit(t, s, mustFixture(t, "d1", "[Person:Ada]\n. 0 height=1 Person:Ada"))
	require.Equal(t, []string{"Person [] Bo", "Person [born height] Ada"}, shapesOf(t, s, 0, "Person"))
	require.Equal(t, []string{"Person [] Bo", "Person [born] Ada"}, shapesOf(t, s, 1, "Person"), "as of a sequence")
	for _, k := range allKeys(t, s) {
		if strings.IndexByte("_;-", k[headLen-1]) >= 0 {
			require.NoError(t, s.db.Delete([]byte(k), pebble.NoSync))
		}
	}
	commit(t, s, mustFixture(t, "d2", "[Person:Ada] [Person:Bo]\n. 0 job=1 Person:Ada\n. 0 job=1 Person:Bo"))
	require.Equal(t, []string{"Person [born height job] Ada", "Person [job] Bo"}, shapesOf(t, s, 0, "Person"))
	verified(t, s)
}

// The id of an item about a missing value leads back to its entity.
func TestMissingID(t *testing.T) {
	ada := entityID("Person", "ada")
	v := MissingID(ada, "born")
	require.Equal(t, ada, MissingID(v, "born"))
	require.NotEqual(t, v, MissingID(ada, "height"))
	require.Equal(t, "5", v[14:15], "it says that it is of a hash")
	require.Empty(t, MissingID("ada", "born"))
}
