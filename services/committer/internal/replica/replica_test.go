package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/committer/internal/backup"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// committer is a writing store that answers a replica as the service does.
type committer struct {
	t    *testing.T
	dir  string
	st   *store.Store
	desk Desk

	mu    sync.Mutex
	away  error                         // guarded by mu
	bend  func(raw []byte) []byte       // of feed.read; guarded by mu
	files func(b api.Backup) api.Backup // guarded by mu
}

func begin(t *testing.T) *committer {
	c := &committer{t: t, dir: t.TempDir()}
	c.open()
	t.Cleanup(func() { require.NoError(t, c.st.Close()) })
	return c
}

func (c *committer) open() {
	st, err := store.Open(c.t.Context(), store.Options{Dir: filepath.Join(c.dir, "store")})
	require.NoError(c.t, err)
	_, ok := st.Graph("g", true)
	require.True(c.t, ok)
	b, err := backup.New(st, filepath.Join(c.dir, "backups"), testkit.Quiet(), time.Now)
	require.NoError(c.t, err)
	c.st, c.desk = st, Desk{Store: st, Backup: b}
}

func (c *committer) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *committer) Begin(ctx context.Context) (api.Backup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		return api.Backup{}, c.away
	}
	b, err := c.desk.Begin(ctx, "default")
	if c.files != nil {
		b = c.files(b)
	}
	return b, err
}

func (c *committer) File(ctx context.Context, req api.BackupRead) ([]byte, error) {
	r, err := c.desk.Backup.Read(ctx, "default", req)
	return r.Data, err
}

func (c *committer) End(ctx context.Context, id string) error {
	_, err := c.desk.Backup.End(ctx, "default", api.BackupEnd{ID: id})
	return err
}

func (c *committer) Read(ctx context.Context, req api.FeedRead) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		return nil, c.away
	}
	raw, err := c.desk.Read(ctx, "default", req)
	if c.bend != nil && err == nil {
		return c.bend(raw), nil
	}
	return raw, err
}

// put writes a row, and commits.
func (c *committer) put(n int) {
	require.NoError(c.t, c.st.Write(c.t.Context(), []store.Op{{Graph: "g", Space: 'T', Key: fmt.Append(nil, n), Value: make([]byte, 1000)}}, true))
	txn, err := c.st.Begin(c.t.Context(), "g")
	require.NoError(c.t, err)
	_, err = txn.Finish(c.t.Context(), nil)
	require.NoError(c.t, err)
}

func (c *committer) rows(st *store.Store) (out []string) {
	require.NoError(c.t, st.Scan("g", 'T', nil, nil, 0, func(k, _ []byte) error { out = append(out, string(k)); return nil }))
	return out
}

func (c *committer) follows(cfg Config) (*Replica, func()) {
	m, err := NewMetrics(nil)
	require.NoError(c.t, err)
	cfg.Look, cfg.Metrics, cfg.Log = 5*time.Millisecond, m, testkit.Quiet()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r, err := New(c.t.Context(), cfg, c)
	require.NoError(c.t, err)
	return r, testkit.Start(c.t, r.Run)
}

func (c *committer) level(r *Replica) {
	c.t.Helper()
	testkit.Await(c.t, "the copy is level", func() bool {
		here, err := r.Reading()
		if err != nil {
			return false
		}
		want, err := c.st.Seq("g")
		require.NoError(c.t, err)
		s := r.State("g")
		return s.Seq == want && s.Behind == 0 && s.Why == "" && len(c.rows(here.Store)) == len(c.rows(c.st))
	})
}

func TestReplica(t *testing.T) {
	testkit.NoLeaks(t)
	c := begin(t)
	c.put(1)
	dir := t.TempDir()
	r, stop := c.follows(Config{Dir: dir})
	c.level(r)
	for i := range 50 {
		c.put(i)
	}
	r.Announced("g", 77)
	c.level(r)
	require.Equal(t, uint64(77), r.State("g").Announced)
	require.NoError(t, r.Ready())
	stop()
	_, err := r.Reading()
	require.ErrorContains(t, err, "no copy")

	// A large batch comes in parts, and more than one at a time.
	c.put(51)
	require.NoError(t, c.st.Write(t.Context(), []store.Op{{Graph: "g", Space: 'T', Key: []byte("large"), Value: make([]byte, 3*api.FeedPart)}}, true))
	r, stop = c.follows(Config{Dir: dir})
	c.level(r)
	require.Zero(t, copies(t, r), "it was not copied anew")

	// Parts that are not what was written change nothing, and it asks again.
	at, err := must(r).Store.Position()
	require.NoError(t, err)
	bad := 0
	c.set(func() {
		c.bend = func(raw []byte) []byte {
			h, data, err := decode(raw)
			require.NoError(t, err)
			if bad++; len(data) == 0 || bad > 40 {
				return raw
			}
			switch bad % 3 {
			case 0:
				return raw[:len(raw)/2]
			case 1:
				return []byte("{}")
			}
			h.Size++
			line, err := json.Marshal(h)
			require.NoError(t, err)
			return append(append(line, '\n'), raw...)
		}
	})
	c.put(52)
	testkit.Await(t, "it says why", func() bool { return r.State("g").Why != "" })
	now, err := must(r).Store.Position()
	require.NoError(t, err)
	require.Equal(t, at, now)
	c.set(func() { c.bend = nil })
	c.level(r)
	stop()

	// What it would need is not kept any more: it is copied anew.
	c.put(53)
	require.NoError(t, c.st.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(c.dir, "store-feed")))
	c.open()
	c.put(54)
	r, _ = c.follows(Config{Dir: dir})
	c.level(r)
	require.Equal(t, 1, copies(t, r))
}

func copies(t *testing.T, r *Replica) int {
	var m dto.Metric
	require.NoError(t, r.cfg.Metrics.made.Write(&m))
	return int(m.GetCounter().GetValue())
}

func must(r *Replica) *Reading {
	c, err := r.Reading()
	if err != nil {
		panic(err)
	}
	return c
}

func TestReplicaAlone(t *testing.T) {
	c := begin(t)
	c.put(1)
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r, _ := c.follows(Config{Dir: t.TempDir(), Now: clock, MaxLag: 10 * time.Second})
	c.level(r)
	c.set(func() { c.away = errors.New("nobody answers") })
	testkit.Await(t, "it knows", func() bool { return r.State("g").Why == "nobody answers" })
	mu.Lock()
	now = now.Add(9 * time.Second)
	mu.Unlock()
	require.NoError(t, r.Ready())
	require.Equal(t, 9.0, r.State("g").Lag)
	require.Equal(t, "2026-01-02T03:04:05Z", r.State("g").LevelAt)
	mu.Lock()
	now = now.Add(2 * time.Second)
	mu.Unlock()
	require.ErrorContains(t, r.Ready(), "behind for 11s")
	require.Equal(t, uint64(1), r.State("g").Seq, "it answers")
	c.set(func() { c.away = nil })
	testkit.Await(t, "it is level again", func() bool { return r.Ready() == nil })
	require.Zero(t, r.State("g").Lag)
}

// Whoever answers cannot have a replica write anywhere but into its directory.
func TestReplicaNames(t *testing.T) {
	c := begin(t)
	dir := t.TempDir()
	for _, name := range []string{"", ".", "..", "../x", "/tmp/x", "a/b"} {
		c.set(func() {
			c.files = func(b api.Backup) api.Backup { b.Files = []api.BackupFile{{Name: name, Size: 1}}; return b }
		})
		r, stop := c.follows(Config{Dir: filepath.Join(dir, "replica")})
		testkit.Await(t, "it is refused", func() bool {
			return r.State("g").Why == fmt.Sprintf("make the copy: the backup has a file of the name %q", name)
		})
		stop()
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
