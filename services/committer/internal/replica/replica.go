package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/graphs"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Source is the committer, as a replica sees it. Refusals are *api.Error.
type Source interface {
	Begin(ctx context.Context) (api.Backup, error)
	File(ctx context.Context, req api.BackupRead) ([]byte, error)
	End(ctx context.Context, id string) error
	Read(ctx context.Context, req api.FeedRead) ([]byte, error)
}

// Config of a replica. Dir is required.
type Config struct {
	// Dir holds the copy.
	Dir string
	// CacheBytes of the copy's block cache. Defaults to the store's default.
	CacheBytes int64
	// Look is how often the committer is asked when nothing says that it has something. Defaults to 1 s.
	Look time.Duration
	// MaxLag is how long the copy may be behind before Ready says so. Defaults to 30 s.
	MaxLag time.Duration
	// OnFatal is told that the copy failed in a way after which it must be opened anew; it must end the process. Required.
	OnFatal func(error)
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Replica follows. Run must be called once.
type Replica struct {
	cfg  Config
	from Source
	wake chan struct{}

	use   sync.RWMutex
	open  *Reading   // nil: there is none yet; guarded by use
	mu    sync.Mutex // guards what follows
	level time.Time  // when nothing was missing
	head  uint64     // of the committer, when it answered last
	at    store.Position
	why   error             // nil: it is followed
	said  map[string]uint64 // by graph: the greatest sequence that a change event named
	moved chan struct{}     // closed, and made anew, when the copy moved
}

// Reading is an open copy.
type Reading struct {
	Store  *store.Store
	Graphs *graphs.Graphs
	Query  *query.Queries
}

// New makes a replica. What an earlier process left in the directory is read at once, however old it is.
func New(ctx context.Context, cfg Config, from Source) (*Replica, error) {
	if cfg.Look <= 0 {
		cfg.Look = time.Second
	}
	if cfg.MaxLag <= 0 {
		cfg.MaxLag = 30 * time.Second
	}
	r := &Replica{cfg: cfg, from: from, wake: make(chan struct{}, 1), said: map[string]uint64{}, moved: make(chan struct{}), why: errNew}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the replica's directory: %w", err)
	}
	if _, err := os.Stat(r.path()); err != nil {
		return r, nil // to be made
	}
	err := r.openCopy(ctx)
	if errors.Is(err, store.ErrInUse) || errors.Is(err, store.ErrNewerFormat) {
		return nil, err
	}
	if err != nil {
		cfg.Log.Warn("the copy cannot be read: it is made anew", "error", err)
	}
	return r, nil
}

var errNew = errors.New("the committer was not asked yet")

func (r *Replica) path() string { return filepath.Join(r.cfg.Dir, "copy") }

func (r *Replica) openCopy(ctx context.Context) error {
	st, err := store.Open(ctx, store.Options{Dir: r.path(), CacheBytes: r.cfg.CacheBytes, Follower: true, Log: r.cfg.Log, Now: r.cfg.Now, Fatal: r.cfg.OnFatal})
	if err != nil {
		return err
	}
	at, err := st.Position()
	if err != nil {
		return errors.Join(err, st.Close())
	}
	g := graphs.New(st, r.cfg.Now)
	r.use.Lock()
	r.open = &Reading{Store: st, Graphs: g, Query: query.New(st, g)}
	r.use.Unlock()
	r.set(func() { r.at = at })
	return nil
}

func (r *Replica) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// Reading is the copy that is open. It may be exchanged while it is read: what reads it then gets store.ErrClosed.
func (r *Replica) Reading() (*Reading, error) {
	r.use.RLock()
	c := r.open
	r.use.RUnlock()
	if c != nil {
		return c, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, api.Errorf(503, "not_ready", "this read replica has no copy yet: %v", r.why)
}

// Announced tells of a commit that a change event named.
func (r *Replica) Announced(graph string, seq uint64) {
	r.set(func() { r.said[graph] = max(r.said[graph], seq) })
	r.wakeUp()
}

// State says how far the copy is.
func (r *Replica) State(graph string) api.ReplicaState {
	var s api.ReplicaState
	r.use.RLock()
	if r.open != nil {
		s.Seq, _ = r.open.Store.Seq(graph) // no such graph: 0
	}
	r.use.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Announced, s.Behind = max(s.Seq, r.said[graph]), r.behind()
	if !r.level.IsZero() {
		s.LevelAt, s.Lag = r.level.UTC().Format(time.RFC3339Nano), r.lag().Seconds()
	}
	if r.why != nil {
		s.Why = r.why.Error()
	}
	return s
}

// behind is called with mu held.
func (r *Replica) behind() uint64 {
	if r.at.No >= r.head {
		return 0
	}
	return r.head - r.at.No
}

// lag is how long ago nothing was missing; 0 while nothing is. It is called with mu held.
func (r *Replica) lag() time.Duration {
	if r.why == nil && r.at.No >= r.head {
		return 0
	}
	return max(0, r.cfg.Now().Sub(r.level))
}

// Ready says what hinders it; it answers all the same when it has a copy.
func (r *Replica) Ready() error {
	r.use.RLock()
	none := r.open == nil
	r.use.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case none:
		return fmt.Errorf("there is no copy yet: %w", r.why)
	case r.level.IsZero():
		return fmt.Errorf("not level since the start (%d batches behind); reads are answered: %v", r.behind(), r.why)
	case r.lag() > r.cfg.MaxLag:
		return fmt.Errorf("behind for %s (%d batches); reads are answered: %v", r.lag().Round(time.Second), r.behind(), r.why)
	}
	return nil
}

// Await waits until a graph is at a sequence at least, or ctx is done.
func (r *Replica) Await(ctx context.Context, graph string, seq uint64) bool {
	for {
		r.mu.Lock()
		moved := r.moved
		r.mu.Unlock()
		if r.State(graph).Seq >= seq {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-moved:
		}
	}
}

// Run follows until ctx is done, then closes the copy.
func (r *Replica) Run(ctx context.Context) error {
	defer r.closeCopy()
	wait := minWait
	for ctx.Err() == nil {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, store.ErrNewerFormat) || errors.Is(err, store.ErrOlderFormat) { // nothing that waiting helps
			return err
		}
		if err == nil {
			wait = minWait
		} else {
			r.hindered(err)
		}
		pause := r.cfg.Look
		if err != nil {
			pause, wait = wait, min(2*wait, maxWait)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-r.wake:
		}
		t.Stop()
	}
	return nil
}

const (
	minWait = 100 * time.Millisecond
	maxWait = 5 * time.Second
)

// hindered remembers why the committer is not followed, and says it once.
func (r *Replica) hindered(err error) {
	r.mu.Lock()
	was := r.why
	r.why = err
	r.mu.Unlock()
	if was == nil || was == errNew || was.Error() != err.Error() {
		r.cfg.Log.Warn("the committer is not followed for now; what is here is answered", "error", err)
	}
	r.measure()
}

// follow takes what is there; nil when nothing is missing.
func (r *Replica) follow(ctx context.Context) error {
	c, err := r.Reading()
	if err != nil {
		return r.anew(ctx)
	}
	at, err := c.Store.Position()
	if err != nil {
		return err
	}
	var buf []byte
	for {
		asked := r.cfg.Now()
		raw, err := r.from.Read(ctx, api.FeedRead{After: at.String(), Offset: int64(len(buf))})
		if isCut(err) {
			return r.cut(ctx, err)
		}
		if err != nil {
			return err
		}
		h, data, err := decode(raw)
		if err != nil {
			return err
		}
		r.cfg.Metrics.bytes.Add(float64(len(raw)))
		if len(data) == 0 {
			r.took(h.Head, at, asked, true)
			return nil
		}
		buf = append(buf, data...)
		used, now, err := c.Store.Follow(buf)
		buf, at = buf[used:], now
		for _, g := range c.Store.Graphs() {
			c.Graphs.Changed(g)
		}
		r.took(h.Head, at, asked, at.No >= h.Head)
		if errors.Is(err, store.ErrCut) {
			return r.cut(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// took remembers where the copy is; level: nothing was missing when the committer was asked.
func (r *Replica) took(head uint64, at store.Position, asked time.Time, level bool) {
	r.mu.Lock()
	if r.why != nil && r.why != errNew {
		r.cfg.Log.Info("the committer is followed again", "batch", at.No)
	}
	if at != r.at {
		close(r.moved)
		r.moved = make(chan struct{})
	}
	r.head, r.at, r.why = head, at, nil
	if level {
		r.level = asked
	}
	r.mu.Unlock()
	r.measure()
}

func isCut(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == "feed_cut"
}

// cut makes the copy anew: it cannot follow.
func (r *Replica) cut(ctx context.Context, why error) error {
	r.cfg.Log.Warn("the copy is made anew", "why", why)
	return r.anew(ctx)
}

// anew copies the committer's store. What is there is answered from until the new copy is whole.
func (r *Replica) anew(ctx context.Context) error {
	next := filepath.Join(r.cfg.Dir, "next")
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o750)); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	if err := r.download(ctx, next); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	r.closeCopy()
	if err := errors.Join(os.RemoveAll(r.path()), os.Rename(next, r.path())); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	if err := r.openCopy(ctx); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	r.cfg.Metrics.made.Inc()
	r.cfg.Log.Info("the copy is there")
	r.wakeUp() // and is behind already
	return nil
}

func (r *Replica) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Replica) closeCopy() {
	r.use.Lock()
	defer r.use.Unlock()
	if r.open == nil {
		return
	}
	if err := r.open.Store.Close(); err != nil {
		r.cfg.Log.Warn("close the copy", "error", err)
	}
	r.open = nil
}
