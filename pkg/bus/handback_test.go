package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// What a service hands back when it stops is there at once for the next one, also when the server restarts with it, as the
// all-in-one's does: nobody waits for the lease of a message that nobody holds.
func TestHandedBackBeforeTheServerRestarts(t *testing.T) {
	const lease = 60 * time.Second
	o := embedded.Options{Dir: t.TempDir(), Log: testkit.Quiet()}
	began := make(chan struct{}, 4)
	run := func(h bus.HandlerFunc) (stop func()) {
		srv, err := embedded.Start(t.Context(), o)
		require.NoError(t, err)
		c, err := bus.Connect(t.Context(), bus.Options{InProcess: srv, Name: "chunker", Log: testkit.Quiet()})
		require.NoError(t, err)
		require.NoError(t, bus.EnsureAll(t.Context(), c.JS, bus.NewTable(bus.TableOptions{AckWait: lease})))
		require.NoError(t, c.Publish(t.Context(), loaded("d1", "a"), loaded("d2", "b")))
		end := testkit.Start(t, func(ctx context.Context) error { return c.Run(ctx, config(), h) })
		return func() { end(); c.Close(); srv.Shutdown(true) }
	}
	stop := run(func(ctx context.Context, _ bus.Delivery) ([]events.Event, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for range 2 {
		testkit.Receive(t, "a handler", began)
	}
	stop()
	attempts := make(chan uint64, 4)
	stop = run(func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		attempts <- in.Attempt
		return []events.Event{chunked(in.Event.(*events.Loaded))}, nil
	})
	for range 2 {
		require.Equal(t, uint64(2), testkit.Receive(t, "what was handed back, well within its lease", attempts))
	}
	stop()
}
