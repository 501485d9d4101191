//go:build proof

package integration

import (
	"os"
	"syscall"
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

// TestStalledFormerWriter stops a committer in the middle of a job with messages in its hands; its volume, as it is then, goes to another one,
// which opens it, raises the epoch and commits. The former one wakes up: it ends by itself, and nothing that it still sent is there twice.
func TestStalledFormerWriter(t *testing.T) {
	t.Parallel()
	const docs = 200
	warm := map[string]any{"job": "warm", "documents": []any{doc("first", "Ada Lovelace works for Acme Ltd.")}} // the stages know the schema then
	calm := sixProcesses(t, 1)
	calm.publish("calm", warm)
	calm.await("calm", "warm", api.JobCommitted)
	calm.publish("calm", letters("letters", docs))
	calm.await("calm", "letters", api.JobCommitted)
	want := calm.account("calm")

	for _, when := range []string{"staging", "at the commit"} {
		c := threeNodes(t, 1)
		former := c.the("committer")
		c.publish("g", warm)
		c.await("g", "warm", api.JobCommitted)
		if when == "staging" {
			c.publish("g", letters("letters", docs))
			c.acked(docs / 2)
		} else { // it is given the last messages, and holds them
			c.the("resolver").signal(t, syscall.SIGSTOP)
			c.publish("g", letters("letters", docs))
			testkit.Await(t, "all wait for the resolver", func() bool {
				return c.messages(bus.StreamExtracted) == docs && c.messages(bus.StreamCommit) == 0
			})
			testkit.Await(t, "the committer pulls", func() bool { return c.consumer(bus.StreamCommit, bus.DurableCommitter).NumWaiting > 0 })
		}
		former.signal(t, syscall.SIGSTOP)
		if when != "staging" {
			c.the("resolver").signal(t, syscall.SIGCONT)
			testkit.Await(t, "messages in its hands", func() bool {
				held, _ := c.pending(bus.StreamCommit, bus.DurableCommitter)
				return held > 100
			})
		}
		volume := t.TempDir() // its volume, on another node
		require.NoError(t, os.CopyFS(volume, os.DirFS(c.dir)))
		c.dir = volume
		c.start("committer")
		c.ready("committer")
		require.Equal(t, 1, c.survives("g", "letters").Attempt)
		former.signal(t, syscall.SIGCONT)
		testkit.Await(t, "the former writer ends", func() bool { return !former.runs() })
		require.Equal(t, 1, former.cmd.ProcessState.ExitCode())
		require.Contains(t, former.output(), "took over")
		c.whole()
		c.account("g").same(t, want)
		c.sound("g")
		require.True(t, c.the("committer").runs())
		c.add("g", doc("later", "Ada Lovelace works for Acme Ltd."))
		t.Logf("stopped %s: the other one committed, the former one ended by itself", when)
	}
}
