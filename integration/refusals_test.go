package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serverLog keeps what a NATS server says of errors.
type serverLog struct {
	mu   sync.Mutex
	said []string // guarded by mu
}

func (l *serverLog) add(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf(format, v...))
}

func (l *serverLog) Noticef(string, ...any)         {}
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}
func (l *serverLog) Warnf(format string, v ...any)  { l.add(format, v...) }
func (l *serverLog) Fatalf(format string, v ...any) { l.add(format, v...) }
func (l *serverLog) Errorf(format string, v ...any) { l.add(format, v...) }

func (l *serverLog) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.said, "\n")
}

// soon is how long a refusal may take, a slow machine included. A deadline would take ten seconds and more.
const soon = 5 * time.Second

// timed runs the command as a person and demands that it ends soon.
func (g *guarded) timed(t *testing.T, who string, args ...string) result {
	t.Helper()
	began := time.Now()
	r := run(t, "", append(args, "--nats", g.url, "--nkey", filepath.Join(g.keys, who), "--tls-ca", g.ca())...)
	require.Less(t, time.Since(began), soon, "%s: factmill %v", who, args)
	return r
}

// What a role may not is refused at once by whatever way the command asks, and the error names the role that may.
func TestRefusalsAreAtOnceAndNameTheRole(t *testing.T) {
	g := guard(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	require.NoError(t, os.WriteFile(file, []byte("Ada Lovelace worked for Acme Ltd."), 0o600))
	schema := filepath.Join(example(t), "schema.yaml")
	const (
		sends    = "it takes the role publisher or operator"
		decides  = "it takes the role reviewer or operator"
		rules    = "it takes the role operator"
		reads    = "it takes the role reader, reviewer or operator"
		provides = "it takes the key of provision or admin"
	)
	reader, reviewer, publisher, operator := "rob", "ada", "pia", "olga"
	for _, x := range []struct {
		args  []string
		takes string
		not   []string
	}{
		{[]string{"ingest", dir}, sends, []string{reader, reviewer}},
		{[]string{"ingest", dir, "--schema", schema}, rules, []string{reader, reviewer, publisher}},
		{[]string{"update", "a", file}, sends, []string{reader, reviewer}},
		{[]string{"delete", "a"}, sends, []string{reader, reviewer}},
		{[]string{"schema", "put", schema}, rules, []string{reader, reviewer, publisher}},
		{[]string{"settings", "put", "chunker.size=300"}, rules, []string{reader, reviewer, publisher}},
		{[]string{"review", "approve", "--key", "entity|person|ada"}, decides, []string{reader, publisher}},
		{[]string{"review", "undo", "x"}, decides, []string{reader, publisher}},
		{[]string{"provision"}, provides, []string{reader, reviewer, publisher, operator}},
		{[]string{"provision", "--apply"}, provides, []string{operator}},
		{[]string{"stats"}, reads, []string{publisher}},
		{[]string{"stats", "--replica"}, reads, []string{publisher}},
		{[]string{"export"}, reads, []string{publisher}},
		{[]string{"backup", filepath.Join(dir, "b")}, rules, []string{reader, reviewer, publisher}},
		{[]string{"reembed"}, rules, []string{reader, reviewer, publisher}},
		{[]string{"dead-letters", "drop", "1"}, rules, []string{reader, reviewer, publisher}},
	} {
		for _, who := range x.not {
			r := g.timed(t, who, x.args...)
			require.Equal(t, 1, r.code, "%s: %v: %s", who, x.args, r.stderr)
			require.Contains(t, r.stderr, x.takes, "%s: %v", who, x.args)
			require.Contains(t, r.stderr, "(not_allowed)", "%s: %v", who, x.args)
			require.NotContains(t, r.stderr, "level=", "what NATS says is in the error, not in a log")
		}
	}
	r := g.timed(t, reader, "provision", "--json")
	require.Contains(t, r.stderr, `"code":"not_allowed"`)
	require.Contains(t, r.stderr, `"users":["provision","admin"]`)
	require.Contains(t, g.timed(t, "chunker", "stats").stderr, "it takes the role publisher, reader, reviewer or operator, or the key of admin", "a service's seed")
}

// The doctor learns at once what a person may not see, and says so a line a group; it disturbs nobody.
func TestDoctorAsAPerson(t *testing.T) {
	g := guard(t)
	log := &serverLog{}
	g.server.SetLogger(log, false, false)
	g.six()
	for who, groups := range map[string]map[string]string{
		"rob": {"nats": "key of provision or admin", "streams": "key of provision or admin", "consumers": "key of provision or admin"},
		"ada": {"commits": "key of provision or admin"},
		"pia": {"store": "role reader, reviewer or operator", "streams": "key of provision or admin"},
	} {
		r := g.timed(t, who, "doctor", "--bus.ack_wait", ackWait)
		require.Equal(t, 1, r.code, r.stdout)
		require.Empty(t, r.stderr)
		for group, needs := range groups {
			require.Contains(t, r.stdout, "not looked at: "+group+" (needs the "+needs+")\n", who)
		}
		require.Contains(t, r.stdout, "mend  look as a user who may, with admin's seed: factmill doctor --nats "+g.url+" --nkey "+filepath.Join(g.keys, "admin")+" --tls-ca "+g.ca()+"\n")
		require.Equal(t, 1, strings.Count(r.stdout, "  why "), "nothing else is wrong: %s", r.stdout)
	}
	r := g.timed(t, "rob", "doctor", "--bus.ack_wait", ackWait)
	require.Contains(t, r.stdout, "looked at configuration, listening, services, versions, store, dead letters, review, vectors, model\n")
	r = g.timed(t, "chunker", "doctor", "--bus.ack_wait", ackWait)
	require.Contains(t, r.stdout, "not looked at: store (needs the role publisher, reader, reviewer or operator, or the key of admin)")
	require.Empty(t, r.stderr)

	r = g.timed(t, "admin", "doctor", "--bus.ack_wait", ackWait)
	require.Zero(t, r.code, r.stdout)
	require.NotContains(t, log.all(), "TLS handshake error", "it does not knock and go away")
}

// Whom the connection trusts is its own: an authority that did not sign, and a name that is not the server's, are wrong usage.
func TestTheWrongAuthority(t *testing.T) {
	g := guard(t)
	certificate(t, filepath.Join(g.dir, "other"))
	other := filepath.Join(g.dir, "other", "server.pem")
	for _, command := range []string{"stats", "doctor"} {
		key := filepath.Join(g.keys, "rob")
		r := run(t, "", command, "--nats", g.url, "--nkey", key, "--tls-ca", other)
		require.Equal(t, 2, r.code, r.stdout+r.stderr)
		require.Contains(t, r.stderr, "--tls-ca "+other+": it does not vouch for the certificate of "+g.url)
		r = run(t, "", command, "--nats", strings.Replace(g.url, "127.0.0.1", "localhost", 1), "--nkey", key, "--tls-ca", g.ca())
		require.Equal(t, 2, r.code, r.stdout+r.stderr)
		require.Contains(t, r.stderr, "the server's certificate is for another name")
	}
	r := run(t, "", "stats", "--nats", g.url, "--tls-ca", g.ca())
	require.Equal(t, 3, r.code)
	require.Contains(t, r.stderr, "without a key (--nkey, --creds), token (--token-file) or user: NATS refused the connection")

	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "bad"), []byte("x"), 0o600))
	p := spawn(t, nil, "chunker", "--nats.url", g.url, "--nats.nkey", filepath.Join(g.dir, "bad"), "--nats.tls.ca", g.ca())
	<-p.done
	require.Equal(t, 2, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.output(), "nats.nkey "+filepath.Join(g.dir, "bad")+": it holds no user's seed")
}
