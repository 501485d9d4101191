package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

func job(policy string) events.Job {
	return events.Job{Graph: "default", ID: "job1", Attempt: 1, Op: events.OpAdd, ErrorPolicy: policy}
}

func loaded(doc string, text string) *events.Loaded {
	return &events.Loaded{
		Job: job(events.PolicyRaise), Doc: events.DocRef{Key: "key of " + doc, Token: doc, Source: "src"},
		Decision: graph.NewVersion, Base: 7, Text: text,
	}
}

func chunked(in *events.Loaded) *events.Chunked {
	return &events.Chunked{Job: in.Job, Doc: in.Doc, Text: in.Text}
}

func staged(in *events.Loaded) *events.Staged {
	return &events.Staged{Job: in.Job, Doc: in.Doc, Text: in.Text}
}

// bench is a server, a connection and shortcuts.
type rig struct {
	t   testing.TB
	srv *embedded.Server
	*bus.Conn
}

func newRig(t testing.TB) *rig {
	t.Helper()
	srv, c := testkit.NATS(t)
	return &rig{t: t, srv: srv, Conn: c}
}

func (r *rig) count(stream string) int {
	r.t.Helper()
	s, err := r.JS.Stream(r.t.Context(), stream)
	require.NoError(r.t, err)
	return int(s.CachedInfo().State.Msgs)
}

func (r *rig) awaitCount(stream string, n int) {
	r.t.Helper()
	testkit.Await(r.t, fmt.Sprintf("%d messages in %s, which has %d", n, stream, r.count(stream)), func() bool { return r.count(stream) == n })
}

// at reads the message at a sequence.
func (r *rig) at(stream string, seq uint64) *jetstream.RawStreamMsg {
	r.t.Helper()
	s, err := r.JS.Stream(r.t.Context(), stream)
	require.NoError(r.t, err)
	m, err := s.GetMsg(r.t.Context(), seq)
	require.NoError(r.t, err)
	return m
}

func decodeAt[E any](r *rig, stream string, seq uint64) E {
	r.t.Helper()
	var e E
	require.NoError(r.t, json.Unmarshal(r.at(stream, seq).Data, &e))
	return e
}

func (r *rig) publish(out ...events.Event) {
	r.t.Helper()
	require.NoError(r.t, r.Publish(r.t.Context(), out...))
}

func config() bus.RunConfig {
	return bus.RunConfig{Service: "chunker", Stream: bus.StreamLoaded, Concurrency: 2, Seed: 1, Log: testkit.Quiet(), Status: &bus.Status{}}
}

// start runs a handler on a connection of its own until the test ends.
func (r *rig) start(cfg bus.RunConfig, h bus.HandlerFunc) (stop func()) {
	r.t.Helper()
	c := testkit.Connect(r.t, r.srv, cfg.Service)
	return testkit.Start(r.t, func(ctx context.Context) error { return c.Run(ctx, cfg, h) })
}

func TestTableCoversEveryKind(t *testing.T) {
	kinds := []string{events.KindIngest, events.KindFound, events.KindLoaded, events.KindChunked, events.KindStaged, events.KindExtracted,
		events.KindResolved, events.KindEnded, events.KindSealed, events.KindOpened, events.KindHeld, events.KindCommitted,
		events.KindRollingBack, events.KindRolledBack, events.KindCandidate, events.KindChange, events.KindAudit, events.KindDead}
	r := newRig(t)
	for _, k := range kinds {
		s := events.Subject{Graph: "g", Kind: k}
		switch k {
		case events.KindIngest, events.KindAudit:
		case events.KindDead:
			s.Job, s.Item = "chunker", "j1.d1"
		case events.KindFound, events.KindLoaded, events.KindChunked, events.KindStaged, events.KindExtracted, events.KindResolved,
			events.KindEnded, events.KindCandidate:
			s.Job, s.Item = "j1", "d1"
		default:
			s.Job = "j1"
		}
		a, err := r.JS.Publish(t.Context(), s.String(), nil)
		require.NoError(t, err, k)
		require.Equal(t, bus.StreamOf(k), a.Stream, k)
	}
	require.Empty(t, bus.StreamOf("nothing"))
}

func TestPlanApplyCheck(t *testing.T) {
	ctx := t.Context()
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir()})
	c := testkit.Connect(t, srv, "provision")
	table := bus.NewTable(bus.TableOptions{})

	err := c.Check(ctx, table)
	require.ErrorIs(t, err, bus.ErrDiffers)
	require.Contains(t, err.Error(), "stream FACTMILL_INGEST does not exist: run factmill provision")

	steps, err := bus.Plan(ctx, c.JS, table)
	require.NoError(t, err)
	require.Len(t, steps, 13+6+2)
	for _, s := range steps {
		require.Equal(t, bus.ActionCreate, s.Action, s.Name)
	}
	require.Equal(t, "FACTMILL_COMMIT/committer", steps[18].Name)
	require.NoError(t, bus.Apply(ctx, c.JS, steps))
	require.NoError(t, c.Check(ctx, table))
	steps, err = bus.Plan(ctx, c.JS, table)
	require.NoError(t, err)
	for _, s := range steps {
		require.Equal(t, bus.ActionOK, s.Action, "%s %v", s.Name, s.Diff)
	}

	// Another AckWait is what a service must not run with; another size is the operator's.
	other := bus.NewTable(bus.TableOptions{AckWait: 3 * time.Second, StageBytes: 1 << 20})
	err = c.Check(ctx, other.Needs(bus.StreamLoaded))
	require.EqualError(t, err, "consumer FACTMILL_LOADED/chunker: ack wait is 20s, want 3s: run factmill provision, or give the service the same settings: "+
		"the configuration in NATS differs")
	steps, err = bus.Plan(ctx, c.JS, other)
	require.NoError(t, err)
	byName := map[string]bus.Step{}
	for _, s := range steps {
		byName[s.Name] = s
	}
	require.Equal(t, bus.ActionUpdate, byName["FACTMILL_LOADED"].Action)
	require.Equal(t, []string{"max bytes: 268435456 -> 1048576"}, byName["FACTMILL_LOADED"].Diff)
	require.Equal(t, []string{"ack wait: 20s -> 3s"}, byName["FACTMILL_LOADED/chunker"].Diff)
	require.NoError(t, bus.Apply(ctx, c.JS, steps))
	require.NoError(t, c.Check(ctx, other))
	steps, err = bus.Plan(ctx, c.JS, other)
	require.NoError(t, err)
	for _, s := range steps {
		require.Equal(t, bus.ActionOK, s.Action, "%s %v", s.Name, s.Diff)
	}
}

func TestApplyRefusesWhatCannotBeChanged(t *testing.T) {
	ctx := t.Context()
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir()})
	c := testkit.Connect(t, srv, "provision")
	_, err := c.JS.CreateStream(ctx, jetstream.StreamConfig{Name: bus.StreamLoaded, Subjects: []string{"factmill.*.doc.loaded.*.*"}})
	require.NoError(t, err)
	err = bus.EnsureAll(ctx, c.JS, testkit.Table())
	require.ErrorIs(t, err, bus.ErrRefusedChange)
	require.Contains(t, err.Error(), "stream FACTMILL_LOADED: retention: Limits -> WorkQueue")
	_, err = c.JS.Stream(ctx, bus.StreamIngest)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nothing was changed")
}

func TestAuditCannotBeDeletedFrom(t *testing.T) {
	r := newRig(t)
	_, err := r.JS.Publish(t.Context(), "factmill.g.audit", nil)
	require.NoError(t, err)
	s, err := r.JS.Stream(t.Context(), bus.StreamAudit)
	require.NoError(t, err)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	require.Error(t, s.Purge(t.Context()))
	require.Equal(t, 1, r.count(bus.StreamAudit))
}

func TestConnectErrors(t *testing.T) {
	_, err := bus.Connect(t.Context(), bus.Options{URL: "nats://user:secret@127.0.0.1:1", Log: testkit.Quiet()})
	require.ErrorIs(t, err, bus.ErrUnreachable)
	require.Contains(t, err.Error(), "127.0.0.1:1")
	require.NotContains(t, err.Error(), "secret")
}

func TestAClosedConnectionIsReported(t *testing.T) {
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	c, err := bus.Connect(t.Context(), bus.Options{URL: srv.ClientURL(), Name: "cli", Once: true, Log: testkit.Quiet()})
	require.NoError(t, err)
	srv.Shutdown(true)
	require.ErrorContains(t, testkit.Receive(t, "the failure", c.Failed()), "the connection of cli to NATS is closed")
	require.ErrorIs(t, c.Request(t.Context(), "factmill.default.jobs.get", nil, nil), bus.ErrUnreachable)
}

func TestPublishSetsTheContractsHeaders(t *testing.T) {
	r := newRig(t)
	in := loaded("d1", "text")
	r.publish(in)
	h := r.at(bus.StreamLoaded, 1).Header
	require.Equal(t, in.ID(), h.Get("Nats-Msg-Id"))
	require.Equal(t, in.ID(), h.Get("ce-id"))
	require.Equal(t, "factmill.doc.loaded", h.Get("ce-type"))
	require.Equal(t, "test", h.Get("ce-source"))
	require.Equal(t, "1.0", h.Get("ce-specversion"))
	require.Equal(t, "doc.loaded/1", h.Get("Factmill-Schema"))
	_, err := time.Parse(time.RFC3339Nano, h.Get("ce-time"))
	require.NoError(t, err)
}

func TestPublishBatchesAndDuplicates(t *testing.T) {
	r := newRig(t)
	var out []events.Event
	for i := range 2100 {
		out = append(out, loaded(fmt.Sprintf("d%04d", i), "text"))
	}
	r.publish(out[:3]...)
	require.Equal(t, 3, r.count(bus.StreamLoaded))
	require.Empty(t, r.at(bus.StreamLoaded, 3).Header.Get("Nats-Batch-Id"), "a batch costs a file-backed stream milliseconds")
	r.publish(out[3:67]...)
	require.Equal(t, 67, r.count(bus.StreamLoaded))
	require.Equal(t, "64", r.at(bus.StreamLoaded, 67).Header.Get("Nats-Batch-Sequence"))
	// Some are there already: the rest joins them, and in the order of the list.
	out = append(out, chunked(loaded("c1", "x")), staged(loaded("c1", "x")))
	r.publish(out...)
	require.Equal(t, 2100, r.count(bus.StreamLoaded))
	require.Equal(t, "factmill.default.doc.loaded.job1.d2099", r.at(bus.StreamLoaded, 2100).Subject)
	require.Equal(t, 1, r.count(bus.StreamChunked))
	require.Equal(t, 1, r.count(bus.StreamCommit))
	r.publish(out...)
	require.Equal(t, 2100, r.count(bus.StreamLoaded))
}

func TestPublishWaitsWhileAStreamIsFull(t *testing.T) {
	r := newRig(t)
	table := bus.NewTable(bus.TableOptions{AckWait: testkit.AckWait, StageBytes: 20_000})
	require.NoError(t, bus.EnsureAll(t.Context(), r.JS, table))
	r.publish(loaded("a1", strings.Repeat("x", 15_000)))
	done := make(chan error, 2)
	go func() { done <- r.Publish(t.Context(), loaded("a2", strings.Repeat("y", 15_000))) }()
	go func() {
		done <- r.Publish(t.Context(), loaded("b1", strings.Repeat("y", 5_000)), loaded("b2", strings.Repeat("y", 5_000)))
	}()
	testkit.Await(t, "both to have waited", func() bool { return r.FullWaits() >= 4 })
	require.Empty(t, done)
	require.Equal(t, 1, r.count(bus.StreamLoaded))
	r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, nil })
	require.NoError(t, testkit.Receive(t, "the first", done))
	require.NoError(t, testkit.Receive(t, "the second", done))

	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	err := r.Publish(ctx, &events.Dead{Graph: "g", Stage: "s", Job: "j", Doc: "d", Body: make([]byte, 20_000)})
	require.ErrorContains(t, err, "stream FACTMILL_DEAD is full")
}

func TestPublishTooLarge(t *testing.T) {
	r := newRig(t)
	err := r.Publish(t.Context(), &events.Change{Graph: "g", Seq: 1, Documents: []string{strings.Repeat("x", 1<<20)}})
	requireFault(t, err, "document", "too_large")
}

func TestIngest(t *testing.T) {
	r := newRig(t)
	seq, err := r.Ingest(t.Context(), "default", []byte("plain"), map[string]string{"Factmill-Key": "k"})
	require.NoError(t, err)
	require.Equal(t, uint64(1), seq)
	got := make(chan *bus.Document, 1)
	cfg := config()
	cfg.Service, cfg.Stream = "loader", bus.StreamIngest
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		got <- in.Event.(*bus.Document)
		return nil, nil
	})
	d := testkit.Receive(t, "the document event", got)
	require.Equal(t, "default", d.Graph)
	require.Equal(t, uint64(1), d.Seq)
	require.Equal(t, "k", d.Header("Factmill-Key"))
	require.Equal(t, "plain", string(d.Body))
	require.WithinDuration(t, time.Now(), d.Time, time.Minute)
	require.Equal(t, 1, r.count(bus.StreamIngest), "it is kept until its job has ended")
	_, err = r.Ingest(t.Context(), "Bad.Name", nil, nil)
	requireFault(t, err, "document", "bad_name")
}

func TestBodiesByReference(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	// 990 kB of quotes become 1.98 MB as JSON, more than a message takes.
	text := strings.Repeat(`"`, 990_000)
	in := loaded("big", text)
	r.publish(in, chunked(in))
	m := r.at(bus.StreamLoaded, 1)
	require.Empty(t, m.Data)
	ref := m.Header.Get("Factmill-Body")
	require.Regexp(t, `^FACTMILL_BODIES/job1/[0-9a-f]{64}$`, ref)
	got := make(chan string, 1)
	r.start(config(), func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		got <- in.Event.(*events.Loaded).Text
		return nil, nil
	})
	require.Equal(t, text, testkit.Receive(t, "the text", got))

	body, err := r.GetBody(ctx, "default", ref, 0)
	require.NoError(t, err)
	again, err := r.PutBody(ctx, "default", "job1", body)
	require.NoError(t, err)
	require.Equal(t, ref, again)
	_, err = r.GetBody(ctx, "default", ref, 1000)
	requireFault(t, err, "document", "too_large")
	_, err = r.GetBody(ctx, "other", ref, 0)
	require.ErrorIs(t, err, bus.ErrBodyGone, "another graph's job of that id has none")

	b, err := r.Bucket(ctx, bus.BucketBodies)
	require.NoError(t, err)
	_, err = b.PutBytes(ctx, "default/"+strings.TrimPrefix(ref, "FACTMILL_BODIES/"), []byte("damaged"))
	require.NoError(t, err)
	_, err = r.GetBody(ctx, "default", ref, 0)
	requireFault(t, err, "permanent", "body_damaged")

	other, err := r.PutBody(ctx, "default", "job2", []byte("x"))
	require.NoError(t, err)
	n, err := r.DeleteBodies(ctx, "default", "job1", func(x string) bool { return x == ref })
	require.NoError(t, err)
	require.Equal(t, 1, n, "the chunked body went, the named one stayed")
	n, err = r.DeleteBodies(ctx, "default", "job1", nil)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = r.GetBody(ctx, "default", other, 0)
	require.NoError(t, err)
	require.Equal(t, 2, r.count("OBJ_FACTMILL_BODIES"), "one chunk and one description are left, no markers")
}
