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

// TestManyLargeDocumentsAtOnce: memory does not grow with the number of large documents in flight.
func TestManyLargeDocumentsAtOnce(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	r := seeded(t, 8)
	for i := range 6 {
		write(t, dir, fmt.Sprintf("docs/%02d.txt", i), prose(r, 8*mib, 400, 6))
	}
	m := within(t, measure(t, patience, dir, "", "run", "docs", "--data", data, "--json"))
	require.Zero(t, m.code, m.stderr)
	require.Equal(t, 6, loose[api.JobStatus](t, m.stdout).Documents.Added)
}
