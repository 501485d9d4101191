package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/loader/internal/files"
)

// committer is a fake one: it opens every job and stores what a test puts there.
type committer struct {
	opened []api.JobOpen
	reply  api.JobOpenReply
	err    error
	stored map[string]graph.Stored
	asked  [][]string
}

func (c *committer) Open(_ context.Context, g string, req api.JobOpen) (api.JobOpenReply, error) {
	c.opened = append(c.opened, req)
	if c.err != nil {
		return api.JobOpenReply{}, c.err
	}
	r := c.reply
	if r.State == "" {
		r.State = api.JobPending
	}
	r.Job = testJob(func(j *events.Job) { j.Graph, j.ID, j.Op, j.ErrorPolicy = g, req.Job, req.Op, req.ErrorPolicy })
	return r, nil
}

func (c *committer) Stored(_ context.Context, _ string, keys []string) ([]graph.Stored, error) {
	c.asked = append(c.asked, append([]string(nil), keys...))
	if c.err != nil {
		return nil, c.err
	}
	out := make([]graph.Stored, len(keys))
	for i, k := range keys {
		out[i] = c.stored[k]
	}
	return out, nil
}

// store is a fake object store: "<bucket>/<name>" to bytes.
type store map[string][]byte

func (s store) Open(_ context.Context, bucket, name string) (io.ReadCloser, int64, error) {
	b, ok := s[bucket+"/"+name]
	if !ok {
		return nil, 0, fault.Bad(files.CodeNotFound, "object:%s/%s: there is no such object", bucket, name)
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

func testJob(change ...func(*events.Job)) events.Job {
	j := events.Job{
		Graph: "g", ID: "j7", Attempt: 1, Op: events.OpAdd, SchemaFP: "schema", ChunkerFP: "chunker", ExtractionFP: "extraction",
		ErrorPolicy: events.PolicyRaise,
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// bench is a lister and a fetcher on fakes.
type bench struct {
	t         testing.TB
	committer *committer
	store     store
	list      *lister
	fetch     *fetcher
	emitted   [][]events.Event
	kept      *bus.Document // what is left of the document event
}

// Document implements Kept.
func (b *bench) Document(_ context.Context, graph string, seq uint64) (*bus.Document, error) {
	if b.kept == nil || b.kept.Graph != graph || b.kept.Seq != seq {
		return nil, nil
	}
	return b.kept, nil
}

func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	cfg = cfg.WithDefaults()
	require.NoError(t, cfg.Validate())
	tree, err := files.New(cfg.Roots, cfg.AllowAll)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tree.Close()) })
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	b := &bench{t: t, committer: &committer{stored: map[string]graph.Stored{}}, store: store{}}
	b.list = newLister(b.committer, b.store, tree, m, slog.New(slog.DiscardHandler))
	b.fetch = newFetcher(cfg, b.committer, b.store, tree, m, again{kept: b, list: b.list})
	return b
}

func (b *bench) delivery(e events.Event) bus.Delivery {
	return bus.Delivery{Event: e, Attempt: 1, Trace: "trace", Emit: func(_ context.Context, out ...events.Event) error {
		b.emitted = append(b.emitted, append([]events.Event(nil), out...))
		return nil
	}}
}

// at is when the stream stored the document event.
var at = time.Unix(1700000000, 123)

func document7(body string, headers map[string]string) *bus.Document {
	return &bus.Document{Graph: "g", Seq: 7, Time: at, Header: func(h string) string { return headers[h] }, Body: []byte(body)}
}

// listed handles a document event and returns everything it gave out.
func (b *bench) listed(body string, headers map[string]string) ([]events.Event, error) {
	b.t.Helper()
	b.emitted = nil
	out, err := b.list.Handle(context.Background(), b.delivery(document7(body, headers)))
	return b.everything(out), err
}

func (b *bench) everything(out []events.Event) []events.Event {
	var all []events.Event
	for _, e := range b.emitted {
		all = append(all, e...)
	}
	return append(all, out...)
}

// fetched handles a found source and returns everything it gave out.
func (b *bench) fetched(job events.Job, s events.Source) ([]events.Event, error) {
	b.t.Helper()
	b.emitted = nil
	out, err := b.fetch.Handle(context.Background(), b.delivery(overTheWire(b.t, &events.Found{Job: job, Source: s})))
	return b.everything(out), err
}

// overTheWire is e as the next stage decodes it.
func overTheWire(t testing.TB, e events.Event) events.Event {
	t.Helper()
	raw, err := events.Encode(e)
	require.NoError(t, err)
	out, err := events.Decode(e.Where().String(), events.SchemaName(e.Where().Kind), raw)
	require.NoError(t, err)
	return out
}

func found(t testing.TB, out []events.Event) (sources []events.Source, ended []*events.Ended, seal *events.Sealed) {
	t.Helper()
	for _, e := range out {
		switch e := e.(type) {
		case *events.Found:
			sources = append(sources, e.Source)
		case *events.Ended:
			ended = append(ended, e)
		case *events.Sealed:
			require.Nil(t, seal, "sealed twice")
			seal = e
		default:
			t.Fatalf("the lister gave out %T", e)
		}
	}
	return sources, ended, seal
}

// through lists a document event and fetches every source of it.
func (b *bench) through(body string) (out []events.Event, faults map[string]error) {
	b.t.Helper()
	all, err := b.listed(body, nil)
	require.NoError(b.t, err)
	faults = map[string]error{}
	for _, e := range all {
		if f, ok := e.(*events.Found); ok {
			made, err := b.fetched(f.Job, f.Source)
			if err != nil {
				faults[f.Source.Name] = err
			}
			out = append(out, made...)
		}
	}
	return out, faults
}

func isFault(t testing.TB, err error, code, message string) {
	t.Helper()
	require.EqualError(t, err, message)
	require.Equal(t, fault.Document, fault.Of(err).Class)
	require.Equal(t, code, fault.Of(err).Code)
}

func digestOf(tokens ...string) string {
	var sum [sha256.Size]byte
	for _, t := range tokens {
		one := sha256.Sum256([]byte(t))
		for i := range sum {
			sum[i] ^= one[i]
		}
	}
	return hex.EncodeToString(sum[:])
}

func quote(t testing.TB, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}
