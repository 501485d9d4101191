package integration

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/testkit"
)

// A client that gives up after 50 ms on a committer that takes 200, and asks again with the same request id, gets one reply: one change,
// one audit record, one patch, be it that the schema has grown by that patch meanwhile.
func TestApprovedAgainAfterATimeout(t *testing.T) {
	c := sixProcesses(t, 1)
	c.putSchema("g", staff)
	c.add("g", undeclared()...)
	var key string
	for k, g := range c.candidateGroups("g", "pending") {
		if g.Kind == "entity" && g.Reasons[0] == "undeclared_label" {
			key = k[:len(k)-len(" pending")]
		}
	}
	require.NotEmpty(t, key)
	req := api.ReviewDecide{Keys: []string{key}, Actor: "eva", RequestID: "once"}
	c.the("committer").signal(t, syscall.SIGSTOP)
	committer := c.the("committer").cmd.Process
	wake := time.AfterFunc(200*time.Millisecond, func() { _ = committer.Signal(syscall.SIGCONT) })
	defer wake.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, c.conn.Request(ctx, "factmill.g.review.approve", req, nil))
	var first api.DecideReply
	testkit.AwaitFor(t, 30*time.Second, "an answer", func() bool {
		first = api.DecideReply{}
		return c.conn.Request(t.Context(), "factmill.g.review.approve", req, &first) == nil
	})
	require.Equal(t, []string{key}, first.Outcome.Changed)
	require.NotEmpty(t, first.Patch.PatchID)
	require.Len(t, first.Patch.Additions.Entities, 1)
	require.Equal(t, first, ask[api.DecideReply](c, "g", "review.approve", req))
	grown, err := patch.Apply([]byte(staff), "staff.yaml", nil, first.Patch)
	require.NoError(t, err)
	c.putSchema("g", string(grown.Data))
	require.Equal(t, first, ask[api.DecideReply](c, "g", "review.approve", req))
	require.Len(t, c.audit("g", 1), 1)
	require.Equal(t, "operation_reused", refused(c, "g", "review.approve", api.ReviewDecide{Keys: []string{key}, Actor: "bo", RequestID: "once"}).Code)
	again := ask[api.DecideReply](c, "g", "review.approve", api.ReviewDecide{Keys: []string{key}, Actor: "eva", RequestID: "twice"})
	require.Equal(t, map[string]string{key: api.SkippedApproved}, again.Outcome.Skipped)
	c.sound("g")
}
