//go:build unix

package embedded_test

import (
	"context"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// Files that cannot grow are as a full disk: the stream whose write failed takes messages again once there is room, and its consumer, which
// was there before, reads them and what was taken before.
func TestStreamsComeBackWhenThereIsRoom(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ) // so that a write fails, as it does on a full disk
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	s := testkit.Server(t, embedded.Options{Dir: t.TempDir()})
	c := testkit.Connect(t, s, "test")
	str, err := c.JS.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = c.JS.Publish(t.Context(), "s", []byte("before"))
	require.NoError(t, err)
	cons, err := str.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "C", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	got := make(chan string, 100)
	reading, err := cons.Consume(func(m jetstream.Msg) {
		if len(m.Data()) < 100 {
			got <- string(m.Data())
		}
		_ = m.Ack()
	}, jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(2*time.Second))
	require.NoError(t, err)
	defer reading.Stop()
	require.Equal(t, "before", <-got)

	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	full := was
	full.Cur = 1 << 20
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was) })
	publish := func(text string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.JS.Publish(ctx, "s", []byte(text), jetstream.WithRetryAttempts(0))
		return err
	}
	for range 100 {
		if err = publish(string(make([]byte, 64<<10))); err != nil {
			break
		}
	}
	require.Error(t, err, "the disk is full")
	require.Error(t, publish("small"), "and stays so, for small ones too")

	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	testkit.AwaitFor(t, time.Minute, "the stream takes messages", func() bool { return publish("after") == nil })
	require.Equal(t, "after", <-got)
}
