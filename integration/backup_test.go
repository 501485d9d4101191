package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/backup"
)

// TestBackupAndRestore: a backup that is made while jobs commit is one state; a volume that is lost comes back from it, verifies clean, goes on
// with what the streams hold, and equals what it was when the later documents were ingested again.
func TestBackupAndRestore(t *testing.T) {
	c := sixProcesses(t, 1)
	c.add("default", peopleAt(60, 0)...)
	c.add("other", doc("x", "Ada Lovelace works for Acme Ltd."))
	c.cli(0, "review", "stats")
	first := c.export("default")

	into := filepath.Join(t.TempDir(), "backup")
	running := c.publish("default", map[string]any{"documents": peopleAt(200, 60)})
	out := c.cli(0, "backup", into, "--json")
	c.await("default", running, api.JobCommitted)
	last := c.export("default")
	require.NotEqual(t, first, last)

	b, err := backup.Open(into)
	require.NoError(t, err)
	require.JSONEq(t, out.stdout, string(must(os.ReadFile(filepath.Join(into, backup.Manifest)))))
	require.Equal(t, "other", b.Graphs[1].Graph)
	require.Equal(t, uint64(1), b.Graphs[1].Seq)
	require.NoDirExists(t, filepath.Join(c.dir, "store-backups", "x"))
	left, err := os.ReadDir(filepath.Join(c.dir, "store-backups"))
	require.NoError(t, err)
	require.Empty(t, left, "it was let go")

	// The volume is lost while a document waits in the streams.
	c.the("committer").kill()
	c.the("reviewer").stop(t)
	waits := c.publish("default", map[string]any{"documents": []any{doc("waits", "Grace Hopper works for Navy Corp.")}})
	require.NoError(t, os.RemoveAll(c.dir))
	r := run(t, "", "restore", into, "--data", c.dir, "--json")
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, `"problems":[]`)
	c.start("committer")
	c.start("reviewer")
	c.ready(stages...)
	c.await("default", waits, api.JobCommitted)
	c.sound("default")
	c.sound("other")
	c.add("default", peopleAt(200, 60)...)
	c.remove("default", "waits")
	require.Equal(t, last, c.export("default"))
	c.cli(0, "review", "stats")

	for what, args := range map[string][]string{
		"is not empty":         {"restore", into, "--data", c.dir},
		"is there already":     {"backup", into, "--nats", c.url},
		"say where to":         {"restore", into},
		"factmill-backup.json": {"restore", t.TempDir(), "--data", filepath.Join(t.TempDir(), "new")},
	} {
		r := run(t, "", args...)
		require.Equal(t, 2, r.code, what)
		require.Contains(t, r.stderr, what)
	}
	// A byte that changed is found before anything is opened.
	file := filepath.Join(into, b.Files[0].Name)
	raw := must(os.ReadFile(file))
	raw[len(raw)/2] ^= 1
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	to := filepath.Join(t.TempDir(), "new")
	r = run(t, "", "restore", into, "--data", to)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, b.Files[0].Name)
	require.NoDirExists(t, filepath.Join(to, "store"))
	require.True(t, strings.HasPrefix(r.stderr, "factmill: no whole backup"), r.stderr)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
