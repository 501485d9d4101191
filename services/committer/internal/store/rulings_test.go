package store

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// What a ruling settles: the values it was made on, and no other.
func TestRulingSettles(t *testing.T) {
	var none *Ruling
	require.False(t, none.Settles([]string{"a", "b"}))
	require.False(t, none.Rejects("a"))
	chosen := none.Then(RuleChoose, "a", []string{"b", "a"})
	kept := none.Then(RuleKeepAll, "", []string{"a", "b"})
	rejected := none.Then(RuleReject, "c", []string{"a", "b", "c"})
	both := (&rejected).Then(RuleReject, "b", []string{"a", "b", "c"})
	for _, c := range []struct {
		name   string
		r      Ruling
		values []string
		want   bool
	}{
		{"as it was", chosen, []string{"a", "b"}, true}, {"the chosen one is left", chosen, []string{"a"}, true},
		{"a value came", chosen, []string{"a", "b", "c"}, false}, {"the chosen one went", chosen, []string{"b", "c"}, false},
		{"kept", kept, []string{"a", "b"}, true}, {"kept, one came", kept, []string{"a", "b", "c"}, false},
		{"two are left", rejected, []string{"a", "b", "c"}, false}, {"one is left", both, []string{"a", "b", "c"}, true},
		{"one came beside the one left", both, []string{"a", "b", "c", "d"}, false}, {"a rejected one came back", rejected, []string{"a", "c"}, true},
	} {
		require.Equal(t, c.want, c.r.Settles(c.values), c.name)
	}
	require.Equal(t, []string{"approved", "approved", "rejected"}, []string{chosen.State(), kept.State(), both.State()})
	require.Equal(t, []string{"b", "c"}, both.Rejected)

	again := (&both).Then(RuleChoose, "b", []string{"a", "b", "c"})
	require.Equal(t, Ruling{Decision: RuleChoose, Chosen: "b", Rejected: []string{"c"}, Seen: []string{"a", "b", "c"}}, again, "what is chosen is rejected no more")
	require.Empty(t, (&again).Then(RuleReject, "b", nil).Chosen, "and the other way round")
	require.Equal(t, "b", (&again).Then(RuleReject, "a", nil).Chosen, "a choice stays when another value is rejected")
	require.Empty(t, (&both).Then(RuleKeepAll, "", nil).Rejected)
	require.True(t, (&chosen).Says(none.Then(RuleChoose, "a", []string{"a", "b"})))
	require.False(t, (&chosen).Says(none.Then(RuleChoose, "a", []string{"a", "b", "c"})))
}

// A ruling is found by owner and property, outlives readings, is read as of a sequence, and can be put back as it was.
func TestRulings(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "[Person:Ada] 1 2\n. 0 born=1 Person:Ada\n. 0 born=2 Person:Ada"))
	ada := entityID("Person", "ada")
	first := (*Ruling)(nil).Then(RuleChoose, "n1", []string{"n1", "n2"}).of(ada, "born")
	first.Actor, first.Reason, first.Value = "eva", "the register", json.RawMessage("1")
	inTxn(t, s, func(txn *Txn) { require.NoError(t, txn.PutRuling(first)) })
	verified(t, s)
	inTxn(t, s, func(txn *Txn) {
		require.NoError(t, txn.PutRuling((&first).Then(RuleReject, "n1", []string{"n1", "n2"}).of(ada, "born")))
		require.NoError(t, txn.PutRuling((*Ruling)(nil).Then(RuleKeepAll, "", nil).of(ada, "aged")))
	})
	verified(t, s)
	commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Time: 1}})
	verified(t, s)

	at := func(seq uint64) (out []Ruling) {
		sn, err := s.Snapshot(g, seq)
		require.NoError(t, err)
		require.NoError(t, sn.Rulings("", "", func(r Ruling) error { out = append(out, r); return nil }))
		c, err := sn.Counts()
		require.NoError(t, err)
		require.Equal(t, len(out), c.Rulings)
		n := 0
		require.NoError(t, sn.RulingsOf(ada, func(r Ruling) error {
			require.Equal(t, out[n], r)
			n++
			one, ok, err := sn.Ruling(ada, r.Property)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, r, one)
			return nil
		}))
		require.Equal(t, len(out), n)
		if n > 1 {
			var behind []Ruling
			require.NoError(t, sn.Rulings(ada, out[0].Property, func(r Ruling) error { behind = append(behind, r); return nil }))
			require.Equal(t, out[1:], behind)
		}
		require.NoError(t, sn.Close())
		return out
	}
	require.Empty(t, at(1))
	was := at(2)
	require.Len(t, was, 1)
	require.Equal(t, []any{"choose", "n1", "1", "eva", "the register", uint64(2)}, []any{was[0].Decision, was[0].Chosen, string(was[0].Value), was[0].Actor, was[0].Reason, was[0].Seq})
	require.NotEmpty(t, was[0].At)
	require.Len(t, at(3), 2)
	require.Equal(t, []string{"aged", "born"}, []string{at(0)[0].Property, at(0)[1].Property})
	require.Equal(t, []any{api.StateRejected, uint64(3)}, []any{(&at(4)[1]).State(), at(4)[1].Seq}, "the document is gone")

	inTxn(t, s, func(txn *Txn) {
		require.NoError(t, txn.PutRuling(was[0]))
		require.NoError(t, txn.DropRuling(ada, "aged"))
		require.NoError(t, txn.DropRuling(ada, "never"))
		for _, bad := range []Ruling{{Decision: "hide", Owner: ada, Property: "x"}, {Decision: RuleChoose, Owner: ada, Property: "x"}, {Decision: RuleReject, Owner: ada, Property: "x"},
			{Decision: RuleKeepAll, All: true, Owner: ada}, {Decision: RuleKeepAll, All: true, Owner: "x", Property: "x"}, {Decision: RuleChoose, Chosen: "a", Rejected: []string{"a"}, Owner: ada, Property: "x"}} {
			require.ErrorIs(t, txn.PutRuling(bad), ErrBadChange, "%+v", bad)
		}
	})
	require.Equal(t, was, at(0), "as it was, with its sequence")
	verified(t, s)
}

// A ruling changes what is shown of its owner, which the change event says.
func TestRulingTouches(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "[Person:Ada] 1\n. 0 born=1 Person:Ada"))
	for owner, want := range map[string]int{entityID("Person", "ada"): 1, entityID("Person", "bob"): 0} {
		inTxn(t, s, func(txn *Txn) {
			require.NoError(t, txn.PutRuling((*Ruling)(nil).Then(RuleReject, "n1", nil).of(owner, "born")))
			require.Len(t, txn.touched, want)
		})
	}
}
