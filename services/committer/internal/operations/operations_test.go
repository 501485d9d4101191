package operations_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

type request struct{ Value int }

func open(t *testing.T, dir string) *store.Store {
	st, err := store.Open(t.Context(), store.Options{Dir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return st
}

func TestOnce(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir)
	_, ok := st.Graph("g", true)
	require.True(t, ok)
	o := operations.New(st)
	calls := 0
	put := func(o *operations.Operations, verb, id string, value int) (reply int, err error) {
		err = o.Once(t.Context(), "g", verb, id, request{value}, &reply, func() ([]store.Op, error) {
			calls++
			reply = 10 * value
			return []store.Op{{Graph: "g", Space: 'A', Key: []byte("k"), Value: []byte{byte(value)}}}, nil
		})
		return reply, err
	}
	for range 2 {
		got, err := put(o, "put", "one", 3)
		require.NoError(t, err)
		require.Equal(t, 30, got)
	}
	require.Equal(t, 1, calls, "the second reply is the stored one")
	got, err := put(o, "drop", "one", 4)
	require.NoError(t, err)
	require.Equal(t, 40, got, "another verb has ids of its own")

	_, err = put(o, "put", "one", 5)
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []any{409, "operation_reused"}, []any{e.Status, e.Code})
	_, err = put(o, "put", string(make([]byte, operations.MaxID+1)), 5)
	require.ErrorAs(t, err, &e)
	require.Equal(t, "bad_value", e.Code)
	require.Equal(t, 2, calls)

	for range 2 {
		_, err = put(o, "put", "", 6)
		require.NoError(t, err)
	}
	require.Equal(t, 4, calls, "a request without an id is not remembered")
	row, err := st.Get("g", 'A', []byte("k"))
	require.NoError(t, err)
	require.Equal(t, []byte{6}, row)

	boom := errors.New("boom")
	require.ErrorIs(t, o.Once(t.Context(), "g", "put", "two", request{}, &got, func() ([]store.Op, error) { return nil, boom }), boom)
	got, err = put(o, "put", "two", 7)
	require.NoError(t, err)
	require.Equal(t, 70, got, "an error is not remembered")

	require.NoError(t, st.Close())
	st = open(t, dir)
	defer func() { require.NoError(t, st.Close()) }()
	got, err = put(operations.New(st), "put", "one", 3)
	require.NoError(t, err)
	require.Equal(t, []int{30, 5}, []int{got, calls}, "a restart forgets nothing")
}

func TestOnceTogether(t *testing.T) {
	st := open(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	st.Graph("g", true)
	o := operations.New(st)
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var reply int64
			err := o.Once(t.Context(), "g", "put", "same", request{1}, &reply, func() ([]store.Op, error) {
				reply = calls.Add(1)
				return nil, nil
			})
			if err != nil || reply != 1 {
				t.Errorf("reply %d, %v", reply, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(1), calls.Load())
}

// Who waits for an earlier request of the same id gives up with its own context.
func TestWaitingForTheSameIDEnds(t *testing.T) {
	st := open(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	st.Graph("g", true)
	o := operations.New(st)
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var reply int
	go func() {
		ended <- o.Once(t.Context(), "g", "put", "same", request{1}, &reply, func() ([]store.Op, error) {
			close(begun)
			<-release
			reply = 7
			return nil, nil
		})
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var again int
	ask := func(ctx context.Context) error {
		return o.Once(ctx, "g", "put", "same", request{1}, &again, func() ([]store.Op, error) {
			t.Error("it changes once")
			return nil, nil
		})
	}
	require.ErrorIs(t, ask(ctx), context.Canceled)
	close(release)
	require.NoError(t, <-ended)
	require.NoError(t, ask(t.Context()))
	require.Equal(t, 7, again)
}

// A request of several commits that is interrupted goes on behind its last one, in the next process too; once it is done, its reply stands.
func TestSteps(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir)
	_, ok := st.Graph("g", true)
	require.True(t, ok)
	broken := errors.New("broken")
	type state struct{ Done int }
	steps := func(o *operations.Operations, id string, value, failAt int) (reply string, s state, err error) {
		err = o.Steps(t.Context(), "g", "many", id, request{value}, &reply, &s, func(remember func(bool) ([]store.Op, error)) (bool, error) {
			if s.Done == failAt {
				return false, broken
			}
			s.Done++
			done := s.Done == value
			if done {
				reply = "all"
			}
			ops, err := remember(done)
			require.NoError(t, err)
			return done, st.Write(t.Context(), ops, true)
		})
		return reply, s, err
	}
	_, _, err := steps(operations.New(st), "a", 5, 3)
	require.ErrorIs(t, err, broken)
	require.NoError(t, st.Close())
	st = open(t, dir)
	defer func() { require.NoError(t, st.Close()) }()
	o := operations.New(st)
	_, _, err = steps(o, "a", 6, -1)
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "operation_reused", e.Code, "another body, while it is under way too")
	_, _, err = steps(o, "a", 5, 3)
	require.ErrorIs(t, err, broken, "it begins behind the third commit")
	reply, s, err := steps(o, "a", 5, -1)
	require.NoError(t, err)
	require.Equal(t, []any{"all", 5}, []any{reply, s.Done})
	reply, s, err = steps(o, "a", 5, 0)
	require.NoError(t, err)
	require.Equal(t, []any{"all", 0}, []any{reply, s.Done}, "nothing runs")
	_, _, err = steps(o, "", 5, 3)
	require.ErrorIs(t, err, broken)
	_, s, err = steps(o, "", 5, -1)
	require.NoError(t, err)
	require.Equal(t, 5, s.Done, "without an id nothing is remembered")
}

// Decisions share their ids, whatever they are about; how far one got is told by its id.
func TestDecisionsShareTheirIDs(t *testing.T) {
	st := open(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	st.Graph("g", true)
	o := operations.New(st)
	var reply int
	do := func(verb string) error {
		return o.Once(t.Context(), "g", verb, "one", request{1}, &reply, func() ([]store.Op, error) { reply = len(verb); return nil, nil })
	}
	require.NoError(t, do("candidates.decide"))
	require.NoError(t, do("candidates.decide"))
	for _, verb := range []string{"matches.decide", "conflicts.decide", "stale.decide", "candidates.edit", "candidates.prune", "candidates.undo", "candidates.convert"} {
		var e *api.Error
		require.ErrorAs(t, do(verb), &e, verb)
		require.Equal(t, []any{409, "operation_reused"}, []any{e.Status, e.Code})
	}
	require.NoError(t, do("candidates.patch"), "what decides nothing has ids of its own")
	s, ok, err := o.Decision("g", "one")
	require.NoError(t, err)
	require.Equal(t, []any{true, "candidates.decide", true, "17"}, []any{ok, s.Verb, s.Done, string(s.Reply)})

	broken, state := errors.New("broken"), 0
	err = o.Steps(t.Context(), "g", "candidates.prune", "two", request{}, &reply, &state, func(remember func(bool) ([]store.Op, error)) (bool, error) {
		if state == 2 {
			return false, broken
		}
		state++
		ops, err := remember(false)
		require.NoError(t, err)
		return false, st.Write(t.Context(), ops, true)
	})
	require.ErrorIs(t, err, broken)
	s, ok, err = o.Decision("g", "two")
	require.NoError(t, err)
	require.Equal(t, []any{true, "candidates.prune", false, "2"}, []any{ok, s.Verb, s.Done, string(s.Reply)})
	for _, id := range []string{"", "three", string(make([]byte, operations.MaxID+1))} {
		_, ok, err = o.Decision("g", id)
		require.NoError(t, err)
		require.False(t, ok)
	}
}
