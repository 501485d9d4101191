//go:build proof

package integration

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// TestTenThousandDocuments reads 10,000 documents of 4 KB as one job, as a user does on a laptop.
func TestTenThousandDocuments(t *testing.T) {
	const n, size = 10_000, 4 << 10
	dir := t.TempDir()
	r := seeded(t, 20)
	for i := range n {
		write(t, dir, fmt.Sprintf("docs/%02d/%05d.txt", i%100, i), prose(r, size, 400, 6))
	}
	data := t.TempDir()
	m := measure(t, 5*time.Minute, dir, "", "run", "docs", "--data", data, "--json")
	require.Zero(t, m.code, m.stderr)
	var s api.JobStatus
	require.NoError(t, json.Unmarshal([]byte(m.stdout), &s))
	require.Equal(t, api.JobCommitted, s.State)
	require.Equal(t, uint64(1), s.CommitSeq, "one commit for all of it")
	require.Equal(t, api.DocumentCounts{Total: n, Added: n}, s.Documents)
	require.Greater(t, s.Stages.Extraction.Relations, n)
	require.Less(t, m.rss, int64(gib), "the whole process")
	t.Logf("%.0f documents a second", n/m.took.Seconds())

	m = measure(t, 5*time.Minute, dir, "", "verify", "--data", data, "--json")
	require.Zero(t, m.code, m.stdout)
	var v api.VerifyReply
	require.NoError(t, json.Unmarshal([]byte(m.stdout), &v))
	require.Empty(t, v.Problems)
	require.Equal(t, n, v.Checked["document"])
	require.Less(t, m.rss, int64(gib), "verify")
}
