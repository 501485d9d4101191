package vectors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/embed"
)

// ErrGone says that a feed does not reach back to a sequence: the follower then compares everything.
var ErrGone = errors.New("changes are gone")

// Page is what some commits touched.
type Page struct {
	// Touched came into being, changed its name, label or text, or went; in any order, and any number of times.
	Touched []Ref
	// Through is the last commit that the page covers whole, with those before it; more than the asked one unless there is no later commit or
	// the page ends within one.
	Through uint64
	// Next is how many entries of the commit behind Through were given already; 0: the page does not end within a commit.
	Next int
}

// Feed tells what the commits of a graph touched. The store of facts is behind it.
type Feed interface {
	// Head is the sequence of the last commit; 0 before the first.
	Head(ctx context.Context) (uint64, error)
	// After returns what the commits behind a sequence touched, without the first offset entries of the first of them, about limit refs;
	// ErrGone when it no longer knows.
	After(ctx context.Context, seq uint64, offset, limit int) (Page, error)
	// All lists what there is at the head or later, behind a ref (the zero Ref: from the first), chunks before entities, each by id.
	All(ctx context.Context, after Ref, limit int) ([]Ref, error)
}

// Text is what is embedded.
type Text struct {
	Label string // of an entity
	Text  string
}

// Texts loads what refs stand for now, in order; nil for what is gone. It may be younger than the page that named the ref: then a
// later page names it again.
type Texts interface {
	Load(ctx context.Context, refs []Ref) ([]*Text, error)
}

// Sink is what a follower keeps up: the Index, or a Copied.
type Sink interface {
	// Position is the commit up to which the sink follows; 0 for one that is empty or of which nothing is known.
	Position(ctx context.Context) (uint64, error)
	// Apply takes a batch; after an error it may have taken a part, and gets the batch again.
	Apply(ctx context.Context, b Batch) error
	// Refs lists what it holds, in the order of Feed.All; ErrNoList when it cannot, and then Clear is called.
	Refs(ctx context.Context, after Ref, limit int) ([]Ref, error)
	// Clear empties it and sets its position to 0.
	Clear(ctx context.Context) error
}

// ErrNoList is returned by a Sink that cannot list what it holds.
var ErrNoList = errors.New("cannot list")

// Memory knows vectors that were made before: the Index does.
type Memory interface {
	Lookup(ctx context.Context, refs []Ref) ([]*Known, error)
}

// FollowerConfig of one follower.
type FollowerConfig struct {
	// Graph and Name of the sink ("native", "milvus") are the labels of its metrics.
	Graph, Name string
	// Batch is how many vectors are embedded and written at once. Defaults to 256.
	Batch int
	// RetryMin and RetryMax bound the pause after an error, which doubles. Default to 100 ms and 30 s.
	RetryMin, RetryMax time.Duration
	// Poll is how often the feed is asked when nobody wakes the follower. Defaults to 10 s.
	Poll time.Duration
}

func (c FollowerConfig) withDefaults() FollowerConfig {
	if c.Batch <= 0 {
		c.Batch = 256
	}
	if c.RetryMin <= 0 {
		c.RetryMin = 100 * time.Millisecond
	}
	if c.RetryMax < c.RetryMin {
		c.RetryMax = max(30*time.Second, c.RetryMin)
	}
	if c.Poll <= 0 {
		c.Poll = 10 * time.Second
	}
	return c
}

// FollowerDeps is what a follower works with; all but Memory, Metrics, Log and After are required.
type FollowerDeps struct {
	Feed     Feed
	Texts    Texts
	Embedder embed.Embedder
	Sink     Sink
	// Memory saves embedding what did not change; the sink itself when it is an Index.
	Memory  Memory
	Metrics *FollowerMetrics
	Log     *slog.Logger
	// After is time.After, for tests.
	After func(time.Duration) <-chan time.Time
}

// FollowerMetrics are shared by the followers of a process. Labels: graph, sink.
type FollowerMetrics struct {
	lag, position                       *prometheus.GaugeVec
	embedded, unchanged, deleted, retry *prometheus.CounterVec
}

// NewFollowerMetrics registers them.
func NewFollowerMetrics(reg prometheus.Registerer) (*FollowerMetrics, error) {
	labels := []string{"graph", "sink"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_vectors_" + name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "factmill_committer_vectors_" + name + "_total", Help: help}, labels)
	}
	m := &FollowerMetrics{
		lag:       gauge("lag_commits", "Commits that the vectors are behind."),
		position:  gauge("position", "Commit sequence up to which the vectors follow."),
		embedded:  counter("embedded", "Texts that were given to the embedder."),
		unchanged: counter("unchanged", "Touched texts whose vector was there already."),
		deleted:   counter("deleted", "Vectors of what is gone that were taken away."),
		retry:     counter("retries", "Attempts that failed and were made again."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.lag, m.position, m.embedded, m.unchanged, m.deleted, m.retry} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of vectors: %w", err)
		}
	}
	return m, nil
}

// FollowerStatus says where a follower is.
type FollowerStatus struct {
	Position, Head      uint64
	Embedded, Unchanged uint64
	Deleted             uint64
	Err                 error // of the last attempt; nil when it went well
}

// Lag in commits.
func (s FollowerStatus) Lag() uint64 { return s.Head - min(s.Head, s.Position) }

// Follower keeps a sink up with the commits of a graph: in a goroutine of its own (Run), which no commit waits for. What it has to do is not
// queued but asked for, a page at a time, so that a follower that is behind takes no memory. Everything is done again after an
// error: changes say what was touched and the text is loaded as it is now, so that repeats and order change nothing.
type Follower struct {
	cfg  FollowerConfig
	deps FollowerDeps
	wake chan struct{}
	head atomic.Uint64 // the highest that is known

	mu     sync.Mutex
	status FollowerStatus // guarded by mu
}

// NewFollower makes a follower that is not running.
func NewFollower(cfg FollowerConfig, deps FollowerDeps) *Follower {
	if deps.Metrics == nil {
		deps.Metrics, _ = NewFollowerMetrics(nil) // nothing to register: cannot fail
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.After == nil {
		deps.After = time.After
	}
	if m, ok := deps.Sink.(Memory); ok && deps.Memory == nil {
		deps.Memory = m
	}
	return &Follower{cfg: cfg.withDefaults(), deps: deps, wake: make(chan struct{}, 1)}
}

// Committed tells that a commit became visible. It never waits.
func (f *Follower) Committed(seq uint64) {
	f.saw(seq)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Follower) saw(seq uint64) {
	for {
		was := f.head.Load()
		if seq <= was {
			return
		}
		if f.head.CompareAndSwap(was, seq) {
			f.report(func(*FollowerStatus) {})
			return
		}
	}
}

// Status of the follower.
func (f *Follower) Status() FollowerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Head = f.head.Load()
	return s
}

// report changes the status and tells the gauges.
func (f *Follower) report(change func(*FollowerStatus)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
	f.status.Head = f.head.Load()
	m := f.deps.Metrics
	m.lag.WithLabelValues(f.cfg.Graph, f.cfg.Name).Set(float64(f.status.Lag()))
	m.position.WithLabelValues(f.cfg.Graph, f.cfg.Name).Set(float64(f.status.Position))
}

// Run follows until ctx is done, and returns when it has stopped. Errors are logged, shown by Status, and tried again.
func (f *Follower) Run(ctx context.Context) {
	pause := f.cfg.RetryMin
	for ctx.Err() == nil {
		err := f.CatchUp(ctx)
		f.report(func(s *FollowerStatus) { s.Err = err })
		wait := f.cfg.Poll
		var woken <-chan struct{} = f.wake
		if err != nil && ctx.Err() == nil {
			f.deps.Metrics.retry.WithLabelValues(f.cfg.Graph, f.cfg.Name).Inc()
			f.deps.Log.Warn("vectors are behind", "graph", f.cfg.Graph, "sink", f.cfg.Name, "err", err, "again_in", pause)
			wait, woken = pause/2+rand.N(pause/2+1), nil // commits do not shorten the pause
			pause = min(2*pause, f.cfg.RetryMax)
		} else {
			pause = f.cfg.RetryMin
		}
		select {
		case <-ctx.Done():
		case <-woken:
		case <-f.deps.After(wait):
		}
	}
}

// CatchUp brings the sink to the head of the feed once. It must not run twice at once.
func (f *Follower) CatchUp(ctx context.Context) error {
	head, err := f.deps.Feed.Head(ctx)
	if err != nil {
		return fmt.Errorf("head of graph %s: %w", f.cfg.Graph, err)
	}
	f.saw(head)
	at, err := f.deps.Sink.Position(ctx)
	if err != nil {
		return fmt.Errorf("position of %s of graph %s: %w", f.cfg.Name, f.cfg.Graph, err)
	}
	f.report(func(s *FollowerStatus) { s.Position = at })
	for offset := 0; at < head; {
		var page Page
		err := ErrGone // of a sink that is at the beginning
		if at > 0 {
			page, err = f.deps.Feed.After(ctx, at, offset, f.cfg.Batch)
		}
		if errors.Is(err, ErrGone) {
			if err := f.everything(ctx, head); err != nil {
				return err
			}
			at = head
			continue
		}
		if err != nil {
			return fmt.Errorf("changes of graph %s behind %d: %w", f.cfg.Graph, at, err)
		}
		if page.Through < at || page.Through == at && page.Next <= offset {
			return fmt.Errorf("changes of graph %s behind %d lead to %d", f.cfg.Graph, at, page.Through)
		}
		through := page.Through
		if through == at {
			through = 0 // the position stays until the commit is done
		}
		if err := f.touched(ctx, page.Touched, through); err != nil {
			return fmt.Errorf("%s of graph %s behind %d: %w", f.cfg.Name, f.cfg.Graph, at, err)
		}
		at, offset = page.Through, page.Next
	}
	return nil
}

// everything brings a sink to head whose position is unknown: it takes away what is no longer there, and adds what there is. What the
// sink or the memory has already is not embedded again.
func (f *Follower) everything(ctx context.Context, head uint64) error {
	fail := func(err error) error {
		return fmt.Errorf("%s of graph %s from the beginning: %w", f.cfg.Name, f.cfg.Graph, err)
	}
	for after := (Ref{}); ; {
		held, err := f.deps.Sink.Refs(ctx, after, f.cfg.Batch)
		if errors.Is(err, ErrNoList) {
			if err := f.deps.Sink.Clear(ctx); err != nil {
				return fail(err)
			}
			break
		}
		if err != nil {
			return fail(err)
		}
		if len(held) == 0 {
			break
		}
		if err := f.touched(ctx, held, 0); err != nil {
			return fail(err)
		}
		after = held[len(held)-1]
	}
	after := Ref{}
	err := f.each(ctx, func(ctx context.Context) (refs []Ref, through uint64, more bool, err error) {
		refs, err = f.deps.Feed.All(ctx, after, f.cfg.Batch)
		if len(refs) > 0 {
			after = refs[len(refs)-1]
			return refs, 0, true, err
		}
		return nil, head, false, err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// made is a batch that is ready for the sink.
type made struct {
	batch Batch
	tally tally
	err   error
}

// each brings the refs of page after page up to date; no ref may be in two of them. While one batch is taken by the sink, the next is loaded
// and embedded. next gives a page, the position behind it (0: it stays), and whether there are more.
func (f *Follower) each(ctx context.Context, next func(context.Context) (refs []Ref, through uint64, more bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan made)
	var making sync.WaitGroup
	defer making.Wait()
	defer cancel()
	making.Go(func() {
		defer close(ready)
		for more := true; more; {
			var m made
			var refs []Ref
			var through uint64
			if refs, through, more, m.err = next(ctx); m.err == nil {
				m.batch, m.tally, m.err = f.batch(ctx, refs)
				m.batch.Position = through
			}
			select {
			case ready <- m:
			case <-ctx.Done():
				return
			}
			if m.err != nil {
				return
			}
		}
	})
	for m := range ready {
		if m.err != nil {
			return m.err
		}
		if err := f.take(ctx, m.batch, m.tally); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// take gives a batch to the sink and counts it.
func (f *Follower) take(ctx context.Context, b Batch, t tally) error {
	if len(b.Upserts)+len(b.Deletes) > 0 || b.Position > 0 {
		if err := f.deps.Sink.Apply(ctx, b); err != nil {
			return err
		}
	}
	f.count(b, t)
	return nil
}

// touched brings refs up to date, batch by batch; the last one carries the position.
func (f *Follower) touched(ctx context.Context, refs []Ref, through uint64) error {
	refs = distinct(refs)
	for {
		n := min(len(refs), f.cfg.Batch)
		b, done, err := f.batch(ctx, refs[:n])
		if err != nil {
			return err
		}
		refs = refs[n:]
		if len(refs) == 0 {
			b.Position = through
		}
		if err := f.take(ctx, b, done); err != nil {
			return err
		}
		if len(refs) == 0 {
			return nil
		}
	}
}

// tally is counted when its batch is applied.
type tally struct{ embedded, unchanged, deleted int }

func (f *Follower) count(b Batch, t tally) {
	m := f.deps.Metrics
	m.embedded.WithLabelValues(f.cfg.Graph, f.cfg.Name).Add(float64(t.embedded))
	m.unchanged.WithLabelValues(f.cfg.Graph, f.cfg.Name).Add(float64(t.unchanged))
	m.deleted.WithLabelValues(f.cfg.Graph, f.cfg.Name).Add(float64(t.deleted))
	f.report(func(s *FollowerStatus) {
		s.Embedded += uint64(t.embedded)
		s.Unchanged += uint64(t.unchanged)
		s.Deleted += uint64(t.deleted)
		if b.Position > 0 {
			s.Position = b.Position
		}
	})
}

// batch loads, embeds what no vector is known of, and says what the sink has to do.
func (f *Follower) batch(ctx context.Context, refs []Ref) (b Batch, t tally, err error) {
	if len(refs) == 0 {
		return b, t, nil
	}
	texts, err := f.deps.Texts.Load(ctx, refs)
	if err != nil {
		return b, t, fmt.Errorf("load texts: %w", err)
	}
	if len(texts) != len(refs) {
		return b, t, fmt.Errorf("load texts: %d for %d", len(texts), len(refs))
	}
	known := make([]*Known, len(refs))
	if f.deps.Memory != nil {
		if known, err = f.deps.Memory.Lookup(ctx, refs); err != nil {
			return b, t, fmt.Errorf("look vectors up: %w", err)
		}
	}
	_, own := f.deps.Sink.(*Index)
	var ask []string
	var at []int
	for i, x := range texts {
		switch {
		case x == nil:
			b.Deletes = append(b.Deletes, refs[i])
			if !own || known[i] != nil {
				t.deleted++
			}
			continue
		case known[i] != nil && known[i].Digest == DigestOf(x.Text):
			t.unchanged++
			if own && known[i].Label == x.Label {
				continue
			}
			b.Upserts = append(b.Upserts, Item{refs[i], x.Label, x.Text, known[i].Vector})
			continue
		}
		ask, at = append(ask, x.Text), append(at, len(b.Upserts))
		b.Upserts = append(b.Upserts, Item{refs[i], x.Label, x.Text, nil})
	}
	if len(ask) == 0 {
		return b, t, nil
	}
	vectors, err := f.deps.Embedder.Embed(ctx, ask)
	if err == nil {
		err = embed.Check(f.deps.Embedder, len(ask), vectors)
	}
	if err != nil {
		return b, t, fmt.Errorf("embed %d texts: %w", len(ask), err)
	}
	for i, v := range vectors {
		b.Upserts[at[i]].Vector = v
	}
	t.embedded = len(ask)
	return b, t, nil
}

// distinct keeps the first of each.
func distinct(refs []Ref) []Ref {
	seen := make(map[Ref]bool, len(refs))
	out := make([]Ref, 0, len(refs))
	for _, r := range refs {
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}
