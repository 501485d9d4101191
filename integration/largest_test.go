//go:build proof

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// TestFiftyMegabytesWithARaisedLimit: a loader whose operator raised its limit takes them; what then becomes too much for a message
// between two stages is refused by that limit.
func TestFiftyMegabytesWithARaisedLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "big.txt", strings.Repeat(prose(seeded(t, 50), mib, 400, 20)[:mib], 50))
	write(t, dir, "dense.txt", sentences(50*mib))
	raised := []string{"--loader.roots", dir, "--loader.max_document", fmt.Sprint(64 * mib)}

	c := allInOne(t, raised...)
	s := c.await("default", c.publish("default", map[string]any{"sources": []string{"big.txt"}}), api.JobCommitted)
	t.Logf("50 MB: %d chunks, %d relations", s.Stages.Chunking.Chunks, s.Stages.Extraction.Relations)
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)
	require.Greater(t, s.Stages.Chunking.Chunks, 15_000)
	c.stopped(gib)

	c = allInOne(t, raised...)
	s = c.await("default", c.publish("default", map[string]any{"sources": []string{"dense.txt"}}), api.JobRolledBack)
	require.Regexp(t, `^too_large: dense.txt: doc.extracted: it would have \d+ bytes, at most 134217728: split the document$`, s.Reason)
	c.stopped(gib + gib/2) // 2,000,000 statements are in memory before they are too many
}

// TestManyLargeDocumentsAtOnce: memory does not grow with the number of large documents in flight, and neither does the work on each.
func TestManyLargeDocumentsAtOnce(t *testing.T) {
	const many = 6
	dir := t.TempDir()
	r := seeded(t, 8)
	for i := range many {
		write(t, dir, fmt.Sprintf("docs/%02d.txt", i), prose(r, 8*mib, 400, 6))
	}
	run := func(sources string, docs int) measured {
		m := measure(t, patience, dir, "", "run", sources, "--data", t.TempDir(), "--json")
		require.Zero(t, m.code, m.stderr)
		require.Less(t, m.rss, int64(gib+gib/4), "most of it lives while several are in the hands of stages")
		require.Equal(t, docs, loose[api.JobStatus](t, m.stdout).Documents.Added)
		return m
	}
	one, all := run("docs/00.txt", 1), run("docs", many)
	require.Less(t, all.cpu, 3*many/2*one.cpu)
	require.Less(t, all.rss, 2*one.rss)
}
