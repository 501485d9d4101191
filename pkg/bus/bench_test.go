package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// BenchmarkHop is one hop of the pipeline: a document of 4 KB comes in, an event of its size goes out to each of two streams.
// An operation is one document: published, handled, its outputs published, acknowledged.
func BenchmarkHop(b *testing.B) {
	r := newRig(b)
	cfg := config()
	cfg.Concurrency = 32
	var n atomic.Int64
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		e := in.Event.(*events.Loaded)
		n.Add(1)
		return []events.Event{chunked(e), staged(e)}, nil
	})
	text := strings.Repeat("Ada wrote. ", 370)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < b.N; i += 8 {
				if err := r.Publish(context.Background(), loaded(fmt.Sprint("d", i), text)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	testkit.Await(b, "all", func() bool { return n.Load() >= int64(b.N) })
	b.StopTimer()
	r.awaitCount(bus.StreamLoaded, 0)
}

// BenchmarkPublishBatch is a thousand events to one stream in one atomic batch, an operation each.
func BenchmarkPublishBatch(b *testing.B) {
	r := newRig(b)
	for i := 0; i < b.N; i += 1000 {
		var out []events.Event
		for k := range min(1000, b.N-i) {
			out = append(out, loaded(fmt.Sprint("d", i+k), "text"))
		}
		require.NoError(b, r.Publish(context.Background(), out...))
	}
}

// BenchmarkPublishPair is two events to one stream.
func BenchmarkPublishPair(b *testing.B) {
	r := newRig(b)
	for i := range b.N {
		require.NoError(b, r.Publish(context.Background(), loaded(fmt.Sprint("a", i), "text"), loaded(fmt.Sprint("b", i), "text")))
	}
}
