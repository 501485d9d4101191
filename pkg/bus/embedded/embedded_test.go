package embedded_test

import (
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestRestartKeepsTheStreams(t *testing.T) {
	testkit.NoLeaks(t)
	dir := t.TempDir()
	s := testkit.Server(t, embedded.Options{Dir: dir, Listen: "127.0.0.1:0", SyncAlways: true})
	require.True(t, strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:"), s.ClientURL())
	c, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Log: testkit.Quiet()})
	require.NoError(t, err)
	require.NoError(t, bus.EnsureAll(t.Context(), c.JS, testkit.Table()))
	_, err = c.Ingest(t.Context(), "default", []byte("text"), nil)
	require.NoError(t, err)
	c.Close()
	s.Shutdown(true)

	s = testkit.Server(t, embedded.Options{Dir: dir})
	require.Empty(t, s.ClientURL(), "no listener")
	c = testkit.Connect(t, s, "test")
	require.NoError(t, c.Check(t.Context(), testkit.Table()))
	str, err := c.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	m, err := str.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "text", string(m.Data))
}

func TestATakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, err = embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), Listen: l.Addr().String(), Log: testkit.Quiet()})
	require.ErrorIs(t, err, embedded.ErrPortTaken)
	require.ErrorContains(t, err, "listen on "+l.Addr().String())
	require.ErrorContains(t, err, "--listen 127.0.0.1:0")
}

func TestABadAddressIsRefused(t *testing.T) {
	for _, a := range []string{"4222", "127.0.0.1:http", "127.0.0.1:99999"} {
		_, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), Listen: a, Log: testkit.Quiet()})
		require.ErrorContains(t, err, "--listen "+a)
	}
}

func TestADirectoryHasOneServer(t *testing.T) {
	dir := t.TempDir()
	s := testkit.Server(t, embedded.Options{Dir: dir})
	_, err := embedded.Start(t.Context(), embedded.Options{Dir: dir, Log: testkit.Quiet()})
	require.ErrorIs(t, err, embedded.ErrInUse)
	s.Shutdown(true)
	testkit.Server(t, embedded.Options{Dir: dir})
}

func TestListensOnLoopbackUnlessTold(t *testing.T) {
	s := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: ":0"})
	require.True(t, strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:"), s.ClientURL())
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.AccountInfo(t.Context())
	require.NoError(t, err)
}
