package dead_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer/internal/dead"
	"github.com/factmill/factmill/services/committer/internal/graphs"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// world is a desk and a job machine over a real store and real streams, with no other service.
type world struct {
	t    *testing.T
	dir  string
	conn *bus.Conn
	st   *store.Store
	m    *jobs.Machine
	desk *dead.Desk
	stop func()
	mu   sync.Mutex
	now  time.Time
}

// outside is the job machine's; document events stay until the test deletes them.
type outside struct{ w *world }

func (o outside) DeleteEvent(context.Context, string, graph.Order) error { return nil }
func (o outside) DeleteUploads(ctx context.Context, ended []jobs.Ended) error {
	return o.w.desk.DeleteUploads(ctx, ended)
}
func (o outside) DeleteBodies(ctx context.Context, g, job string) error {
	return o.w.desk.DeleteBodies(ctx, g, job)
}
func (o outside) Cost(context.Context, string, string) (int, int, error)       { return 0, 0, nil }
func (o outside) PurgeJob(context.Context, string, string) error               { return nil }
func (o outside) Holds(context.Context, string, string) (bool, error)          { return true, nil }
func (o outside) EventKept(context.Context, string, graph.Order) (bool, error) { return true, nil }

// Pending looks for a named job's event in the stream.
func (o outside) Pending(ctx context.Context, g, job string) (bool, error) {
	for _, e := range o.w.ingested(g) {
		if e["job"] == job {
			return true, nil
		}
	}
	return false, nil
}

func newWorld(t *testing.T) *world {
	_, conn := testkit.NATS(t)
	w := &world{t: t, dir: t.TempDir(), conn: conn, now: time.Now()}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) later(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.now = w.now.Add(d) }

func (w *world) open() {
	var err error
	log := slog.New(slog.DiscardHandler)
	w.st, err = store.Open(w.t.Context(), store.Options{Dir: w.dir, Now: w.clock, Log: log})
	require.NoError(w.t, err)
	w.m, err = jobs.New(w.st, graphs.New(w.st, w.clock), outside{w}, jobs.Config{Log: log, Now: w.clock}, func(string) {})
	require.NoError(w.t, err)
	w.desk = dead.New(w.st, w.m, operations.New(w.st), w.conn, dead.Config{Log: log, Now: w.clock})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.m.Run(ctx) }()
	w.stop = func() { cancel(); require.NoError(w.t, <-done); require.NoError(w.t, w.st.Close()) }
}

func (w *world) close() { w.stop() }

func (w *world) restart() { w.stop(); w.open() }

func (w *world) accept(id, policy string, change ...func(*api.JobOpen)) events.Job {
	w.t.Helper()
	req := api.JobOpen{Job: id, Digest: "digest of " + id, At: graph.Order{Time: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Seq: 3},
		Op: events.OpAdd, ErrorPolicy: policy, Atomic: events.AtomicJob, Candidates: true}
	for _, c := range change {
		c(&req)
	}
	r, err := w.m.Open(w.t.Context(), "g", req)
	require.NoError(w.t, err)
	return r.Job
}

func ref(key string) events.DocRef {
	return events.DocRef{Key: key, Token: fingerprint.Token(key), Source: fingerprint.Token(key), Sole: true, ContentHash: fingerprint.ContentHash(key)}
}

func loaded(job events.Job, key string) *events.Loaded {
	return &events.Loaded{Job: job, Doc: ref(key), Meta: graph.Meta{Key: key, ID: fingerprint.DocumentID(key), Title: "T"},
		Decision: graph.NewVersion, Text: "Text of " + key + ".", Markup: "plain"}
}

// results are what the stages make of a loaded document.
func results(e *events.Loaded) []events.Event {
	return []events.Event{
		&events.Staged{Job: e.Job, Doc: e.Doc, Meta: e.Meta, Decision: e.Decision, Text: e.Text, Chunks: []graph.Chunk{{End: len(e.Text), Content: "text"}}},
		&events.Resolved{Job: e.Job, Doc: e.Doc, Assertions: graph.Assertions{Chunks: []graph.ChunkAssertions{{}}}, Extraction: events.ExtractionStats{Processed: 1}},
	}
}

func sealed(job events.Job, keys ...string) *events.Sealed {
	e := &events.Sealed{Job: job}
	for _, k := range keys {
		e.Sources = append(e.Sources, fingerprint.Token(k))
	}
	return e
}

func (w *world) send(evs ...events.Event) {
	w.t.Helper()
	var in []bus.Delivery
	for _, e := range evs {
		b, err := events.Encode(e)
		require.NoError(w.t, err)
		in = append(in, bus.Delivery{Event: e, Body: b, Trace: "trace"})
	}
	for _, r := range w.m.HandleBatch(w.t.Context(), in) {
		require.NoError(w.t, r.Err)
	}
}

func (w *world) wait(job, state string) api.JobStatus {
	w.t.Helper()
	s, err := w.m.Wait(w.t.Context(), "g", job, 10*time.Second, func(s api.JobStatus) bool { return s.State == state })
	require.NoError(w.t, err)
	require.Equal(w.t, state, s.State, s.Reason)
	return s
}

// run commits a job of its own: the one that a replay asked for.
func (w *world) run(job string) {
	w.t.Helper()
	j := w.accept(job, events.PolicyRaise)
	w.send(append(results(loaded(j, "replayed")), sealed(j, "replayed"))...)
	w.wait(job, api.JobCommitted)
}

// park publishes the dead letter of e's message, which was seq of stream, as the runner does; its end is returned.
func (w *world) park(e events.Event, stream string, seq uint64) *events.Ended {
	w.t.Helper()
	return w.parkAs("chunker", e, stream, seq)
}

func (w *world) parkAs(stage string, e events.Event, stream string, seq uint64) *events.Ended {
	w.t.Helper()
	body, err := events.Encode(e)
	require.NoError(w.t, err)
	at := e.Where()
	end := bus.EndedFor(e, events.OutcomeFailed, graph.Failure{Stage: stage, Code: "panic", Message: "boom", TraceID: "t1"})
	d := &events.Dead{Graph: at.Graph, Stage: stage, Job: at.Job, Doc: at.Item, Subject: at.String(), Stream: stream, Seq: seq, Attempts: 3,
		Code: "panic", Error: "boom", TraceID: "t1", Headers: map[string]string{events.HeaderSchema: events.SchemaName(at.Kind), events.HeaderMsgID: e.ID()}}
	if end == nil {
		d.Doc = "job"
	} else {
		d.Item, end.Parked = end.Failure.Item, d.Message()
	}
	if len(body) > bus.InlineBody {
		d.Headers[events.HeaderBody], err = w.conn.PutBody(w.t.Context(), at.Graph, at.Job, body)
		require.NoError(w.t, err)
	} else {
		d.Body = body
	}
	require.NoError(w.t, w.conn.Publish(w.t.Context(), d))
	return end
}

func (w *world) list(q api.DeadQuery) []api.DeadLetter {
	w.t.Helper()
	r, err := w.desk.List(w.t.Context(), "g", api.DeadList{DeadQuery: q})
	require.NoError(w.t, err)
	return r.Letters
}

func (w *world) ids(q api.DeadQuery) []string {
	w.t.Helper()
	out := []string{}
	for _, l := range w.list(q) {
		out = append(out, l.ID)
	}
	return out
}

func (w *world) replay(ids ...string) (api.DeadReplayReply, error) {
	return w.desk.Replay(w.t.Context(), "g", api.DeadAct{IDs: ids})
}

func refused(t *testing.T, err error, status int, code, message string) {
	t.Helper()
	var e *api.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, []any{status, code}, []any{e.Status, e.Code})
	require.Contains(t, e.Message, message)
}

// messages of a stream, oldest first.
func (w *world) messages(stream string) (out []*jetstream.RawStreamMsg) {
	s, err := w.conn.JS.Stream(context.Background(), stream)
	require.NoError(w.t, err)
	st := s.CachedInfo().State
	for seq := st.FirstSeq; seq <= st.LastSeq && st.Msgs > 0; seq++ {
		m, err := s.GetMsg(context.Background(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(w.t, err)
		out = append(out, m)
	}
	return out
}

// ingested are the document events of a graph.
func (w *world) ingested(g string) (out []map[string]any) {
	for _, m := range w.messages(bus.StreamIngest) {
		var e map[string]any
		if m.Subject != "factmill."+g+".ingest" || json.Unmarshal(m.Data, &e) != nil {
			continue
		}
		out = append(out, e)
	}
	return out
}

func (w *world) objects(bucket string) (out []string) {
	w.t.Helper()
	list, err := w.conn.Objects(w.t.Context(), bucket)
	require.NoError(w.t, err)
	for _, o := range list {
		out = append(out, fmt.Sprintf("%s left=%v", o.Name, o.Left))
	}
	return out
}

func (w *world) put(bucket, name, data string) {
	w.t.Helper()
	b, err := w.conn.Bucket(w.t.Context(), bucket)
	require.NoError(w.t, err)
	_, err = b.PutBytes(w.t.Context(), name, []byte(data))
	require.NoError(w.t, err)
}

func (w *world) raw(subject string, header nats.Header, data []byte) {
	w.t.Helper()
	_, err := w.conn.JS.PublishMsg(w.t.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	require.NoError(w.t, err)
}

// entry is the one file of an uploaded bundle.
func (w *world) entry(name string) *bundle.Entry {
	w.t.Helper()
	b, err := w.conn.Bucket(w.t.Context(), bus.BucketUploads)
	require.NoError(w.t, err)
	o, err := b.Get(w.t.Context(), name)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, o.Close()) }()
	e, err := bundle.NewReader(o).Next()
	require.NoError(w.t, err)
	return e
}

// waitCommit waits until a document of the job has committed on its own.
func (w *world) waitCommit(job string) {
	w.t.Helper()
	testkit.Await(w.t, "a commit of "+job, func() bool {
		b, err := w.m.Brief("g", job)
		return err == nil && b.Seq > 0
	})
}
