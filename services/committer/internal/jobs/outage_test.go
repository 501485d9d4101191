package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// TestNumbersOfAStreamMadeAnew: the ingest stream was lost and counts from 1 again.
func TestNumbersOfAStreamMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.out.lost = true
	job := w.accept("j1", 1)
	w.send(document(job, "a", "a", "Ada")...)
	w.send(sealed(job, "a"))
	w.wait("j1", api.JobCommitted)
	w.accept("j5", 5)
	last, err := w.m.LastEvent()
	require.NoError(t, err)
	require.Equal(t, uint64(5), last)

	another := func(o *api.JobOpen) { o.Digest, o.At.Time = "digest of another", 77 }
	require.Eventually(t, func() bool { w.out.mu.Lock(); defer w.out.mu.Unlock(); return len(w.out.deleted) == 1 }, 5*time.Second, 5*time.Millisecond)
	second := w.accept("j1", 1, another)
	require.Equal(t, graph.Order{Time: 77, Seq: 1}, second.At)
	require.Equal(t, second, w.accept("j1", 1, another), "again, it is that event's")
	w.send(document(second, "b", "b", "Bob")...)
	w.send(sealed(second, "b"))
	require.Equal(t, uint64(2), w.wait("j1", api.JobCommitted).CommitSeq)
	require.Equal(t, map[string]int{"Ada": 1, "Bob": 1}, w.entities())

	_, err = w.m.Open(t.Context(), "g", api.JobOpen{Job: "j5", Digest: "x", At: graph.Order{Time: 78, Seq: 5}, Op: events.OpAdd})
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "busy", e.Code, "a job that has not ended keeps its number")
	w.now.add(5 * time.Second)
	require.Contains(t, w.wait("j5", api.JobRolledBack).Reason, "event_lost")
}

// TestStrayEventsAreDeleted: events that opened no job would stay in their stream for ever.
func TestStrayEventsAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.accept("named", 1)
	w.accept("named", 1)
	w.out.mu.Lock()
	require.Empty(t, w.out.deleted, "a redelivery of the job's own event")
	w.out.mu.Unlock()
	w.accept("named", 7)
	w.out.mu.Lock()
	require.Equal(t, []uint64{7}, w.out.deleted, "the same event, published again")
	w.out.mu.Unlock()
	_, err := w.m.Cancel(t.Context(), "g", "named", "")
	require.NoError(t, err)
	deleted := func() []uint64 {
		w.out.mu.Lock()
		defer w.out.mu.Unlock()
		return append([]uint64(nil), w.out.deleted...)
	}
	require.Eventually(t, func() bool { return len(deleted()) == 2 }, 5*time.Second, 5*time.Millisecond, "its end deletes its event")
	w.accept("named", 1)
	require.Equal(t, []uint64{7, 1, 1}, deleted(), "an event that came back after the end, from a stream that lost its tail")
}

// TestNoSpace: below the reserve nothing is staged, opened or committed; what ends work is.
func TestNoSpace(t *testing.T) {
	w := newWorld(t)
	w.stop()
	require.NoError(t, <-w.done)
	require.NoError(t, w.st.Close())
	w.reserve = 1 << 20
	w.open()
	w.free.Store(1 << 30)
	job, other, failing := w.accept("job", 1), w.accept("other", 2), w.accept("failing", 3)
	w.send(document(other, "b", "b", "Bob")...)

	w.free.Store(1)
	s, err := w.m.Get(t.Context(), "g", "job")
	require.NoError(t, err)
	require.Equal(t, "no_space: free space is below the reserve: "+w.dir+" has 1 bytes free, the reserve is 1048576", s.Reason)
	require.Equal(t, api.JobPending, s.State)
	s, err = w.m.Get(t.Context(), "g", "waiting")
	require.NoError(t, err)
	require.Contains(t, s.Reason, "no_space: ", "an event that no loader took waits for the same")
	for _, r := range w.m.HandleBatch(t.Context(), []bus.Delivery{{Event: sealed(job)}, {Event: sealed(other)}}) {
		f := fault.Of(r.Err)
		require.Equal(t, "no_space", f.Code)
		require.True(t, f.Pause, "the stage waits, it does not fail")
	}
	_, err = w.m.Open(t.Context(), "g", api.JobOpen{Job: "new", Digest: "x", At: graph.Order{Seq: 9}, Op: events.OpAdd})
	require.ErrorIs(t, err, store.ErrNoSpace)
	s, err = w.m.Cancel(t.Context(), "g", "failing", "")
	require.NoError(t, err)
	require.Equal(t, api.JobRolledBack, s.State, "a roll-back uses the reserve")
	require.Equal(t, failing.ID, s.Job)

	w.free.Store(1 << 30)
	w.send(document(job, "a", "a", "Ada")...)
	w.send(sealed(job, "a"), sealed(other, "b"))
	require.Empty(t, w.wait("job", api.JobCommitted).Reason)
	require.Empty(t, w.wait("other", api.JobCommitted).Reason)
}

// TestACompleteJobIsNotDead: a job that only waits for its commit is not started again when its lease runs out.
func TestACompleteJobIsNotDead(t *testing.T) {
	w := newWorld(t)
	w.stop()
	require.NoError(t, <-w.done)
	require.NoError(t, w.st.Close())
	w.reserve = 1 << 20
	w.open()
	w.free.Store(1 << 30)
	job := w.accept("job", 1)
	w.send(document(job, "a", "a", "Ada")...)
	// The space is gone between the last staged message and the commit.
	w.dropAfterRoom.Store(true)
	w.send(sealed(job, "a"))
	for range 3 {
		w.now.add(5 * time.Second)
		tick := w.looks()
		require.Eventually(t, func() bool { return w.looks() > tick+2 }, 5*time.Second, 5*time.Millisecond)
	}
	s, err := w.m.Get(t.Context(), "g", "job")
	require.NoError(t, err)
	require.Equal(t, api.JobPending, s.State)
	require.Equal(t, 1, s.Attempt)
	require.Contains(t, s.Reason, "no_space: ")
	w.dropAfterRoom.Store(false)
	w.free.Store(1 << 30)
	require.Equal(t, 1, w.wait("job", api.JobCommitted).Attempt)
}
