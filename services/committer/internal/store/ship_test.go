package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
)

// follows brings a copy up to the head of a store, a few bytes at a time.
func follows(t *testing.T, from, to *Store, page int) error {
	t.Helper()
	at, err := to.Position()
	require.NoError(t, err)
	var buf []byte
	for {
		data, _, err := from.Shipped(at, int64(len(buf)), page)
		if err != nil || len(data) == 0 {
			require.Empty(t, buf)
			return err
		}
		require.LessOrEqual(t, len(data), page)
		buf = append(buf, data...)
		used, now, err := to.Follow(buf)
		if err != nil {
			return err
		}
		buf, at = buf[used:], now
	}
}

// copyOf opens a copy of a store as a checkpoint of it.
func copyOf(t *testing.T, s *Store, dir string) *Store {
	t.Helper()
	_, _, err := s.Checkpoint(t.Context(), dir)
	require.NoError(t, err)
	o := s.opt
	o.Dir, o.Follower, o.Fatal = dir, true, nil
	c, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// everything is every row of a store, its own too.
func everything(t *testing.T, s *Store) (out []string) {
	t.Helper()
	it, err := s.db.NewIter(nil)
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		out = append(out, fmt.Sprintf("%s %x", rowName(string(it.Key())), it.Value()))
	}
	require.NoError(t, it.Close())
	return out
}

// episode is commits that write in several batches, with raw rows, an abort and a new graph between them.
func episode(t *testing.T, s *Store, job uint64, do func()) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), g, 'T', fmt.Append(nil, job), []byte("staged")))
	_, ok := s.Graph(fmt.Sprintf("g%d", job%3), true)
	require.True(t, ok)
	for _, how := range []string{"abort", "finish"} {
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		for i, c := range corpus(t, 6, int(job)*3) {
			c.Order.Time, c.SchemaFP = int64(job), fmt.Sprint(job)
			if i == 1 && job > 0 {
				c = DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: c.Meta.Key}, Order: c.Order}
			}
			_, err := txn.Apply(t.Context(), c)
			require.NoError(t, err)
			do()
		}
		if how == "abort" {
			require.NoError(t, txn.Abort())
			continue
		}
		_, err = txn.Finish(t.Context(), []Op{{Graph: g, Space: 'T', Key: fmt.Append(nil, job-1), DeletePrefix: true}})
		require.NoError(t, err)
	}
	do()
}

// A copy that follows is the store, row by row, at each sequence, through restarts of both.
func TestFollow(t *testing.T) {
	o := options(vfs.NewMem())
	o.BatchBytes = 8 << 10
	s := openStore(t, o)
	episode(t, s, 0, func() {})
	require.ErrorIs(t, follows(t, s, copyOf(t, s, "early"), 1<<20), ErrCut, "it was copied before anything was kept")
	require.NoError(t, s.Ship())
	c := copyOf(t, s, "copy")
	at, err := c.Position()
	require.NoError(t, err)
	require.NotZero(t, at.No)
	compared := uint64(0)
	for job := range uint64(6) {
		episode(t, s, job+1, func() {
			require.NoError(t, follows(t, s, c, 700))
			n, err := c.Seq(g)
			require.NoError(t, err)
			current, err := s.Seq(g)
			require.NoError(t, err)
			require.LessOrEqual(t, n, current)
			if n == compared {
				return
			}
			compared = n
			require.Equal(t, dumpOpen(t, s, n), dumpOpen(t, c, n))
		})
		require.NoError(t, follows(t, s, c, 1<<20))
		require.Equal(t, everything(t, s), everything(t, c))
		require.Equal(t, s.Graphs(), c.Graphs())
		verified(t, c)
		switch job {
		case 2: // a new writer
			require.NoError(t, s.Close())
			s = openStore(t, o)
			require.NoError(t, follows(t, s, c, 700))
			require.Equal(t, s.epoch, c.mustEpoch(t))
		case 4: // the copy is opened again
			opt := c.opt
			require.NoError(t, c.Close())
			c, err = Open(t.Context(), opt)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
		}
	}
	// A copy writes nothing.
	before := everything(t, c)
	require.ErrorIs(t, c.Put(t.Context(), g, 'T', []byte("a"), []byte("b")), ErrReadOnly)
	_, ok := c.Graph("other", true)
	require.False(t, ok)
	txn, err := c.Begin(t.Context(), g)
	if err == nil {
		_, err = txn.Finish(t.Context(), nil)
		require.NoError(t, txn.Abort())
	}
	require.ErrorIs(t, err, ErrReadOnly)
	require.Equal(t, before, everything(t, c))
	_, _, err = s.Follow([]byte("x"))
	require.Error(t, err, "a writer follows nobody")
}

func (s *Store) mustEpoch(t *testing.T) uint64 {
	n, err := s.systemNumber(rowEpoch)
	require.NoError(t, err)
	return n
}

// Whatever a writer loses in a power failure, a copy has never had more than what the writer comes back with: it goes on, or is told to be
// made anew.
func TestFollowCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	cut, on := 0, 0
	for round := range 12 {
		fs := vfs.NewCrashableMem()
		o := options(fs)
		o.BatchBytes = 8 << 10
		s, err := Open(t.Context(), o)
		require.NoError(t, err)
		_, ok := s.Graph(g, true)
		require.True(t, ok)
		require.NoError(t, s.Ship())
		_, _, err = s.Checkpoint(t.Context(), "copy")
		require.NoError(t, err)
		mine := vfs.NewMem() // the copy's own disk
		done, err := vfs.Clone(fs, mine, "copy", "copy")
		require.NoError(t, err)
		require.True(t, done)
		co := o
		co.FS, co.Dir, co.Follower = mine, "copy", true
		c, err := Open(t.Context(), co)
		require.NoError(t, err)
		episode(t, s, uint64(round), func() {})
		episode(t, s, uint64(round+1), func() {
			if rng.IntN(3) == 0 {
				require.NoError(t, follows(t, s, c, 4000))
			}
		})
		// Writes that nobody waited for.
		for i := range 5 {
			require.NoError(t, s.Put(t.Context(), g, 'T', fmt.Append(nil, "late", i), []byte("x")))
			if round%2 == 0 {
				require.NoError(t, follows(t, s, c, 4000))
			}
		}
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))})
		require.NoError(t, s.Close())
		o.FS = clone
		s, err = Open(t.Context(), o)
		require.NoError(t, err)
		at, err := c.Position()
		require.NoError(t, err)
		now, _, _, err := s.shipped()
		require.NoError(t, err)
		require.Less(t, at.No, now.No, "the copy never had what the writer lost")
		if err := follows(t, s, c, 4000); errors.Is(err, ErrCut) {
			cut++
		} else {
			require.NoError(t, err)
			require.Equal(t, everything(t, s), everything(t, c))
			episode(t, s, 20, func() { require.NoError(t, follows(t, s, c, 4000)) })
			require.NoError(t, follows(t, s, c, 4000))
			require.Equal(t, everything(t, s), everything(t, c))
			on++
		}
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
	t.Logf("%d went on, %d are to be made anew", on, cut)
	require.NotZero(t, on)
}

// A store that was put back to an earlier state goes on under numbers that a copy has seen: the copy is told.
func TestFollowPutBack(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := options(fs)
	s := openStore(t, o)
	require.NoError(t, s.Ship())
	c := copyOf(t, s, "copy")
	old := fs.CrashClone(vfs.CrashCloneCfg{})
	episode(t, s, 1, func() {})
	require.NoError(t, follows(t, s, c, 1<<20))
	o.FS = old
	back := openStore(t, o)
	at, err := c.Position()
	require.NoError(t, err)
	for job := uint64(7); ; job++ {
		_, _, err := back.Shipped(at, 0, 1<<20)
		require.ErrorIs(t, err, ErrCut)
		if head, _ := back.Head(); head > at.No+5 {
			break
		}
		episode(t, back, job, func() {})
	}
}

// A program that knows nothing of copies writes to the store: those that there are are made anew.
func TestFollowForeignWriter(t *testing.T) {
	o := options(vfs.NewMem())
	s := openStore(t, o)
	require.NoError(t, s.Ship())
	c := copyOf(t, s, "copy")
	require.NoError(t, follows(t, s, c, 1<<20))
	s.ship.on = false
	require.NoError(t, s.db.Set(systemKey(rowEpoch).end(), number(s.epoch+1), pebble.Sync)) // as its Open does
	episode(t, s, 1, func() {})
	require.NoError(t, s.Close())
	s = openStore(t, o)
	require.ErrorIs(t, follows(t, s, c, 1<<20), ErrCut)
	episode(t, s, 2, func() {})
	require.ErrorIs(t, follows(t, s, c, 1<<20), ErrCut)
	anew := copyOf(t, s, "anew")
	episode(t, s, 3, func() {})
	require.NoError(t, follows(t, s, anew, 1<<20))
	require.Equal(t, everything(t, s), everything(t, anew))
}

// What is kept has a bound, and an end.
func TestShipBounds(t *testing.T) {
	now := clock
	fs := vfs.NewMem()
	o := options(fs)
	o.ShipBytes, o.Now = 1, func() time.Time { return now }
	s := openStore(t, o)
	require.NoError(t, s.Ship())
	at, _, _, err := s.shipped()
	require.NoError(t, err)
	value := make([]byte, 1<<20)
	for i := range 40 {
		require.NoError(t, s.Write(t.Context(), []Op{{Graph: g, Space: 'T', Key: fmt.Append(nil, i), Value: value}}, true))
	}
	_, head, err := s.Shipped(at, 0, 100)
	require.ErrorIs(t, err, ErrCut)
	require.Equal(t, at.No+40, head)
	names, err := fs.List("data-feed")
	require.NoError(t, err)
	require.LessOrEqual(t, len(names), 2)
	// Nobody follows for a day.
	now = now.Add(23 * time.Hour)
	require.NoError(t, s.ShipIdle())
	_, on := s.Head()
	require.True(t, on)
	now = now.Add(2 * time.Hour)
	require.NoError(t, s.ShipIdle())
	_, on = s.Head()
	require.False(t, on)
	_, err = fs.List("data-feed")
	require.Error(t, err)
	last := s.ship.last
	require.NoError(t, s.Ship())
	_, _, err = s.Shipped(last, 0, 100)
	require.ErrorIs(t, err, ErrCut, "something may have been written between")
	p, ok := ParsePosition(last.String())
	require.True(t, ok)
	require.Equal(t, last, p)
}

// A copy is read by the version that writes the store, and by no other.
func TestFollowFormat(t *testing.T) {
	o := options(vfs.NewMem())
	s := openStore(t, o)
	require.NoError(t, s.Ship())
	c := copyOf(t, s, "copy")
	set := func(format uint64) {
		b := s.db.NewBatch()
		defer b.Close()
		require.NoError(t, b.Set(systemKey(rowFormat).end(), number(format), nil))
		require.NoError(t, s.apply(b, true))
	}
	set(formatVersion + 1)
	require.ErrorIs(t, follows(t, s, c, 1<<20), ErrNewerFormat)
	set(formatVersion - 1)
	_, _, err := s.Checkpoint(t.Context(), "older")
	require.NoError(t, err)
	o.Dir, o.Follower = "older", true
	_, err = Open(t.Context(), o)
	require.ErrorIs(t, err, ErrOlderFormat)
}
