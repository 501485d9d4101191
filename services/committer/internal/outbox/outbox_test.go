package outbox

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// streams are kept streams and one that is read once, as lists.
type streams struct {
	mu    sync.Mutex
	msgs  []events.Event // guarded by mu
	tries int            // guarded by mu
	down  bool           // guarded by mu
	again chan nats.Status
}

func (s *streams) Publish(_ context.Context, out ...events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errors.New("down")
	}
	s.tries += len(out)
	s.msgs = append(s.msgs, out...)
	return nil
}

func (s *streams) LastID(_ context.Context, subject string) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return "", errors.New("down")
	}
	for _, e := range s.msgs {
		if e.Where().String() == subject {
			id = e.ID()
		}
	}
	return id, nil
}

func (s *streams) Reconnected() (<-chan nats.Status, func()) { return s.again, func() {} }

func (s *streams) ids() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.msgs {
		out = append(out, e.ID())
	}
	return out
}

func (s *streams) published() int { s.mu.Lock(); defer s.mu.Unlock(); return s.tries }

// lose takes what fits away, as a power failure does with what was not synced, and the connection comes back.
func (s *streams) lose(gone func(e events.Event) bool) {
	s.mu.Lock()
	var rest []events.Event
	for _, e := range s.msgs {
		if !gone(e) {
			rest = append(rest, e)
		}
	}
	s.msgs = rest
	s.mu.Unlock()
	s.again <- nats.CONNECTED
}

type clock struct {
	mu sync.Mutex
	t  time.Time // guarded by mu
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.t = c.t.Add(d) }

func state(job, what string) events.Event {
	return &events.JobState{Graph: "g", Job: job, Attempt: 1, State: what}
}

func proposed(no uint64) events.Event {
	return &events.CandidateEvent{Graph: "g", Verb: "proposed", Kind: "entity", Seq: 1, No: no}
}

func relisted() events.Event {
	return &events.Found{Job: events.Job{Graph: "g", ID: "job", Attempt: 2}, Source: events.Source{Token: "relist", Relist: true}}
}

func TestLostTailIsPublishedAgain(t *testing.T) {
	testkit.NoLeaks(t)
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	st, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Now: c.now})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	_, ok := st.Graph("g", true)
	require.True(t, ok)
	add := func(evs ...events.Event) {
		ops, err := st.OutboxOps("g", evs...)
		require.NoError(t, err)
		require.NoError(t, st.Write(t.Context(), ops, false))
	}
	rows := func() int {
		r, err := st.Outbox("g", 0, 0)
		require.NoError(t, err)
		return len(r)
	}
	out := &streams{again: make(chan nats.Status)}
	s := New(st, out, testkit.Quiet(), c.now)
	stop := testkit.Start(t, s.Run)
	add(state("job", "opened"), proposed(1), proposed(2), relisted(), state("job", "committed"), proposed(3))
	s.Notify("g")
	all := []string{state("job", "opened").ID(), proposed(1).ID(), proposed(2).ID(), relisted().ID(), state("job", "committed").ID(), proposed(3).ID()}
	testkit.Await(t, "all of them", func() bool { return out.published() == 6 })
	require.Equal(t, all, out.ids())
	require.Equal(t, 6, rows(), "they are kept for a while")

	// The tail is lost; the doc.found was read and is gone on purpose.
	out.lose(func(e events.Event) bool {
		return e.ID() == all[2] || e.ID() == all[3] || e.ID() == all[4] || e.ID() == all[5]
	})
	testkit.Await(t, "the lost ones", func() bool { return out.published() == 9 })
	require.ElementsMatch(t, []string{all[0], all[1], all[2], all[4], all[5]}, out.ids())
	require.Equal(t, []string{all[2], all[5]}, func() (c []string) {
		for _, id := range out.ids()[2:] {
			if id != all[4] {
				c = append(c, id)
			}
		}
		return c
	}(), "in their order")

	// Nothing lost: nothing is published.
	out.lose(func(events.Event) bool { return false })
	add(proposed(4))
	s.Notify("g")
	testkit.Await(t, "the next", func() bool { return out.published() == 10 })
	require.Equal(t, proposed(4).ID(), out.ids()[5])

	// Another process finds the rows of the former one and compares; what it cannot know of goes again.
	stop()
	s = New(st, out, testkit.Quiet(), c.now)
	testkit.Start(t, s.Run)
	testkit.Await(t, "the doc.found", func() bool { return out.published() == 11 })
	require.Equal(t, relisted().ID(), out.ids()[6])
	require.Equal(t, 7, rows())

	c.add(keep + time.Second)
	testkit.Await(t, "the rows to go", func() bool { return rows() == 0 })
	out.lose(func(events.Event) bool { return true })
	add(proposed(5))
	s.Notify("g")
	testkit.Await(t, "the only row", func() bool { return out.published() == 12 })
	require.Equal(t, []string{proposed(5).ID()}, out.ids())
}

func TestRowsWaitWhileNobodyTakesThem(t *testing.T) {
	c := &clock{t: time.Unix(1_700_000_000, 0)}
	st, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Now: c.now})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	_, ok := st.Graph("g", true)
	require.True(t, ok)
	ops, err := st.OutboxOps("g", proposed(1), proposed(2))
	require.NoError(t, err)
	require.NoError(t, st.Write(t.Context(), ops, false))
	out := &streams{again: make(chan nats.Status), down: true}
	s := New(st, out, testkit.Quiet(), c.now)
	testkit.Start(t, s.Run)
	c.add(2 * keep)
	out.mu.Lock()
	out.down = false
	out.mu.Unlock()
	testkit.Await(t, "both", func() bool { return out.published() == 2 })
	require.Equal(t, []string{proposed(1).ID(), proposed(2).ID()}, out.ids())
}
