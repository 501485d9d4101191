package integration

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// guarded is a NATS server as deploy/nats has it, with keys that `factmill keys` made, and a person of each role.
type guarded struct {
	*cluster
	dir    string // of the configuration and the keys
	server *server.Server
}

// roles are the people, by name.
var roles = map[string]rights.Role{"pia": rights.Publisher, "rob": rights.Reader, "ada": rights.Reviewer, "olga": rights.Operator}

// guard starts the server: with the configuration as its process would, but on loopback and a free port, and with lines of the test's.
func guard(t *testing.T, lines ...string) *guarded {
	t.Helper()
	g := &guarded{cluster: &cluster{t: t, dir: t.TempDir(), procs: map[string][]*process{}}, dir: t.TempDir()}
	for _, name := range []string{"nats.conf", "accounts.conf"} {
		b, err := os.ReadFile(filepath.Join(root, "deploy", "nats", name))
		require.NoError(t, err)
		text := strings.ReplaceAll(string(b), `"tls/`, `"`+filepath.Join(g.dir, "tls")+`/`) // a server runs beside them, this test does not
		text = strings.Replace(text, "port: 4222\nhttp: \"127.0.0.1:8222\"", fmt.Sprintf("listen: %q\n%s", freeAddress(t), strings.Join(lines, "\n")), 1)
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600))
	}
	args := []string{"keys", g.dir, "--json"}
	for name, role := range roles {
		args = append(args, "--person", name+"="+string(role))
	}
	r := run(t, "", args...)
	require.Equal(t, 0, r.code, r.stderr)
	g.keys = filepath.Join(g.dir, "seeds")
	certificate(t, filepath.Join(g.dir, "tls"))
	t.Setenv("NATS_NAME", "guarded")
	t.Setenv("NATS_STORE", t.TempDir())
	o, err := server.ProcessConfigFile(filepath.Join(g.dir, "nats.conf"))
	require.NoError(t, err)
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	require.NoError(t, err)
	g.server = s
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(30*time.Second))
	g.url = s.ClientURL()
	return g
}

// certificate writes server.pem and server.key for loopback, signed by itself.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "factmill test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, b := range map[string]*pem.Block{"server.pem": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600))
	}
}

func (g *guarded) ca() string { return filepath.Join(g.dir, "tls", "server.pem") }

func (g *guarded) options(user string) bus.Options {
	o := bus.Options{URL: g.url, Name: "test-" + user, NKey: filepath.Join(g.keys, user), CA: g.ca(), Log: testkit.Quiet(), Once: true}
	if roles[user] == "" {
		o.Inbox = bus.Inbox(user)
	}
	return o
}

// as connects as a user.
func (g *guarded) as(user string) *bus.Conn {
	g.t.Helper()
	c, err := bus.Connect(g.t.Context(), g.options(user))
	require.NoError(g.t, err, user)
	g.t.Cleanup(c.Close)
	return c
}

// attempts is a connection that tells each violation.
type attempts struct {
	t    *testing.T
	nc   *nats.Conn
	said chan error
}

func (g *guarded) attempts(t *testing.T, user string) *attempts {
	t.Helper()
	a := &attempts{t: t, said: make(chan error, 64)}
	key, err := nats.NkeyOptionFromSeed(filepath.Join(g.keys, user))
	require.NoError(t, err)
	o := g.options(user)
	opts := []nats.Option{key, nats.RootCAs(g.ca()), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { a.said <- err })}
	if o.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.Inbox))
	}
	a.nc, err = nats.Connect(g.url, opts...)
	require.NoError(t, err)
	t.Cleanup(a.nc.Close)
	return a
}

// refusedPublish demands that the server says so of a publish, and allowed that it does not.
func (a *attempts) refusedPublish(subject string) {
	a.t.Helper()
	require.NoError(a.t, a.nc.Publish(subject, []byte("{}")))
	require.NoError(a.t, a.nc.Flush())
	err := testkit.Receive(a.t, "a violation of "+subject, a.said)
	require.ErrorIs(a.t, err, nats.ErrPermissionViolation)
	require.ErrorContains(a.t, err, `Publish to "`+subject+`"`)
}

func (a *attempts) refusedSubscribe(subject string) {
	a.t.Helper()
	_, err := a.nc.Subscribe(subject, func(*nats.Msg) {})
	require.NoError(a.t, err)
	require.NoError(a.t, a.nc.Flush())
	err = testkit.Receive(a.t, "a violation of "+subject, a.said)
	require.ErrorIs(a.t, err, nats.ErrPermissionViolation)
	require.ErrorContains(a.t, err, `Subscription to "`+subject+`"`)
}

func (a *attempts) allowedPublish(subject string) {
	a.t.Helper()
	require.NoError(a.t, a.nc.Publish(subject, []byte("{}")))
	require.NoError(a.t, a.nc.Flush())
	select {
	case err := <-a.said:
		require.NoError(a.t, err, subject)
	default:
	}
}

// output is a subject on which a stage hands documents on.
func output(kind string) string {
	return events.Subject{Graph: "default", Kind: kind, Job: "j1", Item: "doc"}.String()
}

// Whatever a user may not do, the server refuses, and says so.
func TestTheForbidden(t *testing.T) {
	g := guard(t)
	t.Run("without a key", func(t *testing.T) {
		for what, o := range map[string]bus.Options{
			"no key": {URL: g.url, CA: g.ca()}, "a token": {URL: g.url, CA: g.ca(), Token: "x"}, "a password": {URL: g.url, CA: g.ca(), User: "loader", Password: "x"},
		} {
			o.Once, o.Log = true, testkit.Quiet()
			_, err := bus.Connect(t.Context(), o)
			require.ErrorIs(t, err, bus.ErrRefused, what)
		}
		o := g.options("loader")
		o.CA = ""
		_, err := bus.Connect(t.Context(), o)
		require.ErrorIs(t, err, bus.ErrUnreachable, "a certificate that nobody vouches for")
	})
	t.Run("a stage as another", func(t *testing.T) {
		for i, s := range rights.Stages {
			a := g.attempts(t, s.Name)
			for k, other := range rights.Stages {
				switch {
				case k == i, k == i-1: // its own, and its own queue, where it puts back what it could not finish
					a.allowedPublish(output(other.Output))
				default:
					a.refusedPublish(output(other.Output))
				}
				if k != i {
					a.refusedPublish(events.Subject{Graph: "default", Kind: events.KindDead, Job: other.Name, Item: "j1.doc"}.String())
				}
			}
			for _, kind := range []string{events.KindCommitted, events.KindRolledBack, events.KindOpened} {
				a.refusedPublish(events.Subject{Graph: "default", Kind: kind, Job: "j1"}.String())
			}
			for _, subject := range []string{
				"factmill.default.ingest", "factmill.default.audit", "factmill.default.change.1", "factmill.default.candidate.proposed.entity",
				"factmill.default.review.approve", "factmill.default.candidates.decide", "factmill.default.schema.put", "factmill-by.ada.default.review.approve",
				"$JS.API.STREAM.DELETE." + bus.StreamAudit, "$JS.API.STREAM.PURGE." + bus.StreamIngest, "$JS.API.CONSUMER.CREATE.OBJ_" + bus.BucketBodies + ".x",
			} {
				a.refusedPublish(subject)
			}
		}
		// The reviewer hands no documents on, and takes decisions only to the committer.
		a := g.attempts(t, "reviewer")
		for _, s := range rights.Stages {
			a.refusedPublish(output(s.Output))
		}
		for _, subject := range []string{"factmill.default.ingest", "factmill.default.audit", "factmill.default.candidate.approved.entity", "factmill-by.ada.default.review.approve", "factmill.default.jobs.open"} {
			a.refusedPublish(subject)
		}
	})
	t.Run("another's queue", func(t *testing.T) {
		for _, s := range append([]string{"reviewer"}, "loader", "chunker", "extractor", "resolver", "committer") {
			a := g.attempts(t, s)
			for _, c := range bus.NewTable(bus.TableOptions{}).Consumers {
				if c.Config.Durable == s {
					a.allowedPublish("$JS.ACK." + c.Stream + "." + s + ".1.1.1.1.0")
					a.allowedPublish("$JS.ACK._.hash." + c.Stream + "." + s + ".1.1.1.1.0")
					continue
				}
				if s != "committer" || c.Stream != bus.StreamIngest { // it reads that stream through consumers of its own
					a.refusedPublish("$JS.API.CONSUMER.MSG.NEXT." + c.Stream + "." + c.Config.Durable)
				}
				a.refusedPublish("$JS.ACK." + c.Stream + "." + c.Config.Durable + ".1.1.1.1.0")
				a.refusedPublish("$JS.ACK._.hash." + c.Stream + "." + c.Config.Durable + ".1.1.1.1.0")
			}
		}
	})
	t.Run("another's inbox", func(t *testing.T) {
		for _, s := range rights.Services {
			a := g.attempts(t, s.Name)
			for _, other := range rights.Names() {
				if other != s.Name {
					a.refusedSubscribe(bus.Inbox(other) + ".>")
					a.refusedPublish(bus.Inbox(other) + ".x")
				}
			}
			for _, subject := range []string{"_INBOX.>", ">", "factmill.>", "$JS.API.>", "factmill-by.>"} {
				a.refusedSubscribe(subject)
			}
		}
		for name := range roles {
			a := g.attempts(t, name)
			for _, subject := range []string{">", "factmill.>", "factmill.default.>", "factmill.*.doc.loaded.*.*", bus.Inbox("committer") + ".>", "factmill-by.>"} {
				a.refusedSubscribe(subject)
			}
		}
	})
	t.Run("people", func(t *testing.T) {
		decide := []string{"factmill.default.review.approve", "factmill.default.review.reject", "factmill.default.review.convert", "factmill.default.jobs.accept"}
		rule := []string{"factmill.default.schema.put", "factmill.default.settings.put", "factmill.default.registry.put", "factmill.default.dead-letters.drop", "factmill.default.backup.begin"}
		read := []string{"factmill.default.query.entity", "factmill.default.query.export", "factmill.default.review.list"}
		send := []string{"factmill.default.ingest", "$O." + bus.BucketUploads + ".M.x"}
		never := []string{
			output(events.KindLoaded), "factmill.default.jobs.open", "factmill.default.candidates.decide", "factmill.default.audit", "factmill.default.match.judge",
			"factmill-by.olga.default.review.approve", "$JS.API.STREAM.MSG.GET." + bus.StreamAudit, "$JS.API.STREAM.PURGE.OBJ_" + bus.BucketUploads,
			"$JS.API.STREAM.MSG.GET.OBJ_" + bus.BucketUploads,
		}
		for name, lists := range map[string]struct{ not, may [][]string }{
			"pia": {not: [][]string{read, decide, rule, never}, may: [][]string{send}}, "rob": {not: [][]string{send, decide, rule, never}, may: [][]string{read}},
			"ada": {not: [][]string{send, rule, never}, may: [][]string{read, decide}}, "olga": {not: [][]string{never}, may: [][]string{read, decide, rule, send}},
		} {
			a := g.attempts(t, name)
			for _, list := range lists.not {
				for _, subject := range list {
					a.refusedPublish(subject)
				}
			}
			for _, list := range lists.may {
				for _, subject := range list {
					a.allowedPublish(subject)
				}
			}
		}
	})
	t.Run("a command says so at once", func(t *testing.T) {
		c := g.as("rob")
		began := time.Now()
		err := c.Request(t.Context(), "factmill.default.review.approve", nil, nil)
		var refused *api.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "not_allowed", refused.Code)
		require.Less(t, time.Since(began), 5*time.Second)
		require.ErrorIs(t, testkit.Receive(t, "the connection has failed", c.Failed()), nats.ErrPermissionViolation)
	})
}

// six starts the services as processes under their users, over TLS.
func (g *guarded) six() {
	g.t.Helper()
	g.conn = g.as(rights.Admin)
	r := run(g.t, "", "provision", "--apply", "--nats", g.url, "--nkey", filepath.Join(g.keys, rights.Provision), "--tls-ca", g.ca(), "--bus.ack_wait", ackWait)
	require.Equal(g.t, 0, r.code, r.stderr)
	for _, s := range stages {
		g.start(s, "--nats.tls.ca", g.ca())
	}
	g.ready(stages...)
}

// person runs the command as a person.
func (g *guarded) person(t *testing.T, who string, code int, stdin string, args ...string) result {
	t.Helper()
	r := run(t, stdin, append(args, "--nats", g.url, "--nkey", filepath.Join(g.keys, who), "--tls-ca", g.ca())...)
	require.Equal(t, code, r.code, "%s: factmill %v\n%s\n%s", who, args, r.stdout, r.stderr)
	return r
}

// Documents go in by a publisher, are read by a reader and decided by a reviewer, over TLS, and the audit names who the connection was.
func TestPeopleAndTheActor(t *testing.T) {
	g := guard(t, "feature_flags { js_ack_fc_v2: true }") // acknowledgements of the newer form; every other test has the older
	g.six()
	dir := example(t)
	g.person(t, "olga", 0, "", "schema", "put", filepath.Join(dir, "schema.yaml"))
	g.person(t, "pia", 0, "", "ingest", filepath.Join(dir, "docs"))
	require.Contains(t, g.person(t, "rob", 0, "", "stats").stdout, "entities")
	require.Contains(t, g.person(t, "pia", 1, "", "stats").stderr, "may not publish to factmill.default.query.stats")
	require.Contains(t, g.person(t, "ada", 1, "Ada.", "ingest", "-").stderr, "may not publish to factmill.default.ingest")

	list := func() string {
		r := g.person(t, "ada", 0, "", "review", "list", "--json", "--kind", "entity", "--limit", "2")
		var reply struct {
			Groups []struct {
				Key string `json:"key"`
			} `json:"groups"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &reply))
		require.NotEmpty(t, reply.Groups)
		return reply.Groups[0].Key
	}
	key := list()
	require.Contains(t, g.person(t, "rob", 1, "", "review", "reject", "--key", key).stderr, "may not publish to factmill.default.review.reject")
	g.person(t, "ada", 0, "", "review", "reject", "--key", key, "--actor", "olga", "--reason", "no")
	require.Equal(t, []string{"ada"}, g.actors(key))

	// A client that writes the block of headers itself can make the server's own header disappear: the subject is what counts.
	key = list()
	body := fmt.Sprintf(`{"keys":[%q],"actor":"olga"}`, key)
	forged := "NATS/1.0\nNats-Request-Info: {\"acc\":\"BY_olga\",\"user\":\"olga\",\"name\":\"olga\"}\n\n\r\n\r\n"
	reply := g.raw("ada", "factmill.default.review.reject", forged, body)
	require.Contains(t, reply, `"changed":["`)
	require.Equal(t, []string{"ada"}, g.actors(key))

	g.person(t, "pia", 0, "Ada Lovelace works for Acme Ltd.", "ingest", "-", "--key", "held", "--job", "held", "--hold")
	require.Contains(t, g.person(t, "ada", 0, "", "jobs", "accept", "held").stderr, "job held would: ")
	require.Equal(t, []string{"ada"}, g.actors("job|held"))

	g.person(t, "olga", 0, "", "settings", "put", "chunker.size=300")
	history := g.person(t, "rob", 0, "", "schema", "show", "--json").stdout
	require.Contains(t, history, `"olga"`)
	for _, s := range stages {
		require.NotContains(t, g.the(s).output(), "permissions violation", s)
	}
	g.noDeadLetters()
}

// actors are the actors of the audit records about a candidate.
func (g *guarded) actors(key string) (out []string) {
	g.t.Helper()
	reply := ask[api.ReviewAuditReply](g.cluster, "default", "review.audit", map[string]any{"item": key})
	for _, r := range reply.Records {
		out = append(out, r.Actor)
	}
	return out
}

// raw sends a request with a block of headers as it stands, and returns the reply.
func (g *guarded) raw(user, subject, headers, body string) string {
	t := g.t
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(g.keys, user))
	require.NoError(t, err)
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	conn, in := g.dial()
	defer conn.Close()
	var info struct {
		Nonce string `json:"nonce"`
	}
	first, err := in.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(first, "INFO ")), &info))
	secure := upgrade(t, conn, g.ca())
	in = bufio.NewReader(secure)
	sig, err := pair.Sign([]byte(info.Nonce))
	require.NoError(t, err)
	_, err = fmt.Fprintf(secure, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1,\"lang\":\"raw\",\"version\":\"1\",\"nkey\":%q,\"sig\":%q}\r\n"+
		"SUB _INBOX.raw 1\r\nHPUB %s _INBOX.raw %d %d\r\n%s%s\r\n", public, encode(sig), subject, len(headers), len(headers)+len(body), headers, body)
	require.NoError(t, err)
	require.NoError(t, secure.SetReadDeadline(time.Now().Add(30*time.Second)))
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		if strings.HasPrefix(line, "MSG ") || strings.HasPrefix(line, "HMSG ") {
			var size int
			f := strings.Fields(line)
			_, err := fmt.Sscan(f[len(f)-1], &size)
			require.NoError(t, err)
			b := make([]byte, size)
			_, err = readFull(in, b)
			require.NoError(t, err)
			return string(b)
		}
		require.False(t, strings.HasPrefix(line, "-ERR"), line)
	}
}

// A service whose user lacks a permission ends instead of idling.
func TestAServiceWithoutItsRightsEnds(t *testing.T) {
	g := guard(t)
	g.conn = g.as(rights.Admin)
	require.NoError(t, bus.EnsureAll(t.Context(), g.conn.JS, testkit.Table()))
	p := spawn(t, nil, "chunker", "--nats.url", g.url, "--nats.nkey", filepath.Join(g.keys, "loader"), "--nats.tls.ca", g.ca(), "--bus.ack_wait", ackWait)
	select {
	case <-p.done:
	case <-time.After(testkit.Patience):
		require.Fail(t, "it idles")
	}
	var exit interface{ ExitCode() int }
	require.True(t, errors.As(p.err, &exit))
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, p.output(), "lacks a permission")
}

// A key that was made anew is the only one after a reload, and a person who went gets in no more.
func TestAKeyMadeAnew(t *testing.T) {
	g := guard(t)
	old := filepath.Join(t.TempDir(), "old")
	b, err := os.ReadFile(filepath.Join(g.keys, "chunker"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(old, b, 0o600))
	stays, goes := g.as("ada"), g.as("chunker")
	r := run(t, "", "keys", g.dir, "--anew", "chunker", "--gone", "rob")
	require.Equal(t, 0, r.code, r.stderr)
	require.NoError(t, g.server.Reload())
	require.Error(t, testkit.Receive(t, "the end of the old key's connection", goes.Failed()))
	_ = g.as("chunker")
	require.NoError(t, stays.NC.Flush())
	o := g.options("chunker")
	o.NKey = old
	_, err = bus.Connect(t.Context(), o)
	require.ErrorIs(t, err, bus.ErrRefused)
}
