package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/graphs"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// world is a job machine over a real store, with streams that are lists.
type world struct {
	t    *testing.T
	dir  string
	st   *store.Store
	m    *jobs.Machine
	stop context.CancelFunc
	done chan error
	out  *streams
	now  *clock
	cfg  jobs.Config // Tracer
	disk
}

// disk is the free space that the store sees; without a reserve it does not look.
type disk struct {
	reserve uint64
	free    atomic.Uint64
	// dropAfterRoom takes all space away once somebody has looked.
	dropAfterRoom atomic.Bool
	looked        atomic.Int64
}

func (d *disk) space(string) (uint64, error) {
	d.looked.Add(1)
	n := d.free.Load()
	if d.dropAfterRoom.Load() {
		d.free.Store(0)
	}
	return n, nil
}

func (d *disk) looks() int64 { return d.looked.Load() }

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.t = c.t.Add(d) }

// streams stands for what lies outside the store.
type streams struct {
	mu      sync.Mutex
	deleted []uint64
	purged  []string
	holds   bool
	lost    bool // document events are gone
	asked   int

	requests, tokens int // of every job
	lostCost         error
}

func (s *streams) DeleteEvent(_ context.Context, _ string, at graph.Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, at.Seq)
	return nil
}

func (s *streams) DeleteUploads(context.Context, []jobs.Ended) error { return nil }

func (s *streams) DeleteBodies(context.Context, string, string) error { return nil }

func (s *streams) PurgeJob(_ context.Context, _, job string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purged = append(s.purged, job)
	return nil
}

func (s *streams) Cost(context.Context, string, string) (requests, tokens int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.tokens, s.lostCost
}

func (s *streams) Holds(context.Context, string, string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.holds, nil
}

func (s *streams) EventKept(context.Context, string, graph.Order) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lost, nil
}

func (s *streams) Pending(_ context.Context, _, job string) (bool, error) {
	return job == "waiting", nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), out: &streams{}, now: &clock{t: time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)}}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	st, err := store.Open(w.t.Context(), store.Options{Dir: w.dir, Now: w.now.Now, ReserveBytes: w.reserve, FreeSpace: w.space})
	require.NoError(w.t, err)
	w.st = st
	w.m, err = jobs.New(st, graphs.New(st, w.now.Now), w.out, jobs.Config{Lease: 2 * time.Second, Log: slog.New(slog.DiscardHandler), Now: w.now.Now, Tracer: w.cfg.Tracer}, func(string) {})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.done = cancel, make(chan error, 1)
	go func() { w.done <- w.m.Run(ctx) }()
}

func (w *world) close() {
	w.stop()
	require.NoError(w.t, <-w.done)
	require.NoError(w.t, w.st.Close())
	w.done <- nil
}

// restart closes the store as a stop does and opens it again.
func (w *world) restart() {
	w.stop()
	require.NoError(w.t, <-w.done)
	require.NoError(w.t, w.st.Close())
	w.open()
}

func (w *world) accept(id string, seq uint64, change ...func(*api.JobOpen)) events.Job {
	w.t.Helper()
	req := api.JobOpen{Job: id, Digest: "digest of " + id, At: graph.Order{Time: int64(seq), Seq: seq}, Op: events.OpAdd,
		ErrorPolicy: events.PolicyRaise, Atomic: events.AtomicJob, Candidates: true}
	for _, c := range change {
		c(&req)
	}
	r, err := w.m.Open(w.t.Context(), "g", req)
	require.NoError(w.t, err)
	return r.Job
}

func docRef(key, source, text string) events.DocRef {
	return events.DocRef{Key: key, Token: fingerprint.Token(key), Source: fingerprint.Token(source), Sole: key == source, ContentHash: fingerprint.ContentHash(text)}
}

// document makes the two events that stage a document whose text is "<Name> met <Name>."
func document(job events.Job, key, source string, names ...string) []events.Event {
	text := strings.Join(names, " met ") + "."
	ref := docRef(key, source, text)
	meta := graph.Meta{Key: key, ID: fingerprint.DocumentID(key), Title: key}
	chunk := graph.Chunk{Start: 0, End: len(text), Content: "text", Tokens: 4}
	var as graph.Assertions
	c := graph.ChunkAssertions{}
	at := 0
	for i, n := range names {
		as.Entities = append(as.Entities, graph.EntityRef{ID: fingerprint.EntityID("Person", fingerprint.Fold(n)), Label: "Person", Key: fingerprint.Fold(n)})
		c.Mentions = append(c.Mentions, graph.Mention{Entity: i, Name: n, Start: at, End: at + len(n), Confidence: 0.9, Extractor: "rules"})
		at += len(n) + len(" met ")
	}
	as.Chunks = []graph.ChunkAssertions{c}
	return []events.Event{
		&events.Staged{Job: job, Doc: ref, Meta: meta, Decision: graph.NewVersion, Text: text, Chunks: []graph.Chunk{chunk}, Sections: 1},
		&events.Resolved{Job: job, Doc: ref, Assertions: as, Extraction: events.ExtractionStats{Processed: 1, Entities: len(names)}},
	}
}

func sealed(job events.Job, sources ...string) *events.Sealed {
	e := &events.Sealed{Job: job}
	for _, s := range sources {
		e.Sources = append(e.Sources, fingerprint.Token(s))
	}
	return e
}

func (w *world) send(evs ...events.Event) {
	w.t.Helper()
	var in []bus.Delivery
	for _, e := range evs {
		b, err := events.Encode(e)
		require.NoError(w.t, err)
		back, err := events.Decode(e.Where().String(), "", b)
		require.NoError(w.t, err)
		in = append(in, bus.Delivery{Event: back, Body: b})
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

func (w *world) entities() map[string]int {
	w.t.Helper()
	sn, err := w.st.Snapshot("g", 0)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, sn.Close()) }()
	out := map[string]int{}
	require.NoError(w.t, sn.EntitiesAll("", func(f store.EntityFold) error {
		out[f.Display()] = f.Mentions
		return nil
	}))
	return out
}

func TestJobCommitsWhateverTheOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 8 {
		w := newWorld(t)
		job := w.accept("job", 1)
		var evs []events.Event
		evs = append(evs, document(job, "a", "a", "Ada", "Bob")...)
		evs = append(evs, document(job, "rows#0", "rows", "Ada", "Cy")...)
		evs = append(evs, document(job, "rows#1", "rows", "Bob")...)
		evs = append(evs, &events.Ended{Job: job, Source: fingerprint.Token("rows"), Outcome: events.OutcomeListed, Documents: 2}, sealed(job, "a", "rows"))
		evs = append(evs, evs[0], evs[2], evs[len(evs)-1]) // duplicates
		r.Shuffle(len(evs), func(i, j int) { evs[i], evs[j] = evs[j], evs[i] })
		for i, e := range evs {
			if i == round {
				w.restart()
			}
			w.send(e)
		}
		s := w.wait("job", api.JobCommitted)
		require.Equal(t, api.DocumentCounts{Total: 3, Added: 3}, s.Documents)
		require.Equal(t, uint64(1), s.CommitSeq)
		require.Equal(t, 2, s.Stages.Ingestion.Sources)
		require.Equal(t, 3, s.Stages.Chunking.Chunks)
		require.Equal(t, 3, s.Stages.Extraction.ChunksProcessed)
		require.Equal(t, 5, s.Stages.Extraction.Entities)
		require.Equal(t, 3, s.Stages.Merge.EntitiesCreated)
		require.Equal(t, map[string]int{"Ada": 2, "Bob": 2, "Cy": 1}, w.entities())
		w.restart()
		require.Equal(t, s, w.wait("job", api.JobCommitted), "a restart changes nothing")
	}
}

func TestNothingIsVisibleBeforeTheCommit(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1)
	w.send(document(job, "a", "a", "Ada")...)
	require.Empty(t, w.entities())
	s, err := w.m.Get(t.Context(), "g", "job")
	require.NoError(t, err)
	require.Equal(t, api.JobPending, s.State)
	w.send(sealed(job, "a"))
	w.wait("job", api.JobCommitted)
	require.Equal(t, map[string]int{"Ada": 1}, w.entities())
}

func TestRaiseSkipAndQuarantine(t *testing.T) {
	for policy, want := range map[string]struct {
		outcome, state string
		docs           api.DocumentCounts
		entities       map[string]int
	}{
		events.PolicyRaise:      {events.OutcomeFailed, api.JobRolledBack, api.DocumentCounts{}, map[string]int{}},
		events.PolicySkip:       {events.OutcomeSkipped, api.JobCommitted, api.DocumentCounts{Total: 2, Added: 1, Skipped: 1}, map[string]int{"Ada": 1}},
		events.PolicyQuarantine: {events.OutcomeQuarantined, api.JobCommitted, api.DocumentCounts{Total: 2, Added: 1, Quarantined: 1}, map[string]int{"Ada": 1}},
	} {
		w := newWorld(t)
		job := w.accept("job", 1, func(o *api.JobOpen) { o.ErrorPolicy = policy })
		w.send(document(job, "a", "a", "Ada")...)
		w.send(sealed(job, "a", "bad.dat"), &events.Ended{Job: job, Source: fingerprint.Token("bad.dat"), Name: "bad.dat", Outcome: want.outcome,
			Failure: &graph.Failure{Stage: "loader", Item: "bad.dat", Code: "bad_format", Message: "no such format"}})
		s := w.wait("job", want.state)
		if want.state == api.JobCommitted {
			require.Equal(t, want.docs, s.Documents, policy)
		} else {
			require.Equal(t, "bad_format: bad.dat: no such format", s.Reason)
		}
		require.Equal(t, want.entities, w.entities(), policy)
		require.Equal(t, 1, s.Stages.Ingestion.Total)
		require.Equal(t, "bad.dat", s.Stages.Ingestion.List[0].Item)
	}
}

func TestTwoSourcesOfOneKeyFailTheJob(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1)
	w.send(document(job, "a", "x", "Ada")...)
	w.send(document(job, "a", "y", "Bob")...)
	require.Contains(t, w.wait("job", api.JobRolledBack).Reason, "duplicate_key")
}

func TestListedSourceMustMatch(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1)
	w.send(document(job, "rows#0", "rows", "Ada")...)
	w.send(sealed(job, "rows"), &events.Ended{Job: job, Source: fingerprint.Token("rows"), Outcome: events.OutcomeListed, Documents: 1, Digest: strings.Repeat("00", 32)})
	require.Contains(t, w.wait("job", api.JobRolledBack).Reason, "source_mismatch")
}

func TestJobIDs(t *testing.T) {
	w := newWorld(t)
	job := w.accept("named", 1)
	again, err := w.m.Open(t.Context(), "g", api.JobOpen{Job: "named", Digest: "digest of named", At: graph.Order{Seq: 9}, Op: events.OpAdd})
	require.NoError(t, err)
	require.Equal(t, job, again.Job, "the same event again changes nothing")
	_, err = w.m.Open(t.Context(), "g", api.JobOpen{Job: "named", Digest: "other", At: graph.Order{Seq: 10}, Op: events.OpAdd})
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "job_id_taken", e.Code)
	_, err = w.m.Get(t.Context(), "g", "absent")
	require.ErrorAs(t, err, &e)
	require.Equal(t, 404, e.Status)
	s, err := w.m.Get(t.Context(), "g", "waiting")
	require.NoError(t, err)
	require.Equal(t, api.JobPending, s.State, "an event that no loader took is pending")
}

func TestRefusedEventSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.accept("job", 7, func(o *api.JobOpen) {
		o.Refused = &graph.Failure{Code: "unknown_field", Message: `unknown field "keey"`}
	})
	s := w.wait("job", api.JobRolledBack)
	require.Equal(t, `unknown_field: unknown field "keey"`, s.Reason)
	require.Eventually(t, func() bool {
		w.out.mu.Lock()
		defer w.out.mu.Unlock()
		return fmt.Sprint(w.out.deleted) == "[7]"
	}, 5*time.Second, 10*time.Millisecond, "the document event goes when its job has ended")
}

func TestNewestVersionStands(t *testing.T) {
	for _, order := range [][]string{{"one", "two"}, {"two", "one"}} {
		w := newWorld(t)
		jobsOf := map[string]events.Job{"one": w.accept("one", 1), "two": w.accept("two", 2)}
		names := map[string]string{"one": "Ada", "two": "Bob"}
		for _, id := range order {
			w.send(document(jobsOf[id], "k", "k", names[id])...)
			w.send(sealed(jobsOf[id], "k"))
			w.wait(id, api.JobCommitted)
		}
		require.Equal(t, map[string]int{"Bob": 1}, w.entities(), order)
		one := w.wait("one", api.JobCommitted)
		if order[0] == "two" {
			require.Equal(t, api.DocumentCounts{Total: 1, Superseded: 1}, one.Documents)
		}
	}
}

func TestStaleDecisionIsTakenAnew(t *testing.T) {
	w := newWorld(t)
	first := w.accept("first", 1)
	w.send(document(first, "k", "k", "Ada")...)
	w.send(sealed(first, "k"))
	w.wait("first", api.JobCommitted)

	// A later job found the document unchanged at revision 1, but before it commits another one changes it.
	third := w.accept("third", 3)
	second := w.accept("second", 2)
	w.send(document(second, "k", "k", "Bob")...)
	w.send(sealed(second, "k"))
	w.wait("second", api.JobCommitted)
	ref := docRef("k", "k", "Ada.")
	w.send(&events.Ended{Job: third, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeUnchanged, Base: 1}, sealed(third, "k"))

	var asked *events.Found
	require.Eventually(t, func() bool {
		rows, err := w.st.Outbox("g", 0, 0)
		require.NoError(t, err)
		for _, r := range rows {
			e, err := r.Event()
			require.NoError(t, err)
			if f, ok := e.(*events.Found); ok {
				asked = f
			}
		}
		return asked != nil
	}, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, "k", asked.Source.Only)
	require.Equal(t, 1, asked.Source.Try)
	w.restart()
	// The late duplicate of the stale decision counts for nothing; the new one commits.
	w.send(&events.Ended{Job: third, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeUnchanged, Base: 1})
	evs := document(third, "k", "k", "Ada")
	evs[0].(*events.Staged).Doc.Try = 1
	evs[1].(*events.Resolved).Doc.Try = 1
	w.send(evs...)
	s := w.wait("third", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, s.Documents)
	require.Equal(t, map[string]int{"Ada": 1}, w.entities())
}

func TestHoldAndCancel(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1, func(o *api.JobOpen) { o.Hold = true })
	w.send(document(job, "a", "a", "Ada")...)
	w.send(sealed(job, "a"))
	w.wait("job", api.JobHeld)
	w.now.add(time.Hour)
	w.restart()
	w.wait("job", api.JobHeld)
	require.Empty(t, w.entities())
	s, err := w.m.Cancel(t.Context(), "g", "job", "no good")
	require.NoError(t, err)
	require.Equal(t, api.JobRolledBack, s.State)
	require.Equal(t, "cancelled: no good", s.Reason)
	_, err = w.m.Cancel(t.Context(), "g", "job", "")
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 412, e.Status)
	require.Empty(t, w.entities())
}

func TestAcceptedJobCommits(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1, func(o *api.JobOpen) { o.Hold = true })
	w.send(document(job, "a", "a", "Ada")...)
	_, err := w.m.Accept(t.Context(), "g", "job", jobs.Hooks{})
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "job_not_held", e.Code)
	w.send(sealed(job, "a"))
	w.wait("job", api.JobHeld)
	w.restart()
	s, err := w.m.Accept(t.Context(), "g", "job", jobs.Hooks{})
	require.NoError(t, err)
	require.Equal(t, api.JobCommitted, s.State)
	require.Equal(t, map[string]int{"Ada": 1}, w.entities())
}

func TestDeadline(t *testing.T) {
	w := newWorld(t)
	w.accept("job", 1, func(o *api.JobOpen) { o.Deadline = "1m" })
	w.now.add(2 * time.Minute)
	require.Contains(t, w.wait("job", api.JobRolledBack).Reason, "deadline")
}

func TestDeadJobStartsAgainThenRollsBack(t *testing.T) {
	w := newWorld(t)
	w.out.holds = true
	w.accept("job", 1)
	w.now.add(5 * time.Second)
	require.Eventually(t, func() bool { w.out.mu.Lock(); defer w.out.mu.Unlock(); return w.out.asked > 0 }, 5*time.Second, 5*time.Millisecond)
	s, err := w.m.Get(t.Context(), "g", "job")
	require.NoError(t, err)
	require.Equal(t, 1, s.Attempt, "a stream holds a message of it: it is only slow")
	w.out.mu.Lock()
	w.out.holds = false
	w.out.mu.Unlock()
	for attempt := 2; attempt <= 3; attempt++ {
		w.now.add(5 * time.Second)
		_, err := w.m.Wait(t.Context(), "g", "job", 5*time.Second, func(s api.JobStatus) bool { return s.Attempt == attempt })
		require.NoError(t, err)
	}
	w.now.add(5 * time.Second)
	require.Contains(t, w.wait("job", api.JobRolledBack).Reason, "dead: no stage holds a message")
}

func TestLostEventRollsBack(t *testing.T) {
	w := newWorld(t)
	w.out.lost = true
	w.accept("job", 1)
	w.now.add(5 * time.Second)
	require.Contains(t, w.wait("job", api.JobRolledBack).Reason, "event_lost")
}

func TestAtomicDocumentCommitsAlone(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1, func(o *api.JobOpen) { o.Atomic = events.AtomicDocument })
	w.send(document(job, "a", "a", "Ada")...)
	require.Eventually(t, func() bool { return len(w.entities()) == 1 }, 5*time.Second, 5*time.Millisecond)
	w.restart()
	w.send(document(job, "b", "b", "Bob")...)
	w.send(document(job, "a", "a", "Ada")...)
	w.send(sealed(job, "a", "b"))
	s := w.wait("job", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 2}, s.Documents)
	require.Equal(t, 2, s.Stages.Merge.EntitiesCreated)
	require.Equal(t, map[string]int{"Ada": 1, "Bob": 1}, w.entities())
}

// Documents that commit on their own wait for the person as well. The second job is taken up after the first.
func TestHoldComesBeforeEveryDocument(t *testing.T) {
	w := newWorld(t)
	held := w.accept("held", 1, func(o *api.JobOpen) { o.Atomic, o.Hold = events.AtomicDocument, true })
	w.send(document(held, "a", "a", "Ada")...)
	other := w.accept("other", 2)
	w.send(document(other, "b", "b", "Bob")...)
	w.send(sealed(other, "b"))
	w.wait("other", api.JobCommitted)
	require.Equal(t, map[string]int{"Bob": 1}, w.entities())
	w.send(sealed(held, "a"))
	w.wait("held", api.JobHeld)
	require.Equal(t, map[string]int{"Bob": 1}, w.entities())
}

func TestDeleteOfUnknownKeyLeavesAMark(t *testing.T) {
	w := newWorld(t)
	del := w.accept("del", 5, func(o *api.JobOpen) { o.Op = events.OpDelete })
	ref := docRef("k", "k", "")
	w.send(&events.Ended{Job: del, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeUnchanged}, sealed(del, "k"))
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, w.wait("del", api.JobCommitted).Documents)
	old := w.accept("old", 2)
	w.send(document(old, "k", "k", "Ada")...)
	w.send(sealed(old, "k"))
	require.Equal(t, api.DocumentCounts{Total: 1, Superseded: 1}, w.wait("old", api.JobCommitted).Documents)
	require.Empty(t, w.entities(), "an older version does not come to life after the delete")
}

func TestSupersede(t *testing.T) {
	for _, first := range []string{"old", "new"} {
		w := newWorld(t)
		old := w.accept("old", 1)
		late := w.accept("new", 2, func(o *api.JobOpen) { o.Supersede = true })
		send := map[string]func(){
			"old": func() {
				w.send(document(old, "k", "k", "Ada")...)
				w.send(document(old, "other", "other", "Cy")...)
			},
			"new": func() { w.send(document(late, "k", "k", "Bob")[0]) },
		}
		send[first]()
		for n, f := range send {
			if n != first {
				f()
			}
		}
		w.restart()
		w.send(sealed(old, "k", "other"))
		s := w.wait("old", api.JobCommitted)
		require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Superseded: 1}, s.Documents, first)
		require.Equal(t, map[string]int{"Cy": 1}, w.entities())
		w.send(document(late, "k", "k", "Bob")[1], sealed(late, "k"))
		w.wait("new", api.JobCommitted)
		require.Equal(t, map[string]int{"Cy": 1, "Bob": 1}, w.entities())
	}
}

func TestListPages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.accept(fmt.Sprintf("job%d", i), uint64(i+1))
	}
	var got []string
	cursor := ""
	for {
		r, err := w.m.List(t.Context(), "g", api.JobList{Limit: 2, Cursor: cursor})
		require.NoError(t, err)
		for _, j := range r.Jobs {
			got = append(got, j.Job)
		}
		if cursor = r.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"job4", "job3", "job2", "job1", "job0"}, got)
	_, err := w.m.List(t.Context(), "g", api.JobList{Limit: -1})
	require.Error(t, err)
}

func TestStatusHasNoNulls(t *testing.T) {
	w := newWorld(t)
	w.accept("job", 1)
	s, err := w.m.Get(t.Context(), "g", "job")
	require.NoError(t, err)
	b, err := json.Marshal(s)
	require.NoError(t, err)
	require.NotContains(t, string(b), "null")
}
