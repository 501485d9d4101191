package target

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "graph")
	l, err := Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, l.Tell(Up{Command: "up", URL: "nats://127.0.0.1:4222", Started: "2024-01-01T00:00:00Z"}))

	_, err = Acquire(dir)
	var held *InUse
	require.ErrorAs(t, err, &held)
	require.Equal(t, &Up{PID: os.Getpid(), Command: "up", URL: "nats://127.0.0.1:4222", Started: "2024-01-01T00:00:00Z"}, held.By)
	require.ErrorContains(t, err, "(factmill up): talk to it with --nats nats://127.0.0.1:4222, or stop it")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(filepath.Join(dir, upFile))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it may hold a token")
	}

	require.NoError(t, l.Release())
	u, err := ReadUp(dir)
	require.NoError(t, err)
	require.Nil(t, u)
	l, err = Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

// What a killed process left behind describes nobody.
func TestLockAfterKill(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, upFile), []byte(`{"pid":1,"url":"nats://x"}`), 0o600))
	l, err := Acquire(dir)
	require.NoError(t, err)
	u, err := ReadUp(dir)
	require.NoError(t, err)
	require.Nil(t, u)
	_, err = Acquire(dir)
	require.EqualError(t, err, "the data directory "+dir+" is in use by another process: wait for it, stop it, or choose another with --data")
	require.NoError(t, l.Release())
}

func TestDataDir(t *testing.T) {
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/factmill"},
		{map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/factmill"},
		{map[string]string{"HOME": "/h"}, "/h/.local/share/factmill"},
	} {
		got, err := DataDir(env(c.env))
		require.NoError(t, err)
		require.Equal(t, filepath.FromSlash(c.want), got)
	}
}
