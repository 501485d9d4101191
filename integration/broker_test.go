//go:build proof

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestNATSRestartsDuringAJob stops the broker three times while a job is under way: with documents being fetched and cut, while
// all of them wait for an extractor, and while they are read.
func TestNATSRestartsDuringAJob(t *testing.T) {
	t.Parallel()
	const docs = 150
	c := sixProcesses(t, 1)
	c.publish("calm", letters("letters", docs))
	c.await("calm", "letters", api.JobCommitted)
	calm := c.account("calm")

	reader := c.the("extractor")
	reader.signal(t, syscall.SIGSTOP)
	c.publish("shaken", letters("letters", docs))
	testkit.Await(t, "some documents cut", func() bool { return c.messages(bus.StreamChunked) > 5 })
	early := c.messages(bus.StreamChunked)
	c.restartNATS()
	testkit.Await(t, "all documents cut", func() bool { return c.messages(bus.StreamChunked) == docs })
	c.restartNATS()
	reader.signal(t, syscall.SIGCONT)
	testkit.Await(t, "some documents read", func() bool { return c.messages(bus.StreamChunked) < docs })
	late := c.messages(bus.StreamChunked)
	c.restartNATS()
	c.ready(stages...)
	c.await("shaken", "letters", api.JobCommitted)
	c.account("shaken").same(t, calm)
	c.sound("shaken")
	for _, s := range stages {
		require.True(t, c.the(s).runs(), "%s went on", s)
	}
	t.Logf("NATS was restarted with %d, %d and %d of %d documents waiting for the extractor: the job committed once, as undisturbed", early, docs, late, docs)
}

// TestNATSStorageLost wipes the broker's directory with a job under way. Services end or recover; the committer still has the graph;
// the job that lost its messages and its document event rolls back; new events get numbers that no job had.
func TestNATSStorageLost(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	c.replace("committer", "--job.lease", "2s")
	c.tellAll("g", stepBase)
	for range 3 {
		c.await("g", c.publish("g", inline("canal", canal)), api.JobCommitted)
	}
	before := c.account("g")
	c.the("extractor").signal(t, syscall.SIGSTOP)
	lost := c.publish("g", inline("pier", "Tobias Renn worked for Harbour Trust."))
	named := c.publish("g", letters("named", 3))
	require.Equal(t, "j5", lost)
	testkit.Await(t, "4 documents wait", func() bool { return c.messages(bus.StreamChunked) == 4 && c.messages(bus.StreamCommit) == 0 })

	c.the("extractor").kill() // and with it what it held
	c.stopNATS()
	require.NoError(t, os.RemoveAll(c.streams))
	c.startNATS()
	require.NoError(t, bus.EnsureAll(t.Context(), c.conn.JS, testkit.Table()))
	c.start("extractor")
	ended := c.revive("--job.lease", "2s")
	testkit.Await(t, "the ingest stream to go on behind j6", func() bool {
		s, err := c.conn.JS.Stream(t.Context(), bus.StreamIngest)
		return err == nil && s.CachedInfo().State.LastSeq >= 6
	})
	fresh := c.publish("g", inline("quay", "Greta Holm worked for Harbour Trust."))
	require.Equal(t, "j7", fresh)
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, c.await("g", fresh, api.JobCommitted).Documents)
	for _, j := range []string{lost, named} {
		require.Contains(t, c.await("g", j, api.JobRolledBack).Reason, "event_lost", j)
	}
	c.await("g", c.publish("g", map[string]any{"op": "delete", "key": "quay"}), api.JobCommitted)
	require.Equal(t, before.export, c.export("g"), "the graph is the old one again")
	require.Equal(t, before.jobs["j4"], timeless(t, ask[api.JobStatus](c, "g", "jobs.get", api.JobGet{Job: "j4"})), "old jobs are still told of")
	require.NotEmpty(t, ask[api.ReviewListReply](c, "g", "review.list", map[string]any{}).Groups)
	c.sound("g")
	t.Logf("the broker's directory was wiped with %s and %q under way: ended and were started again: %v; both jobs rolled back (event_lost); the next event was %s", lost, named, ended, fresh)
}

// TestNATSPowerFailure puts the broker back to where it was before two jobs committed and a third began, as a power failure does
// that takes what was acknowledged and not synced. The kept events of the two come back; the third rolls back.
func TestNATSPowerFailure(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	c.tellAll("calm", stepBase, stepChange, stepDelete)
	calm := c.account("calm")
	c.replace("committer", "--job.lease", "2s")
	c.tellAll("g", stepBase)
	c.quiet()
	c.stopNATS()
	synced := filepath.Join(t.TempDir(), "synced")
	require.NoError(t, os.CopyFS(synced, os.DirFS(c.streams)))
	c.startNATS()
	c.ready(stages...)

	c.tellAll("g", stepChange, stepDelete)
	n := len(c.read(bus.StreamJobs, "factmill.g.>")) + len(c.read(bus.StreamCandidates, "factmill.g.>")) + len(c.read(bus.StreamChanges, "factmill.g.>"))
	c.the("chunker").signal(t, syscall.SIGSTOP)
	c.publish("g", letters("lost", 3))
	testkit.Await(t, "the third job has begun", func() bool { return c.messages(bus.StreamLoaded) == 3 && c.messages(bus.StreamCommit) == 0 })
	c.the("chunker").kill()
	c.stopNATS()
	require.NoError(t, os.RemoveAll(c.streams))
	require.NoError(t, os.CopyFS(c.streams, os.DirFS(synced)))
	c.startNATS()
	c.start("chunker")
	c.revive("--job.lease", "2s")
	require.Contains(t, c.await("g", "lost", api.JobRolledBack).Reason, "event_lost")
	c.quiet()
	a := c.account("g")
	require.Equal(t, calm.export, a.export)
	delete(a.jobs, "lost")
	require.Equal(t, calm.jobs, a.jobs)
	require.Contains(t, a.kept, ":job.rolled_back:lost:1")
	delete(a.kept, ":job.rolled_back:lost:1")
	delete(a.kept, ":job.opened:lost:1")
	require.Equal(t, calm.kept, a.kept, "the kept events")
	require.Equal(t, len(calm.kept)+2, a.stored, "none is missing, none is there twice")
	require.Equal(t, "j8", c.publish("g", inline("quay", "Greta Holm worked for Harbour Trust.")), "seven events were before, three are not in the stream any more")
	c.await("g", "j8", api.JobCommitted)
	t.Logf("the broker lost what came after the first job: %d kept events are there again, none twice; the job that was under way rolled back", n)
}

// replace stops a service and starts it with other arguments.
func (c *cluster) replace(service string, args ...string) *process {
	c.t.Helper()
	former := c.the(service)
	former.stop(c.t)
	require.NoError(c.t, former.err, "a stop ends with code 0")
	p := c.start(service, args...)
	c.ready(service)
	return p
}

// revive waits until every service either answers or has ended by itself, with an error, and starts those again as a supervisor
// would. It returns their names.
func (c *cluster) revive(committer ...string) (ended []string) {
	c.t.Helper()
	again := func(s string) {
		require.NotZero(c.t, c.the(s).cmd.ProcessState.ExitCode(), "%s ends with an error", s)
		ended = append(ended, s)
		if s == "committer" {
			c.start(s, committer...)
			return
		}
		c.start(s)
	}
	for _, s := range stages {
		testkit.AwaitFor(c.t, 30*time.Second, s+" ends or recovers", func() bool {
			if !c.the(s).runs() {
				again(s)
				return false
			}
			return c.conn.Request(c.t.Context(), bus.HealthSubject(s), nil, nil) == nil
		})
	}
	return ended
}

// TestNATSStorageLostForGood: the streams are gone and nobody provisions them again. No service idles.
func TestNATSStorageLostForGood(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	c.tellAll("g", stepBase)
	c.stopNATS()
	require.NoError(t, os.RemoveAll(c.streams))
	c.startNATS()
	for _, s := range stages {
		p := c.the(s)
		testkit.Await(t, s+" ends", func() bool { return !p.runs() })
		require.Equal(t, 1, p.cmd.ProcessState.ExitCode(), s)
		require.Contains(t, p.output(), "FACTMILL_", "it names what is missing")
	}
	// Started again, they say what to do.
	p := c.start("chunker")
	<-p.done
	require.Equal(t, 2, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.output(), "run factmill provision")
	t.Logf("all streams gone: every service ended by itself with code 1 and named a stream")
}

// TestDeletedConsumer deletes each consumer under its running service.
func TestDeletedConsumer(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	for _, s := range testkit.Table().Consumers {
		service := s.Config.Durable
		p := c.the(service)
		begin := time.Now()
		require.NoError(t, c.conn.JS.DeleteConsumer(t.Context(), s.Stream, service))
		testkit.Await(t, service+" ends", func() bool { return !p.runs() })
		took := time.Since(begin)
		require.Equal(t, 1, p.cmd.ProcessState.ExitCode())
		require.Contains(t, p.output(), "consumer "+service+" on "+s.Stream)
		require.NoError(t, bus.EnsureAll(t.Context(), c.conn.JS, testkit.Table()))
		c.start(service)
		c.ready(service)
		t.Logf("consumer %s on %s deleted: the process ended with code 1 after %s and named it", service, s.Stream, took.Round(time.Millisecond))
	}
	c.tellAll("g", story...)
}

// TestPoisonBesideGoodMessages puts messages that cannot be decoded into every queue of a job, where consumers take two messages at
// a time.
func TestPoisonBesideGoodMessages(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	c.tellAll("calm", stepBase)
	calm := c.account("calm")
	table := testkit.Table()
	for i := range table.Consumers {
		table.Consumers[i].Config.MaxAckPending = 2
	}
	require.NoError(t, bus.EnsureAll(t.Context(), c.conn.JS, table))

	stage := map[string]string{"doc.found": "loader", "doc.loaded": "chunker", "doc.chunked": "extractor", "doc.extracted": "resolver", "doc.resolved": "committer"}
	c.the("chunker").signal(t, syscall.SIGSTOP) // so that the job is there and waits
	c.publish("g", tell(stepBase))
	testkit.Await(t, "documents wait", func() bool { return c.messages(bus.StreamLoaded) > 0 })
	poisons := 0
	for kind := range stage {
		for _, body := range []string{`{"job":`, `not even json`, `{"job":{"graph":"other","job":"base"}}`, ``} {
			poisons++
			c.poison("factmill.g."+kind+".base.poison", body)
		}
	}
	c.the("chunker").signal(t, syscall.SIGCONT)
	c.await("g", stepBase, api.JobCommitted)
	a := c.account("g")
	require.Equal(t, calm.export, a.export)
	require.Equal(t, calm.jobs, a.jobs)
	dead := map[string]int{}
	for _, m := range c.read(bus.StreamDead, "factmill.g.dead.>") {
		e, err := events.Decode(m.Subject(), m.Headers().Get(events.HeaderSchema), m.Data())
		require.NoError(t, err)
		d := e.(*events.Dead)
		require.Equal(t, "undecodable", d.Code, d.Error)
		require.Equal(t, stepBase, d.Job)
		require.Equal(t, "poison", d.Doc)
		kind := strings.TrimSuffix(strings.TrimPrefix(d.Subject, "factmill.g."), ".base.poison")
		require.Equal(t, stage[kind], d.Stage)
		dead[d.Stage]++
	}
	require.Equal(t, map[string]int{"loader": 4, "chunker": 4, "extractor": 4, "resolver": 4, "committer": 4}, dead)
	t.Logf("%d undecodable messages in five queues, MaxAckPending 2: the job committed as undisturbed, each of them is a dead letter: %v", poisons, dead)
}

// poison publishes a message as it is.
func (c *cluster) poison(subject, body string) {
	c.t.Helper()
	_, err := c.conn.JS.PublishMsg(c.t.Context(), &nats.Msg{Subject: subject, Data: []byte(body)})
	require.NoError(c.t, err)
}

// TestReserveReached starts the committer with a reserve that no disk has: reads go on, work waits and says for what, and goes on
// where there is room again.
func TestReserveReached(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	c := sixProcesses(t, 1)
	c.tellAll("calm", stepBase, stepChange)
	calm := c.account("calm")
	c.tellAll("g", stepBase)
	old := c.export("g")
	// One job is staged before, one comes later.
	c.the("extractor").signal(t, syscall.SIGSTOP)
	c.publish("g", tell(stepChange))
	testkit.Await(t, "all documents chunked and staged", func() bool { return c.messages(bus.StreamChunked) == 7 && c.messages(bus.StreamCommit) == 0 })
	full := c.replace("committer", "--store.reserve", "1000000000000000000", "--job.lease", lease.String())
	c.the("extractor").signal(t, syscall.SIGCONT)
	c.publish("g", letters("later", 2))
	begin := time.Now()
	for _, j := range []string{stepChange, "later"} {
		testkit.Await(t, j+" says what it waits for", func() bool {
			s := ask[api.JobStatus](c, "g", "jobs.get", api.JobGet{Job: j})
			return s.State == api.JobPending && strings.HasPrefix(s.Reason, "no_space: ")
		})
	}
	require.Equal(t, old, c.export("g"), "reads go on")
	c.sound("g")
	require.Equal(t, "no_space", refused(c, "g", "settings.put", map[string]any{"settings": map[string]string{"chunker.size": "300"}}).Code)
	elapsed(t, begin, 4*lease)
	s := ask[api.JobStatus](c, "g", "jobs.get", api.JobGet{Job: stepChange})
	require.Equal(t, 1, s.Attempt, "it is not dead, it waits")
	require.True(t, full.runs())
	c.replace("committer")
	require.Equal(t, 1, c.await("g", stepChange, api.JobCommitted).Attempt)
	require.Equal(t, calm.export, c.export("g"))
	c.await("g", "later", api.JobCommitted)
	c.sound("g")
	t.Logf("reserve above the free space for %s (lease %s): reads answered, two jobs pending with %q; without it both committed at their first attempt", 4*lease, lease, s.Reason[:60])
}

// TestReviewerKilled kills the reviewer while candidates arrive.
func TestReviewerKilled(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	groups := func(g string) []api.Group {
		l := ask[api.ReviewListReply](c, g, "review.list", map[string]any{"state": nil})
		slices.SortFunc(l.Groups, func(a, b api.Group) int { return strings.Compare(a.Key, b.Key) })
		return l.Groups
	}
	c.tellAll("calm", stepBase, stepChange)
	want := groups("calm")
	require.NotEmpty(t, want)
	c.tellAll("g", stepBase)
	groups("g") // its read model is loaded
	c.publish("g", tell(stepChange))
	c.the("reviewer").kill()
	c.await("g", stepChange, api.JobCommitted)
	c.start("reviewer")
	c.ready("reviewer")
	require.Equal(t, want, groups("g"))
	t.Logf("the reviewer was killed while candidates arrived: started again it shows the %d groups of the undisturbed graph", len(want))
}
