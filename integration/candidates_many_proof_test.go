//go:build proof

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// One query approves 10,000 candidates and reports on them in a reply of bounded size. Meanwhile, and while the whole chain is checked, others
// are answered at once: no request waits for a slow one.
func TestApproveTenThousand(t *testing.T) {
	const people, firms, total = 100, 100, 10_000
	f := newFleet(t, fleetOptions{Replicas: 1})
	f.perhaps("g", people, firms)
	limit := 1
	list := func() (took time.Duration, state int) {
		began := time.Now()
		r := ask[api.ReviewListReply](f.cluster, "g", "review.list", api.ReviewList{Limit: &limit})
		return time.Since(began), r.Total
	}
	_, n := list()
	require.Equal(t, total, n)
	// while runs fn, and lists all the time; it returns the longest time that a list took.
	while := func(fn func()) (worst time.Duration, lists int) {
		done := make(chan struct{})
		go func() { defer close(done); fn() }()
		for {
			select {
			case <-done:
				return worst, lists
			default:
				took, _ := list()
				worst, lists = max(worst, took), lists+1
			}
		}
	}
	var raw json.RawMessage
	req := api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"relation"}}, Actor: "eva", RequestID: "all"}
	began := time.Now()
	worst, lists := while(func() {
		if err := f.conn.Request(t.Context(), "factmill.g.review.approve", req, &raw); err != nil {
			t.Error(err)
		}
	})
	took := time.Since(began)
	t.Logf("%d approved in %s; %d lists meanwhile, the slowest %s; the reply has %d bytes", total, took, lists, worst, len(raw))
	require.Less(t, len(raw), int(f.conn.NC.MaxPayload()))
	r := loose[api.DecideReply](t, string(raw))
	require.Equal(t, []int{total, 0}, []int{r.Outcome.ChangedTotal, r.Outcome.SkippedTotal})
	require.NotEmpty(t, r.Outcome.Changed)
	require.Len(t, r.Records, len(r.Outcome.Changed))
	require.Less(t, worst, took/2+50*time.Millisecond, "a list does not wait for the decision")
	require.Greater(t, lists, 5)
	stats := ask[api.ReviewStatsReply](f.cluster, "g", "review.stats", nil)
	require.Equal(t, map[string]int{api.StateApproved: total}, stats.ByState)
	require.Equal(t, r, ask[api.DecideReply](f.cluster, "g", "review.approve", req))
	again := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"relation"}}, Actor: "eva"})
	require.Equal(t, []int{0, 0}, []int{again.Outcome.ChangedTotal, again.Outcome.SkippedTotal}, "none of them waits any more")

	began = time.Now()
	var log api.ReviewAuditReply
	worst, lists = while(func() {
		if err := f.conn.Request(t.Context(), "factmill.g.review.audit", api.ReviewAudit{Verify: true}, &log); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the chain was checked in %s; %d lists meanwhile, the slowest %s", time.Since(began), lists, worst)
	require.Equal(t, []int{total, total, 0}, []int{int(log.Total), *log.Verified, len(log.Problems)})

	// Its patch comes in pages.
	ids, pages := []string{}, 0
	for cursor := ""; ; pages++ {
		p := ask[struct {
			CandidateIDs []string `json:"candidate_ids"`
			Next         string   `json:"next"`
		}](f.cluster, "g", "review.patch", map[string]any{"cursor": cursor})
		ids = append(ids, p.CandidateIDs...)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	require.Len(t, ids, total)
	require.True(t, slices.IsSorted(ids))

	// Many decide about all of them at once: each is decided once, and lists are answered all the while.
	const deciders = 24
	var changed atomic.Int64
	worst, lists = while(func() {
		var wg sync.WaitGroup
		for i := range deciders {
			wg.Go(func() {
				var r api.DecideReply
				req := api.ReviewDecide{Query: &api.ReviewList{State: json.RawMessage(`"approved"`)}, Actor: fmt.Sprint("reviewer ", i)}
				if err := f.conn.Request(t.Context(), "factmill.g.review.reject", req, &r); err != nil {
					t.Error(err)
				}
				changed.Add(int64(r.Outcome.ChangedTotal))
			})
		}
		wg.Wait()
	})
	t.Logf("%d reviewers rejected %d; %d lists meanwhile, the slowest %s", deciders, changed.Load(), lists, worst)
	require.Equal(t, int64(total), changed.Load())
	require.Less(t, worst, 2*time.Second)
	require.Equal(t, map[string]int{api.StateRejected: total}, ask[api.ReviewStatsReply](f.cluster, "g", "review.stats", nil).ByState)
	f.sound("g")
}

// One of two reviewers is killed again and again, while people list and decide: every answer is right, nothing is decided twice, and who
// starts anew knows all.
func TestReviewersKilledWhilePeopleWork(t *testing.T) {
	const people, firms, rounds = 20, 10, 5
	c := sixProcesses(t, 1)
	c.start("reviewer")
	c.perhaps("g", people, firms)
	keys := []string{}
	for _, g := range c.groups("g") {
		keys = append(keys, g.Key)
	}
	require.Len(t, keys, people*firms)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// again asks until a reviewer answers: one that is killed with the question in its hands never does.
	again := func(verb string, req, reply any) error {
		for {
			attempt, stop := context.WithTimeout(ctx, time.Second)
			err := c.conn.Request(attempt, "factmill.g.review."+verb, req, reply)
			late := attempt.Err() != nil
			stop()
			if err == nil || !late || ctx.Err() != nil {
				return err
			}
		}
	}
	step := make(chan struct{}, rounds) // the decisions have got on
	var wg sync.WaitGroup
	wg.Go(func() {
		for i, key := range keys {
			var r api.DecideReply
			verb := []string{"approve", "reject"}[i%2]
			if err := again(verb, api.ReviewDecide{Keys: []string{key}, Actor: "eva", RequestID: fmt.Sprint("decision-", i)}, &r); err != nil || !slices.Equal(r.Outcome.Changed, []string{key}) {
				t.Errorf("%s %s: %v %+v", verb, key, err, r.Outcome)
				return
			}
			var l api.ReviewListReply
			if err := again("list", api.ReviewList{}, &l); err != nil || l.Total != len(keys)-i-1 {
				t.Errorf("behind decision %d: %v, %d wait", i, err, l.Total)
				return
			}
			var s api.ReviewShowReply
			if err := again("show", api.ReviewShow{Key: key}, &s); err != nil || s.Item.State != []string{api.StateApproved, api.StateRejected}[i%2] || len(s.History) != 1 {
				t.Errorf("behind decision %d: %v, %+v", i, err, s.Item)
				return
			}
			if i%(len(keys)/rounds) == len(keys)/rounds/2 {
				step <- struct{}{}
			}
		}
	})
	for i := range rounds {
		select {
		case <-step:
		case <-ctx.Done():
			require.Fail(t, "nothing moves")
		}
		c.procs["reviewer"][i].kill()
		c.start("reviewer")
	}
	wg.Wait()
	log := c.audit("g", len(keys))
	for i, a := range log {
		require.Equal(t, []string{keys[i], fmt.Sprint("decision-", i)}, []string{a.Key, a.RequestID})
	}
	for len(c.procs["reviewer"]) > 1 { // the last one alone says it all
		c.procs["reviewer"][0].kill()
		c.procs["reviewer"] = c.procs["reviewer"][1:]
	}
	testkit.Await(t, "the last reviewer", func() bool {
		attempt, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		return c.conn.Request(attempt, "factmill.g.review.stats", nil, nil) == nil
	})
	require.Equal(t, map[string]int{api.StateApproved: len(keys) / 2, api.StateRejected: len(keys) / 2}, ask[api.ReviewStatsReply](c, "g", "review.stats", nil).ByState)
	c.sound("g")
}
