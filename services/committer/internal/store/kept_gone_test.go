package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// removes deletes a document.
func removes(t *testing.T, s *Store, order int64, docKey string, stale func(StaleFact) string) DocResult {
	t.Helper()
	return commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: docKey}, Order: graph.Order{Time: order}, Stale: stale})[0]
}

// deletes is a policy that asks about relations when their document goes, and about nothing else.
func deletes(f StaleFact) string {
	switch {
	case f.Kept:
		return StaleKeep
	case f.Deleted && f.Kind == graph.KindRelation:
		return StaleReview
	}
	return StaleWithdraw
}

func decides(t *testing.T, s *Store, fn func(txn *Txn) error) error {
	t.Helper()
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	if err := fn(txn); err != nil {
		require.NoError(t, txn.Abort())
		return err
	}
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	verified(t, s)
	return nil
}

// Under a rule for deletes the facts of a deleted document wait with their quotes; what no rule asks about goes.
func TestDeletedFactsWait(t *testing.T) {
	const lin = "doc-1 lin MEMBER_OF guild “Lin joined Guild at 30.”"
	for _, withdraw := range []bool{true, false} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", member, deletes)
		full := dumpOpen(t, s, 0)
		r := removes(t, s, 2, "doc-1", deletes)
		require.Equal(t, []any{Deleted, 1, 1, 0, 0}, []any{r.Outcome, r.Kept, r.Asked, r.RelationsRemoved, r.EntitiesRemoved})
		require.Equal(t, []string{"age of \"Lin\" = 30"}, r.Removed)
		lines, items := waiting(t, s)
		require.Equal(t, []string{lin}, lines)
		require.Equal(t, 1, items[0].Gone)
		verified(t, s)
		require.Equal(t, Unknown, removes(t, s, 3, "doc-1", policy(StaleWithdraw)).Outcome, "a second delete finds no document")
		require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))

		x := items[0]
		decide := func(txn *Txn) error {
			_, err := txn.DecideStale(t.Context(), x, withdraw, Decision{Actor: "eva"})
			return err
		}
		again := func(txn *Txn) error { _, err := txn.AskAgain(t.Context(), x); return err }
		require.ErrorIs(t, decides(t, s, again), ErrBadChange, "it waits")
		require.NoError(t, decides(t, s, decide))
		require.ErrorIs(t, decides(t, s, decide), ErrBadChange)
		want := map[bool]string{true: "", false: "1/1"}[withdraw]
		require.Equal(t, want, support(t, s, "MEMBER_OF", "lin", "guild"))
		require.NoError(t, decides(t, s, again))
		lines, _ = waiting(t, s)
		require.Equal(t, []string{lin}, lines)
		require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))
		require.NoError(t, decides(t, s, decide))

		// It comes back: silent about the fact, which stays as it was decided; then it states the fact, and all is as before.
		reads(t, s, 4, "doc-1", silent, deletes)
		require.Equal(t, want, support(t, s, "MEMBER_OF", "lin", "guild"))
		verified(t, s)
		reads(t, s, 5, "doc-1", member, deletes)
		decided := "decision " + StaleKey(x.Doc, x.Fact) + " " + map[bool]string{true: "approved", false: "rejected"}[withdraw] + "\n"
		require.Contains(t, dumpOpen(t, s, 0), decided)
		require.Equal(t, full, strings.Replace(dumpOpen(t, s, 0), decided, "", 1))
		verified(t, s)

		// A deletion without a rule withdraws it, and what was decided before cannot be taken back any more.
		require.Equal(t, 2, removes(t, s, 6, "doc-1", nil).EntitiesRemoved)
		require.ErrorIs(t, decides(t, s, again), ErrBadChange)
		require.Empty(t, support(t, s, "MEMBER_OF", "lin", "guild"))
		verified(t, s)
	}
}

// What waits for a document that is open waits on when it is deleted under a rule, once; a document that comes back takes it along.
func TestDeletedWhileItWaits(t *testing.T) {
	s := memStore(t)
	reads(t, s, 1, "doc-1", member, nil)
	reads(t, s, 2, "doc-1", silent, policy(StaleReview))
	r := removes(t, s, 3, "doc-1", deletes)
	require.Equal(t, []int{1, 1, 0}, []int{r.Kept, r.Asked, r.RelationsRemoved})
	lines, items := waiting(t, s)
	require.Equal(t, []string{"doc-1 lin MEMBER_OF guild “Lin joined Guild at 30.”"}, lines)
	require.Equal(t, []int{2, 1}, []int{items[0].Gone, items[0].Kept.Version}, "the quote is of the version that said it")
	verified(t, s)
	reads(t, s, 4, "doc-1", silent+" Still.", deletes)
	lines, _ = waiting(t, s)
	require.Len(t, lines, 1)
	verified(t, s)
	require.NoError(t, decides(t, s, func(txn *Txn) error {
		_, err := txn.DecideStale(t.Context(), items[0], true, Decision{Actor: "eva"})
		return err
	}))
	require.Empty(t, support(t, s, "MEMBER_OF", "lin", "guild"))
	reads(t, s, 5, "doc-1", member, deletes)
	removes(t, s, 6, "doc-1", policy(StaleKeep))
	lines, _ = waiting(t, s)
	require.Empty(t, lines)
	require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"), "kept without a question")
	verified(t, s)
}

// A deletion names what a person had decided, also where others state it.
func TestDeletedDecisionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		stale func(StaleFact) string
		want  []string
	}{{nil, []string{`"Lin" MEMBER_OF "Guild"`, `age of "Lin" = 30`}}, {deletes, []string{`age of "Lin" = 30`}}} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", "Lin joined Guild at 30.", nil)
		reads(t, s, 1, "doc-2", member, nil)
		require.NoError(t, decides(t, s, func(txn *Txn) error {
			_, err := txn.Amend(t.Context(), fingerprint.DocumentID("doc-1"), mustFixture(t, "doc-1", member).Assertions, nil)
			return err
		}))
		r := removes(t, s, 2, "doc-1", c.stale)
		require.Equal(t, c.want, r.WithdrawnDecided)
		require.Equal(t, len(c.want), r.WithdrawnDecidedTotal)
		require.Empty(t, r.Removed)
		require.Empty(t, removes(t, s, 2, "doc-2", nil).WithdrawnDecided, "nobody decided what it says")
		verified(t, s)
	}
}

// verify names a row of what is kept that is wrong.
func TestVerifyNamesWhatIsLeft(t *testing.T) {
	doc := func(k string) id {
		v, err := mustID(fingerprint.DocumentID(k))
		require.NoError(t, err)
		return v
	}
	change := func(fn func(st *Stated)) func(*Txn) error {
		return func(txn *Txn) error {
			st, err := txn.left(doc("doc-1"))
			require.NoError(t, err)
			require.Len(t, st.Kept, 2)
			fn(&st)
			return txn.putJSON(leftKey(txn.g.id, doc("doc-1")), st)
		}
	}
	for what, spoil := range map[string]func(txn *Txn) error{
		"is of a document that is not deleted": func(txn *Txn) error {
			st, err := txn.left(doc("doc-1"))
			require.NoError(t, err)
			return txn.putJSON(leftKey(txn.g.id, doc("doc-2")), st)
		},
		"which is not there":      change(func(st *Stated) { st.Kept[0].Version = 9 }),
		"does not ask about fact": change(func(st *Stated) { st.Kept[0].Asked = false }),
		"outside chunk":           change(func(st *Stated) { st.Kept[0].Spans[0].End = 900 }),
		"does not state it":       func(txn *Txn) error { txn.put(leftKey(txn.g.id, doc("doc-1")), nil); return nil },
	} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", member, nil)
		reads(t, s, 1, "doc-2", member, nil)
		removes(t, s, 2, "doc-1", policy(StaleReview))
		verified(t, s)
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		require.NoError(t, spoil(txn))
		_, err = txn.Finish(t.Context(), nil)
		require.NoError(t, err)
		r, err := s.Verify(t.Context(), g, nil)
		require.NoError(t, err)
		said := ""
		for _, p := range r.Problems {
			said += p.Message + "\n"
		}
		require.Contains(t, said, what)
	}
}
