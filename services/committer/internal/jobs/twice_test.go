package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// What arrives twice, and was decided differently the second time because the graph moved meanwhile.

func alone(j *api.JobOpen) { j.Atomic = events.AtomicDocument }

func unchanged(job events.Job, key, text string, base uint64) *events.Ended {
	ref := docRef(key, key, text)
	return &events.Ended{Job: job, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeUnchanged, Base: base}
}

// asked waits for the question that decides a document of a job anew.
func (w *world) asked(job string) *events.Found {
	w.t.Helper()
	var found *events.Found
	require.Eventually(w.t, func() bool {
		rows, err := w.st.Outbox("g", 0, 0)
		require.NoError(w.t, err)
		for _, r := range rows {
			e, err := r.Event()
			require.NoError(w.t, err)
			if f, ok := e.(*events.Found); ok && f.Job.ID == job {
				found = f
			}
		}
		return found != nil
	}, 5*time.Second, 5*time.Millisecond)
	return found
}

func tried(n int, evs ...events.Event) []events.Event {
	for _, e := range evs {
		switch e := e.(type) {
		case *events.Staged:
			e.Doc.Try = n
		case *events.Resolved:
			e.Doc.Try = n
		}
	}
	return evs
}

// A source that is fetched again after its document has committed on its own is found unchanged: that counts for nothing.
func TestFetchedAgainAfterItsCommit(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1, alone)
	w.send(document(job, "a", "a", "Ada")...)
	_, err := w.m.Wait(t.Context(), "g", "job", 5*time.Second, func(s api.JobStatus) bool { return s.Documents.Added == 1 })
	require.NoError(t, err)
	w.send(unchanged(job, "a", "Ada.", 1))
	w.send(document(job, "b", "b", "Bob")...)
	w.send(sealed(job, "a", "b"))
	s := w.wait("job", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 2}, s.Documents)
	require.Equal(t, 0, s.Stages.Ingestion.Unchanged)
}

// The first decision stands, with the revision that it rests on: a later one of the same try must not make it look fresh.
func TestFirstDecisionStands(t *testing.T) {
	w := newWorld(t)
	first := w.accept("first", 1)
	w.send(document(first, "k", "k", "Ada")...)
	w.send(sealed(first, "k"))
	w.wait("first", api.JobCommitted)
	third, second := w.accept("third", 3), w.accept("second", 2)
	w.send(unchanged(third, "k", "Ada.", 1))
	w.send(document(second, "k", "k", "Bob")...)
	w.send(sealed(second, "k"))
	w.wait("second", api.JobCommitted)
	// Its source is fetched again, and now differs from what is stored.
	evs := document(third, "k", "k", "Ada")
	evs[0].(*events.Staged).Base = 2
	w.send(evs...)
	w.send(sealed(third, "k"))
	require.Equal(t, 1, w.asked("third").Source.Try)
	w.send(tried(1, document(third, "k", "k", "Ada")...)...)
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, w.wait("third", api.JobCommitted).Documents)
	require.Equal(t, map[string]int{"Ada": 1}, w.entities())
}

// A document that is done stays done when the same work fails elsewhere.
func TestDoneIsNotUndoneByAFailure(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1)
	w.send(document(job, "a", "a", "Ada")...)
	ref := docRef("a", "a", "Ada.")
	w.send(&events.Ended{Job: job, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeFailed,
		Failure: &graph.Failure{Stage: "extractor", Item: "a", Code: "gave_up", Message: "delivered too often"}})
	w.send(sealed(job, "a"))
	s := w.wait("job", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)
	require.Zero(t, s.Stages.Extraction.Failures.Total)
}

// A file that changed between two readings: text of the one and assertions of the other are never put together.
func TestTextAndAssertionsOfOneReading(t *testing.T) {
	w := newWorld(t)
	job := w.accept("job", 1)
	old, now := document(job, "a", "a", "Ada"), document(job, "a", "a", "Bob")
	w.send(old[0], now[1], sealed(job, "a"))
	require.Equal(t, "a", w.asked("job").Source.Only)
	w.send(tried(1, now...)...)
	w.wait("job", api.JobCommitted)
	require.Equal(t, map[string]int{"Bob": 1}, w.entities())
}

// A stale decision of a document that commits on its own is taken anew, while the others go on.
func TestStaleDecisionAlone(t *testing.T) {
	w := newWorld(t)
	first := w.accept("first", 1)
	w.send(document(first, "k", "k", "Ada")...)
	w.send(sealed(first, "k"))
	w.wait("first", api.JobCommitted)
	second, third := w.accept("second", 2), w.accept("third", 3, alone)
	w.send(document(second, "k", "k", "Bob")...)
	w.send(sealed(second, "k"))
	w.wait("second", api.JobCommitted)
	ref := docRef("k", "k", "Ada.")
	w.send(&events.Staged{Job: third, Doc: ref, Meta: graph.Meta{Key: "k", ID: fingerprint.DocumentID("k"), Title: "new"}, Decision: graph.MetadataOnly, Base: 1})
	require.Equal(t, 1, w.asked("third").Source.Try)
	w.send(document(third, "other", "other", "Cy")...)
	_, err := w.m.Wait(t.Context(), "g", "third", 5*time.Second, func(s api.JobStatus) bool { return s.Documents.Added == 1 })
	require.NoError(t, err)
	w.send(tried(1, document(third, "k", "k", "Ada")...)...)
	w.send(sealed(third, "k", "other"))
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Updated: 1}, w.wait("third", api.JobCommitted).Documents)
	require.Equal(t, map[string]int{"Ada": 1, "Cy": 1}, w.entities())
}

// What a later job took over is not committed by the earlier one, although it was about to.
func TestGivenUpIsNotCommittedAlone(t *testing.T) {
	w := newWorld(t)
	first, second := w.accept("first", 1, alone), w.accept("second", 2, func(o *api.JobOpen) { o.Supersede = true })
	w.send(append(document(first, "k", "k", "Ada"), document(second, "k", "k", "Bob")...)...) // in one batch: the commit comes after both
	w.send(sealed(first, "k"), sealed(second, "k"))
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, w.wait("second", api.JobCommitted).Documents)
	require.Equal(t, api.DocumentCounts{Total: 1, Superseded: 1}, w.wait("first", api.JobCommitted).Documents)
	require.Equal(t, map[string]int{"Bob": 1}, w.entities())
}

// A job can be cancelled before any loader has taken its event; a restart does not forget it.
func TestCancelBeforeItIsOpened(t *testing.T) {
	w := newWorld(t)
	type reply struct {
		s   api.JobStatus
		err error
	}
	done := make(chan reply, 1)
	ctx := t.Context()
	go func() { s, err := w.m.Cancel(ctx, "g", "waiting", "a slip"); done <- reply{s, err} }()
	require.Eventually(t, func() bool {
		s, err := w.m.Get(ctx, "g", "waiting")
		return err == nil && s.State == api.JobRollingBack && s.Reason == "cancelled: a slip"
	}, 5*time.Second, 5*time.Millisecond)
	r, err := w.m.Open(ctx, "g", api.JobOpen{Job: "waiting", Digest: "d", At: graph.Order{Time: 1, Seq: 1}, Op: events.OpAdd, ErrorPolicy: events.PolicyRaise, Atomic: events.AtomicJob})
	require.NoError(t, err)
	require.Equal(t, api.JobRolledBack, r.State)
	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, api.JobRolledBack, got.s.State)
	require.Equal(t, "cancelled: a slip", got.s.Reason)
	_, err = w.m.Cancel(ctx, "g", "absent", "")
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "job_not_found", e.Code)
}

// A job that is held stays so, whatever arrives again while it is being held.
func TestHeldStaysHeld(t *testing.T) {
	w := newWorld(t)
	for n := range 40 {
		id := fmt.Sprintf("job-%d", n)
		job := w.accept(id, uint64(n+1), func(o *api.JobOpen) { o.Hold = true })
		w.send(document(job, "a", "a", "Ada")...)
		w.send(sealed(job, "a"))
		for {
			w.send(sealed(job, "a")) // once more
			s, err := w.m.Get(t.Context(), "g", id)
			require.NoError(t, err)
			if s.State != api.JobPending {
				break
			}
		}
		w.send(sealed(job, "a"))
		w.send(document(w.accept("other-"+id, uint64(1000+n)), "b", "b", "Bob")...) // the worker had its turn
		s, err := w.m.Get(t.Context(), "g", id)
		require.NoError(t, err)
		require.Equal(t, api.JobHeld, s.State)
	}
	require.Empty(t, w.entities())
}
