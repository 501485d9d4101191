package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/testkit"
)

// What a client does that no client library would.

func (g *guarded) dial() (net.Conn, *bufio.Reader) {
	g.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimPrefix(g.url, "nats://"), "tls://"))
	require.NoError(g.t, err)
	return conn, bufio.NewReader(conn)
}

func upgrade(t testing.TB, conn net.Conn, ca string) *tls.Conn {
	t.Helper()
	b, err := os.ReadFile(ca)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(b))
	c := tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	require.NoError(t, c.Handshake())
	return c
}

func encode(sig []byte) string { return base64.RawURLEncoding.EncodeToString(sig) }

func readFull(r io.Reader, b []byte) (int, error) { return io.ReadFull(r, b) }

// A fact that decision 8 rests on: the header by which a shared import tells who asks can be hidden by whoever writes the block of headers
// by hand. When this fails after an upgrade, headers may have become good enough.
func TestASharedImportsHeaderCanBeHidden(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte(`accounts {
  DESK { users: [ {user: desk, password: x} ], exports: [ {service: "decide"} ] }
  PEOPLE { users: [ {user: ada, password: x} ], imports: [ {service: {account: DESK, subject: "decide"}, share: true} ] }
}`), 0o600))
	o, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(testkit.Patience))

	desk, err := nats.Connect(s.ClientURL(), nats.UserInfo("desk", "x"))
	require.NoError(t, err)
	defer desk.Close()
	got := make(chan nats.Header, 1)
	_, err = desk.Subscribe("decide", func(m *nats.Msg) { got <- m.Header })
	require.NoError(t, err)
	require.NoError(t, desk.Flush())

	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	send := func(headers string) []string {
		_, err := fmt.Fprintf(conn, "HPUB decide %d %d\r\n%s\r\n", len(headers), len(headers), headers)
		require.NoError(t, err)
		return testkit.Receive(t, "the request", got).Values("Nats-Request-Info")
	}
	_, err = fmt.Fprint(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"user\":\"ada\",\"pass\":\"x\",\"protocol\":1}\r\n")
	require.NoError(t, err)

	honest := send("NATS/1.0\r\nNats-Request-Info: forged\r\n\r\n")
	require.Len(t, honest, 1)
	require.Contains(t, honest[0], `"user":"ada"`, "on a line of its own it is replaced")
	require.Equal(t, []string{"forged"}, send("NATS/1.0\nNats-Request-Info: forged\n\n\r\n\r\n"))
}
