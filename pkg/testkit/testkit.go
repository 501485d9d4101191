// Package testkit is what tests share: an embedded server with every stream, waiting without sleeping, and a look for goroutines
// that were left. Tests only.
package testkit

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
)

// AckWait of the consumers in tests.
const AckWait = 2 * time.Second

// Patience is how long Await waits.
const Patience = time.Minute

// Table is the table of streams in tests: short leases.
func Table() bus.Table { return bus.NewTable(bus.TableOptions{AckWait: AckWait}) }

// NATS starts an embedded server without a listener, with every stream, and a connection to it. Both end with the test.
func NATS(t testing.TB) (*embedded.Server, *bus.Conn) {
	t.Helper()
	s := Server(t, embedded.Options{Dir: t.TempDir()})
	c := Connect(t, s, "test")
	require.NoError(t, bus.EnsureAll(t.Context(), c.JS, Table()))
	return s, c
}

// Server starts an embedded server that ends with the test.
func Server(t testing.TB, o embedded.Options) *embedded.Server {
	t.Helper()
	if o.Log == nil {
		o.Log = Quiet()
	}
	s, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Shutdown(true) })
	return s
}

// Access is keys for every user; who brings none may do anything.
func Access(t testing.TB) *embedded.Access {
	t.Helper()
	a, err := embedded.NewAccess()
	require.NoError(t, err)
	return a
}

// Connect makes one more connection to s, which ends with the test.
func Connect(t testing.TB, s *embedded.Server, name string) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Options{InProcess: s, Name: name, Log: Quiet()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Quiet is a logger that writes nothing.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Await waits until ok is true, asking every 5 ms; the test fails when it is not within Patience.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	AwaitFor(t, Patience, what, ok)
}

// AwaitFor is Await with a patience of its own.
func AwaitFor(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			require.FailNow(t, "waited "+d.String()+" for "+what)
		case <-tick.C:
		}
	}
}

// Receive takes one value within Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	tm := time.NewTimer(Patience)
	defer tm.Stop()
	select {
	case v := <-from:
		return v
	case <-tm.C:
		require.FailNow(t, "waited "+Patience.String()+" for "+what)
	}
	var none T
	return none
}

// NoLeaks fails the test when it leaves goroutines behind. Call it first: it looks after every other clean-up.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Errorf("goroutines were left: %v", err)
		}
	})
}

// Start runs f until the test ends and requires that it then returns nil. The returned function ends it sooner, and waits.
func Start(t testing.TB, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		require.NoError(t, Receive(t, "the end of what was started", done))
	}
	t.Cleanup(stop)
	return stop
}
