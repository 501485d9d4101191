//go:build proof

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// The committer is killed while the policy goes over the queue: each key is decided once, with one record.
func TestPolicyKilled(t *testing.T) {
	c := sixProcesses(t, 1)
	var docs []map[string]any
	for i := range 30 {
		text := ""
		for j := range 30 {
			text += fmt.Sprintf("Perhaps %s will work for %s. ", []string{"Alice", "Bob", "Carol", "Dan"}[j%4], fmt.Sprintf("Acme Firm%02d%02d Inc", i, j))
		}
		docs = append(docs, doc(fmt.Sprint("d", i), text))
	}
	c.putSchema("g", staff)
	c.add("g", docs...)
	waiting := ask[api.ReviewPolicyReply](c, "g", "review.policy", nil).Keys
	require.Greater(t, waiting, 600, "several pages")
	const all = staff + "\nreview: {auto_reject: [{kind: entity}, {kind: relation}, {kind: property}]}"
	require.Equal(t, waiting, ask[api.ReviewPolicyReply](c, "g", "review.policy", map[string]any{"schema": all}).Decided)
	c.putSchema("g", all)
	rng := rand.New(rand.NewPCG(8, 8))
	for range 4 {
		timer := time.NewTimer(time.Duration(rng.IntN(40)) * time.Millisecond)
		<-timer.C
		c.the("committer").kill()
		c.start("committer")
		c.ready("committer")
	}
	testkit.AwaitFor(t, 30*time.Second, "the queue is decided", func() bool {
		return ask[api.ReviewPolicyReply](c, "g", "review.policy", nil).Keys == 0
	})
	log := ask[api.ReviewAuditReply](c, "g", "review.audit", api.ReviewAudit{Verify: true})
	require.Empty(t, log.Problems)
	require.Equal(t, uint64(waiting), log.Total, "one record a key")
	c.sound("g")
}
