package chunker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/pkg/testkit"
)

// The service on a server: takes a document off its queue, publishes both events, is in the fleet, and stops clean.
func TestService(t *testing.T) {
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	s, err := New(Config{}, app.Deps{Conn: conn, Log: testkit.Quiet()})
	require.NoError(t, err)
	require.ErrorIs(t, s.Ready(), bus.ErrNotStarted)
	stop := testkit.Start(t, s.Run)
	testkit.Await(t, "the chunker", func() bool { return s.Ready() == nil })

	in := loaded("# A\n\nAda met Charles.\n", "markdown", settings.Default())
	require.NoError(t, conn.Publish(t.Context(), in))
	messages := func(stream string) uint64 {
		str, err := conn.JS.Stream(t.Context(), stream)
		require.NoError(t, err)
		return str.CachedInfo().State.Msgs
	}
	testkit.Await(t, "both events", func() bool { return messages(bus.StreamChunked) == 1 && messages(bus.StreamCommit) == 1 })
	testkit.Await(t, "the ack", func() bool { return messages(bus.StreamLoaded) == 0 })
	str, err := conn.JS.Stream(t.Context(), bus.StreamCommit)
	require.NoError(t, err)
	m, err := str.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
	require.NoError(t, err)
	require.Equal(t, in.Text, e.(*events.Staged).Text)
	require.Len(t, e.(*events.Staged).Chunks, 1)

	var health map[string]any
	require.NoError(t, conn.Request(t.Context(), bus.HealthSubject(Name), nil, &health))
	require.Equal(t, Name, health["service"])

	// A job of another build is handed back, and the service says why it is not ready.
	other := loaded("text", "plain", settings.Default())
	other.Doc.Token, other.Job.ChunkerFP = "other", "0000000000000000"
	require.NoError(t, conn.Publish(t.Context(), other))
	testkit.Await(t, "the reason", func() bool { return s.Ready() != nil })
	require.ErrorContains(t, s.Ready(), "chunker fingerprint 0000000000000000")
	require.EqualValues(t, 1, messages(bus.StreamLoaded))
	stop()
}

func TestRunWithoutConnection(t *testing.T) {
	s, err := New(Config{}, app.Deps{})
	require.NoError(t, err)
	require.Equal(t, "chunker", s.Name())
	require.ErrorContains(t, s.Run(t.Context()), "no connection")
}

func TestFromConfig(t *testing.T) {
	cfg, err := app.LoadConfig("", []string{"FACTMILL_CHUNKER_SIZE=500"}, map[string]string{"chunker.concurrency": "3"})
	require.NoError(t, err)
	require.Equal(t, Config{Pinned: map[string]string{"chunker.size": "500"}, Concurrency: 3}, FromConfig(cfg))
	require.Equal(t, Config{Concurrency: 8, Version: "0.0.0"}, Config{}.WithDefaults())
}
