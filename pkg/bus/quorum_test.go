package bus_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// While nobody answers for the stream of its outputs, as while it has no leader, a message stays where it is: it is not handled again, not parked,
// and goes on when somebody answers.
func TestOutputsWaitForTheirStream(t *testing.T) {
	testkit.NoLeaks(t)
	for _, how := range []string{"one", "batch"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			require.NoError(t, r.JS.DeleteStream(t.Context(), bus.StreamChunked))
			r.publish(loaded("d1", "text"))
			cfg := config()
			reg := prometheus.NewRegistry()
			cfg.Metrics, cfg.MaxAttempts = reg, 1
			var calls atomic.Int64
			handle := func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
				calls.Add(1)
				return []events.Event{chunked(in.Event.(*events.Loaded))}, nil
			}
			if how == "one" {
				r.start(cfg, handle)
			} else {
				c := testkit.Connect(t, r.srv, cfg.Service)
				testkit.Start(t, func(ctx context.Context) error {
					return c.RunBatch(ctx, cfg, bus.BatchHandlerFunc(func(ctx context.Context, in []bus.Delivery) (out []bus.Result) {
						for _, d := range in {
							e, err := handle(ctx, d)
							out = append(out, bus.Result{Out: e, Err: err})
						}
						return out
					}))
				})
			}
			testkit.Await(t, "it says what it waits for", func() bool {
				err := cfg.Status.Ready()
				return err != nil && strings.Contains(err.Error(), "publish: ")
			})
			require.NoError(t, bus.EnsureAll(t.Context(), r.JS, testkit.Table()))
			r.awaitCount(bus.StreamLoaded, 0)
			require.Equal(t, 1, r.count(bus.StreamChunked))
			require.Equal(t, int64(1), calls.Load())
			require.Zero(t, r.count(bus.StreamDead))
			require.InDelta(t, 1, counter(reg, "handled"), 0)
			testkit.Await(t, "it is ready", func() bool { return cfg.Status.Ready() == nil })
			r.publish(loaded("d2", "text")) // and pulls again
			r.awaitCount(bus.StreamChunked, 2)
		})
	}
}
