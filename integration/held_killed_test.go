//go:build proof

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// The committer or the reviewer is killed while a held job waits and while it is decided about: it stays held with what was edited, and the same
// request again is answered with what was done, once.
func TestKilledWhileAJobIsHeld(t *testing.T) {
	c := sixProcesses(t, 1)
	c.putSchema("g", guild)
	c.putSchema("free", guild)
	c.add("g", doc("doc-0", "Lin works for Guild."))
	c.add("free", doc("doc-0", "Lin works for Guild."))
	rng := rand.New(rand.NewPCG(5, 8))
	records := 0
	for i := range 9 {
		job, key := fmt.Sprint("look-", i), fmt.Sprint("doc-", i)
		event := map[string]any{"documents": []map[string]any{doc(key, "Mo works for Orva. Lin works for Guild.")}}
		if i%3 != 2 {
			c.await("free", c.publish("free", event), api.JobCommitted)
		}
		event["job"], event["hold"] = job, true
		c.await("g", c.publish("g", event), api.JobHeld)
		seen := c.shownJob("g", job)
		c.the("committer").kill()
		c.start("committer")
		c.ready("committer")
		c.await("g", job, api.JobHeld)
		require.Equal(t, seen.Fingerprint, c.shownJob("g", job).Fingerprint, "as it was")

		victim := []string{"committer", "reviewer"}[i%2]
		decision := []string{"accept", "send_back", "reject"}[i%3]
		verb := "approve"
		req := api.ReviewDecide{IDs: []string{job}, Decision: decision, Actor: "eva", Fingerprint: seen.Fingerprint, RequestID: fmt.Sprint("round-", i)}
		switch decision {
		case "reject":
			verb = "reject"
		case "send_back":
			for _, x := range seen.Job.Documents[0].Items {
				if x.Kind == "mention" && x.Text == "Mo" {
					req.Edits = []api.JobEdit{{Document: key, Item: x.Item, Set: map[string]any{"start": 0, "end": 2}}}
				}
			}
		}
		decide := func(limit time.Duration) (r api.DecideReply, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return r, c.conn.Request(ctx, "factmill.g.review."+verb, req, &r)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = decide(3 * time.Second) // it may be lost
		}()
		timer := time.NewTimer(time.Duration(rng.IntN(8000)) * time.Microsecond)
		<-timer.C
		c.the(victim).kill()
		c.start(victim)
		c.ready(victim)
		<-ended
		var r api.DecideReply
		testkit.AwaitFor(t, 30*time.Second, "an answer", func() bool {
			var err error
			r, err = decide(5 * time.Second)
			var refusal *api.Error
			require.True(t, err == nil || errors.As(err, &refusal) && refusal.Status == 503, "%v", err)
			return err == nil
		})
		require.Equal(t, []string{api.JobKey(job)}, r.Outcome.Changed, "round %d", i)
		records++
		log := c.audit("g", records)
		require.Equal(t, []string{req.RequestID, decision, req.Fingerprint}, []string{log[records-1].RequestID, log[records-1].Decision, log[records-1].Plan})
		switch decision {
		case "accept":
			c.await("g", job, api.JobCommitted)
		case "reject":
			c.await("g", job, api.JobRolledBack)
		case "send_back":
			c.await("g", job, api.JobHeld)
			now := c.shownJob("g", job)
			require.Equal(t, []any{r.Fingerprint, uint64(2)}, []any{now.Fingerprint, now.Revision})
			ask[api.DecideReply](c, "g", "review.approve", api.ReviewDecide{IDs: []string{job}, Actor: "eva", Fingerprint: now.Fingerprint})
			c.await("g", job, api.JobCommitted)
			records++
		}
	}
	require.Equal(t, c.export("free"), c.export("g"))
	c.sound("g")
}
