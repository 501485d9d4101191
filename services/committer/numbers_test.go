package committer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

// begin runs a committer on a data directory against streams of its own.
func begin(t *testing.T, dir string, before func(c *bus.Conn)) (c *bus.Conn, stop func()) {
	t.Helper()
	srv, c := testkit.NATS(t)
	before(c)
	s, err := New(Config{Dir: dir}, app.Deps{Conn: testkit.Connect(t, srv, "committer"), Log: testkit.Quiet()})
	require.NoError(t, err)
	stop = testkit.Start(t, s.Run)
	testkit.Await(t, "the committer", func() bool {
		return c.Request(t.Context(), bus.HealthSubject("jobs"), nil, nil) == nil
	})
	return c, stop
}

func lastOf(t *testing.T, c *bus.Conn) uint64 {
	t.Helper()
	s, err := c.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	return s.CachedInfo().State.LastSeq
}

func TestIngestGoesOnBehindTheLastJob(t *testing.T) {
	testkit.NoLeaks(t)
	dir := t.TempDir()
	c, stop := begin(t, dir, func(*bus.Conn) {})
	for g, seq := range map[string]uint64{"one": 7, "two": 41, "three": 12} {
		require.NoError(t, c.Request(t.Context(), "factmill."+g+".jobs.open", api.JobOpen{
			Job: events.SeqJob(seq), Digest: "d", At: graph.Order{Time: 5, Seq: seq}, Op: events.OpAdd, ErrorPolicy: events.PolicyRaise,
			Atomic: events.AtomicJob, Refused: &graph.Failure{Code: "bad_json", Message: "bad"},
		}, nil))
	}
	stop()

	c, stop = begin(t, dir, func(*bus.Conn) {})
	testkit.Await(t, "the streams, which are new, to go on", func() bool { return lastOf(t, c) == 41 })
	seq, err := c.Ingest(t.Context(), "one", []byte("text"), nil)
	require.NoError(t, err)
	require.Equal(t, uint64(42), seq)
	stop()

	// An event that was there first is not swept away.
	c, _ = begin(t, dir, func(c *bus.Conn) {
		seq, err := c.Ingest(context.Background(), "one", []byte("text"), nil)
		require.NoError(t, err)
		require.Equal(t, uint64(1), seq)
	})
	since := time.Now()
	testkit.Await(t, "some looks", func() bool { return time.Since(since) > 3*numbersEvery })
	s, err := c.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	_, err = s.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), 1))
	testkit.Await(t, "the empty stream to go on", func() bool { return lastOf(t, c) == 41 })
}
