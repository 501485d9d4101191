//go:build proof

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// outage is how long the servers stay without a quorum: longer than AckWait, than a job's lease, and than a publish is waited for.
const outage = 50 * time.Second

// TestClusterLosesServers kills servers of a cluster with a job of some hundred documents under way: a follower, the leader of the first
// queue, the one that leads the cluster, two at once and (much) later back, and all. Each job commits at its first attempt, with what a
// single server gives, and no process ends.
func TestClusterLosesServers(t *testing.T) {
	t.Parallel()
	const docs = 300
	calm := sixProcesses(t, 1)
	calm.publish("calm", letters("letters", docs))
	calm.await("calm", "letters", api.JobCommitted)
	want := calm.account("calm")

	c := threeNodes(t, 2, "--job.lease", "5s")
	other := func(not ...*testkit.NATSNode) *testkit.NATSNode {
	next:
		for _, n := range c.nodes.Nodes() {
			for _, x := range not {
				if n == x {
					continue next
				}
			}
			return n
		}
		require.Fail(t, "no server is left")
		return nil
	}
	var at uint64 // what the committer had acknowledged before the servers were killed
	for _, s := range []struct {
		graph string
		what  func() string
	}{
		{"follower", func() string {
			n := other(c.leads(bus.StreamCommit), c.leads(bus.StreamExtracted))
			n.Kill()
			c.acked(at + docs/3)
			c.nodes.Start(n)
			return n.Name
		}},
		{"leader", func() string {
			n := c.leads(bus.StreamLoaded)
			n.Kill()
			c.acked(at + docs/3)
			c.nodes.Start(n)
			return n.Name
		}},
		{"meta", func() string {
			n := c.nodes.MetaLeader()
			n.Kill()
			c.acked(at + docs/3)
			c.nodes.Start(n)
			return n.Name
		}},
		{"two", func() string {
			a := c.leads(bus.StreamCommit)
			b := other(a)
			a.Kill()
			b.Kill()
			elapsed(t, time.Now(), outage)
			c.allRun()
			c.nodes.Start(b)
			c.nodes.Start(a)
			return a.Name + " and " + b.Name
		}},
		{"all", func() string {
			for _, n := range c.nodes.Nodes() {
				n.Kill()
			}
			elapsed(t, time.Now(), 5*time.Second)
			c.allRun()
			for _, n := range c.nodes.Nodes() {
				c.nodes.Start(n)
			}
			return "all"
		}},
	} {
		at = c.acked(0)
		c.publish(s.graph, letters("letters", docs))
		at = c.acked(at + 20)
		require.Equal(t, api.JobPending, c.status(s.graph, "letters").State)
		begin := time.Now()
		killed := s.what()
		got := c.survives(s.graph, "letters")
		took := time.Since(begin)
		require.Equal(t, 1, got.Attempt, s.graph)
		c.allRun()
		c.whole()
		c.account(s.graph).same(t, want)
		c.sound(s.graph)
		t.Logf("%s: %s killed, committed %s later", s.graph, killed, took.Round(time.Millisecond))
	}
}

// acked waits until the committer has acknowledged its queue up to a sequence, and returns which that is.
func (c *cluster) acked(seq uint64) (n uint64) {
	c.t.Helper()
	testkit.Await(c.t, "the committer goes on", func() bool {
		i := c.consumerInfo(bus.StreamCommit, bus.DurableCommitter)
		if i == nil || i.AckFloor.Stream < seq {
			return false
		}
		n = i.AckFloor.Stream
		return true
	})
	return n
}
