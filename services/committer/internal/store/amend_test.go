package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// What is added to a version is stated as if its reading had found it, and goes with the document.
func TestAmend(t *testing.T) {
	const bare, full = "Ada met [Person:Bab] in 1843.\n~\nThe end.", "[Person:Ada] met [Person:Bab] in 1843.\n~\nThe end.\n> 0 KNOWS Person:Bab Person:Ada\n. 0 age=1843 Person:Ada"
	symmetric := func(typ string) bool { return typ == "KNOWS" }
	read := mustFixture(t, "a", full)
	read.Symmetric = symmetric

	want := memStore(t)
	commit(t, want, read, mustFixture(t, "b", "[Person:Ada] sings."))
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", bare), mustFixture(t, "b", "[Person:Ada] sings."))

	amend := func() DocResult {
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		res, err := txn.Amend(t.Context(), fingerprint.DocumentID("a"), read.Assertions, symmetric)
		require.NoError(t, err)
		_, err = txn.Finish(t.Context(), nil)
		require.NoError(t, err)
		return res
	}
	require.Equal(t, DocResult{Outcome: Updated, Version: 1, EntitiesUpdated: 1, RelationsCreated: 1}, amend())
	require.Equal(t, dumpOpen(t, want, 0), dumpOpen(t, s, 0))
	verified(t, s)
	require.Equal(t, DocResult{Outcome: Updated, Version: 1}, amend(), "again: nothing new")
	require.Equal(t, dumpOpen(t, want, 0), dumpOpen(t, s, 0))
	verified(t, s)

	commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Seq: 9}})
	commit(t, want, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Seq: 9}})
	require.Equal(t, dumpOpen(t, want, 0), dumpOpen(t, s, 0))
	verified(t, s)

	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Amend(t.Context(), fingerprint.DocumentID("a"), read.Assertions, symmetric)
	require.ErrorIs(t, err, ErrBadChange, "the document is gone")
	far := read.Assertions
	far.Chunks = []graph.ChunkAssertions{{Index: 5, Mentions: []graph.Mention{{Name: "Ada", End: 3}}}}
	_, err = txn.Amend(t.Context(), fingerprint.DocumentID("b"), far, nil)
	require.ErrorIs(t, err, ErrBadChange, "chunk 5 of 1")
	require.NoError(t, txn.Abort())
}

// A converted record goes, and its key stays decided.
func TestConvertCandidate(t *testing.T) {
	s := memStore(t)
	read := mustFixture(t, "a", "Ada met Bab.\n? 0 entity Person Ada")
	key := read.Assertions.Candidates[0].Key
	commit(t, s, read)
	doc := fingerprint.DocumentID("a")
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	require.ErrorIs(t, txn.ConvertCandidate(t.Context(), doc, key), ErrBadChange, "it is pending")
	_, err = txn.Decide(t.Context(), key, api.StateApproved)
	require.NoError(t, err)
	require.NoError(t, txn.ConvertCandidate(t.Context(), doc, key))
	require.ErrorIs(t, txn.ConvertCandidate(t.Context(), doc, key), ErrBadChange, "it is gone")
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	_, ok, err := sn.Candidate(doc, key)
	require.NoError(t, err)
	require.False(t, ok)
	d, ok, err := sn.Decision(key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, api.StateApproved, d.State)
	verified(t, s)
	commit(t, s, func() DocChange {
		c := mustFixture(t, "a", "Ada met Bab again.\n? 0 entity Person Ada")
		c.Order.Seq = 5
		return c
	}())
	again, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer again.Close()
	r, ok, err := again.Candidate(doc, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, api.StateApproved, r.State, "a later sighting is approved already")
}
