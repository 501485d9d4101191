package committer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/services/committer/internal/desk"
)

// line is a queue for look.
type line struct {
	items []desk.Since
	reads int // of all
	takes time.Duration
	clock *time.Time
	err   error
}

func (l *line) Oldest(context.Context, string, int) ([]desk.Since, error) {
	l.reads++
	*l.clock = l.clock.Add(l.takes)
	return append([]desk.Since(nil), l.items...), l.err
}

func (l *line) Since(_ context.Context, _, id string) (desk.Since, error) {
	for _, x := range l.items {
		if x.ID == id {
			return x, l.err
		}
	}
	return desk.Since{ID: id}, l.err
}

// What has waited longest is known without reading the queue, until all that was remembered is decided; and then not at once.
func TestWaitReadsAQueueSeldom(t *testing.T) {
	clock := time.Unix(1_000, 0)
	l := &line{items: []desk.Since{{ID: "a", Seq: 1}, {ID: "b", Seq: 2}, {ID: "c", Seq: 2}}, takes: 2 * time.Second, clock: &clock}
	w := &wait{}
	eldest := func(seq uint64) string {
		t.Helper()
		require.NoError(t, w.look(t.Context(), l, "g", seq, func() time.Time { return clock }))
		if len(w.list) == 0 {
			return ""
		}
		return w.list[0].ID
	}
	require.Equal(t, "a", eldest(2))
	l.items = append(l.items, desk.Since{ID: "d", Seq: 3})
	require.Equal(t, "a", eldest(3))
	l.items = l.items[1:] // a is decided
	require.Equal(t, "b", eldest(4))
	l.items = l.items[1:]
	l.items = append(l.items, desk.Since{ID: "b", Seq: 5}) // b came back: it waits anew, behind the others
	require.Equal(t, "c", eldest(5))
	require.Equal(t, 1, l.reads)

	l.items = l.items[1:] // c too: nothing that was remembered waits, and all were read a moment ago
	require.Empty(t, eldest(6))
	require.NotEqual(t, uint64(6), w.seq, "what waits is not known as of now")
	clock = clock.Add(199 * time.Second)
	require.Empty(t, eldest(6))
	require.Equal(t, 1, l.reads)
	clock = clock.Add(2 * time.Second) // a hundred times the two seconds that reading took
	require.Equal(t, "d", eldest(6))
	require.Equal(t, 2, l.reads)
	require.Equal(t, "d", eldest(6), "no commit, no look")

	l.items = append([]desk.Since{{ID: "a", Seq: 1}}, l.items...) // a's decision was undone, and it does not say when
	require.Equal(t, "d", eldest(6))
	clock = clock.Add(time.Hour) // and 2,000 seconds are less
	require.Equal(t, "a", eldest(6))
	require.Equal(t, 3, l.reads)

	l.items = nil
	clock = clock.Add(2 * time.Hour)
	require.Empty(t, eldest(7))
	require.Equal(t, uint64(7), w.seq, "nothing waits")
	require.Equal(t, 4, l.reads)

	l.items, l.err = []desk.Since{{ID: "e", Seq: 8}}, errors.New("disk")
	clock = clock.Add(time.Hour)
	require.ErrorContains(t, w.look(t.Context(), l, "g", 8, func() time.Time { return clock }), "disk")
	l.err = nil
	clock = clock.Add(time.Hour)
	require.Equal(t, "e", eldest(8))
}
