package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// inConflict lists the conflicts of a store as "class owner values", sorted, and checks that they are counted and found by id.
func inConflict(tb T, s *Store, seq uint64) []string {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	defer sn.Close()
	classes, out := map[string]int{}, []string{}
	require.NoError(tb, sn.Conflicts(func(c Conflict) error {
		byID, ok, err := sn.Conflict(fingerprint.ConflictID(c.Owner, c.Property))
		require.NoError(tb, err)
		require.True(tb, ok)
		require.Equal(tb, c, byID)
		values := 0
		require.NoError(tb, sn.PropertyValues(c.Owner, c.Property, func(PropertyFold) error {
			values++
			return nil
		}))
		require.Equal(tb, c.Values, values)
		class, name := "", ""
		if e, ok, err := sn.Entity(c.Owner); ok && err == nil {
			class, name = ConflictClass(ConflictOfEntity, e.Label, c.Property), e.Display()
		} else {
			r, ok, err := sn.Relation(c.Owner)
			require.NoError(tb, err)
			require.True(tb, ok)
			class, name = ConflictClass(ConflictOfRelation, r.Type, c.Property), r.Source+"->"+r.Target
		}
		classes[class]++
		out = append(out, fmt.Sprintf("%s %s %d", class, name, c.Values))
		return nil
	}))
	slices.Sort(out)
	c, err := sn.Counts()
	require.NoError(tb, err)
	if len(classes)+len(c.Conflicts) > 0 {
		require.Equal(tb, classes, c.Conflicts)
	}
	return out
}

// A property is in conflict while two or more of its values live: over adding, changing and deleting documents, and past sequences keep
// theirs.
func TestConflictsFollowTheValues(t *testing.T) {
	s := memStore(t)
	order := int64(0)
	put := func(k, src string) {
		order++
		c := mustFixture(t, k, src)
		c.Order.Time = order
		commit(t, s, c)
		verified(t, s)
	}
	remove := func(k string) {
		order++
		commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: order}})
		verified(t, s)
	}
	one, two, three := []string{}, []string{"entity|Person|born Ada 2"}, []string{"entity|Person|born Ada 3"}
	put("a", "[Person:Ada] 1815\n. 0 born=1815 Person:Ada")
	require.Equal(t, one, inConflict(t, s, 0))
	put("b", "[Person:Ada] 1816\n. 0 born=1816 Person:Ada")
	require.Equal(t, two, inConflict(t, s, 0))
	put("c", "[Person:Ada] 1816 too\n. 0 born=1816 Person:Ada")
	require.Equal(t, two, inConflict(t, s, 0), "said once more")
	put("d", "[Person:Ada] 1817\n. 0 born=1817 Person:Ada\n. 0 died=1852 Person:Ada")
	require.Equal(t, three, inConflict(t, s, 0))
	remove("b")
	require.Equal(t, three, inConflict(t, s, 0), "c says 1816")
	put("c", "[Person:Ada] 1815 after all\n. 0 born=1815 Person:Ada")
	require.Equal(t, two, inConflict(t, s, 0))
	put("d", "[Person:Ada] 1818\n. 0 born=1818 Person:Ada")
	require.Equal(t, two, inConflict(t, s, 0), "one came, one went")
	remove("d")
	require.Equal(t, one, inConflict(t, s, 0))
	put("e", "[Person:Ada] 1819 1820\n. 0 born=1819 Person:Ada\n. 0 born=1820 Person:Ada")
	require.Equal(t, three, inConflict(t, s, 0), "two of one document")
	for _, k := range []string{"a", "c", "e"} {
		remove(k)
	}
	require.Equal(t, one, inConflict(t, s, 0))
	for seq, want := range map[uint64][]string{1: one, 2: two, 4: three, 6: two, 8: one, 9: three, 12: one} {
		require.Equal(t, want, inConflict(t, s, seq), "as of %d", seq)
	}
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	_, ok, err := sn.Conflict(fingerprint.ConflictID(entityID("Person", "ada"), "born"))
	require.NoError(t, err)
	require.False(t, ok)
}

// One commit of many batches gives the rows that one batch gives; an aborted one leaves none; relations have conflicts too.
func TestConflictsOverBatches(t *testing.T) {
	var docs []DocChange
	for i := range 40 {
		docs = append(docs, mustFixture(t, fmt.Sprintf("d%02d", i), fmt.Sprintf("[Person:P%d] at [Org:Acme], 19%02d.\n> 0 WORKS_FOR Person:P%d Org:Acme since=%d\n. 0 born=%d Person:P%d\n. 0 staff=%d Org:Acme",
			i%5, i, i%5, i%7, i%3, i%5, i)))
	}
	var want []string
	for _, batch := range []int{1 << 24, 1 << 12, 1} {
		o := options(vfs.NewMem())
		o.BatchBytes = batch
		s := openStore(t, o)
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		for _, c := range docs {
			_, err := txn.Apply(t.Context(), c)
			require.NoError(t, err)
		}
		require.NoError(t, txn.Abort())
		require.Empty(t, inConflict(t, s, 0))
		commit(t, s, docs...)
		verified(t, s)
		got := inConflict(t, s, 0)
		require.Len(t, got, 5+5+1)
		require.Contains(t, got, "entity|Org|staff Acme 40")
		require.Contains(t, got, "entity|Person|born P0 3")
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
		var gone []DocChange
		for _, c := range docs[1:] {
			gone = append(gone, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: c.Meta.Key}, Order: graph.Order{Time: 1}})
		}
		commit(t, s, gone...)
		verified(t, s)
		require.Empty(t, inConflict(t, s, 0))
	}
}

// A store that an older version wrote lacks rows of conflicts; the next value of such a property makes its row.
func TestConflictThatHadNoRow(t *testing.T) {
	s := memStore(t)
	for i := range 3 {
		commit(t, s, mustFixture(t, fmt.Sprint("d", i), fmt.Sprintf("[Person:Ada] %d\n. 0 born=%d Person:Ada", i, i)))
	}
	k, err := conflictKey(1, fixtureID(t, "Person", "ada"), "born")
	require.NoError(t, err)
	for seq := range uint64(4) {
		require.NoError(t, s.db.Delete(k.with(seq), pebble.NoSync))
	}
	inTxn(t, s, func(txn *Txn) {
		txn.counts.Conflicts = nil
		_, err := txn.Apply(context.Background(), mustFixture(t, "d3", "[Person:Ada] 3\n. 0 born=3 Person:Ada"))
		require.NoError(t, err)
	})
	require.Equal(t, []string{"entity|Person|born Ada 4"}, inConflict(t, s, 0))
	verified(t, s)
}
