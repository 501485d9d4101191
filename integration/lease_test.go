//go:build proof

package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// restartNATS stops the cluster's server and starts it again on its address and directory.
func (c *cluster) restartNATS() {
	c.t.Helper()
	c.stopNATS()
	c.startNATS()
}

// stopNATS stops the cluster's server; its directory stays.
func (c *cluster) stopNATS() { c.nats.Shutdown(true) }

func (c *cluster) startNATS() {
	c.t.Helper()
	c.nats = testkit.Server(c.t, embedded.Options{Dir: c.streams, Listen: strings.TrimPrefix(c.url, "nats://")})
	c.connect()
}

// held starts a service on a cluster where none runs, stops it with SIGSTOP before it gets anything, and publishes a step whose
// messages it then holds without handling them.
func (c *cluster) heldBy(p *process, graph string, event map[string]any, stream, durable string, messages int) string {
	c.t.Helper()
	testkit.Await(c.t, p.name+" pulls", func() bool { return c.consumer(stream, durable).NumWaiting > 0 })
	p.signal(c.t, syscall.SIGSTOP)
	job := c.publish(graph, event)
	testkit.Await(c.t, fmt.Sprintf("%d messages in the hands of a stopped %s", messages, p.name), func() bool {
		held, _ := c.pending(stream, durable)
		return held == messages
	})
	return job
}

// TestPausedWorkerComesBackTooLate stops an extractor that holds every document of a job, past its lease. Another one does the
// work and the job commits. NATS restarts and so forgets which message ids it has seen, then the first one goes on: what it
// sends late travels to the committer and changes nothing.
func TestPausedWorkerComesBackTooLate(t *testing.T) {
	t.Parallel()
	const docs = 7 // of the step that are extracted
	c := sixProcesses(t, 1)
	c.tellAll("calm", stepBase, stepChange)
	calm := c.account("calm")

	c.tellAll("late", stepBase)
	first := c.the("extractor")
	first.stop(t)
	first = c.start("extractor", "--http.listen", "127.0.0.1:0")
	c.ready("extractor")
	delivered := c.consumer(bus.StreamChunked, bus.DurableExtractor).Delivered.Consumer
	job := c.heldBy(first, "late", tell(stepChange), bus.StreamChunked, bus.DurableExtractor, docs)
	begin := time.Now()
	c.start("extractor")
	c.await("late", job, api.JobCommitted)
	took := time.Since(begin)
	a := c.account("late")
	a.same(t, calm)

	require.Equal(t, delivered+2*docs, c.consumer(bus.StreamChunked, bus.DurableExtractor).Delivered.Consumer, "once to each of the two")
	c.restartNATS()
	before := c.consumer(bus.StreamExtracted, bus.DurableResolver).Delivered.Stream
	first.signal(t, syscall.SIGCONT)
	testkit.Await(t, "the late results", func() bool { return counted(t, first, "factmill_extractor_messages_total", `"handled"`) == docs })
	c.quiet()
	require.Equal(t, before+docs, c.consumer(bus.StreamExtracted, bus.DurableResolver).Delivered.Stream, "they went on to the resolver")
	require.Equal(t, a, c.account("late"), "what came late changes nothing")
	c.sound("late")
	t.Logf("an extractor was stopped with %d documents in its hands; another took them over and the job committed after %s (AckWait %s); the first one woke and sent its %d results, late, through resolver and committer: export, jobs and kept events unchanged",
		docs, took.Round(time.Millisecond), testkit.AckWait, docs)
}

// TestSlowHandlerAndTwoWorkers stops the committer while two extractors wait for its answer: their handlers take three times
// AckWait. No message is delivered a second time.
func TestSlowHandlerAndTwoWorkers(t *testing.T) {
	t.Parallel()
	const docs = 12
	c := sixProcesses(t, 1)
	one := c.the("extractor")
	one.stop(t)
	few := []string{"--http.listen", "127.0.0.1:0", "--extractor.concurrency", "4"} // one alone cannot hold all
	one, two := c.start("extractor", few...), c.start("extractor", few...)
	// The loader needs the committer too: everything is chunked before it stops.
	c.ready("extractor")
	one.signal(t, syscall.SIGSTOP)
	two.signal(t, syscall.SIGSTOP)
	c.publish("slow", letters("slow", docs))
	testkit.Await(t, "all documents chunked", func() bool { return c.messages(bus.StreamChunked) == docs && c.messages(bus.StreamCommit) == 0 })
	c.the("committer").signal(t, syscall.SIGSTOP)
	begin := time.Now()
	one.signal(t, syscall.SIGCONT)
	two.signal(t, syscall.SIGCONT)
	elapsed(t, begin, 3*testkit.AckWait)
	require.Equal(t, uint64(docs), c.messages(bus.StreamChunked), "nobody has finished")
	c.the("committer").signal(t, syscall.SIGCONT)
	s := c.await("slow", "slow", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: docs, Added: docs}, s.Documents)
	c.quiet()
	n := []int{counted(t, one, "factmill_extractor_messages_total", `"handled"`), counted(t, two, "factmill_extractor_messages_total", `"handled"`)}
	require.Equal(t, docs, n[0]+n[1], "handled by the two: %v", n)
	require.NotZero(t, n[0])
	require.NotZero(t, n[1])
	i := c.consumer(bus.StreamChunked, bus.DurableExtractor)
	require.Equal(t, uint64(docs), i.Delivered.Consumer, "each was delivered once")
	require.Len(t, c.read(bus.StreamJobs, "factmill.slow.job.committed.slow"), 1)
	t.Logf("two extractors held %d documents for %s (AckWait %s) while the committer was stopped: %d + %d handled, %d deliveries, one commit",
		docs, 3*testkit.AckWait, testkit.AckWait, n[0], n[1], i.Delivered.Consumer)
}

// TestKilledExtractorRepeatsAtMostItsConcurrency kills an extractor in the middle of many chunks.
func TestKilledExtractorRepeatsAtMostItsConcurrency(t *testing.T) {
	t.Parallel()
	const docs, concurrency, at = 30, 4, 12
	c := sixProcesses(t, 1)
	c.the("extractor").stop(t)
	env, mark := armed(t, fmt.Sprintf("extractor.computed:%d", at))
	first := c.startWith("extractor", env, "--extractor.concurrency", fmt.Sprint(concurrency))
	c.ready("extractor")
	dir := t.TempDir()
	for i := range docs {
		write(t, dir, fmt.Sprintf("letter%03d.txt", i), letter(i, 100<<10))
	}
	job := c.publish("many", map[string]any{"job": "many", "sources": []string{dir}})
	dies(t, first, mark)
	second := c.start("extractor", "--extractor.concurrency", fmt.Sprint(concurrency), "--http.listen", "127.0.0.1:0")
	s := c.await("many", job, api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: docs, Added: docs}, s.Documents)
	require.Greater(t, s.Stages.Chunking.Chunks, 10*docs)
	require.Equal(t, s.Stages.Chunking.Chunks, s.Stages.Extraction.ChunksProcessed, "each chunk counts once")
	c.quiet()
	again := counted(t, second, "factmill_extractor_messages_total", `"handled"`)
	repeated := at + again - docs
	require.GreaterOrEqual(t, repeated, 0)
	require.LessOrEqual(t, repeated, concurrency)
	require.Len(t, c.read(bus.StreamJobs, "factmill.many.job.committed.many"), 1)
	c.sound("many")
	t.Logf("the extractor was killed when it had read %d of %d documents (%d chunks in all); the next one read %d: %d repeated, its concurrency is %d",
		at, docs, s.Stages.Chunking.Chunks, again, repeated, concurrency)
}

// TestStoppedWorkerHandsBackAtOnce ends an extractor by SIGTERM that holds a whole job, under a lease of 30 s.
func TestStoppedWorkerHandsBackAtOnce(t *testing.T) {
	t.Parallel()
	const docs = 8
	c := sixProcesses(t, 1)
	require.NoError(t, bus.EnsureAll(t.Context(), c.conn.JS, bus.NewTable(bus.TableOptions{AckWait: 30 * time.Second})))
	for _, s := range stages {
		c.the(s).stop(t)
		c.start(s, "--bus.ack_wait", "30s")
	}
	c.ready(stages...)
	first := c.the("extractor")
	job := c.heldBy(first, "g", letters("handed", docs), bus.StreamChunked, bus.DurableExtractor, docs)
	c.start("extractor", "--bus.ack_wait", "30s")
	testkit.Await(t, "the second extractor pulls", func() bool { return c.consumer(bus.StreamChunked, bus.DurableExtractor).NumWaiting > 1 })
	begin := time.Now()
	first.signal(t, syscall.SIGTERM)
	first.signal(t, syscall.SIGCONT)
	c.await("g", job, api.JobCommitted)
	took := time.Since(begin)
	require.Less(t, took, 2*time.Second)
	<-first.done
	require.NoError(t, first.err, "it ended with code 0")
	t.Logf("%d documents in the hands of an extractor that got SIGTERM: another had read them and the job was committed after %s; the lease is 30s", docs, took.Round(time.Millisecond))
}

// TestCommitterDownPastTheLease kills the committer while jobs are under way and leaves it down for longer than their lease.
func TestCommitterDownPastTheLease(t *testing.T) {
	t.Parallel()
	const jobs, docs, lease = 5, 4, 2 * time.Second
	c := sixProcesses(t, 1)
	c.the("committer").stop(t)
	c.start("committer", "--job.lease", lease.String())
	c.ready("committer")
	c.publish("down", letters("first", 1)) // so that every stage knows the graph's schema
	c.await("down", "first", api.JobCommitted)
	held := c.the("extractor")
	held.signal(t, syscall.SIGSTOP)
	for i := range jobs {
		c.publish("down", letters(fmt.Sprintf("before%d", i), docs+i))
	}
	testkit.Await(t, "all documents chunked and staged", func() bool {
		return c.messages(bus.StreamChunked) == jobs*docs+jobs*(jobs-1)/2 && c.messages(bus.StreamCommit) == 0
	})
	c.the("committer").kill()
	begin := time.Now()
	held.signal(t, syscall.SIGCONT)
	c.publish("down", letters("meanwhile", docs))
	testkit.Await(t, "the others' work done", func() bool { return c.messages(bus.StreamExtracted) == 0 && c.messages(bus.StreamCommit) > 0 })
	elapsed(t, begin, 2*lease)
	c.start("committer", "--job.lease", lease.String())
	c.ready("committer")
	for i := range jobs {
		s := c.await("down", fmt.Sprintf("before%d", i), api.JobCommitted)
		require.Equal(t, 1, s.Attempt, "no job was taken for dead")
		require.Equal(t, docs+i, s.Documents.Total)
	}
	require.Equal(t, 1, c.await("down", "meanwhile", api.JobCommitted).Attempt)
	c.quiet()
	require.Len(t, c.read(bus.StreamJobs, "factmill.down.job.committed.*"), jobs+2)
	c.sound("down")
	t.Logf("the committer was killed with %d jobs pending and down for %s (lease %s): all of them, and one that came meanwhile, committed at their first attempt",
		jobs, 2*lease, lease)
}

// TestQuestionToAKilledCommitter kills the committer with a question of the loader in its hands: no answer ever comes, and the
// loader asks again soon.
func TestQuestionToAKilledCommitter(t *testing.T) {
	t.Parallel()
	c := sixProcesses(t, 1)
	heard, err := c.conn.NC.SubscribeSync("factmill.asked.jobs.open")
	require.NoError(t, err)
	require.NoError(t, c.conn.NC.Flush())
	p := c.the("committer")
	p.signal(t, syscall.SIGSTOP)
	job := c.publish("asked", letters("asked", 1))
	_, err = heard.NextMsg(testkit.Patience)
	require.NoError(t, err, "the loader asks")
	p.kill()
	c.start("committer")
	c.ready("committer")
	begin := time.Now()
	c.await("asked", job, api.JobCommitted)
	took := time.Since(begin)
	require.Less(t, took, 20*time.Second)
	t.Logf("the committer was killed before it answered jobs.open; the job was committed %s after its restart", took.Round(time.Millisecond))
}
