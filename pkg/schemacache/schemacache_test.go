package schemacache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func body(version uint64) []byte {
	return fmt.Appendf(nil, `{"name":"t","version":"%d","entities":["Person"],"relations":[{"label":"KNOWS","patterns":["Person->Person"]}]}`, version)
}

func TestGet(t *testing.T) {
	var calls []string
	c := New(func(_ context.Context, graph string, revision uint64) ([]byte, error) {
		calls = append(calls, fmt.Sprint(graph, revision))
		return body(revision), nil
	}, 2)
	get := func(graph string, revision uint64) {
		t.Helper()
		s, err := c.Get(t.Context(), graph, revision)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(revision), s.Version())
		require.True(t, s.Allows("KNOWS", "Person", "Person"))
	}
	get("a", 1)
	get("b", 1)
	get("a", 1)
	get("a", 2) // b1 goes: it was not used for longest
	get("a", 1)
	get("b", 1)
	require.Equal(t, []string{"a1", "b1", "a2", "b1"}, calls)
	require.Equal(t, 2, c.Len())
}

func TestErrorsAreNotKept(t *testing.T) {
	down := errors.New("down")
	fail := down
	text := []byte(`{"entities":[{"label":"No Label"}]}`)
	c := New(func(context.Context, string, uint64) ([]byte, error) { return text, fail }, 0)
	_, err := c.Get(t.Context(), "g", 3)
	require.ErrorIs(t, err, down)
	require.NotErrorIs(t, err, ErrUnreadable)
	require.EqualError(t, err, "fetch schema 3 of graph g: down")

	fail = nil
	_, err = c.Get(t.Context(), "g", 3)
	require.ErrorIs(t, err, ErrUnreadable)
	require.Zero(t, c.Len())

	text = body(3)
	s, err := c.Get(t.Context(), "g", 3)
	require.NoError(t, err)
	require.Equal(t, "3", s.Version())

	_, err = c.Get(t.Context(), "g", 0)
	require.ErrorContains(t, err, "revision 0")
}

func TestOneFetchForMany(t *testing.T) {
	var fetches atomic.Int32
	started, release := make(chan struct{}), make(chan struct{})
	c := New(func(_ context.Context, _ string, revision uint64) ([]byte, error) {
		if fetches.Add(1) == 1 {
			close(started)
		}
		<-release
		return body(revision), nil
	}, 4)
	var wg sync.WaitGroup
	got := make([]string, 16)
	ask := func(i int) {
		if s, err := c.Get(t.Context(), "g", 7); err == nil {
			got[i] = s.Version()
		}
	}
	wg.Go(func() { ask(0) })
	<-started
	for i := 1; i < len(got); i++ {
		wg.Go(func() { ask(i) })
	}
	close(release)
	wg.Wait()
	require.EqualValues(t, 1, fetches.Load())
	for _, v := range got {
		require.Equal(t, "7", v)
	}
}

// A caller that is cancelled while it fetches for others does not fail them.
func TestCancelledLeader(t *testing.T) {
	first := make(chan struct{})
	var fetches atomic.Int32
	c := New(func(ctx context.Context, _ string, revision uint64) ([]byte, error) {
		if fetches.Add(1) == 1 {
			close(first)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return body(revision), nil
	}, 4)
	leader, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.Get(leader, "g", 1)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the leader got %v", err)
		}
	})
	<-first
	wg.Go(func() {
		s, err := c.Get(t.Context(), "g", 1)
		if err != nil || s.Version() != "1" {
			t.Errorf("the follower got %v, %v", s, err)
		}
	})
	gone, stop := context.WithCancel(t.Context())
	stop()
	_, err := c.Get(gone, "g", 1)
	require.ErrorIs(t, err, context.Canceled, "who waits can give up")
	cancel()
	wg.Wait()
	require.EqualValues(t, 2, fetches.Load())
}

func TestPanicFreesTheWaiting(t *testing.T) {
	boom := true
	c := New(func(context.Context, string, uint64) ([]byte, error) {
		if boom {
			panic("boom")
		}
		return body(1), nil
	}, 1)
	require.PanicsWithValue(t, "boom", func() { _, _ = c.Get(t.Context(), "g", 1) })
	boom = false
	_, err := c.Get(t.Context(), "g", 1)
	require.NoError(t, err)
}
