package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A byte that changed on the disk is told in one line that names the file; nothing is read as if it were what was written.
func TestDamagedFile(t *testing.T) {
	o := options(nil)
	o.Dir = t.TempDir()
	write := func(key string) {
		s, err := Open(context.Background(), o)
		require.NoError(t, err)
		_, ok := s.Graph(g, true)
		require.True(t, ok)
		c, err := fixture(key, "[Person:Ada] met [Person:Bob].\n> 0 KNOWS Person:Ada Person:Bob")
		require.NoError(t, err)
		commit(t, s, c)
		require.NoError(t, s.Close())
	}
	write("a.txt")
	write("b.txt") // opening wrote what the log held to a table
	tables, err := filepath.Glob(filepath.Join(o.Dir, "*.sst"))
	require.NoError(t, err)
	damaged := ""
	for _, table := range tables {
		b, err := os.ReadFile(table)
		require.NoError(t, err)
		if i := bytes.Index(b, []byte("a.txt")); i >= 0 {
			b[i] ^= 1
			require.NoError(t, os.WriteFile(table, b, 0o600))
			damaged = filepath.Base(table)
			break
		}
	}
	require.NotEmpty(t, damaged)

	told := make(chan error, 1)
	o.Fatal = func(err error) { told <- err }
	s, err := Open(context.Background(), o)
	if err == nil {
		_, err = s.Verify(context.Background(), g, nil)
		require.Error(t, err)
		_ = s.Close()
	}
	err = <-told
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, ErrDamaged)
	require.Contains(t, err.Error(), damaged)
	require.NotContains(t, err.Error(), "\n")
}
