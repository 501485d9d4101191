//go:build proof

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// The committer or the reviewer is killed while it decides about a conflict: the same request again, which quotes a plan that is not the one
// of now once it was carried out, is answered with what was done, once.
func TestKilledWhileAConflictIsDecided(t *testing.T) {
	c := sixProcesses(t, 1)
	c.putSchema("g", homonymSchema)
	c.add("g", homonyms...)
	key := c.conflicts("g")["Norrin Works founded property_conflict"].Key
	rng := rand.New(rand.NewPCG(11, 3))
	for i := range 6 {
		victim := []string{"committer", "reviewer"}[i%2]
		shown := ask[api.ReviewShowReply](c, "g", "review.show", api.ReviewShow{Key: key})
		req := api.ReviewDecide{Keys: []string{key}, Value: json.RawMessage(fmt.Sprint(1901 + i%2)), Actor: "eva", Fingerprint: shown.Fingerprint,
			Revision: &shown.Revision, RequestID: fmt.Sprint("round-", i)}
		decide := func(limit time.Duration) (r api.DecideReply, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return r, c.conn.Request(ctx, "factmill.g.review.approve", req, &r)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = decide(3 * time.Second) // it may be lost
		}()
		timer := time.NewTimer(time.Duration(rng.IntN(4000)) * time.Microsecond)
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
		require.Equal(t, []string{key}, r.Outcome.Changed, "round %d", i)
		log := c.audit("g", i+1)
		require.Equal(t, []string{req.RequestID, string(req.Value), req.Fingerprint}, []string{log[i].RequestID, string(log[i].Value), log[i].Plan})
	}
	c.sound("g")
}
