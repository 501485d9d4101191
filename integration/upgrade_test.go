package integration

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/backup"
)

// format1 unpacks a data directory that the program of the first format wrote, with its canonical exports beside the store and the streams.
func format1(t testing.TB) string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "services", "committer", "testdata", "format1.tgz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	dir := t.TempDir()
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "format1")
		}
		require.NoError(t, err)
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(to, 0o755))
			continue
		}
		raw, err := io.ReadAll(tr)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, raw, 0o600))
	}
}

// without drops the rows of a kind from a canonical export.
func without(export, kind string) string {
	var b strings.Builder
	for line := range strings.Lines(export) {
		if !strings.Contains(line, `"kind":"`+kind+`"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestUpgrade: a data directory of the first version, with its streams and a job that a person looks at, goes on under today's. The graph is
// the same but for the links between entities, which that version did not look for.
func TestUpgrade(t *testing.T) {
	dir := format1(t)
	golden := map[string]string{}
	for _, g := range []string{"default", "notes"} {
		golden[g] = string(must(os.ReadFile(filepath.Join(dir, "export."+g+".jsonl"))))
		require.Contains(t, golden[g], `"kind":"relation"`)
	}
	r := run(t, "", "verify", "--data", dir)
	require.Equal(t, 1, r.code, r.stdout)
	require.Contains(t, r.stderr, "has format 1, this program verifies format 2: make a copy, and 'factmill up --data "+dir+"' brings it forward")

	c := &cluster{t: t, dir: dir, procs: map[string][]*process{}}
	c.up()
	p := c.the("factmill")
	require.Regexp(t, `bringing the store to a newer format: older versions cannot open it afterwards.* from=1 to=2`, p.output())
	require.Regexp(t, `the store has the newer format.* format=2`, p.output())
	for g, want := range golden {
		c.sound(g)
		require.Equal(t, want, without(c.export(g), "match"))
	}
	// What the rows are for: conflicts, relations beyond their number, candidates by their ids.
	list := c.cli(0, "review", "list", "--kind", "conflict").stdout
	require.Contains(t, list, "Institute of Sky Studies")
	stats := loose[struct {
		Records int `json:"records"`
	}](t, c.cli(0, "review", "stats", "--json").stdout)
	require.Equal(t, 13, stats.Records)

	// The held job commits, and jobs of today do.
	require.Equal(t, api.JobHeld, c.status("default", "j5").State)
	c.cli(0, "jobs", "accept", "j5")
	require.Equal(t, api.JobCommitted, c.settled("default", "j5").State)
	c.add("default", doc("new", "Otto Brand works for Ardenna University."))
	c.sound("default")
	c.noDeadLetters()
	p.stop(t)
	require.Equal(t, 0, run(t, "", "verify", "--data", dir).code)
}

// TestRestoreOfAnotherFormat: a backup that an older version wrote is brought forward where it is restored to; one of a newer version is refused
// before anything is copied.
func TestRestoreOfAnotherFormat(t *testing.T) {
	old := format1(t)
	store := filepath.Join(old, "store")
	make := func(format uint64) string {
		to := filepath.Join(t.TempDir(), "backup")
		require.NoError(t, os.Mkdir(to, 0o700))
		b := api.Backup{Format: format, At: "2026-01-02T03:04:05Z", Graphs: []api.BackupGraph{{Graph: "default", Seq: 3}, {Graph: "notes", Seq: 1}}}
		for _, e := range must(os.ReadDir(store)) {
			f := must(backup.NewFile(to, e.Name()))
			require.NoError(t, f.Add(must(os.ReadFile(filepath.Join(store, e.Name())))))
			require.NoError(t, f.Sync())
			b.Files = append(b.Files, f.Sum())
			require.NoError(t, f.Close())
		}
		require.NoError(t, backup.Finish(to, b))
		return to
	}
	data := filepath.Join(t.TempDir(), "new")
	r := run(t, "", "restore", make(1), "--data", data)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stderr, "bringing the store to a newer format")
	require.Equal(t, 0, run(t, "", "verify", "--data", data).code)

	data = filepath.Join(t.TempDir(), "newer")
	from := make(99)
	r = run(t, "", "restore", from, "--data", data)
	require.Equal(t, 1, r.code, r.stderr)
	require.Contains(t, r.stderr, from+" has format 99, this program reads up to 2: restore it with the version that wrote it, or a newer one")
	require.NoDirExists(t, data)
}
