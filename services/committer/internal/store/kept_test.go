package store

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// policy is one verdict for everything that goes.
func policy(verdict string) func(StaleFact) string {
	return func(f StaleFact) string {
		if f.Kept {
			return StaleKeep
		}
		return verdict
	}
}

// reads commits a document's next version.
func reads(t *testing.T, s *Store, order int64, docKey, src string, stale func(StaleFact) string) DocResult {
	t.Helper()
	c := mustFixture(t, docKey, src)
	c.Order.Time, c.Stale = order, stale
	return commit(t, s, c)[0]
}

// waiting are the items that wait, "document fact quote…".
func waiting(t *testing.T, s *Store) (out []string, items []StaleItem) {
	t.Helper()
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	require.NoError(t, sn.Stale(func(x StaleItem) error {
		d, _, err := sn.Doc(x.Doc)
		require.NoError(t, err)
		text, _, err := sn.Text(x.Doc, x.Kept.Version)
		require.NoError(t, err)
		line := d.Meta.Key + " "
		if x.Kept.Type != "" {
			line += x.Kept.Ends[0].Key + " " + x.Kept.Type + " " + x.Kept.Ends[1].Key
		} else {
			line += fmt.Sprintf("%s of %s = %v (%T)", x.Kept.Name, x.Kept.Ends[0].Key, x.Kept.Value, x.Kept.Value)
		}
		for _, q := range x.Kept.Spans {
			line += " “" + text[q.Start:q.End] + "”"
		}
		out, items = append(out, line), append(items, x)
		again, ok, err := sn.StaleByID(x.ID)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, x, again)
		return nil
	}))
	c, err := sn.Counts()
	require.NoError(t, err)
	require.Equal(t, len(out), c.Stale)
	slices.Sort(out)
	return out, items
}

// support is "documents/evidence" of a relation, "" when nobody states it.
func support(t *testing.T, s *Store, typ, src, dst string) string {
	t.Helper()
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	f, ok, err := sn.Relation(fingerprint.RelationID(typ, entityID("Person", src), entityID("Person", dst), false))
	require.NoError(t, err)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d/%d", f.Documents, f.Evidence)
}

const (
	member = "[Person:Lin] joined [Person:Guild] at 30.\n> 0 MEMBER_OF Person:Lin Person:Guild\n. 0 age=30 Person:Lin"
	silent = "Nobody joined anything."
)

// What a new version drops waits with its old quote, its support stays; each decision does what it says, to that document alone.
func TestStaleFactsWait(t *testing.T) {
	for _, withdraw := range []bool{true, false} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", member, nil)
		reads(t, s, 1, "doc-2", "[Person:Lin] is in [Person:Guild].\n> 0 MEMBER_OF Person:Lin Person:Guild", nil)
		full := dumpOpen(t, s, 0)
		r := reads(t, s, 2, "doc-1", silent, policy(StaleReview))
		require.Equal(t, []int{2, 2, 0, 0}, []int{r.Kept, r.Asked, r.RelationsRemoved, r.EntitiesRemoved})
		lines, items := waiting(t, s)
		require.Equal(t, []string{"doc-1 age of lin = 30 (int64) “30”", "doc-1 lin MEMBER_OF guild “Lin joined Guild at 30.”"}, lines)
		require.Equal(t, "2/2", support(t, s, "MEMBER_OF", "lin", "guild"))
		verified(t, s)
		for _, x := range items {
			txn, err := s.Begin(t.Context(), g)
			require.NoError(t, err)
			_, err = txn.DecideStale(t.Context(), x, withdraw, Decision{Actor: "eva"})
			require.NoError(t, err)
			_, err = txn.DecideStale(t.Context(), x, withdraw, Decision{Actor: "eva"})
			require.ErrorIs(t, err, ErrBadChange, "nothing waits any more")
			_, err = txn.Finish(t.Context(), nil)
			require.NoError(t, err)
		}
		lines, _ = waiting(t, s)
		require.Empty(t, lines)
		verified(t, s)
		want := "2/2"
		if withdraw {
			want = "1/1"
		}
		require.Equal(t, want, support(t, s, "MEMBER_OF", "lin", "guild"))
		reads(t, s, 3, "doc-1", silent+" Still.", policy(StaleReview))
		lines, _ = waiting(t, s)
		require.Empty(t, lines, "it is not asked again")
		require.Equal(t, want, support(t, s, "MEMBER_OF", "lin", "guild"))
		commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "doc-2"}, Order: graph.Order{Time: 9}})
		want = map[bool]string{true: "", false: "1/1"}[withdraw]
		require.Equal(t, want, support(t, s, "MEMBER_OF", "lin", "guild"))
		verified(t, s)
		reads(t, s, 4, "doc-1", member, policy(StaleReview))
		reads(t, s, 10, "doc-2", "[Person:Lin] is in [Person:Guild].\n> 0 MEMBER_OF Person:Lin Person:Guild", nil)
		now := regexp.MustCompile("(?m)^decision stale.*\n").ReplaceAllString(dumpOpen(t, s, 0), "")
		require.Equal(t, full, now, "stated again, all is as it was")
		verified(t, s)
	}
}

// A decision that is taken back waits again, with what it was about.
func TestAskAgain(t *testing.T) {
	for _, withdraw := range []bool{true, false} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", member, nil)
		reads(t, s, 2, "doc-1", silent, policy(StaleReview))
		before, items := waiting(t, s)
		dump := dumpOpen(t, s, 0)
		for _, x := range items {
			decide := func(fn func(txn *Txn) error) {
				txn, err := s.Begin(t.Context(), g)
				require.NoError(t, err)
				require.NoError(t, fn(txn))
				_, err = txn.Finish(t.Context(), nil)
				require.NoError(t, err)
				verified(t, s)
			}
			decide(func(txn *Txn) error {
				_, err := txn.DecideStale(t.Context(), x, withdraw, Decision{Actor: "eva"})
				return err
			})
			sn, err := s.Snapshot(g, 0)
			require.NoError(t, err)
			d, ok, err := sn.Decision(StaleKey(x.Doc, x.Fact))
			require.NoError(t, errorsJoin(err, sn.Close()))
			require.True(t, ok)
			require.Equal(t, []string{map[bool]string{true: "approved", false: "rejected"}[withdraw], "eva", "stale"}, []string{d.State, d.Actor, d.Kind})
			decide(func(txn *Txn) error {
				_, err := txn.AskAgain(t.Context(), x)
				require.NoError(t, err)
				_, err = txn.AskAgain(t.Context(), x)
				require.ErrorIs(t, err, ErrBadChange, "it waits already")
				return nil
			})
		}
		after, _ := waiting(t, s)
		require.Equal(t, before, after)
		require.Equal(t, dump, dumpOpen(t, s, 0))
	}
}

// An item ends with its document, and when the fact is stated again; a fact that stays keeps its first quote over further versions.
func TestStaleItemsEnd(t *testing.T) {
	s := memStore(t)
	reads(t, s, 1, "doc-1", member, nil)
	reads(t, s, 2, "doc-1", silent, policy(StaleReview))
	reads(t, s, 3, "doc-1", silent+" Still.", policy(StaleWithdraw))
	lines, _ := waiting(t, s)
	require.Len(t, lines, 2, "what waits is not withdrawn by the next version")
	require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))
	verified(t, s)
	reads(t, s, 4, "doc-1", "[Person:Lin] is in [Person:Guild] again.\n> 0 MEMBER_OF Person:Lin Person:Guild", policy(StaleWithdraw))
	lines, _ = waiting(t, s)
	require.Equal(t, []string{"doc-1 age of lin = 30 (int64) “30”"}, lines)
	verified(t, s)
	commit(t, s, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "doc-1"}, Order: graph.Order{Time: 5}})
	lines, _ = waiting(t, s)
	require.Empty(t, lines)
	require.NotContains(t, dumpOpen(t, s, 0), "Lin")
	verified(t, s)
}

// What was kept goes when the policy takes it no longer, be it asked about or not.
func TestKeptIsWithdrawn(t *testing.T) {
	for _, verdict := range []string{StaleReview, StaleKeep} {
		s := memStore(t)
		reads(t, s, 1, "doc-1", member, nil)
		reads(t, s, 2, "doc-1", silent, policy(verdict))
		require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))
		reads(t, s, 3, "doc-1", silent+" Still.", func(f StaleFact) string {
			if f.Kept && f.Kind == graph.KindRelation {
				return StaleWithdraw
			}
			return StaleKeep
		})
		require.Empty(t, support(t, s, "MEMBER_OF", "lin", "guild"))
		_, items := waiting(t, s)
		require.Len(t, items, map[string]int{StaleReview: 1, StaleKeep: 0}[verdict])
		verified(t, s)
	}
}

// The policy sees what goes; what a person made a fact is told apart.
func TestStalePolicyIsAsked(t *testing.T) {
	s := memStore(t)
	reads(t, s, 1, "doc-1", "Lin joined Guild at 30.", nil)
	c := mustFixture(t, "doc-1", member)
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Amend(t.Context(), fingerprint.DocumentID("doc-1"), c.Assertions, nil)
	require.NoError(t, err)
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	var seen []StaleFact
	keep := func(f StaleFact) string {
		if !f.Kept {
			seen = append(seen, f)
		}
		return StaleKeep
	}
	r := reads(t, s, 2, "doc-1", silent, keep)
	require.Equal(t, []int{2, 0}, []int{r.Kept, r.Asked})
	require.Equal(t, []StaleFact{
		{Kind: graph.KindRelation, Label: "MEMBER_OF", Types: []string{"Person", "Person"}, Confidence: seen[0].Confidence, Assertions: []string{"explicit"}, Extractors: seen[0].Extractors, Decided: true},
		{Kind: graph.KindProperty, Label: "age", Types: []string{"Person"}, Confidence: seen[1].Confidence, Extractors: seen[1].Extractors, Decided: true},
	}, seen)
	require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))
	verified(t, s)
	reads(t, s, 3, "doc-1", member, keep)
	seen = nil
	reads(t, s, 4, "doc-1", silent, keep)
	require.Equal(t, []bool{true, true}, []bool{seen[0].Decided, seen[1].Decided}, "it is remembered while the document supports it")
	verified(t, s)
}

// Text that was not read whole never makes a fact stale.
func TestUnreadTextMakesNothingStale(t *testing.T) {
	s := memStore(t)
	reads(t, s, 1, "doc-1", member, nil)
	r := reads(t, s, 2, "doc-1", "Lin joined Guild at 30.\n! 0 failed", policy(StaleReview))
	require.Equal(t, []int{0, 0}, []int{r.Kept, r.Asked})
	lines, _ := waiting(t, s)
	require.Empty(t, lines)
	require.Equal(t, "1/1", support(t, s, "MEMBER_OF", "lin", "guild"))
	verified(t, s)
}
