package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

var ada = graph.EntityRef{ID: fingerprint.EntityID("Person", "ada"), Label: "Person", Key: "ada"}

// apartRuling tells the people named Ada apart by born.
func apartRuling() *Ruling {
	r := (*Ruling)(nil).Then(RuleDifferent, "", nil)
	r.Owner, r.Property, r.Label, r.Key = ada.ID, "born", ada.Label, ada.Key
	return &r
}

func tell(tb T, s *Store, r *Ruling) (n int) {
	tb.Helper()
	inTxn(tb, s, func(txn *Txn) {
		var err error
		n, err = txn.TellApart(context.Background(), ada.ID, "born", r)
		require.NoError(tb, err)
	})
	return n
}

// named lists the entities of the name Ada as "value documents relations", the undecided one without a value.
func named(tb T, s *Store, seq uint64) []string {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	defer sn.Close()
	all, err := sn.Homonyms(ada)
	require.NoError(tb, err)
	if e, ok, err := sn.Entity(ada.ID); ok {
		require.NoError(tb, err)
		all = append(all, e)
	}
	out := []string{}
	for _, e := range all {
		var values []string
		require.NoError(tb, sn.PropertyValues(e.ID, "born", func(f PropertyFold) error {
			if values = append(values, fmt.Sprint(f.Value)); e.ID != ada.ID {
				require.Equal(tb, fingerprint.HomonymID("Person", "ada", fmt.Sprint(f.Value)), e.ID)
			}
			return nil
		}))
		n := 0
		require.NoError(tb, sn.Out(e.ID, "", func(Edge) error { n++; return nil }))
		out = append(out, fmt.Sprintf("%s: %d %d", strings.Join(values, "+"), e.Documents, n))
	}
	slices.Sort(out)
	return out
}

// Each value is an entity of its own, with the facts of the documents that give it; what gives none stays, undecided. Readings that come
// later follow, and an undo brings back what was.
func TestHomonymsAreToldApart(t *testing.T) {
	s := memStore(t)
	order := int64(0)
	docs := map[string]string{}
	put := func(k, src string) {
		order++
		docs[k] = src
		c := mustFixture(t, k, src)
		c.Order.Time = order
		commit(t, s, c)
		verified(t, s)
	}
	put("a", "[Person:Ada] of [Org:Acme], 1815\n. 0 born=1815 Person:Ada\n> 0 WORKS_FOR Person:Ada Org:Acme since=1830")
	put("b", "[Person:Ada] of [Org:Acme], 1950\n. 0 born=1950 Person:Ada\n> 0 WORKS_FOR Person:Ada Org:Acme since=1970")
	put("c", "[Person:Ada] of [Org:Larch]\n> 0 WORKS_FOR Person:Ada Org:Larch")
	put("d", "[Person:Ada], 1815\n~\n[Person:Ada] of [Org:Wren], 1950\n~\n[Person:Ada] of [Org:Larch]\n. 0 born=1815 Person:Ada\n. 1 born=1950 Person:Ada\n> 1 WORKS_FOR Person:Ada Org:Wren\n> 2 WORKS_FOR Person:Ada Org:Larch")
	require.Equal(t, []string{"1815+1950: 4 3"}, named(t, s, 0))
	before := dumpOpen(t, s, 0)
	seq := order

	require.Equal(t, 4, tell(t, s, apartRuling()))
	verified(t, s)
	require.Equal(t, []string{"1815: 2 1", "1950: 2 2", ": 2 1"}, sorted(named(t, s, 0)), "chunk by chunk where one document speaks of both")
	require.Empty(t, inConflict(t, s, 0), "each has one year of birth, and its own work since then")
	require.Equal(t, []string{"1815+1950: 4 3"}, named(t, s, uint64(seq)), "as of a sequence it is what it was")

	put("e", "[Person:Ada], 1815\n. 0 born=1815 Person:Ada")
	require.Equal(t, []string{"1815: 3 1", "1950: 2 2", ": 2 1"}, sorted(named(t, s, 0)))
	put("f", "[Person:Ada], 1999\n. 0 born=1999 Person:Ada")
	require.Equal(t, []string{"1815: 3 1", "1950: 2 2", "1999: 1 0", ": 2 1"}, sorted(named(t, s, 0)), "a value that came later is a thing of its own, too")
	put("c", "[Person:Ada] of [Org:Larch], 1950\n. 0 born=1950 Person:Ada\n> 0 WORKS_FOR Person:Ada Org:Larch")
	require.Equal(t, []string{"1815: 3 1", "1950: 3 3", "1999: 1 0", ": 1 1"}, sorted(named(t, s, 0)))
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		order++
		commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order}})
		verified(t, s)
	}
	require.Empty(t, named(t, s, 0))
	put("a", docs["a"])
	require.Equal(t, []string{"1815: 1 1"}, named(t, s, 0), "the ruling outlives what it is about")
	for _, k := range []string{"b", "d"} {
		put(k, docs[k])
	}
	put("c", "[Person:Ada] of [Org:Larch]\n> 0 WORKS_FOR Person:Ada Org:Larch")
	require.Equal(t, 4, tell(t, s, nil))
	verified(t, s)
	require.Equal(t, before, dumpOpen(t, s, 0))
}

// sorted puts the undecided one last.
func sorted(list []string) []string {
	if len(list) > 0 && strings.HasPrefix(list[0], ":") {
		list = append(list[1:], list[0])
	}
	return list
}

// What cannot be told apart is refused, and a value that was rejected tells nothing apart.
func TestWhatIsNotToldApart(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "[Person:Ada], 1815\n. 0 born=1815 Person:Ada"), mustFixture(t, "b", "[Person:Ada], 1950\n. 0 born=1950 Person:Ada"),
		mustFixture(t, "c", "[Person:Ada], 999\n. 0 born=999 Person:Ada"))
	r := apartRuling()
	r.Rejected = []string{"n999"}
	k, err := ValueKey(int64(999))
	require.NoError(t, err)
	r.Rejected = []string{k}
	require.Equal(t, 3, tell(t, s, r))
	require.Equal(t, []string{"1815: 1 0", "1950: 1 0", "999: 1 0"}, named(t, s, 0))
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	e, ok, err := sn.Entity(ada.ID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 1, e.Documents)
	by, ok, err := sn.ToldApart(ada.ID)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "born", by.Property)
	byID, ok, err := sn.RulingByID(fingerprint.ConflictID(ada.ID, "born"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, by, byID)
	verified(t, s)
	refused := func(owner, property string, r *Ruling) {
		t.Helper()
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		_, err = txn.TellApart(context.Background(), owner, property, r)
		require.ErrorIs(t, err, ErrBadChange)
		require.ErrorIs(t, txn.PutRuling((*Ruling)(nil).Then(RuleKeepAll, "", nil).of(ada.ID, "born")), ErrBadChange)
		require.ErrorIs(t, txn.DropRuling(ada.ID, "born"), ErrBadChange)
		require.ErrorIs(t, txn.PutRuling(*apartRuling()), ErrBadChange)
		require.NoError(t, txn.Abort())
	}
	other := apartRuling()
	other.Property = "isbn"
	refused(ada.ID, "isbn", other)
	one := apartRuling()
	one.Owner = fingerprint.HomonymID("Person", "ada", "1815")
	refused(one.Owner, "born", one)
	refused(entityID("Person", "bo"), "born", apartRuling())
	verified(t, s)
}

// Whatever is read, read again, deleted and decided in whatever order and in batches of whatever size: the graph is that of the documents
// that are there and of the decision that stands.
func TestToldApartInAnyOrder(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 5))
		text := func() string {
			var b strings.Builder
			var facts []string
			for c := range 1 + rng.IntN(3) {
				if c > 0 {
					b.WriteString("~\n")
				}
				fmt.Fprintf(&b, "[Person:Ada] and [Person:Bo] of [Org:O%d] %d\n", rng.IntN(2), rng.IntN(1000))
				if rng.IntN(3) > 0 {
					facts = append(facts, fmt.Sprintf(". %d born=%d Person:Ada", c, 1815+rng.IntN(3)))
				}
				facts = append(facts, fmt.Sprintf("> %d KNOWS Person:Ada Person:Bo since=%d", c, rng.IntN(2)), fmt.Sprintf("> %d KNOWS Person:Ada Person:Ada", c))
			}
			return b.String() + strings.Join(facts, "\n")
		}
		o := options(vfs.NewMem())
		o.BatchBytes = []int{1 << 24, 1 << 12, 1}[rng.IntN(3)]
		s := openStore(t, o)
		live, apart, order := map[string]string{}, false, int64(0)
		stale := []string{StaleWithdraw, StaleKeep}[rng.IntN(2)]
		for range 25 {
			order++
			k := fmt.Sprint("d", rng.IntN(5))
			switch rng.IntN(5) {
			case 0:
				commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order}})
				delete(live, k)
			case 1:
				if len(live) == 0 {
					continue
				}
				if apart = !apart; apart {
					tell(t, s, apartRuling())
				} else {
					tell(t, s, nil)
				}
			default:
				src := text()
				c := mustFixture(t, k, src)
				c.Order.Time = order
				c.Stale = func(StaleFact) string { return stale }
				commit(t, s, c)
				live[k] = src
			}
			verified(t, s)
		}
		if stale == StaleKeep {
			continue // what was kept depends on what was read before
		}
		anew := memStore(t)
		keys := slices.Sorted(mapsKeys(live))
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		if len(keys) == 0 {
			continue
		}
		at := rng.IntN(len(keys))
		for i, k := range keys {
			commit(t, anew, mustFixture(t, k, live[k]))
			if i == at && apart {
				tell(t, anew, apartRuling())
			}
		}
		verified(t, anew)
		require.Equal(t, dumpOpen(t, anew, 0), dumpOpen(t, s, 0), "seed %d, apart %t", seed, apart)
	}
}
