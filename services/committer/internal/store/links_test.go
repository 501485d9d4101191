package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

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
		out = append(out, fmt.Sprintf("%s ~ %s %s %s", a, b, m.Method, m.State))
		return nil
	}))
	slices.Sort(out)
	return out
}

func remove(tb T, s *Store, keys ...string) {
	tb.Helper()
	var all []DocChange
	for _, k := range keys {
		all = append(all, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: k}, Order: graph.Order{Time: 1 << 40}})
	}
	commit(tb, s, all...)
}

func decideMatch(tb T, s *Store, a, b, state string) {
	tb.Helper()
	txn, err := s.Begin(context.Background(), g)
	require.NoError(tb, err)
	require.NoError(tb, txn.DecideMatch(a, b, state))
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(tb, err)
}

// The same links, whichever came first, together or apart, in one document or two; none when one of them is gone.
func TestLinksKnowNoOrder(t *testing.T) {
	docs := map[string]string{"a": "[Person:Babbage Charles] lived.", "b": "[Person:Charles Babbage] died.", "c": "[Person:C. Babbage] and [Org:Babbage Charles]"}
	want := []string{"Babbage Charles ~ Charles Babbage order active", "C. Babbage ~ Charles Babbage initials active"}
	for _, order := range [][]string{{"abc"}, {"a", "b", "c"}, {"c", "b", "a"}, {"b", "ca"}, {"bc", "a"}} {
		s := memStore(t)
		for _, job := range order {
			var all []DocChange
			for _, k := range job {
				all = append(all, mustFixture(t, string(k), docs[string(k)]))
			}
			commit(t, s, all...)
		}
		require.Equal(t, want, linked(t, s), "%v", order)
		verified(t, s)
		remove(t, s, "a")
		require.Equal(t, want[1:], linked(t, s), "%v", order)
		remove(t, s, "b", "c")
		require.Empty(t, linked(t, s))
		verified(t, s)
	}
	s := memStore(t)
	commit(t, s, mustFixture(t, "one", strings.Join([]string{docs["a"], docs["b"], docs["c"]}, " ")))
	require.Equal(t, want, linked(t, s))
}

// What must not link: differing numbers, marks, another label.
func TestLinksVetoed(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "d", "[Task:Task 5] [Task:Task 6] [Lang:C] [Lang:C++] [Lang:C#] [Lang:HTTP] [Lang:HTTPS] [Person:Ada] [Place:Ada]"))
	require.Empty(t, linked(t, s))
}

// A name that becomes the usual one of its entity is compared anew.
func TestLinksFollowTheDisplayName(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "[Org:ACME] grew."), mustFixture(t, "b", "[Org:Acme Ltd] shrank."))
	require.Equal(t, []string{"ACME ~ Acme Ltd legal suffix active"}, linked(t, s))
	commit(t, s, mustFixture(t, "c", "[Org:Acme] [Org:Acme]"))
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, linked(t, s))
	verified(t, s)
}

// A decision stands above the comparison, outlives both entities, and can be taken back.
func TestMatchDecisions(t *testing.T) {
	s := memStore(t)
	a, b := entityID("Org", "acme"), entityID("Org", "acme ltd")
	docs := []DocChange{mustFixture(t, "a", "[Org:Acme]"), mustFixture(t, "b", "[Org:Acme Ltd]")}
	commit(t, s, docs...)
	decideMatch(t, s, b, a, MatchRejected)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix rejected"}, linked(t, s))
	verified(t, s)
	remove(t, s, "a", "b")
	require.Empty(t, linked(t, s))
	for i := range docs {
		docs[i].Order = graph.Order{Time: 1 << 41}
	}
	commit(t, s, docs...)
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix rejected"}, linked(t, s))
	decideMatch(t, s, a, b, "")
	require.Equal(t, []string{"Acme ~ Acme Ltd legal suffix active"}, linked(t, s))
	decideMatch(t, s, a, b, MatchConfirmed)
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	m, ok, err := sn.Match(b, a)
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, m.Linked())
	d, ok, err := sn.Verdict(a, b)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, MatchConfirmed, d.State)
	verified(t, s)

	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	require.ErrorIs(t, txn.DecideMatch(a, a, MatchRejected), ErrBadChange)
	require.ErrorIs(t, txn.DecideMatch(a, "x", MatchRejected), ErrBadChange)
	require.ErrorIs(t, txn.DecideMatch(a, b, "maybe"), ErrBadChange)
	require.NoError(t, txn.Abort())
}

// 5,000 names of one label in one document: bounded time, each pair compared that shares a key, and counted.
func TestManyNamesAtOnce(t *testing.T) {
	s := memStore(t)
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "[Person:%s %s] ", name26(i), name26(i*7919+13))
	}
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Apply(t.Context(), mustFixture(t, "d", text.String()))
	require.NoError(t, err)
	_, err = txn.Written()
	require.NoError(t, err)
	n := txn.Links()
	require.Zero(t, n.CapLeft)
	require.Less(t, n.Compared, 20*5000)
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	t.Logf("5,000 names: %+v", n)
}

// A blocking key that too many share is not followed to its end, and the rest is counted.
func TestBlockCap(t *testing.T) {
	o := options(vfs.NewMem())
	o.maxBlock = 200
	s := openStore(t, o)
	var text strings.Builder
	for i := range o.maxBlock + 300 {
		fmt.Fprintf(&text, "[Person:%s Quillfeather] ", name26(i+1000))
	}
	commit(t, s, mustFixture(t, "d", text.String()))
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Apply(t.Context(), mustFixture(t, "e", "[Person:Quillfeather]"))
	require.NoError(t, err)
	_, err = txn.Written()
	require.NoError(t, err)
	require.Equal(t, 1, txn.Links().CapLeft)
	require.Equal(t, o.maxBlock, txn.Links().Compared)
	require.NoError(t, txn.Abort())
	verified(t, s)
	// More are filed under that key than its list holds.
	var more []string
	for _, k := range allKeys(t, s) {
		if k[headLen-1] == spaceMore {
			more = append(more, k)
		}
	}
	require.NotEmpty(t, more)
	require.NoError(t, s.db.Delete([]byte(more[0]), pebble.NoSync))
	r, err := s.Verify(t.Context(), g, nil)
	require.NoError(t, err)
	require.Len(t, r.Problems, 1)
	require.Equal(t, "block", r.Problems[0].Kind)
	base, _, _ := splitRow([]byte(more[0]))
	kr := readKey(base)
	b, v := block(kr.take(blockLen)), kr.id()
	require.NoError(t, s.db.Set([]byte(more[0]), seal(moreKey(1, b, v), []byte{1}), pebble.NoSync))
	verified(t, s)
	remove(t, s, "d")
	verified(t, s)
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	defer sn.Close()
	live := 0
	require.NoError(t, sn.scan(sn.key(spaceMore), nil, func(key, []byte) error { live++; return nil }))
	require.Zero(t, live)
}

// name26 writes a number as a name of letters.
func name26(n int) string {
	out := []byte{'a' + byte(n%26)}
	for n /= 26; n > 0; n /= 26 {
		out = append(out, "bcdfghjklmnpqrstvwxyzaeiou"[n%26])
	}
	return strings.ToUpper(string(out[:1])) + string(out[1:]) + "o"
}
