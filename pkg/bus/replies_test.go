package bus_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestKeptReplies(t *testing.T) {
	r := newRig(t)
	other := testkit.Connect(t, r.srv, "other")
	got, err := r.Reply(t.Context(), "g", "f00d", "0123")
	require.NoError(t, err)
	require.Nil(t, got)
	require.NoError(t, r.KeepReply(t.Context(), "g", "f00d", "0123", []byte("one")))
	require.NoError(t, r.KeepReply(t.Context(), "g", "f00d", "0123", []byte("two")))
	got, err = other.Reply(t.Context(), "g", "f00d", "0123")
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	for _, key := range [][3]string{{"h", "f00d", "0123"}, {"g", "f00e", "0123"}, {"g", "f00d", "0124"}} {
		got, err = r.Reply(t.Context(), key[0], key[1], key[2])
		require.NoError(t, err)
		require.Nil(t, got, key)
	}
	require.Equal(t, 1, r.count(bus.StreamReplies), "the newer one took the place of the older")
	for _, bad := range [][3]string{{"G h", "f0", "01"}, {"g", "", "01"}, {"g", "*", "01"}, {"g", "f0", "a.b"}, {"g", "f0", ">"}} {
		require.Error(t, r.KeepReply(t.Context(), bad[0], bad[1], bad[2], nil), bad)
		_, err := r.Reply(t.Context(), bad[0], bad[1], bad[2])
		require.Error(t, err, bad)
	}
}

// What is counted in passing and what is waited for is one sum.
func TestCost(t *testing.T) {
	r := newRig(t)
	other := testkit.Connect(t, r.srv, "other")
	requests, tokens, err := r.Cost(t.Context(), "g", "j1")
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{requests, tokens})
	require.NoError(t, r.Count("g", "j1", 1, 0))
	require.NoError(t, other.Count("g", "j1", 2, 30))
	require.NoError(t, r.Count("g", "j2", 7, 7))
	_, err = r.Spend(t.Context(), "g", "j1", 12)
	require.NoError(t, err)
	testkit.Await(t, "the sums", func() bool {
		requests, tokens, err := other.Cost(t.Context(), "g", "j1")
		require.NoError(t, err)
		return requests == 3 && tokens == 42
	})
	require.Error(t, r.Count("G g", "j1", 1, 0))
}

func TestSpend(t *testing.T) {
	r := newRig(t)
	other := testkit.Connect(t, r.srv, "other")
	for i, step := range []struct {
		conn        *bus.Conn
		job         string
		tokens, sum int
	}{{r.Conn, "j1", 0, 0}, {r.Conn, "j1", 40, 40}, {other, "j1", 0, 40}, {other, "j1", 2, 42}, {r.Conn, "j1", 0, 42}, {r.Conn, "j2", 0, 0}, {r.Conn, "j1", -5, 42}} {
		sum, err := step.conn.Spend(t.Context(), "g", step.job, step.tokens)
		require.NoError(t, err, i)
		require.Equal(t, step.sum, sum, i)
	}
}
