package committer

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestHoldsSeesWhatSomebodyWillGet(t *testing.T) {
	_, c := testkit.NATS(t)
	o := &outside{conn: c}
	holds := func(job string) bool {
		t.Helper()
		h, err := o.Holds(t.Context(), "g", job)
		require.NoError(t, err)
		return h
	}
	require.False(t, holds("job"))
	loaded := func(job string) *events.Loaded {
		return &events.Loaded{Job: events.Job{Graph: "g", ID: job, Attempt: 1}, Doc: events.DocRef{Key: "a", Token: "a", Source: "a"}}
	}
	require.NoError(t, c.Publish(t.Context(), loaded("job")))
	require.True(t, holds("job"), "it waits")
	require.False(t, holds("other"))

	cons, err := c.JS.Consumer(t.Context(), bus.StreamLoaded, bus.DurableChunker)
	require.NoError(t, err)
	cfg := cons.CachedInfo().Config
	cfg.MaxDeliver, cfg.AckWait = 1, 100*time.Millisecond
	cons, err = c.JS.UpdateConsumer(t.Context(), bus.StreamLoaded, cfg)
	require.NoError(t, err)
	got, err := cons.Fetch(1, jetstream.FetchMaxWait(testkit.Patience))
	require.NoError(t, err)
	require.NotNil(t, <-got.Messages())
	require.True(t, holds("job"), "somebody has it")
	// Now the consumer is done with it and the stream is not.
	testkit.Await(t, "the consumer to give it up", func() bool {
		i, err := cons.Info(t.Context())
		return err == nil && i.NumAckPending == 0
	})
	require.False(t, holds("job"), "nobody will get it")
	s, err := c.JS.Stream(t.Context(), bus.StreamLoaded)
	require.NoError(t, err)
	require.Equal(t, uint64(1), s.CachedInfo().State.Msgs)
}
