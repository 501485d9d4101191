//go:build proof

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// The committer or the reviewer is killed while it decides: the same request again ends it, and there is one record a change.
func TestKilledInMidDecision(t *testing.T) {
	c := sixProcesses(t, 1)
	c.add("g", matchable()...)
	g := c.pairs("g", "")[typo]
	rng := rand.New(rand.NewPCG(3, 3))
	state := "pending"
	const rounds = 6
	began := time.Now()
	for i := range rounds {
		victim := []string{"committer", "reviewer"}[i%2]
		verb := []string{"approve", "reject"}[i%2]
		req := api.ReviewDecide{IDs: g.IDs, Actor: "eva", RequestID: fmt.Sprint("round-", i)}
		decide := func(limit time.Duration) (r api.DecideReply, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return r, c.conn.Request(ctx, "factmill.g.review."+verb, req, &r)
		}
		first := make(chan api.DecideReply, 1)
		go func() {
			r, err := decide(3 * time.Second)
			if err != nil {
				r = api.DecideReply{}
			}
			first <- r
		}()
		timer := time.NewTimer(time.Duration(rng.IntN(4000)) * time.Microsecond)
		<-timer.C
		c.the(victim).kill()
		c.start(victim)
		c.ready(victim)
		early := <-first
		var r api.DecideReply
		testkit.AwaitFor(t, 30*time.Second, "an answer", func() bool {
			var err error
			r, err = decide(5 * time.Second)
			var refusal *api.Error
			require.True(t, err == nil || errors.As(err, &refusal) && refusal.Status == 503, "%v", err)
			return err == nil
		})
		require.Equal(t, []string{g.Key}, r.Outcome.Changed, "round %d: the same answer, whether the first attempt was stored or not", i)
		if len(early.Outcome.Changed) > 0 {
			require.Equal(t, early, r)
		}
		now := map[string]string{"approve": "approved", "reject": "rejected"}[verb]
		log := c.audit("g", i+1)
		require.Equal(t, []string{state, now, req.RequestID}, []string{log[i].Before, log[i].After, log[i].RequestID})
		state = now
		t.Logf("round %d: %s killed, answered after %s", i, victim, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}
	require.Equal(t, state, c.states("g")[typo])
	c.sound("g")
}

// perhaps ingests documents that state people×firms relations which are not sure enough.
func (c *cluster) perhaps(graph string, people, firms int) {
	names := func(first string, n int) (out []string) {
		for i := range n {
			out = append(out, first+string(rune('a'+i/26))+string(rune('a'+i%26))+"ron")
		}
		return out
	}
	who, where := names("B", people), names("G", firms)
	c.putSchema(graph, fmt.Sprintf("name: staff\nentities: {Person: {}, Organization: {}}\nrelations: {WORKS_FOR: {patterns: ['Person->Organization']}}\n"+
		"rules: {entities: {Person: {names: [%s]}, Organization: {names: [%s]}}, relations: {WORKS_FOR: {phrases: [works for]}}}", strings.Join(who, ", "), strings.Join(where, ", ")))
	var docs []map[string]any
	for _, p := range who {
		text := ""
		for _, f := range where {
			text += "Perhaps " + p + " will work for " + f + ". "
		}
		docs = append(docs, doc(p, text))
	}
	c.add(graph, docs...)
	require.Equal(c.t, people*firms, ask[api.ReviewStatsReply](c, graph, "review.stats", nil).Groups)
}

// The committer is killed while it decides about thousands of candidates, which takes several commits: the same request again goes on behind
// the last of them. Every candidate is decided once, with one record.
func TestKilledBetweenCommits(t *testing.T) {
	const people, firms = 60, 50
	c := sixProcesses(t, 1)
	c.perhaps("g", people, firms)
	rng := rand.New(rand.NewPCG(5, 5))
	req := api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"relation"}}, Actor: "eva", Reason: "hearsay", RequestID: "all"}
	var r api.DecideReply
	decide := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		r = api.DecideReply{}
		return c.conn.Request(ctx, "factmill.g.review.reject", req, &r)
	}
	stood := []int{}
	for range 3 {
		ended := make(chan error, 1)
		go func() { ended <- decide(3 * time.Second) }()
		timer := time.NewTimer(time.Duration(50+rng.IntN(250)) * time.Millisecond)
		<-timer.C
		c.the("committer").kill()
		c.start("committer")
		c.ready("committer")
		<-ended
		stood = append(stood, ask[api.ReviewStatsReply](c, "g", "review.stats", nil).ByState["rejected"])
	}
	testkit.AwaitFor(t, 60*time.Second, "an answer", func() bool { return decide(20*time.Second) == nil })
	require.Equal(t, people*firms, r.Outcome.ChangedTotal, "what was decided before the last kill is told too")
	require.Equal(t, people*firms, ask[api.ReviewStatsReply](c, "g", "review.stats", nil).ByState["rejected"])
	keys := map[string]bool{}
	for _, a := range c.audit("g", people*firms) {
		require.False(t, keys[a.Key], a.Key)
		keys[a.Key] = true
	}
	t.Logf("after each kill %v of %d were decided", stood, people*firms)
	c.sound("g")
}
