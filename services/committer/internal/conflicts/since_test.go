package conflicts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// A conflict waits since its last value, or relation, came; one that the schema allows, or that is decided, does not.
func TestOldest(t *testing.T) {
	r := newRoom(t)
	oldest := func(n int) (ids []string, seqs []uint64) {
		t.Helper()
		list, err := r.Oldest(t.Context(), g, n)
		require.NoError(t, err)
		for _, s := range list {
			one, err := r.Since(t.Context(), g, s.ID)
			require.NoError(t, err)
			require.Equal(t, s, one)
			ids, seqs = append(ids, s.ID), append(seqs, s.Seq)
		}
		return ids, seqs
	}
	ids, _ := oldest(9)
	require.Empty(t, ids)
	r.fill()
	john := entityID("Person:John Smith")
	born, height := fingerprint.ConflictID(john, "born"), fingerprint.ConflictID(john, "height")
	ids, seqs := oldest(9)
	require.Len(t, ids, 4)
	require.Contains(t, ids[:2], born)
	require.Equal(t, []uint64{2, 2, 4, 4}, seqs)
	ids, _ = oldest(2)
	require.Len(t, ids, 2)

	r.commit("n", "Person:John_Smith born=1970-01-01")
	ids, seqs = oldest(9)
	require.Equal(t, []any{born, uint64(7)}, []any{ids[3], seqs[3]}, "another value came")
	r.decide(bornKey, "choose", "1962-09-09")
	ids, _ = oldest(9)
	require.Len(t, ids, 3)
	require.NotContains(t, ids, born)
	s, err := r.Since(t.Context(), g, born)
	require.NoError(t, err)
	require.Zero(t, s.Seq)
	r.remove("d")
	ids, _ = oldest(9)
	require.NotContains(t, ids, height, "one value is left")

	r = newRoom(t)
	r.put(bounded)
	r.commit("a", "Person:Lin WORKS_FOR Org:Acme x=1")
	r.commit("b", "Person:Lin WORKS_FOR Org:Bolt x=1")
	lin := fingerprint.ConflictKey(entityID("Person:Lin"), "WORKS_FOR:source")
	ids, seqs = oldest(9)
	require.Equal(t, []any{[]string{r.get(lin).Item.IDs[0]}, []uint64{2}}, []any{ids, seqs})
	r.decide(lin, "choose", "Acme")
	ids, _ = oldest(9)
	require.Empty(t, ids)
}
