package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
