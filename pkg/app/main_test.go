package app_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// The exit code says whether a person must change the configuration, start something, or look at what failed.
func TestMainExitCodes(t *testing.T) {
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	conn := testkit.Connect(t, srv, "test")
	var refused error
	run := func(args ...string) (int, string) {
		var out strings.Builder
		code := app.MainContext(t.Context(), "committer", "1.2.3", append([]string{"--bus.ack_wait", testkit.AckWait.String()}, args...),
			[]string{"FACTMILL_DATTA=x"}, &out, func(*app.Config, app.Deps) (app.Service, error) { return nil, refused })
		return code, out.String()
	}
	code, said := run()
	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, said, "no NATS server given: set --nats.url or FACTMILL_NATS_URL")
	code, said = run("--chunker.size", "1", "--nats", srv.ClientURL())
	require.Equal(t, app.ExitUsage, code, said)
	code, said = run("--nats", "nats://127.0.0.1:1")
	require.Equal(t, app.ExitUnreachable, code, said)
	code, said = run("--nats", srv.ClientURL())
	require.Equal(t, app.ExitUsage, code, said)
	require.Contains(t, said, "stream FACTMILL_INGEST does not exist: run factmill provision")

	require.NoError(t, bus.EnsureAll(t.Context(), conn.JS, testkit.Table()))
	refused = fmt.Errorf("committer: %w", app.Misconfigured(errors.New("no data directory given (data)")))
	code, said = run("--nats", srv.ClientURL())
	require.Equal(t, app.ExitUsage, code, said)
	require.Contains(t, said, "factmill-committer: committer: no data directory given (data)\n")
	require.Contains(t, said, "the environment variable FACTMILL_DATTA is unknown and not used, did you mean FACTMILL_DATA?")
	refused = errors.New("the store is damaged")
	code, said = run("--nats", srv.ClientURL())
	require.Equal(t, app.ExitFailed, code, said)
	require.NoError(t, app.Misconfigured(nil))
}

// Services of one process take each its own seed out of a directory.
func TestSeedOfItsName(t *testing.T) {
	dir := t.TempDir()
	for key, want := range map[string]string{dir: filepath.Join(dir, "loader"), filepath.Join(dir, "x"): filepath.Join(dir, "x"), "": ""} {
		cfg, err := app.LoadConfig("", nil, map[string]string{"nats.nkey": key})
		require.NoError(t, err)
		o := cfg.BusOptions("loader")
		require.Equal(t, want, o.NKey)
		require.Equal(t, "_INBOX_loader", o.Inbox)
	}
}
