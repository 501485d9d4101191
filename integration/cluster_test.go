package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// threeNodes starts three NATS servers, streams with three replicas, and n replicas of each service (one committer).
func threeNodes(t testing.TB, n int, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), procs: map[string][]*process{}, args: args}
	c.nodes = testkit.Cluster(t, 3)
	c.url = c.nodes.URL()
	c.connect()
	testkit.Await(t, "the streams are made", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		err := bus.EnsureAll(ctx, c.conn.JS, replicated())
		if err != nil {
			t.Logf("provision: %v", err) // a cluster that has just begun may have no room yet
		}
		return err == nil
	})
	c.fleet(n)
	return c
}

func replicated() bus.Table {
	return bus.NewTable(bus.TableOptions{AckWait: testkit.AckWait, Replicas: 3})
}

// leader of a stream; nil while there is none.
func (c *cluster) leader(stream string) *testkit.NATSNode {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), time.Second)
	defer stop()
	s, err := c.conn.JS.Stream(ctx, stream)
	if err != nil || s.CachedInfo().Cluster.Leader == "" {
		return nil
	}
	return c.nodes.Node(s.CachedInfo().Cluster.Leader)
}

// leads waits for a leader of a stream.
func (c *cluster) leads(stream string) (n *testkit.NATSNode) {
	c.t.Helper()
	testkit.Await(c.t, "a leader of "+stream, func() bool { n = c.leader(stream); return n != nil })
	return n
}

// whole waits until every replica of every stream is current.
func (c *cluster) whole() {
	c.t.Helper()
	for _, s := range replicated().Streams {
		testkit.AwaitFor(c.t, 2*time.Minute, "all replicas of "+s.Name, func() bool {
			ctx, stop := context.WithTimeout(c.t.Context(), 5*time.Second)
			defer stop()
			have, err := c.conn.JS.Stream(ctx, s.Name)
			if err != nil || have.CachedInfo().Cluster == nil || have.CachedInfo().Cluster.Leader == "" {
				return false
			}
			for _, r := range have.CachedInfo().Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
			return len(have.CachedInfo().Cluster.Replicas) == 2
		})
	}
}

// left is how many messages a stream holds; ok is false while nobody answers.
func (c *cluster) left(stream string) (n uint64, ok bool) {
	ctx, stop := context.WithTimeout(c.t.Context(), time.Second)
	defer stop()
	s, err := c.conn.JS.Stream(ctx, stream)
	if err != nil {
		return 0, false
	}
	return s.CachedInfo().State.Msgs, true
}

// survives waits for the end of a job through whatever happens to the servers: a question may stay without an answer.
func (c *cluster) survives(graph, job string) api.JobStatus {
	c.t.Helper()
	var s api.JobStatus
	testkit.AwaitFor(c.t, 4*time.Minute, "the end of "+job, func() bool {
		ctx, stop := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer stop()
		err := c.conn.Request(ctx, "factmill."+graph+".jobs.get", api.JobGet{Job: job, Wait: "5s"}, &s)
		var e *api.Error
		if err != nil {
			require.True(c.t, errors.As(err, &e) || errors.Is(err, bus.ErrUnreachable) || ctx.Err() != nil, "%v", err)
			return false
		}
		return through(s)
	})
	require.Equal(c.t, api.JobCommitted, s.State, "job %s: %s", job, s.Reason)
	return s
}

// allRun demands that every process still runs.
func (c *cluster) allRun() {
	c.t.Helper()
	for s, all := range c.procs {
		for _, p := range all {
			require.True(c.t, p.runs(), "a %s ended", s)
		}
	}
}

// TestClusterLosesALeader kills the server that leads the queue of the committer while a job is under way, and starts it again: the job
// commits once, as on a single server, and no service ends.
func TestClusterLosesALeader(t *testing.T) {
	const docs = 120
	calm := sixProcesses(t, 1)
	calm.publish("g", letters("letters", docs))
	want := calm.await("g", "letters", api.JobCommitted)
	export := calm.export("g")

	c := threeNodes(t, 1)
	s, err := c.conn.JS.Stream(t.Context(), bus.StreamCommit)
	require.NoError(t, err)
	require.Equal(t, 3, s.CachedInfo().Config.Replicas)
	require.Len(t, s.CachedInfo().Cluster.Replicas, 2)
	c.publish("g", letters("letters", docs))
	testkit.Await(t, "the committer gets something", func() bool {
		i := c.consumerInfo(bus.StreamCommit, bus.DurableCommitter)
		return i != nil && i.AckFloor.Stream > docs/4
	})
	victim := c.leads(bus.StreamCommit)
	victim.Kill()
	c.nodes.Start(victim)
	got := c.survives("g", "letters")
	require.Equal(t, want.Documents, got.Documents)
	c.whole()
	require.Equal(t, export, c.export("g"))
	c.sound("g")

	// A dead letter is listed each time, by whichever server the list's consumer is led.
	_, err = c.conn.JS.PublishMsg(t.Context(), &nats.Msg{Subject: "factmill.g.doc.chunked.letters.poison", Data: []byte("no event")})
	require.NoError(t, err)
	testkit.Await(t, "it is parked", func() bool { n, ok := c.left(bus.StreamDead); return ok && n == 1 })
	for range 20 {
		require.Len(t, ask[api.DeadListReply](c, "g", "dead-letters.list", api.DeadList{}).Letters, 1)
	}
	c.allRun()
}

// consumerInfo is nil while nobody answers.
func (c *cluster) consumerInfo(stream, durable string) *jetstream.ConsumerInfo {
	ctx, stop := context.WithTimeout(c.t.Context(), time.Second)
	defer stop()
	k, err := c.conn.JS.Consumer(ctx, stream, durable)
	if err != nil {
		return nil
	}
	return k.CachedInfo()
}
