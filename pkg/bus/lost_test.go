package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestLostStorageEndsTheRunner: the server comes back without its streams, and nobody tells the runner.
func TestLostStorageEndsTheRunner(t *testing.T) {
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	address := strings.TrimPrefix(srv.ClientURL(), "nats://")
	c, err := bus.Connect(t.Context(), bus.Options{URL: "nats://" + address, Log: testkit.Quiet()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, bus.EnsureAll(t.Context(), c.JS, testkit.Table()))
	cfg := config()
	done := make(chan error, 1)
	go func() {
		done <- c.Run(t.Context(), cfg, bus.HandlerFunc(func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, nil }))
	}()
	testkit.Await(t, "ready", func() bool { return cfg.Status.Ready() == nil })
	srv.Shutdown(true)
	testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: address})
	err = testkit.Receive(t, "the end", done)
	require.ErrorContains(t, err, "run chunker: consumer chunker on FACTMILL_LOADED")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// TestConsultDoesNotWaitLong: whoever is asked takes the question with it.
func TestConsultDoesNotWaitLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := testkit.Connect(t, r.srv, "other")
	sub, err := other.NC.SubscribeSync("factmill.g.schema.get")
	require.NoError(t, err)
	require.NoError(t, other.NC.Flush())
	begin := time.Now()
	answered := make(chan error, 1)
	go func() { answered <- r.Consult(t.Context(), "factmill.g.schema.get", nil, nil) }()
	_, err = sub.NextMsg(testkit.Patience)
	require.NoError(t, err)
	require.NoError(t, sub.Unsubscribe())
	var refused *api.Error
	require.ErrorAs(t, testkit.Receive(t, "the answer", answered), &refused)
	require.Equal(t, "not_ready", refused.Code)
	require.InDelta(t, 10, time.Since(begin).Seconds(), 2)
}

// TestFactPurgeRaisesTheSequenceOfAnEmptyStream: the committer numbers a lost ingest stream on with it.
func TestFactPurgeRaisesTheSequenceOfAnEmptyStream(t *testing.T) {
	r := newRig(t)
	s, err := r.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(42)))
	seq, err := r.Ingest(t.Context(), "g", []byte("text"), nil)
	require.NoError(t, err)
	require.Equal(t, uint64(42), seq)
}
