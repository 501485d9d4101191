package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
)

// A crash at any moment of a history of commits leaves the store at one of its states, and what was synced stays.
func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	o := options(fs)
	o.BatchBytes = 8 << 10
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	s.Graph(g, true)
	states := map[uint64]string{0: dumpOpen(t, s, 0)}
	var clones []*vfs.MemFS
	var at []uint64
	crash := func(current uint64) {
		if rng.IntN(3) == 0 {
			clones = append(clones, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(rng.Uint64(), 0))}))
			at = append(at, current)
		}
	}
	for job := range uint64(8) {
		txn, err := s.Begin(t.Context(), g)
		require.NoError(t, err)
		for i, c := range corpus(t, 6, int(job)*3) {
			c.Order.Time, c.SchemaFP = int64(job), fmt.Sprint(job)
			if i == 1 && job > 0 {
				c = DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: c.Meta.Key}, Order: c.Order}
			}
			_, err := txn.Apply(t.Context(), c)
			require.NoError(t, err)
			crash(job)
		}
		_, err = txn.Finish(t.Context(), nil)
		require.NoError(t, err)
		states[job+1] = dumpOpen(t, s, 0)
		crash(job + 1)
	}
	require.NotEmpty(t, clones)
	for i, clone := range clones {
		o.FS = clone
		c, err := Open(context.Background(), o)
		require.NoError(t, err)
		n, err := c.Seq(g)
		require.NoError(t, err)
		require.Equal(t, at[i], n, "a synced commit stays, one under way is undone")
		require.Equal(t, states[n], dumpOpen(t, c, 0))
		verified(t, c)
		keys := allKeys(t, c)
		require.NoError(t, c.Close())
		c, err = Open(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, keys, allKeys(t, c), "a second open changes nothing")
		require.NoError(t, c.Close())
	}
}

// A write error at any place ends the process or comes back as an error; reopening finds the old state or the new one, and
// the new one whenever the commit said that it was done. Each try is a process of its own, as Pebble asks for.
func TestWriteErrors(t *testing.T) {
	ends := map[string]int{}
	for n, clean := 0, false; !clean; n += 1 + n/4 {
		o := options(vfs.Default)
		o.Dir = t.TempDir()
		s, err := Open(t.Context(), o)
		require.NoError(t, err)
		s.Graph(g, true)
		commit(t, s, corpus(t, 5, 0)...)
		before := dumpOpen(t, s, 0)
		require.NoError(t, s.Close())

		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriteErrorChild$", "-test.v")
		child.Env = append(os.Environ(), "STORE_ERROR_DIR="+o.Dir, fmt.Sprintf("STORE_ERROR_AT=%d", n))
		out, err := child.CombinedOutput()
		end := endRE.FindString(string(out))
		if strings.Contains(string(out), "pebble/v2.(*DB).rotateWAL") && child.ProcessState.ExitCode() == 2 {
			end = "END fatal" // here Pebble ends the process itself
		}
		require.NotEmpty(t, end, "error %d: %v: %s", n, err, out)
		ends[end]++
		clean = end == "END clean"

		s, err = Open(t.Context(), o)
		require.NoError(t, err)
		seq, err := s.Seq(g)
		require.NoError(t, err)
		verified(t, s)
		switch {
		case seq == 1:
			require.NotContains(t, []string{"END clean", "END done"}, end)
			require.Equal(t, before, dumpOpen(t, s, 0))
		default:
			require.Equal(t, uint64(2), seq)
			require.NotEqual(t, before, dumpOpen(t, s, 0))
			require.Equal(t, before, dumpOpen(t, s, 1))
		}
		require.NoError(t, s.Close())
	}
	require.NotZero(t, ends["END fatal"], "%v", ends)
	require.NotZero(t, ends["END error"], "%v", ends)
}

var endRE = regexp.MustCompile(`END [a-z]+`)

// TestWriteErrorChild is the process of TestWriteErrors: it commits on a file system whose nth write fails.
func TestWriteErrorChild(t *testing.T) {
	o := options(vfs.Default)
	if o.Dir = os.Getenv("STORE_ERROR_DIR"); o.Dir == "" {
		o.Dir = t.TempDir()
	}
	n, err := strconv.Atoi(os.Getenv("STORE_ERROR_AT"))
	if err != nil {
		n = 1 << 30
	}
	var writes atomic.Int64
	o.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || writes.Add(1) != int64(n)+1 {
			return nil
		}
		return errorfs.ErrInjected
	}))
	o.BatchBytes, o.MemTableBytes = 8<<10, 64<<10
	o.Fatal = func(error) {
		fmt.Println("END fatal")
		os.Exit(3)
	}
	err = func() error {
		s, err := Open(t.Context(), o)
		if err != nil {
			return err
		}
		s.Graph(g, true)
		defer func() { _ = s.Close() }()
		txn, err := s.Begin(t.Context(), g)
		if err != nil {
			return err
		}
		for _, c := range corpus(t, 8, 3) {
			c.SchemaFP = "other"
			if _, err := txn.Apply(t.Context(), c); err != nil {
				return errors.Join(err, txn.Abort())
			}
		}
		if _, err := txn.Finish(t.Context(), nil); err != nil {
			return errors.Join(err, txn.Abort())
		}
		return nil
	}()
	switch {
	case err != nil:
		require.ErrorIs(t, err, errorfs.ErrInjected)
		fmt.Println("END error")
	case writes.Load() > int64(n):
		fmt.Println("END done")
	default:
		fmt.Println("END clean")
	}
}
