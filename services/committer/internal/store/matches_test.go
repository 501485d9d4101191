package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// linked lists the matches of a store by display names: "a ~ b method state", sorted.
func linked(tb T, s *Store) []string {
	tb.Helper()
	sn, err := s.Snapshot(g, 0)
	require.NoError(tb, err)
	defer sn.Close()
	names := map[string]string{}
	require.NoError(tb, sn.EntitiesAll("", func(f EntityFold) error {
		names[f.ID] = f.Display()
		return nil
	}))
	var out []string
	require.NoError(tb, sn.MatchesAll(Match{}, func(m Match) error {
		a, b := names[m.A], names[m.B]
		if b < a {
			a, b = b, a
		}
		out = append(out, fmt.Sprintf("%s ~ %s %s %s", a, b, m.Method, m.State()))
		return nil
	}))
	slices.Sort(out)
	c, err := sn.Counts()
	require.NoError(tb, err)
	n := 0
	for _, k := range c.Matches {
		n += k
	}
	require.Equal(tb, len(out), n, "counted")
	return out
}

func inTxn(tb T, s *Store, fn func(*Txn)) {
	tb.Helper()
	txn, err := s.Begin(context.Background(), g)
	require.NoError(tb, err)
	fn(txn)
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(tb, err)
}

func putMatch(tb T, s *Store, a, b, found string, want bool) {
	tb.Helper()
	inTxn(tb, s, func(txn *Txn) {
		changed, err := txn.PutMatch(Match{A: a, B: b, Method: "legal suffix", Score: 0.965, Found: found})
		require.NoError(tb, err)
		require.Equal(tb, want, changed)
	})
}

func decideMatch(tb T, s *Store, a, b, state string, want bool) {
	tb.Helper()
	inTxn(tb, s, func(txn *Txn) {
		changed, err := txn.DecideMatch(Verdict{A: a, B: b, State: state, Actor: "eva"})
		require.NoError(tb, err)
		require.Equal(tb, want, changed)
	})
}

// A match lies between two entities that are there, goes with either, and is written once.
func TestMatchesGoWithTheirEntities(t *testing.T) {
	s := memStore(t)
	a, b := entityID("Org", "acme"), entityID("Org", "acme ltd")
	docs := []DocChange{mustFixture(t, "a", "[Org:Acme]"), mustFixture(t, "b", "[Org:Acme Ltd]")}
	commit(t, s, docs[0])
	putMatch(t, s, b, a, MatchActive, false)
	require.Empty(t, linked(t, s), "one end is not there")
	commit(t, s, docs[1])
	putMatch(t, s, b, a, MatchUnclear, true)
	putMatch(t, s, a, b, MatchUnclear, false)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix unclear"}, linked(t, s))
	putMatch(t, s, a, b, MatchActive, true)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, linked(t, s))
	sn, err := s.Snapshot(g, 3)
	require.NoError(t, err)
	m, ok, err := sn.Match(b, a)
	require.NoError(t, err)
	require.False(t, ok, "not at that sequence: %v", m)
	require.NoError(t, sn.Close())
	verified(t, s)

	// The match is put and one end goes in the same commit.
	inTxn(t, s, func(txn *Txn) {
		_, err := txn.PutMatch(Match{A: a, B: b, Method: "x", Score: 1, Found: MatchActive})
		require.NoError(t, err)
		_, err = txn.Apply(t.Context(), DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "a"}, Order: graph.Order{Time: 1 << 40}})
		require.NoError(t, err)
	})
	require.Empty(t, linked(t, s))
	verified(t, s)
	inTxn(t, s, func(txn *Txn) {
		_, err := txn.PutMatch(Match{A: a, B: a, Method: "x", Score: 1, Found: MatchActive})
		require.ErrorIs(t, err, ErrBadChange)
		_, err = txn.PutMatch(Match{A: a, B: b, Method: "x", Score: 1, Found: "so-so"})
		require.ErrorIs(t, err, ErrBadChange)
	})
}

// A decision stands above what is found, outlives both entities, and can be taken back.
func TestMatchDecisions(t *testing.T) {
	s := memStore(t)
	a, b := entityID("Org", "acme"), entityID("Org", "acme ltd")
	docs := []DocChange{mustFixture(t, "a", "[Org:Acme]"), mustFixture(t, "b", "[Org:Acme Ltd]")}
	commit(t, s, docs...)
	decideMatch(t, s, b, a, MatchRejected, true)
	require.Empty(t, linked(t, s), "decided before it was found")
	putMatch(t, s, a, b, MatchActive, true)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix rejected"}, linked(t, s))
	decideMatch(t, s, a, b, MatchRejected, false)
	verified(t, s)
	for i := range docs {
		commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: docs[i].Meta.Key}, Order: graph.Order{Time: 1 << 40}})
		docs[i].Order = graph.Order{Time: 1 << 41}
	}
	require.Empty(t, linked(t, s))
	commit(t, s, docs...)
	putMatch(t, s, a, b, MatchActive, true)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix rejected"}, linked(t, s))
	decideMatch(t, s, a, b, "", true)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, linked(t, s))
	decideMatch(t, s, a, b, MatchConfirmed, true)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix confirmed"}, linked(t, s))
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	d, ok, err := sn.Verdict(b, a)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "eva", d.Actor)
	m, ok, err := sn.MatchByID(fingerprint.MatchID(b, a))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []string{min(a, b), max(a, b), MatchConfirmed}, []string{m.A, m.B, m.State()})
	for _, other := range []string{a, "", fingerprint.MatchID(a, a)} {
		_, ok, err = sn.MatchByID(other)
		require.NoError(t, err)
		require.False(t, ok, other)
	}
	inTxn(t, s, func(txn *Txn) {
		changed, err := txn.DropMatch(b, a)
		require.NoError(t, err)
		require.True(t, changed)
	})
	now, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer now.Close()
	_, ok, err = now.MatchByID(fingerprint.MatchID(b, a))
	require.NoError(t, err)
	require.False(t, ok, "it went with the match")
	verified(t, s)
}

// touched lists what the feed says behind a commit: "seq job kind names", page by page of limit entries.
func touchedAfter(tb T, s *Store, seq uint64, limit int) (out []string) {
	tb.Helper()
	offset := 0
	for {
		p, err := s.Feed(context.Background(), g, seq, offset, limit)
		require.NoError(tb, err)
		if p.Seq == 0 {
			return out
		}
		for _, x := range p.Touched {
			out = append(out, fmt.Sprintf("%d %s %c %s", p.Seq, p.Job, x.Kind, x.ID))
		}
		if offset = p.Next; offset == 0 {
			seq = p.Seq
		}
	}
}

// The feed tells of entities that came, went, or are displayed otherwise, and of chunks that came or went; of nothing else.
func TestFeed(t *testing.T) {
	s := memStore(t)
	acme := entityID("Org", "acme")
	change := func(k, text string) DocChange {
		c := mustFixture(t, k, text)
		c.Job = "job-" + k
		return c
	}
	commit(t, s, change("a", "[Org:ACME] grew."))
	first := touchedAfter(t, s, 0, 100)
	require.Len(t, first, 2)
	require.Contains(t, first, "1 job-a e "+acme)
	commit(t, s, change("b", "[Org:ACME] shrank."))
	second := touchedAfter(t, s, 1, 100)
	require.Len(t, second, 1, "the entity was mentioned once more: %v", second)
	require.Regexp(t, "^2 job-b c ", second[0])
	commit(t, s, change("c", "[Org:Acme] [Org:Acme] [Org:Acme]"))
	require.Contains(t, touchedAfter(t, s, 2, 100), "3 job-c e "+acme, "another display name")
	for i, k := range []string{"a", "b", "c"} {
		commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: 1 << 40}, Job: "del"})
		gone := touchedAfter(t, s, uint64(3+i), 100)
		if k == "c" {
			require.Contains(t, gone, "6 del e "+acme)
		}
	}
	all := touchedAfter(t, s, 0, 100)
	require.Equal(t, all, touchedAfter(t, s, 0, 1), "rows are whole pages")
	require.Equal(t, all[0], first[0])
	require.NoError(t, s.TrimFeed(t.Context(), g, 4))
	_, err := s.Feed(t.Context(), g, 3, 0, 10)
	require.ErrorIs(t, err, ErrFeedGone)
	left := touchedAfter(t, s, 4, 100)
	require.Equal(t, all[len(all)-len(left):], left)
	verified(t, s)
}

// A commit of several batches has feed rows for each, and an aborted one leaves none.
func TestFeedOfManyBatches(t *testing.T) {
	o := options(vfs.NewMem())
	o.BatchBytes = 1 << 10
	s := openStore(t, o)
	var all []DocChange
	want := 0
	for i := range 50 {
		all = append(all, mustFixture(t, fmt.Sprintf("d%d", i), fmt.Sprintf("[Org:Firm %d] grew.", i)))
		want += 2
	}
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	for _, c := range all {
		_, err := txn.Apply(t.Context(), c)
		require.NoError(t, err)
	}
	require.NoError(t, txn.Abort())
	require.Empty(t, touchedAfter(t, s, 0, 10))
	commit(t, s, all...)
	got := touchedAfter(t, s, 0, 7)
	require.Len(t, got, want)
	slices.Sort(got)
	require.Len(t, slices.Compact(got), want, "each once")
	verified(t, s)
}
