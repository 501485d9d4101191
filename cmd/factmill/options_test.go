package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/backup"
	"github.com/factmill/factmill/pkg/bus"
)

// An option of the connection that is wrong whatever the server says is wrong usage, of every command alike, and its error names the flag, or
// where else it came from, and the file.
func TestWrongConnectionOptions(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	bad, none, seeds := file("bad", "garbage\n"), filepath.Join(dir, "none"), filepath.Join(dir, "seeds")
	require.NoError(t, os.Mkdir(seeds, 0o700))
	empty, yaml := file("empty", "\n"), file("c.yaml", "nats: {nkey: "+none+"}\n")
	for _, x := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"--nkey", bad}, "--nkey " + bad + ": it holds no user's seed"},
		{nil, []string{"--nats.nkey", bad}, "--nats.nkey " + bad + ": it holds no user's seed"},
		{nil, []string{"--nkey", none}, "--nkey " + none + ": no such file or directory"},
		{nil, []string{"--nkey", seeds}, "--nkey " + seeds + ": it is a directory of seeds: name yours in it"},
		{[]string{"FACTMILL_NATS_NKEY=" + none}, nil, "FACTMILL_NATS_NKEY " + none + ": no such file or directory"},
		{nil, []string{"--config", yaml}, "nats.nkey in the configuration file " + none + ": no such file or directory"},
		{nil, []string{"--nkey", bad, "--creds", bad}, "a connection has one key"},
		{nil, []string{"--creds", bad}, "--creds " + bad + ": it holds no user's credentials"},
		{nil, []string{"--creds", none}, "--creds " + none + ": no such file or directory"},
		{nil, []string{"--tls-ca", bad}, "--tls-ca " + bad + ": it holds no certificate"},
		{nil, []string{"--tls-ca", none}, "--tls-ca " + none + ": no such file or directory"},
		{nil, []string{"--tls-cert", none}, "--tls-cert " + none + ": a certificate needs its key"},
		{nil, []string{"--tls-key", none}, "--tls-key " + none + ": a key needs its certificate"},
		{nil, []string{"--tls-cert", none, "--tls-key", none}, "--tls-cert " + none + ": no such file or directory"},
		{nil, []string{"--tls-cert", bad, "--tls-key", empty}, "--tls-cert " + bad + ": with " + empty + " it makes no pair"},
		{nil, []string{"--token-file", none}, "--token-file " + none + ": no such file or directory"},
		{nil, []string{"--token-file", empty}, "--token-file " + empty + ": it must hold a token"},
		{nil, []string{"--password", "sesame"}, "--password: it is nobody's"},
		{nil, []string{"--nats", "http://x"}, "--nats http://x: NATS is not spoken over http"},
		{nil, []string{"--nats", "nats://ada:sesame@x:1y"}, "--nats nats://ada:xxxxx@x:1y: it is no address"},
	} {
		for _, command := range []string{"stats", "doctor", "provision"} {
			args := []string{command, "--nats", "nats://127.0.0.1:1"}
			if len(x.args) > 0 && x.args[0] == "--nats" {
				args = args[:1]
			}
			if want := x.want; command == "provision" && strings.Contains(want, "directory of seeds") { // the one command whose seed has its name
				continue
			}
			code, out, errs := call(t, x.env, append(args, x.args...)...)
			require.Equal(t, exitUsage, code, "%v: %s%s", x.args, out, errs)
			require.Contains(t, errs, x.want)
			require.NotContains(t, errs+out, "restore")
			require.NotContains(t, errs+out, "sesame")
		}
	}
	code, _, errs := call(t, nil, "stats", "--nats", "nats://127.0.0.1:1", "--nkey", bad, "--json")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `"code":"usage"`)
}

// What is to be typed next reaches the place where this command worked, and says no secret.
func TestHintsReachTheSamePlace(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("sesame"), 0o600))
	hint := func(args ...string) (string, string) {
		c := &cli{env: []string{"FACTMILL_NATS_TLS_KEY=env.key"}, keys: map[string]string{}}
		cmd := c.root()
		require.NoError(t, cmd.ParseFlags(args))
		require.NoError(t, c.load(cmd))
		return c.at(), c.atAs("chunker")
	}
	at, as := hint("--nats", "nats://ada:sesame@h:4222", "--tls-ca", "ca.pem", "--nkey", "my seeds/ada", "-g", "g", "--tls-cert", "c.pem")
	require.Equal(t, " --nats nats://ada:xxxxx@h:4222 --nkey 'my seeds/ada' --tls-ca ca.pem --tls-cert c.pem --graph g", at)
	require.Equal(t, " --nats nats://ada:xxxxx@h:4222 --nkey 'my seeds/chunker' --tls-ca ca.pem --tls-cert c.pem --graph g", as)
	at, as = hint("--nats", "nats://h", "--token-file", token, "--user", "u", "--password", "sesame")
	require.Equal(t, " --nats nats://h --user u --password … --token-file "+token, at)
	require.Equal(t, at, as)
	at, _ = hint("--nats", "nats://h", "--token", "sesame")
	require.Equal(t, " --nats nats://h --token-file FILE", at)
	at, _ = hint("--data", dir)
	require.Equal(t, " --data "+dir, at)
	at, _ = hint()
	require.Empty(t, at)
}

// A refusal names the roles that may, or the keys.
func TestRefusalsSayWhoMay(t *testing.T) {
	denied := func(subject, does string) error {
		e := api.Errorf(403, "not_allowed", "this user may not %s to %s", does, subject)
		e.Details = map[string]any{"subject": subject, "does": does}
		return permitted(fmt.Errorf("document event: %w", e))
	}
	err := denied("factmill.default.ingest", "publish")
	require.EqualError(t, err, "document event: this user may not publish to factmill.default.ingest: it takes the role publisher or operator; who runs the NATS server gives it (factmill keys)")
	require.Equal(t, exitFailed, exitCode(err))
	require.Equal(t, map[string]any{"roles": []any{"publisher", "operator"}, "users": nil}, plain(t, jsonError(err, exitFailed).Details["needs"]))
	require.EqualError(t, permitted(err), err.Error(), "once")
	require.ErrorContains(t, denied(bus.Inbox("provision")+".x.*", "subscribe"), "it takes the key of provision or admin")
	require.ErrorContains(t, denied("_INBOX.x.*", "subscribe"), "it takes the role publisher, reader, reviewer or operator, or the key of admin")
	other := api.Errorf(404, "entity_not_found", "m")
	require.Equal(t, error(other), permitted(other))
}

// A backup does not lie in what it is a backup of, and a restore that did not work leaves nothing.
func TestBackupsLieOutside(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	code, out, errs := call(t, nil, "provision", "--data", data)
	require.Zero(t, code, errs)
	require.Contains(t, out, "nothing to do (at "+data)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(data, link))
	for _, to := range []string{filepath.Join(data, "b"), filepath.Join(data, "store", "b"), filepath.Join(link, "b")} {
		code, _, errs = call(t, nil, "backup", to, "--data", data)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, to+" lies in the data directory "+data)
	}
	require.Error(t, outside(filepath.Join(data, "b"), ""), "whoever it belongs to")
	good := filepath.Join(t.TempDir(), "b")
	code, _, errs = call(t, nil, "backup", good, "--data", data)
	require.Zero(t, code, errs)

	b, err := backup.Open(good)
	require.NoError(t, err)
	broken := filepath.Join(good, b.Files[0].Name)
	f, err := os.OpenFile(broken, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	fresh, there := filepath.Join(t.TempDir(), "new"), t.TempDir()
	for _, to := range []string{fresh, there} {
		code, _, errs = call(t, nil, "restore", good, "--data", to)
		require.NotZero(t, code)
		require.Contains(t, errs, broken)
	}
	require.NoDirExists(t, fresh)
	list, err := os.ReadDir(there)
	require.NoError(t, err)
	require.Empty(t, list)
	lock, err := target.Acquire(data)
	require.NoError(t, err)
	require.NoError(t, lock.Undo())
	require.FileExists(t, filepath.Join(data, "lock"), "which was there before")
}

// The flags that up and serve do something else with stand among their own, and what up refuses is not shown.
func TestHelpOfThoseThatServe(t *testing.T) {
	own := func(command string) (string, string) {
		code, out, errs := call(t, nil, command, "--help")
		require.Zero(t, code, errs)
		_, flags, ok := strings.Cut(out, "\nFlags:\n")
		require.True(t, ok)
		flags, global, ok := strings.Cut(flags, "\nGlobal Flags:\n")
		require.True(t, ok)
		return flags, global
	}
	mine, global := own("up")
	for _, f := range []string{"--listen", "--token-file", "--tls ", "--tls-cert", "--tls-key", "--data"} {
		require.Contains(t, mine, f)
		require.NotContains(t, global, f)
	}
	for _, f := range []string{"--nkey", "--creds", "--user", "--password", "--nats ", "--tls-ca"} {
		require.NotContains(t, mine+global, f)
	}
	mine, global = own("serve")
	for _, f := range []string{"--nats ", "--nkey", "--creds", "--tls-ca", "--token-file", "--data"} {
		require.Contains(t, mine, f)
		require.NotContains(t, global, f)
	}
}

// plain is v as JSON has it.
func plain(t *testing.T, v any) (out any) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}
