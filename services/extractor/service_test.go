package extractor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor"
)

// The service on a server: it fetches the schema once, reads documents off its queue, says why it hands work back, and stops clean.
func TestService(t *testing.T) {
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	asked := make(chan string, 10)
	sub, err := conn.NC.Subscribe("factmill.*.schema.get", func(m *nats.Msg) {
		asked <- string(m.Data)
		b, _ := json.Marshal(api.SchemaReply{Revision: 1, Active: true, Schema: schema.Default().Marshal()})
		_ = m.Respond(b)
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	s, err := extractor.New(extractor.Config{}, app.Deps{Conn: conn, Log: testkit.Quiet()})
	require.NoError(t, err)
	stop := testkit.Start(t, s.Run)
	testkit.Await(t, "the extractor", func() bool { return s.Ready() == nil })

	first := chunked(schema.Default(), "Ada Lovelace worked for Acme Ltd.")
	second := chunked(schema.Default(), "Bob works at Acme.")
	second.Doc.Token = "second"
	require.NoError(t, conn.Publish(t.Context(), first))
	require.NoError(t, conn.Publish(t.Context(), second))
	messages := func(stream string) uint64 {
		str, err := conn.JS.Stream(t.Context(), stream)
		require.NoError(t, err)
		return str.CachedInfo().State.Msgs
	}
	testkit.Await(t, "both documents", func() bool { return messages(bus.StreamExtracted) == 2 && messages(bus.StreamChunked) == 0 })
	require.Len(t, asked, 1, "a revision is fetched once")
	require.JSONEq(t, `{"revision":1}`, <-asked)
	str, err := conn.JS.Stream(t.Context(), bus.StreamExtracted)
	require.NoError(t, err)
	relations := 0
	for seq := range uint64(2) {
		m, err := str.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
		require.NoError(t, err)
		relations += e.(*events.Extracted).Stats.Relations
	}
	require.Equal(t, 2, relations)

	other := chunked(schema.Default(), "x")
	other.Doc.Token, other.Job.ExtractionFP = "third", "another"
	require.NoError(t, conn.Publish(t.Context(), other))
	testkit.Await(t, "the reason", func() bool { return s.Ready() != nil })
	require.ErrorContains(t, s.Ready(), "extraction fingerprint another")
	require.EqualValues(t, 1, messages(bus.StreamChunked))
	stop()
}

func TestRunWithoutConnection(t *testing.T) {
	s, err := extractor.New(extractor.Config{}, app.Deps{})
	require.NoError(t, err)
	require.Equal(t, "extractor", s.Name())
	require.ErrorContains(t, s.Run(t.Context()), "no connection")
}

func TestFromConfig(t *testing.T) {
	cfg, err := app.LoadConfig("", []string{"FACTMILL_EXTRACTOR_FLOOR=0.2"}, map[string]string{"extractor.concurrency": "3"})
	require.NoError(t, err)
	require.Equal(t, extractor.Config{
		Pinned: map[string]string{"extractor.floor": "0.2"}, Concurrency: 3, ModelURL: "http://127.0.0.1:11434", Slots: 1,
		ModelTimeout: 10 * time.Minute, ReplyMemory: 32 << 20,
	}, extractor.FromConfig(cfg))
}

// respond answers every request alike.
func respond(t *testing.T, reply any) nats.MsgHandler {
	b, err := json.Marshal(reply)
	require.NoError(t, err)
	return func(m *nats.Msg) { _ = m.Respond(b) }
}
