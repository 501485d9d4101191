package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// replica starts a read replica with its data in dir.
func (c *cluster) replica(dir string, args ...string) *process {
	c.t.Helper()
	all := append([]string{"serve", "replica", "--data", dir, "--nats", c.url, "--bus.ack_wait", ackWait, "--log.level", "info"}, args...)
	p := spawn(c.t, nil, "factmill", all...)
	c.procs["replica"] = append(c.procs["replica"], p)
	c.ready("replica")
	return p
}

// level waits until the replica has everything, and returns what it says.
func (c *cluster) level(graph string) (s api.StatsReply) {
	c.t.Helper()
	want := ask[api.StatsReply](c, graph, "query.stats", nil)
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the committer is at %d, the replica says %+v", want.Seq, s.Replica)
		}
	}()
	testkit.AwaitFor(c.t, 20*time.Second, "the replica is level", func() bool {
		s = api.StatsReply{}
		if c.conn.Request(c.t.Context(), "factmill."+graph+".replica.stats", nil, &s) != nil {
			return false
		}
		return s.Seq >= want.Seq && s.Replica.Behind == 0 && s.Replica.Why == ""
	})
	return s
}

// same demands that the replica exports at each sequence what the committer does.
func (c *cluster) sameAt(graph string, seqs ...uint64) {
	c.t.Helper()
	for _, n := range seqs {
		at := []string{"export", "--canonical", "--graph", graph, "--as-of", fmt.Sprint(n)}
		want := c.cli(0, at...).stdout
		require.NotEmpty(c.t, want)
		require.Equal(c.t, want, c.cli(0, append(at, "--replica")...).stdout, "%s as of %d", graph, n)
	}
}

// TestReadReplica follows a committer into a store of its own through kill -9, through the committer's absence, and through a restore of the
// committer's volume; at every sequence it exports the same bytes, it says how far it is, and it asks for nothing but what it reads.
func TestReadReplica(t *testing.T) {
	c := sixProcesses(t, 1)
	c.add("g", doc("first", "Ada Lovelace works for Acme Ltd. Acme Ltd is located in London."))
	dir := t.TempDir()
	r := c.replica(dir, "--replica.max_lag", "2s", "--http", "127.0.0.1:0")
	s := c.level("g")
	require.Equal(t, uint64(1), s.Seq)
	require.NotEmpty(t, s.Replica.LevelAt)
	require.Zero(t, s.Replica.Lag)
	c.sameAt("g", 1)
	require.Contains(t, c.cli(0, "stats", "--graph", "g", "--replica").stdout, "read replica: level with the committer")
	require.NotContains(t, c.cli(0, "stats", "--graph", "g").stdout, "replica")

	// It follows, graph by graph, also graphs that come to be; every read verb answers as the committer does.
	c.add("other", doc("o", "Grace Hopper works for Navy Corp."))
	c.add("g", doc("second", "Bruno Abbott works for Acme Ltd."), doc("first", "Ada Lovelace works for Borealis Inc."))
	c.remove("g", "second")
	require.Equal(t, uint64(3), c.level("g").Seq)
	c.level("other")
	c.sameAt("g", 1, 2, 3)
	c.sameAt("other", 1)
	for verb, req := range map[string]any{
		"entity": api.EntityGet{Name: "Ada Lovelace"}, "search": api.Search{Q: "Lovelace"}, "documents": api.DocumentList{},
		"document": api.DocumentGet{Key: "first", Text: true, Items: true}, "entities": api.EntityList{}, "relations": api.RelationList{}, "relation_types": nil,
	} {
		require.Equal(t, ask[map[string]any](c, "g", "query."+verb, req), ask[map[string]any](c, "g", "replica."+verb, req), verb)
	}
	e := ask[api.EntityReply](c, "g", "replica.entity", api.EntityGet{Name: "Ada Lovelace"})
	require.Len(t, e.Relations, 1)
	around := api.Neighbors{ID: e.Entity.ID}
	require.Equal(t, ask[api.Subgraph](c, "g", "query.neighbors", around), ask[api.Subgraph](c, "g", "replica.neighbors", around))
	facts := api.EvidenceGet{ID: e.Relations[0].ID}
	require.Equal(t, ask[api.EvidenceReply](c, "g", "query.evidence", facts), ask[api.EvidenceReply](c, "g", "replica.evidence", facts))
	m, err := c.conn.NC.RequestWithContext(t.Context(), "factmill.g.replica.relation_types", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"3", "0.000"}, []string{m.Header.Get("Factmill-Seq"), m.Header.Get("Factmill-Lag-Seconds")})
	require.Equal(t, "unknown_verb", refused(c, "g", "replica.put", nil).Code)
	require.Equal(t, "sequence_unknown", refused(c, "g", "replica.export", api.Export{Seq: 99}).Code)

	// Kill -9 with a job under way: it goes on from where it was, without a new copy.
	c.publish("g", letters("letters", 100))
	testkit.Await(t, "some are staged", func() bool {
		i := c.consumerInfo(bus.StreamCommit, bus.DurableCommitter)
		return i != nil && i.AckFloor.Stream > 60
	})
	r.kill()
	c.await("g", "letters", api.JobCommitted)
	r = c.replica(dir, "--replica.max_lag", "2s", "--http", "127.0.0.1:0")
	last := c.level("g").Seq
	c.sameAt("g", 1, last)
	require.NotContains(t, r.output(), "the copy is")
	require.Empty(t, c.cli(0, "verify", "--graph", "g", "--replica", "--json").stderr)

	// The committer is away: reads go on, and say so.
	c.the("committer").stop(t)
	stale := awaitReady(t, health(t, r), 503)
	require.Contains(t, stale.Services["replica"], "reads are answered")
	r.kill()
	r = c.replica(dir, "--replica.max_lag", "2s", "--http", "127.0.0.1:0")
	testkit.Await(t, "it knows that the committer is away", func() bool {
		s = ask[api.StatsReply](c, "g", "replica.stats", nil)
		return strings.Contains(s.Replica.Why, "feed.read")
	})
	require.Equal(t, last, s.Seq)
	require.Contains(t, c.cli(0, "stats", "--graph", "g", "--replica").stdout, "not level with the committer since it was started")
	require.Equal(t, "Ada Lovelace", ask[api.EntityReply](c, "g", "replica.entity", api.EntityGet{Name: "Ada Lovelace"}).Entity.Name)
	c.start("committer")
	c.ready("committer")
	c.add("g", doc("third", "Clara Castell works for Acme Ltd."))
	require.Greater(t, c.level("g").Seq, last)
	require.True(t, awaitReady(t, health(t, r), 200).Ready)
	require.NotContains(t, r.output(), "the copy is")

	// The committer's volume is put back to an earlier state: the replica makes its copy anew by itself.
	into := filepath.Join(t.TempDir(), "backup")
	c.cli(0, "backup", into)
	c.add("g", doc("lost", "Hugo Keller works for Acme Ltd."))
	lost := c.level("g").Seq
	c.the("committer").kill()
	c.the("reviewer").stop(t)
	require.NoError(t, os.RemoveAll(c.dir))
	require.Equal(t, 0, run(t, "", "restore", into, "--data", c.dir).code)
	c.start("committer")
	c.start("reviewer")
	c.ready(stages...)
	c.add("g", doc("instead", "Irene Moreau works for Acme Ltd."))
	c.add("g", doc("more", "Jonas Novak works for Acme Ltd."))
	testkit.Await(t, "a new copy", func() bool { return strings.Contains(r.output(), "the copy is made anew") })
	testkit.Await(t, "the new copy is read", func() bool { return strings.Contains(r.output(), "the copy is there") })
	require.GreaterOrEqual(t, c.level("g").Seq, lost)
	c.sameAt("g", 1, lost-1, lost, lost+1)
	c.allRunBut("committer", "reviewer", "replica")
}

// allRunBut is allRun of other services.
func (c *cluster) allRunBut(but ...string) {
	c.t.Helper()
	for s, all := range c.procs {
		if !strings.Contains(strings.Join(but, " "), s) {
			for _, p := range all {
				require.True(c.t, p.runs(), "a %s ended", s)
			}
		}
	}
}

// health is the address of a process's health server.
func health(t testing.TB, p *process) (addr string) {
	t.Helper()
	testkit.Await(t, "the health server", func() bool {
		_, rest, ok := strings.Cut(p.output(), "msg=health")
		_, rest, ok2 := strings.Cut(rest, "address=")
		addr, _, _ = strings.Cut(rest, "\n")
		addr, _, _ = strings.Cut(addr, " ")
		return ok && ok2 && addr != ""
	})
	return addr
}

// TestReadReplicaAsksOnly listens to everything that a replica sends: requests of the feed, and replies.
func TestReadReplicaAsksOnly(t *testing.T) {
	c := sixProcesses(t, 1)
	c.add("g", doc("first", "Ada Lovelace works for Acme Ltd."))
	dir := t.TempDir()
	r := c.replica(dir)
	c.level("g")
	r.stop(t)
	require.NoError(t, r.err)
	for _, s := range stages {
		c.the(s).stop(t)
	}
	r = c.replica(dir, "--replica.shared", "true")
	// It stands in for the committer, as far as reads go.
	require.Equal(t, 1, ask[api.StatsReply](c, "g", "query.stats", nil).Documents)
	require.Equal(t, "Ada Lovelace", ask[api.EntityReply](c, "g", "query.entity", api.EntityGet{Name: "Ada Lovelace"}).Entity.Name)
	for _, verb := range []string{"query.stored", "schema.put", "settings.put", "jobs.cancel", "candidates.decide"} {
		require.Equal(t, "not_ready", refused(c, "g", verb, map[string]any{}).Code, verb)
	}
	r.stop(t)

	var mu sync.Mutex
	seen := map[string]int{}
	for _, subject := range []string{"factmill.>", "$JS.>"} {
		_, err := c.conn.NC.Subscribe(subject, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			seen[m.Subject]++
		})
		require.NoError(t, err)
	}
	require.NoError(t, c.conn.NC.Flush())
	c.replica(dir, "--replica.shared", "true")
	testkit.Await(t, "it asks for the committer", func() bool { mu.Lock(); defer mu.Unlock(); return seen["factmill.default.feed.read"] > 0 })
	mu.Lock()
	defer mu.Unlock()
	for subject := range seen {
		token := strings.Split(subject, ".")
		mine := token[0] == "factmill" && (token[1] == "g" || token[1] == "health") // of this test
		check := strings.HasPrefix(subject, "$JS.EVENT.ADVISORY.") || strings.HasPrefix(subject, "$JS.API.STREAM.INFO.") || strings.HasPrefix(subject, "$JS.API.CONSUMER.INFO.")
		require.True(t, mine || check || subject == "factmill.default.feed.read", subject)
	}
}

// TestReadReplicaWaits reads from a replica that is begun before there is a committer.
func TestReadReplicaWaits(t *testing.T) {
	c := sixProcesses(t, 1)
	c.the("committer").stop(t)
	c.replica(t.TempDir())
	e := refused(c, "g", "replica.stats", nil)
	require.Equal(t, "not_ready", e.Code)
	require.Contains(t, e.Message, "no copy yet")
	c.start("committer")
	c.ready("committer")
	c.add("g", doc("first", "Ada Lovelace works for Acme Ltd."))
	begin := time.Now()
	require.Equal(t, uint64(1), c.level("g").Seq)
	t.Logf("level %s after the commit", time.Since(begin).Round(time.Millisecond))
}
