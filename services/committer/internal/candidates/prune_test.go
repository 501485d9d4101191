package candidates

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func days(n int) *int { return &n }

// Prune says what would go, and takes it away when told to; what is approved stays, and what is pending beside it.
func TestPrune(t *testing.T) {
	r := newRoom(t)
	prune := func(req api.ReviewPrune) api.ReviewPruneReply {
		t.Helper()
		p, err := r.Prune(t.Context(), g, req)
		require.NoError(t, err)
		require.Equal(t, len(p.Matched), p.MatchedTotal)
		return p
	}
	r.read("a", "entity Ship Ark", "entity Ship Bounty", "entity Ship Cutty", "entity Ship Dove", "relation OWNS X > Y")
	r.reject("entity|ship|bounty")
	r.approve("entity|ship|dove")
	r.now = clock.AddDate(0, 0, 10)
	r.read("b", "entity Ship Cutty", "entity Ship Ewe", "entity Ship Bounty")
	before := r.records()
	for _, c := range []struct {
		req  api.ReviewPrune
		want []string
	}{
		{api.ReviewPrune{Rejected: true}, []string{"entity|ship|bounty"}},
		{api.ReviewPrune{PendingBelowCount: days(2)}, []string{"entity|ship|ark", "entity|ship|ewe", "relation|owns|x|y"}},
		{api.ReviewPrune{PendingBelowCount: days(1)}, []string{}},
		{api.ReviewPrune{PendingOlderThanDays: days(9)}, []string{"entity|ship|ark", "relation|owns|x|y"}},
		{api.ReviewPrune{PendingOlderThanDays: days(10)}, []string{}},
		{api.ReviewPrune{PendingBelowCount: days(9), Rejected: true, Keys: []string{"entity|ship|bounty", "entity|ship|ewe", "entity|ship|dove", "none"}}, []string{"entity|ship|bounty", "entity|ship|ewe"}},
		{api.ReviewPrune{PendingOlderThanDays: days(9), PendingBelowCount: days(2), Rejected: true}, []string{"entity|ship|bounty", "entity|ship|ark", "entity|ship|ewe", "relation|owns|x|y"}},
	} {
		p := prune(c.req)
		require.Equal(t, []any{c.want, 0, false}, []any{p.Matched, p.Deleted, p.Applied})
		require.Equal(t, before, r.records())
	}
	for _, bad := range []api.ReviewPrune{{}, {Apply: true}, {PendingOlderThanDays: days(-1)}, {PendingBelowCount: days(-1)}, {Rejected: true, Actor: "a\tb"}} {
		require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.Prune(t.Context(), g, bad); return err }))
	}
	none, err := r.Prune(t.Context(), "other", api.ReviewPrune{Rejected: true, Apply: true})
	require.NoError(t, err)
	require.Empty(t, none.Matched)

	req := api.ReviewPrune{PendingBelowCount: days(2), Rejected: true, Apply: true, Actor: "eva", RequestID: "p1"}
	p := prune(req)
	require.Equal(t, []any{[]string{"entity|ship|bounty", "entity|ship|ark", "entity|ship|ewe", "relation|owns|x|y"}, 4, true}, []any{p.Matched, p.Deleted, p.Applied})
	require.Equal(t, []string{"entity|ship|cutty a pending 1", "entity|ship|cutty b pending 1", "entity|ship|dove a approved 1"}, r.records())
	require.Equal(t, p, prune(req), "the same request is answered the same")
	verbs, trail := r.events()
	require.Contains(t, verbs, "pruned entity|ship|bounty a")
	require.Contains(t, verbs, "pruned relation|owns|x|y a")
	last := trail[len(trail)-1]
	require.Equal(t, []string{"prune", "eva", "p1", "pending", ""}, []string{last.Decision, last.Actor, last.Operation, last.Before, last.After})
	r.verified()
	require.Empty(t, prune(api.ReviewPrune{Rejected: true, Apply: true}).Matched)
}

// A rejected key whose documents hold no record of it any more is forgotten too, and many keys take several commits.
func TestPruneInSteps(t *testing.T) {
	r := newRoom(t)
	r.keys = 3
	var keys []string
	items := []string{}
	for i := range 10 {
		items = append(items, fmt.Sprintf("entity Ship Number %d", i))
		keys = append(keys, candidate(items[i]).Key)
	}
	r.read("a", items...)
	r.reject(keys[:5]...)
	ctx, cancel := context.WithCancel(t.Context())
	base := r.told.Load()
	r.deps.Committed = func(string) {
		if r.told.Add(1) == base+2 {
			cancel()
		}
	}
	req := api.ReviewPrune{Rejected: true, PendingBelowCount: days(9), Apply: true, RequestID: "p"}
	_, err := r.Prune(ctx, g, req)
	require.ErrorIs(t, err, context.Canceled)
	p, err := r.Prune(t.Context(), g, req)
	require.NoError(t, err)
	require.Equal(t, keys, p.Matched)
	require.Equal(t, 10, p.Deleted)
	require.Empty(t, r.records())
	require.Equal(t, base+4, r.told.Load(), "3, 2 + 1, 3, 1 keys")
	r.verified()
}

// Only a rejection that stands is taken back.
func TestUndo(t *testing.T) {
	r := newRoom(t)
	r.read("a", "entity Ship Ark", "entity Ship Bounty")
	undo := func(record string) error {
		_, err := r.Undo(t.Context(), g, api.CandidatesUndo{Record: record, Actor: "bo", Reason: "slip"})
		return err
	}
	approved := r.approve("entity|ship|ark").Records["entity|ship|ark"]
	require.Equal(t, "412 not_supported", r.refused(func() error { return undo(approved) }))
	require.Equal(t, "404 decision_not_found", r.refused(func() error { return undo("nothing") }))
	require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.Undo(t.Context(), g, api.CandidatesUndo{Record: "x"}); return err }))
	_, err := r.Undo(t.Context(), "other", api.CandidatesUndo{Record: "x", Actor: "e"})
	require.ErrorContains(t, err, "no audit record")
	rejected := r.reject("entity|ship|ark").Records["entity|ship|ark"]
	require.NoError(t, undo(rejected))
	require.Equal(t, []string{"entity|ship|bounty a pending 1"}, r.records())
	_, trail := r.events()
	last := trail[len(trail)-1]
	require.Equal(t, []string{events.DecisionUndo, rejected, "bo", "slip", "rejected", ""}, []string{last.Decision, last.Undoes, last.Actor, last.Reason, last.Before, last.After})
	require.Equal(t, "412 decision_not_current", r.refused(func() error { return undo(rejected) }))
	require.Equal(t, "412 not_supported", r.refused(func() error { return undo(last.Record) }))
	// A rejection of the key that came again is another one.
	r.read("a", "entity Ship Ark")
	again := r.reject("entity|ship|ark").Records["entity|ship|ark"]
	require.Equal(t, "412 decision_not_current", r.refused(func() error { return undo(rejected) }))
	require.NoError(t, undo(again))
	require.Empty(t, r.records())
	r.verified()
}

// What was decided is listed by request, item, actor and time, the latest first, page by page.
func TestAudit(t *testing.T) {
	r := newRoom(t)
	items := []string{}
	for i := range 7 {
		items = append(items, fmt.Sprintf("entity Ship Number %d", i))
	}
	r.read("a", items...)
	key := func(i int) string { return candidate(items[i]).Key }
	r.decide(api.CandidatesDecide{Keys: []string{key(0), key(1), key(2)}, Decision: "approve", RequestID: "r1"})
	r.now = r.now.Add(time.Hour)
	r.decide(api.CandidatesDecide{Keys: []string{key(2), key(3)}, Decision: "reject", Actor: "bo", RequestID: "r2"})
	list := func(req api.ReviewAudit) (out []string) {
		t.Helper()
		for {
			a, err := r.Audit(t.Context(), g, req)
			require.NoError(t, err)
			require.Equal(t, uint64(5), a.Total)
			for _, x := range a.Records {
				out = append(out, fmt.Sprint(x.No))
			}
			if req.Cursor = a.Next; a.Next == "" {
				return out
			}
		}
	}
	two := 2
	later := clock.Add(time.Minute).Format(time.RFC3339)
	for _, c := range []struct {
		req  api.ReviewAudit
		want []string
	}{
		{api.ReviewAudit{}, []string{"5", "4", "3", "2", "1"}},
		{api.ReviewAudit{Limit: &two}, []string{"5", "4", "3", "2", "1"}},
		{api.ReviewAudit{Operation: "r1", Limit: &two}, []string{"3", "2", "1"}},
		{api.ReviewAudit{Operation: "r2", Actor: "eva"}, nil},
		{api.ReviewAudit{Item: key(2)}, []string{"4", "3"}},
		{api.ReviewAudit{Item: r.record("a", key(2)).ID}, []string{"4", "3"}},
		{api.ReviewAudit{Item: "entity|x|y"}, nil},
		{api.ReviewAudit{Item: "entity|ship|number"}, nil},
		{api.ReviewAudit{Actor: "bo"}, []string{"5", "4"}},
		{api.ReviewAudit{From: later}, []string{"5", "4"}},
		{api.ReviewAudit{To: later}, []string{"3", "2", "1"}},
		{api.ReviewAudit{From: "2026-01-03"}, nil},
		{api.ReviewAudit{Operation: "r"}, nil},
	} {
		require.Equal(t, c.want, list(c.req), "%+v", c.req)
	}
	for _, bad := range []api.ReviewAudit{{From: "yesterday"}, {Cursor: "x"}, {Cursor: "0"}, {Limit: days(1001)}, {Limit: days(-1)}} {
		require.Equal(t, "400 bad_value", r.refused(func() error { _, err := r.Audit(t.Context(), g, bad); return err }))
	}
	one, err := r.Audit(t.Context(), g, api.ReviewAudit{})
	require.NoError(t, err)
	require.Equal(t, one.Head, one.Records[0].Record)
	got, err := r.Audit(t.Context(), g, api.ReviewAudit{Record: one.Records[3].Record, Verify: true})
	require.NoError(t, err)
	require.Equal(t, []any{one.Records[3], 5, 0}, []any{got.Records[0], *got.Verified, len(got.Problems)})
	require.Equal(t, "404 decision_not_found", r.refused(func() error { _, err := r.Audit(t.Context(), g, api.ReviewAudit{Record: "x"}); return err }))
}
