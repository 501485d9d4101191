package backup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// written is a backup of one file.
func written(t *testing.T) (dir string, b api.Backup) {
	dir = t.TempDir()
	f, err := NewFile(dir, "a")
	require.NoError(t, err)
	require.NoError(t, f.Add([]byte("some ")))
	require.NoError(t, f.Add([]byte("bytes")))
	require.NoError(t, f.Close())
	b = api.Backup{ID: "x", Format: 1, At: "2026-01-02T03:04:05Z", Graphs: []api.BackupGraph{{Graph: "g", Seq: 7}}, Files: []api.BackupFile{f.Sum()}}
	require.Equal(t, api.BackupFile{Name: "a", Size: 10, SHA256: "0d22cdcc10e6d049dbe1af5123d50873fdfc1a4f58306e58cb6241be9472014d"}, b.Files[0])
	require.NoError(t, Finish(dir, b))
	return dir, b
}

func TestWrittenAndCopied(t *testing.T) {
	dir, b := written(t)
	got, err := Open(dir)
	require.NoError(t, err)
	b.ID = ""
	require.Equal(t, b, got)
	to := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(to+".partial", 0o750), "an earlier copy was interrupted")
	var said []int64
	require.NoError(t, Copy(t.Context(), got, dir, to, func(done, total int64) { said = append(said, done, total) }))
	require.Equal(t, []int64{10, 10}, said)
	raw, err := os.ReadFile(filepath.Join(to, "a"))
	require.NoError(t, err)
	require.Equal(t, "some bytes", string(raw))
	require.NoDirExists(t, to+".partial")
	require.Error(t, Copy(t.Context(), got, dir, to, func(_, _ int64) {}), "it is there")
}

func TestWhatIsNoBackup(t *testing.T) {
	_, err := Open(t.TempDir())
	require.ErrorIs(t, err, ErrIncomplete)
	for _, manifest := range []string{`{`, `{"files":[{"name":"../a"}]}`, `{"files":[{"name":"/etc/passwd"}]}`, `{"files":[{"name":""}]}`, `{"files":[{"name":".."}]}`,
		`{"files":[{"name":"factmill-backup.json"}]}`, `{"nix":1}`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, Manifest), []byte(manifest), 0o600))
		_, err := Open(dir)
		require.ErrorIs(t, err, ErrIncomplete, manifest)
	}
	dir, b := written(t)
	for what, spoil := range map[string]func(path string) error{
		"changed": func(p string) error { return os.WriteFile(p, []byte("some bytez"), 0o600) },
		"longer":  func(p string) error { return os.WriteFile(p, []byte("some bytes."), 0o600) },
		"gone":    os.Remove,
	} {
		require.NoError(t, spoil(filepath.Join(dir, "a")))
		to := filepath.Join(t.TempDir(), "store")
		require.ErrorIs(t, Copy(t.Context(), b, dir, to, func(_, _ int64) {}), ErrIncomplete, what)
		require.NoDirExists(t, to, what)
		require.NoDirExists(t, to+".partial", what)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("some bytes"), 0o600))
	}
}
