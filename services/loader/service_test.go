package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// serveCommitter answers the two verbs that the loader asks, from a fake committer.
func serveCommitter(t *testing.T, conn *bus.Conn) *committer {
	t.Helper()
	fake := &committer{}
	var mu sync.Mutex
	answer := func(verb string, reply func(data []byte) (any, error)) {
		sub, err := conn.NC.Subscribe("factmill.g."+verb, func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			r, err := reply(m.Data)
			if err != nil {
				t.Errorf("%s: %v", verb, err)
				return
			}
			raw, err := json.Marshal(r)
			if err == nil {
				err = m.Respond(raw)
			}
			if err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	answer("jobs.open", func(data []byte) (any, error) {
		var req api.JobOpen
		if err := json.Unmarshal(data, &req); err != nil {
			return nil, err
		}
		fake.reply.State = api.JobPending
		if req.Refused != nil {
			fake.reply.State = api.JobRolledBack
		}
		return fake.Open(context.Background(), "g", req)
	})
	answer("query.stored", func(data []byte) (any, error) {
		var req api.StoredGet
		if err := json.Unmarshal(data, &req); err != nil {
			return nil, err
		}
		stored, err := fake.Stored(context.Background(), "g", req.Keys)
		return api.StoredReply{Stored: stored}, err
	})
	require.NoError(t, conn.NC.Flush())
	return fake
}

// TestService runs the loader on a real server: document events in, events for the chunker and the committer out.
func TestService(t *testing.T) {
	srv, conn := testkit.NATS(t)
	serveCommitter(t, testkit.Connect(t, srv, "committer"))
	uploads, err := conn.Bucket(t.Context(), bus.BucketUploads)
	require.NoError(t, err)
	var tar bytes.Buffer
	w := bundle.NewWriter(&tar)
	require.NoError(t, w.Add("docs/a.md", events.InputDocument{Title: "A"}, []byte("# A\n\nText.")))
	require.NoError(t, w.Add("docs/b.dat", events.InputDocument{}, []byte("x")))
	require.NoError(t, w.Add("docs/c.csv", events.InputDocument{}, []byte("text\none\ntwo\n")))
	require.NoError(t, w.Close())
	_, err = uploads.PutBytes(t.Context(), "u1.tar", tar.Bytes())
	require.NoError(t, err)
	_, err = uploads.PutBytes(t.Context(), "one.txt", []byte("single"))
	require.NoError(t, err)

	for _, body := range []string{
		`{"key":"ada","text":"Ada Lovelace."}`,
		`{"sources":["object:FACTMILL_UPLOADS/u1.tar","object:FACTMILL_UPLOADS/one.txt"],"error_policy":"skip"}`,
		`{"sources":["object:FACTMILL_UPLOADS/nope.tar"]}`,
		`{"sources":["object:NOPE/x.tar"]}`,
	} {
		_, err := conn.Ingest(t.Context(), "g", []byte(body), nil)
		require.NoError(t, err)
	}

	// From here on only the loader works. What stands before it may leave a goroutine of nats.go: a put of a small object ends its
	// publisher before the goroutine that watches the connection for it has begun.
	testkit.NoLeaks(t)
	reg := prometheus.NewRegistry()
	s, err := New(Config{}, app.Deps{Conn: testkit.Connect(t, srv, "loader"), Log: testkit.Quiet(), Metrics: reg})
	require.NoError(t, err)
	testkit.Start(t, s.Run)
	testkit.Await(t, "the loader to be ready", func() bool { return s.Ready() == nil })

	stream := func(name string) jetstream.Stream {
		s, err := conn.JS.Stream(t.Context(), name)
		require.NoError(t, err)
		return s
	}
	count := func(s jetstream.Stream) uint64 {
		info, err := s.Info(t.Context())
		require.NoError(t, err)
		return info.State.Msgs
	}
	loaded, commit, found := stream(bus.StreamLoaded), stream(bus.StreamCommit), stream(bus.StreamFound)
	testkit.Await(t, "all documents", func() bool { return count(loaded) == 5 && count(commit) == 4 && count(found) == 0 })

	texts := map[string]string{}
	for seq := range uint64(5) {
		m, err := loaded.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
		require.NoError(t, err)
		l := e.(*events.Loaded)
		texts[l.Meta.Key] = l.Text
	}
	require.Equal(t, map[string]string{
		"ada": "Ada Lovelace.", "docs/a.md": "# A\n\nText.", "docs/c.csv#0": "one", "docs/c.csv#1": "two", "object:FACTMILL_UPLOADS/one.txt": "single",
	}, texts)
	sealed, outcomes := 0, map[string]string{}
	for seq := range uint64(4) {
		m, err := commit.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
		require.NoError(t, err)
		switch e := e.(type) {
		case *events.Sealed:
			sealed++
			require.Nil(t, e.Refused)
		case *events.Ended:
			outcomes[e.Name] = e.Outcome
		}
	}
	require.Equal(t, 2, sealed, "a refused event seals nothing")
	require.Equal(t, map[string]string{"docs/b.dat": "skipped", "docs/c.csv": "listed"}, outcomes)
	n, err := testutil.GatherAndCount(reg, "factmill_loader_documents_total", "factmill_loader_sources_listed_total", "factmill_loader_text_bytes_total")
	require.NoError(t, err)
	require.Equal(t, 3, n)
}
