package loader

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
)

func TestConfig(t *testing.T) {
	require.Equal(t, Config{MaxDocument: 32 << 20, ListConcurrency: 2, Concurrency: 8, Version: "0.0.0"}, Config{}.WithDefaults())
	require.NoError(t, Config{}.WithDefaults().Validate())
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{MaxDocument: 1}, "loader.max_document is 1: it must be between 1024 and 67108864"},
		{Config{MaxDocument: 1 << 30}, "loader.max_document is 1073741824: it must be between 1024 and 67108864"},
		{Config{ListConcurrency: -1}, "loader.list_concurrency is -1: it must be between 1 and 64"},
		{Config{Concurrency: 257}, "loader.concurrency is 257: it must be between 1 and 256"},
		{Config{Roots: []string{""}}, "loader.roots has an empty entry"},
	} {
		require.EqualError(t, c.cfg.WithDefaults().Validate(), c.want)
	}
	cfg, err := app.LoadConfig("", []string{"FACTMILL_LOADER_ROOTS=/a, /b"}, map[string]string{"loader.concurrency": "3"})
	require.NoError(t, err)
	require.Equal(t, Config{Roots: []string{"/a", "/b"}, MaxDocument: 32 << 20, Concurrency: 3}, FromConfig(cfg))
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Concurrency: -1}, app.Deps{})
	require.EqualError(t, err, "loader.concurrency is -1: it must be between 1 and 256")
	_, err = New(Config{}, app.Deps{})
	require.EqualError(t, err, "the loader needs a connection")
	gone := filepath.Join(t.TempDir(), "gone")
	_, err = New(Config{Roots: []string{gone}}, app.Deps{Conn: &bus.Conn{}})
	require.ErrorContains(t, err, "loader.roots: root "+gone)
	reg := prometheus.NewRegistry()
	for range 2 { // two replicas in one process
		s, err := New(Config{}, app.Deps{Conn: &bus.Conn{}, Metrics: reg})
		require.NoError(t, err)
		require.Equal(t, "loader", s.Name())
		require.ErrorIs(t, s.Ready(), bus.ErrNotStarted)
	}
}
