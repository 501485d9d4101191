package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func TestDesk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "of an earlier process"), 0o750))
	st, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(t.TempDir(), "store")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	_, ok := st.Graph("g", true)
	require.True(t, ok)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d, err := New(st, dir, testkit.Quiet(), func() time.Time { return now })
	require.NoError(t, err)
	require.NoDirExists(t, dir, "what an earlier process left is gone")

	b, err := d.Begin(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, []api.BackupGraph{{Graph: "g"}}, b.Graphs)
	require.Equal(t, "2026-01-02T03:04:05Z", b.At)
	read := func(id, file string, offset int64) (int, string) {
		r, err := d.Read(t.Context(), "g", api.BackupRead{ID: id, File: file, Offset: offset})
		var refused *api.Error
		if errors.As(err, &refused) {
			return refused.Status, string(r.Data)
		}
		require.NoError(t, err)
		return 0, string(r.Data)
	}
	for _, f := range b.Files {
		want, err := os.ReadFile(filepath.Join(dir, b.ID, f.Name))
		require.NoError(t, err)
		require.Len(t, want, int(f.Size))
		status, got := read(b.ID, f.Name, 0)
		require.Zero(t, status)
		require.Equal(t, string(want), got)
		if f.Size == 0 { // a marker
			continue
		}
		_, got = read(b.ID, f.Name, f.Size-1)
		require.Equal(t, string(want[len(want)-1:]), got)
		_, got = read(b.ID, f.Name, f.Size+5)
		require.Empty(t, got)
	}
	for _, name := range []string{"", ".", "..", "../" + b.ID + "/" + b.Files[0].Name, "/etc/passwd", "nix"} {
		status, _ := read(b.ID, name, 0)
		require.Equal(t, 404, status, name)
	}
	status, _ := read(b.ID, b.Files[0].Name, -1)
	require.Equal(t, 400, status)
	status, _ = read("../"+b.ID, b.Files[0].Name, 0)
	require.Equal(t, 404, status)

	second, err := d.Begin(t.Context(), "g")
	require.NoError(t, err)
	_, err = d.Begin(t.Context(), "g")
	require.ErrorContains(t, err, "2 backups are being read")
	ended, err := d.End(t.Context(), "g", api.BackupEnd{ID: second.ID})
	require.NoError(t, err)
	require.True(t, ended.Ended)
	require.NoDirExists(t, filepath.Join(dir, second.ID))
	ended, err = d.End(t.Context(), "g", api.BackupEnd{ID: second.ID})
	require.NoError(t, err)
	require.False(t, ended.Ended)

	now = now.Add(59 * time.Minute)
	status, _ = read(b.ID, b.Files[0].Name, 0)
	require.Zero(t, status)
	now = now.Add(59 * time.Minute)
	require.NoError(t, d.Forget())
	require.DirExists(t, filepath.Join(dir, b.ID), "it was read an hour ago")
	now = now.Add(2 * time.Minute)
	require.NoError(t, d.Forget())
	require.NoDirExists(t, filepath.Join(dir, b.ID))
	status, _ = read(b.ID, b.Files[0].Name, 0)
	require.Equal(t, 404, status)
}
