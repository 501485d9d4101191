package links

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/factmill/factmill/services/committer/internal/store"
)

// follower links one graph.
type follower struct {
	l     *Linker
	graph string
	rows  rows
	wake  chan struct{}
	asks  chan struct{} // wakes the judge

	write sync.Mutex         // whoever compares and writes what comes of it
	names map[store.ID]named // guarded by write: names that are filed, see remember

	mu      sync.Mutex
	status  Status         // guarded by mu
	changed chan struct{}  // guarded by mu; closed when status changes
	anew    bool           // guarded by mu: the position was reset
	last    string         // guarded by mu: the job that was linked last
	queued  int            // guarded by mu: pairs that were ever queued
	left    map[string]int // guarded by mu: pairs that a job's budget postpones
	byJob   map[string]int // guarded by mu: pairs that wait for the model and may be asked about now
}

func newFollower(l *Linker, graph string) *follower {
	return &follower{l: l, graph: graph, rows: rows{l.deps.Store, graph}, wake: make(chan struct{}, 1), asks: make(chan struct{}, 1), changed: make(chan struct{}), byJob: map[string]int{}, names: map[store.ID]named{}}
}

func (f *follower) notify() { poke(f.wake) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch returns the status, and what is closed when it changes.
func (f *follower) watch(job string) (Status, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.status
	if job != "" {
		st.Waiting, st.Postponed = f.byJob[job], f.left[job]
	}
	return st, f.changed
}

// waits counts pairs of a job that were queued.
func (f *follower) waits(job string, n int) {
	f.report(func(s *Status) {
		f.byJob[job] += n
		f.queued += n
		s.Waiting += n
	})
}

func (f *follower) report(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
	close(f.changed)
	f.changed = make(chan struct{})
	f.l.met.linked.WithLabelValues(f.graph).Set(float64(f.status.Linked))
	f.l.met.waiting.WithLabelValues(f.graph).Set(float64(f.status.Waiting))
}

// restart makes the linking begin from the position that is stored.
func (f *follower) restart() {
	f.mu.Lock()
	f.anew = true
	f.mu.Unlock()
	f.report(func(s *Status) { s.Linked = 0 })
	f.notify()
}

// fatal tells the errors that no further attempt mends.
func fatal(err error) bool { return errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrClosed) }

// run links whenever there is something to link.
func (f *follower) run(ctx context.Context) error {
	return f.repeat(ctx, f.wake, "links are behind", func(err error) { f.report(func(s *Status) { s.Err = err }) }, f.catchUp)
}

// repeat calls fn whenever it is woken, and again, with a pause that doubles, while it fails.
func (f *follower) repeat(ctx context.Context, wake <-chan struct{}, what string, tell func(error), fn func(context.Context) error) error {
	pause := f.l.cfg.RetryMin
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		for {
			err := fn(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if fatal(err) {
				return err
			}
			tell(err)
			if err == nil {
				pause = f.l.cfg.RetryMin
				break
			}
			f.l.cfg.Log.Warn("the linker is hindered, it tries again", "graph", f.graph, "what", what, "error", err, "again_in", pause)
			select {
			case <-ctx.Done():
				return nil
			case <-f.l.cfg.After(pause/2 + rand.N(pause/2+1)):
			}
			pause = min(2*pause, f.l.cfg.RetryMax)
		}
	}
}

// catchUp links until nothing is left.
func (f *follower) catchUp(ctx context.Context) error {
	var at *position
	for {
		head, err := f.l.deps.Store.Seq(f.graph)
		if errors.Is(err, store.ErrNoGraph) {
			return nil
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		if f.anew {
			at, f.anew = nil, false
		}
		f.mu.Unlock()
		if at == nil {
			p, ok, err := f.rows.position()
			if err != nil {
				return err
			}
			if !ok {
				if p, err = f.rows.first(ctx, head); err != nil {
					return err
				}
			}
			at = &p
		}
		more, err := f.step(ctx, at)
		if err != nil {
			return err
		}
		if !more {
			if f.l.deps.Vectors != nil { // commits of links leave nothing to embed, but are followed
				if err := f.l.deps.Vectors.CatchUp(ctx, f.graph); err != nil {
					return fmt.Errorf("vectors: %w", err)
				}
			}
			poke(f.asks)
			f.report(func(s *Status) { s.Linked = head })
			return nil
		}
	}
}

// step links one page; more is false when there was nothing left to do at a head that was read before.
func (f *follower) step(ctx context.Context, at *position) (more bool, err error) {
	w := &work{f: f}
	if w.rules, err = f.rules(ctx); err != nil {
		return false, err
	}
	if r := w.rules.name(); at.Rules != r {
		if at.Rules != "" {
			head, err := f.l.deps.Store.Seq(f.graph)
			if err != nil {
				return false, err
			}
			*at = position{Seq: head, All: true}
		}
		at.Rules = r
	}
	again, err := f.rows.relinks(f.l.cfg.Page)
	if err != nil {
		return false, err
	}
	next := *at
	switch {
	case len(again) > 0:
		w.ids, w.anew = again, true
		for _, v := range again {
			w.ops = append(w.ops, f.rows.del(relinkKey(v)))
		}
	case at.All:
		if next, err = f.everything(w, next); err != nil {
			return false, err
		}
	default:
		page, err := f.l.deps.Store.Feed(ctx, f.graph, at.Seq, at.Offset, f.l.cfg.Page)
		if errors.Is(err, store.ErrFeedGone) {
			head, err := f.l.deps.Store.Seq(f.graph)
			if err != nil {
				return false, err
			}
			*at = position{Seq: head, All: true, Rules: at.Rules}
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if page.Seq == 0 {
			return false, nil
		}
		w.job = page.Job
		f.mu.Lock()
		f.last = page.Job
		f.mu.Unlock()
		w.entities(page.Touched)
		if next = (position{Seq: page.Seq, Rules: at.Rules}); page.Next > 0 {
			next = position{Seq: at.Seq, Offset: page.Next, Rules: at.Rules}
		}
	}
	if f.l.deps.Vectors != nil {
		if err := f.l.deps.Vectors.CatchUp(ctx, f.graph); err != nil {
			return false, fmt.Errorf("vectors: %w", err)
		}
	}
	op, err := f.rows.json(keyPosition, next)
	if err != nil {
		return false, err
	}
	w.ops = append(w.ops, op)
	if err := w.do(ctx); err != nil {
		return false, err
	}
	*at = next
	f.trim(ctx, next)
	return true, nil
}

// everything takes the next entities of the whole graph.
func (f *follower) everything(w *work, at position) (position, error) {
	w.anew = true
	sn, err := f.l.deps.Store.Snapshot(f.graph, 0)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	if at.After == "" { // a graph that was linked before may hold names of entities that are gone
		w.ops = append(w.ops, f.rows.prefix("b"), f.rows.prefix("n"))
		w.cleared = true
	}
	n := 0
	err = sn.EntitiesAll(at.After, func(e store.EntityFold) error {
		if v, ok := store.ParseID(e.ID); ok {
			w.ids = append(w.ids, v)
		}
		at.After = e.ID
		if n++; n == f.l.cfg.Page {
			return store.ErrStop
		}
		return nil
	})
	if n < f.l.cfg.Page {
		at = position{Seq: at.Seq, Rules: at.Rules}
	}
	return at, err
}

// keepFeed is how many commits the feed is longer than what is linked: a copy of the vectors that is that far behind goes on from it.
const keepFeed = 1000

// trim takes away what of the feed nobody needs, now and then.
func (f *follower) trim(ctx context.Context, at position) {
	if at.All || at.Seq < 2*keepFeed || at.Seq%keepFeed != 0 {
		return
	}
	upto := at.Seq - keepFeed
	if v := f.l.deps.Vectors; v != nil {
		if n := v.Needed(f.graph); n > 0 {
			upto = min(upto, n)
		}
	}
	if err := f.l.deps.Store.TrimFeed(ctx, f.graph, upto); err != nil && ctx.Err() == nil {
		f.l.cfg.Log.Warn("the feed was not trimmed", "graph", f.graph, "error", err)
	}
}
