package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const (
	mib = 1 << 20
	// quick is the CPU that one large input may take, and patience the time on the wall, which others may use as well. Memory is
	// bounded by gib.
	quick    = 2 * time.Minute
	patience = 4 * time.Minute
)

// sentences is plain prose of exactly size bytes.
func sentences(size int) string {
	const s = "Ada Lovelace works for Acme Ltd in London. Rain fell on the roof for most of the week, and nobody kept the minutes.\n"
	return strings.Repeat(s, size/len(s)+1)[:size]
}

// quoted is text of exactly size bytes that takes nearly twice as many in JSON.
func quoted(size int) string {
	const s = "\"\\\"\t\"\\\"\t\"\\\"\t\"\\\"\n\nAda Lovelace works for Acme Ltd.\n\n"
	return strings.Repeat(s, size/len(s)+1)[:size]
}

// within demands that a command that handled or refused a large input stayed in its bounds.
func within(t *testing.T, m measured) measured {
	t.Helper()
	require.Less(t, m.cpu, quick)
	require.Less(t, m.rss, int64(gib), "the whole process")
	return m
}

// TestLargeInputsAtTheCommandLine: each is handled, or refused by a limit that says what to do, in bounded time and memory.
func TestLargeInputsAtTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       int
		says       string
		chunks     [2]int // between
		relations  int
	}{
		{"fifty megabytes", sentences(50 * mib), 1, "big.txt: it has more than 33554432 bytes, which one document may have: split it", [2]int{}, 0},
		{"a million spaces", strings.Repeat(" ", 1_000_000), 0, "", [2]int{0, 0}, 0},
		{"a word of five megabytes", strings.Repeat("x", 5*mib), 0, "", [2]int{300, 3000}, 0},
		{"a line of five megabytes", strings.ReplaceAll(sentences(5*mib), "\n", " "), 0, "", [2]int{1000, 4000}, 2},
		{"what grows in JSON", quoted(990_000), 0, "", [2]int{300, 3000}, 1},
		{"a million line ends", strings.Repeat("\r\n", 1_000_000), 0, "", [2]int{0, 0}, 0},
		{"a million marks", "e" + strings.Repeat("\u0301", 1_000_000), 0, "", [2]int{1, 4000}, 0},
		{"a million capitals", strings.Repeat("Ab ", 350_000), 0, "", [2]int{300, 3000}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, data := t.TempDir(), t.TempDir()
			write(t, dir, "big.txt", c.text)
			m := within(t, measure(t, patience, dir, "", "run", "big.txt", "--data", data, "--json"))
			require.Equal(t, c.code, m.code, m.stderr)
			require.Contains(t, m.stderr, c.says)
			if c.code != 0 {
				require.Empty(t, m.stdout)
				require.Equal(t, 2, len(strings.Split(m.stderr, "\n")), "one line says it all: %s", m.stderr)
				return
			}
			s := loose[api.JobStatus](t, m.stdout)
			require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)
			require.GreaterOrEqual(t, s.Stages.Chunking.Chunks, c.chunks[0])
			require.LessOrEqual(t, s.Stages.Chunking.Chunks, c.chunks[1])
			require.Equal(t, c.relations, s.Stages.Merge.RelationsCreated)
			v := within(t, measure(t, patience, dir, "", "verify", "--data", data))
			require.Zero(t, v.code, v.stdout)
		})
	}
}

// TestFiftyMegabytesByPath: the loader refuses them by its limit, before it reads a byte, as the job's error policy says.
func TestFiftyMegabytesByPath(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "big.txt", sentences(50*mib))
	c := allInOne(t, "--loader.roots", dir)
	for policy, state := range map[string]string{"raise": api.JobRolledBack, "skip": api.JobCommitted} {
		s := c.await("default", c.publish("default", map[string]any{"sources": []string{"big.txt"}, "error_policy": policy}), state)
		require.Equal(t, 1, s.Documents.Failed+s.Documents.Skipped)
		require.Equal(t, "too_large", s.Stages.Ingestion.List[0].Code)
		require.Equal(t, `"big.txt" has 52428800 bytes: at most 33554432`, s.Stages.Ingestion.List[0].Message)
	}
	c.stopped(gib)
}

// stopped ends the all-in-one and demands that it stayed within its bounds.
func (c *cluster) stopped(most int64) {
	c.t.Helper()
	p := c.procs["factmill"][0]
	p.stop(c.t)
	require.NoError(c.t, p.err, "exit code 0")
	rss, cpu := peak(c.t, p.cmd), cpuTime(p.cmd)
	c.t.Logf("%s of CPU, at most %d MiB", cpu.Round(time.Millisecond), rss>>20)
	require.Less(c.t, rss, most)
	require.Less(c.t, cpu, quick)
}

// TestATextThatGrowsInJSON takes the same 990 kB text, which has more than 1 MiB as JSON, through every door, and gets the same
// document from each.
func TestATextThatGrowsInJSON(t *testing.T) {
	text := quoted(990_000)
	dir := t.TempDir()
	write(t, dir, "q.txt", text)
	c := allInOne(t, "--loader.roots", dir)

	got := runIn(t, dir, "", "ingest", "q.txt", "--key", "uploaded", "--nats", c.url)
	require.Zero(t, got.code, got.stderr)
	got = run(t, text, "ingest", "-", "--key", "piped", "--nats", c.url)
	require.Zero(t, got.code, got.stderr)

	bucket, err := c.conn.JS.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "mine"})
	require.NoError(t, err)
	_, err = bucket.PutFile(t.Context(), filepath.Join(dir, "q.txt"))
	require.NoError(t, err)
	info, err := bucket.List(t.Context())
	require.NoError(t, err)
	require.Len(t, info, 1)
	file, err := os.Open(filepath.Join(dir, "q.txt"))
	require.NoError(t, err)
	defer file.Close()
	_, err = bucket.Put(t.Context(), jetstream.ObjectMeta{Name: "deep/q.txt"}, file)
	require.NoError(t, err)
	c.await("default", c.publish("default", map[string]any{"key": "object", "sources": []string{"object:mine/deep/q.txt"}}), api.JobCommitted)
	c.await("default", c.publish("default", map[string]any{"key": "path", "sources": []string{"q.txt"}}), api.JobCommitted)

	// As the body of the event: the text fits in a message, though the JSON that the stages send would not.
	seq, err := c.conn.Ingest(t.Context(), "default", []byte("\n"+text), map[string]string{"Factmill-Key": "body"})
	require.NoError(t, err)
	c.await("default", fmt.Sprintf("j%d", seq), api.JobCommitted)

	x := c.rows("default")
	require.Len(t, x.documents, 5)
	hashes := map[string][]string{}
	for _, d := range x.documents {
		hashes[d.ContentHash] = append(hashes[d.ContentHash], d.Key)
	}
	require.Len(t, hashes, 2, "%v", hashes) // the body has a line end before the text, so that it does not begin as JSON does
	require.Len(t, x.relations, 1)
	require.Equal(t, text, c.document("default", "uploaded", "").Text)
	require.Equal(t, "\n"+text, c.document("default", "body", "").Text)
	c.sound("default")

	// What does not fit in a message is refused at the client by its size, and nothing hangs.
	_, err = c.conn.Ingest(t.Context(), "default", []byte("{"+strings.Repeat(" ", mib)+"}"), nil)
	require.ErrorContains(t, err, "the server takes 1048576")
	c.stopped(gib)
}
