package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
)

func TestOpenInUse(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	openStore(t, o)
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, o.Dir)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenChild$", "-test.v")
	child.Env = append(os.Environ(), "STORE_CHILD="+o.Dir)
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "refused: "+ErrInUse.Error()+": "+o.Dir)
}

// TestOpenChild is the other process of TestOpenInUse.
func TestOpenChild(t *testing.T) {
	dir := os.Getenv("STORE_CHILD")
	if dir == "" {
		dir = t.TempDir()
		openStore(t, Options{Dir: dir})
	}
	_, err := Open(t.Context(), Options{Dir: dir})
	require.ErrorIs(t, err, ErrInUse)
	fmt.Println("refused:", err)
}

func TestOpenNewerFormat(t *testing.T) {
	o := options(vfs.NewMem())
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.db.Set(systemKey(rowFormat).end(), number(formatVersion+1), pebble.Sync))
	require.NoError(t, s.Close())
	_, err = Open(t.Context(), o)
	require.ErrorIs(t, err, ErrNewerFormat)
	require.EqualError(t, err, "data directory has a newer format: data has format 3, this program reads up to 2: start the version that wrote it, or a newer one, or restore a backup that this one wrote")
	_, err = Open(t.Context(), o)
	require.ErrorIs(t, err, ErrNewerFormat, "the refusal let go of the lock and changed nothing")
}

func TestReopen(t *testing.T) {
	o := options(vfs.NewMem())
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	for i, name := range []string{"default", "b", "default"} {
		n, ok := s.Graph(name, true)
		require.True(t, ok)
		require.Equal(t, uint32(i%2+1), n)
	}
	_, ok := s.Graph("Bad Name", true)
	require.False(t, ok)
	_, ok = s.Graph("none", false)
	require.False(t, ok)
	require.Equal(t, uint64(1), s.Epoch())
	commit(t, s, mustFixture(t, "a", "[Person:Ada]"))
	want := dumpOpen(t, s, 0)
	require.NoError(t, s.Write(t.Context(), []Op{{Graph: g, Space: 'J', Key: []byte("x"), Value: []byte("y")}}, true))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	for epoch := uint64(2); epoch < 4; epoch++ {
		s, err = Open(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, epoch, s.Epoch())
		require.Equal(t, []string{"b", "default"}, s.Graphs())
		n, err := s.Seq(g)
		require.NoError(t, err)
		require.Equal(t, uint64(1), n)
		require.Equal(t, want, dumpOpen(t, s, 0))
		v, err := s.Get(g, 'J', []byte("x"))
		require.NoError(t, err)
		require.Equal(t, "y", string(v))
		rows, err := s.Outbox(g, 0, 0)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		verified(t, s)
		require.NoError(t, s.Close())
	}
}

func TestClosed(t *testing.T) {
	s, err := Open(t.Context(), options(vfs.NewMem()))
	require.NoError(t, err)
	s.Graph(g, true)
	commit(t, s, mustFixture(t, "a", "[Person:Ada]"))
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	_, _, err = sn.Doc(docID("a"))
	require.NoError(t, err)
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Apply(t.Context(), mustFixture(t, "b", "[Person:Ada]"))
	require.NoError(t, err)
	waiting := make(chan error)
	go func() {
		_, err := s.Begin(context.Background(), g)
		waiting <- err
	}()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-waiting, ErrClosed)
	_, err = txn.Apply(t.Context(), mustFixture(t, "c", "[Person:Ada]"))
	require.ErrorIs(t, err, ErrClosed)
	_, err = txn.Finish(t.Context(), nil)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, txn.Abort(), ErrClosed)
	require.ErrorIs(t, txn.Emit(&events.JobState{Graph: g}), ErrClosed)
	_, _, err = sn.Doc(docID("a"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, sn.Docs("", nil), ErrClosed)
	require.NoError(t, sn.Close())
	_, err = s.Snapshot(g, 0)
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.Begin(t.Context(), g)
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.Get(g, 'J', nil)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.Scan(g, 'J', nil, nil, 0, nil), ErrClosed)
	require.ErrorIs(t, s.Write(t.Context(), []Op{{Graph: g, Space: 'J'}}, true), ErrClosed)
	_, err = s.Outbox(g, 0, 0)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, s.OutboxDone(g, 1), ErrClosed)
	_, err = s.Verify(t.Context(), g, nil)
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.Seq(g)
	require.ErrorIs(t, err, ErrClosed)
	_, ok := s.Graph(g, false)
	require.False(t, ok)
	require.Empty(t, s.Graphs())
}

func TestRawRows(t *testing.T) {
	s := memStore(t)
	ctx := t.Context()
	put := func(k, v string) Op { return Op{Graph: g, Space: 'J', Key: []byte(k), Value: []byte(v)} }
	require.NoError(t, s.Write(ctx, []Op{put("a", "1"), put("b1", "2"), put("b2", "3"), put("b3", ""), put("c", "5")}, false))
	list := func(prefix, after string, limit int) (out []string) {
		var a []byte
		if after != "" {
			a = []byte(after)
		}
		require.NoError(t, s.Scan(g, 'J', []byte(prefix), a, limit, func(k, v []byte) error {
			out = append(out, string(k)+"="+string(v))
			return nil
		}))
		return out
	}
	require.Equal(t, []string{"a=1", "b1=2", "b2=3", "b3=", "c=5"}, list("", "", 0))
	require.Equal(t, []string{"b1=2", "b2=3"}, list("b", "", 2))
	require.Equal(t, []string{"b3="}, list("b", "b2", 0))
	require.Empty(t, list("b", "c", 0))
	require.Empty(t, list("b", "b3", 0))
	v, err := s.Get(g, 'J', []byte("b3"))
	require.NoError(t, err)
	require.NotNil(t, v)
	require.Empty(t, v)
	v, err = s.Get(g, 'J', []byte("z"))
	require.NoError(t, err)
	require.Nil(t, v)
	v, err = s.Get("none", 'J', []byte("z"))
	require.NoError(t, err)
	require.Nil(t, v)
	require.NoError(t, s.Write(ctx, []Op{{Graph: g, Space: 'J', Key: []byte("b"), DeletePrefix: true}, put("b4", "x"), {Graph: g, Space: 'J', Key: []byte("a"), Delete: true}}, true))
	require.Equal(t, []string{"b4=x", "c=5"}, list("", "", 0))
	require.ErrorIs(t, s.Write(ctx, []Op{{Graph: "none", Space: 'J'}}, true), ErrNoGraph)
	require.EqualError(t, s.Write(ctx, []Op{{Graph: g, Space: 'd'}}, true), "space 'd' is not one for raw rows")
	require.EqualError(t, s.Put(ctx, g, 0xFF, nil, nil), `space 'ÿ' is not one for raw rows`)
	boom := errors.New("boom")
	require.ErrorIs(t, s.Scan(g, 'J', nil, nil, 0, func(_, _ []byte) error { return boom }), boom)
	require.NoError(t, s.Scan(g, 'J', nil, nil, 0, func(_, _ []byte) error { return fmt.Errorf("enough: %w", ErrStop) }))
	require.NoError(t, s.Delete(ctx, g, 'J', []byte("c")))
	require.Equal(t, []string{"b4=x"}, list("", "", 0))
}

func TestOutbox(t *testing.T) {
	s := memStore(t)
	ctx := t.Context()
	state := func(job string) events.Event {
		return &events.JobState{Graph: g, Job: job, State: "opened", Attempt: 1}
	}
	nos := func() (out []string) {
		rows, err := s.Outbox(g, 0, 0)
		require.NoError(t, err)
		for _, r := range rows {
			e, err := r.Event()
			require.NoError(t, err)
			require.Equal(t, e.ID(), r.ID)
			require.Equal(t, e.Where().String(), r.Subject)
			out = append(out, fmt.Sprintf("%d %s", r.No, r.Subject))
		}
		return out
	}
	ops, err := s.OutboxOps(g, state("one"))
	require.NoError(t, err)
	require.NoError(t, s.Write(ctx, ops, true))
	txn, err := s.Begin(ctx, g)
	require.NoError(t, err)
	_, err = txn.Apply(ctx, mustFixture(t, "a", "[Person:Ada]"))
	require.NoError(t, err)
	require.NoError(t, txn.Emit(state("two")))
	txn.s.opt.BatchBytes = 1 // the next document is written out before the end
	_, err = txn.Apply(ctx, mustFixture(t, "b", "[Person:Ada]"))
	require.NoError(t, err)
	ops, err = s.OutboxOps(g, state("three"))
	require.NoError(t, err)
	require.NoError(t, s.Write(ctx, ops, true))
	require.Equal(t, []string{"1 factmill.default.job.opened.one"}, nos(), "what follows waits for the commit under way")
	require.Error(t, s.OutboxDone(g, 2))
	_, err = txn.Finish(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1 factmill.default.job.opened.one", "2 factmill.default.job.opened.two",
		"3 factmill.default.job.opened.three", "4 factmill.default.change.1"}, nos())
	rows, err := s.Outbox(g, 1, 2)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, uint64(2), rows[0].No)
	require.NoError(t, s.OutboxDone(g, 2))
	require.Equal(t, []string{"3 factmill.default.job.opened.three", "4 factmill.default.change.1"}, nos())
	txn, err = s.Begin(ctx, g)
	require.NoError(t, err)
	require.NoError(t, txn.Emit(state("never")))
	require.NoError(t, txn.Abort())
	require.Equal(t, []string{"3 factmill.default.job.opened.three", "4 factmill.default.change.1"}, nos())
	require.NoError(t, s.OutboxDone(g, 4))
	require.Empty(t, nos())
}

func TestSpace(t *testing.T) {
	o := options(vfs.NewMem())
	free := uint64(10 << 20)
	o.FreeSpace = func(dir string) (uint64, error) { require.Equal(t, "data", dir); return free, nil }
	o.ReserveBytes, o.BallastBytes = 4<<20, 2<<20
	s := openStore(t, o)
	ballast := func() int64 {
		st, err := o.FS.Stat("data/BALLAST")
		if err != nil {
			return 0
		}
		return st.Size()
	}
	require.Equal(t, int64(2<<20), ballast())
	commit(t, s, mustFixture(t, "a", "[Person:Ada]"))
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Apply(t.Context(), mustFixture(t, "b", "[Person:Ada]"))
	require.NoError(t, err)
	free = 1 << 20
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err, "a commit under way goes on")
	require.Zero(t, ballast(), "with the ballast's space")
	_, err = s.Begin(t.Context(), g)
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorContains(t, err, "data has 1048576 bytes free, the reserve is 4194304")
	require.ErrorIs(t, s.Put(t.Context(), g, 'J', []byte("k"), []byte("v")), ErrNoSpace)
	require.NoError(t, s.Delete(t.Context(), g, 'J', []byte("k")), "deletions free space")
	require.Contains(t, dumpOpen(t, s, 0), "doc b")
	free = 5 << 20
	require.NoError(t, s.Put(t.Context(), g, 'J', []byte("k"), []byte("v")))
	require.Zero(t, ballast(), "no room for it yet")
	free = 9 << 20
	commit(t, s, mustFixture(t, "c", "[Person:Ada]"))
	require.Equal(t, int64(2<<20), ballast())
}

// allKeys lists every key of a graph as Pebble has it.
func allKeys(tb T, s *Store) (out []string) {
	require.NoError(tb, s.scanRaw(newKey(1, 0)[:4], nil, func(k, _ []byte) error {
		out = append(out, string(k))
		return nil
	}))
	return out
}

// rowName describes a key as Pebble has it.
func rowName(k string) string {
	base, _, fact := splitRow([]byte(k))
	if !fact {
		return describe(base)
	}
	return describe([]byte(k))
}

func TestLargeCommitUndone(t *testing.T) {
	for _, how := range []string{"abort", "reopen", "finish"} {
		t.Run(how, func(t *testing.T) {
			o := options(vfs.NewMem())
			o.BatchBytes = 20 << 10
			s, err := Open(t.Context(), o)
			require.NoError(t, err)
			s.Graph(g, true)
			commit(t, s, corpus(t, 20, 0)...)
			keys, dump := allKeys(t, s), dumpOpen(t, s, 0)
			txn, err := s.Begin(t.Context(), g)
			require.NoError(t, err)
			for _, c := range append(corpus(t, 30, 10), corpus(t, 10, 100)...) {
				c.SchemaFP, c.Order.Time = "other", 1
				_, err := txn.Apply(t.Context(), c)
				require.NoError(t, err)
				require.Less(t, txn.size+txn.post.Size(), 60<<10, "memory is bounded by the batch")
			}
			require.Greater(t, txn.batches, 5)
			require.Greater(t, len(allKeys(t, s)), len(keys))
			require.Equal(t, dump, dumpOpen(t, s, 0), "nothing of it shows")
			switch how {
			case "abort":
				require.NoError(t, txn.Abort())
				require.NoError(t, txn.Abort())
				_, err = txn.Finish(t.Context(), nil)
				require.ErrorIs(t, err, ErrDone)
				require.Equal(t, keys, allKeys(t, s))
			case "reopen":
				require.NoError(t, s.Close())
				s, err = Open(t.Context(), o)
				require.NoError(t, err)
				require.Equal(t, keys, allKeys(t, s))
			case "finish":
				_, err = txn.Finish(t.Context(), []Op{{Graph: g, Space: 'J', Key: []byte("k"), Value: []byte("v")}})
				require.NoError(t, err)
				require.NotEqual(t, dump, dumpOpen(t, s, 0))
				require.Equal(t, dump, dumpOpen(t, s, 1))
				v, err := s.Get(g, 'J', []byte("k"))
				require.NoError(t, err)
				require.Equal(t, "v", string(v))
			}
			verified(t, s)
			require.NoError(t, s.Close())
		})
	}
}

func TestSnapshotErrors(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", "[Person:Ada]"))
	_, err := s.Snapshot("none", 0)
	require.ErrorIs(t, err, ErrNoGraph)
	_, err = s.Snapshot(g, 2)
	require.ErrorIs(t, err, ErrSequence)
	sn, err := s.Snapshot(g, 1)
	require.NoError(t, err)
	require.NoError(t, sn.Close())
	_, _, err = sn.Doc(docID("a"))
	require.ErrorIs(t, err, ErrDone)
	_, err = s.Begin(t.Context(), "none")
	require.ErrorIs(t, err, ErrNoGraph)
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Begin(ctx, g)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, txn.Abort())
}

func TestKeys(t *testing.T) {
	for _, s := range []string{"", "a", "a\x00", "a\x00\x01", "a\x00\xff", "é", "\xff\xff"} {
		k := newKey(1, spaceKey).str(s)
		r := readKey(k)
		require.Equal(t, s, r.str())
		require.True(t, r.done())
	}
	require.Negative(t, bytes.Compare(newKey(1, 'k').str("a"), newKey(1, 'k').str("a\x00")))
	require.Negative(t, bytes.Compare(newKey(1, 'k').str("a\x00b"), newKey(1, 'k').str("ab")))
	for v, want := range map[any]string{int64(1): "n1", 1.0: "n1", 2.5: "n2.5", "1": "s1", true: "btrue", 1e300: "n1e+300"} {
		got, err := valueKey(v)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	long, err := valueKey(strings.Repeat("x", 10000))
	require.NoError(t, err)
	require.Len(t, long, 1+64+64)
	_, err = valueKey([]string{"x"})
	require.ErrorIs(t, err, ErrBadChange)
	_, ok := parseID("6F12E544-fd37-556e-96ee-05d11a398b0f")
	require.False(t, ok, "another spelling of an id is no id")
}
