// Package outbox publishes what commits left to say, in order, with deterministic ids: a row goes only after its PubAck, so
// an event may be published twice, never lost.
package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Publisher publishes acknowledged.
type Publisher interface {
	Publish(ctx context.Context, out ...events.Event) error
	// LastID is the id of the last message on a subject; empty when there is none.
	LastID(ctx context.Context, subject string) (string, error)
	// Reconnected tells of every reconnection until stop is called.
	Reconnected() (again <-chan nats.Status, stop func())
}

// Sender is the one publisher of a store's outbox rows.
type Sender struct {
	st  *store.Store
	pub Publisher
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	dirty map[string]bool // graphs with rows to publish; guarded by mu
	token chan struct{}

	sent map[string]*progress // by graph; of Run alone
}

// progress is how far a graph's rows are published.
type progress struct {
	upTo   uint64
	unsure bool // the rows that are there may be published or not: look
	marks  []mark
}

// mark is a row and when it was published, with all before it.
type mark struct {
	no uint64
	at time.Time
}

const (
	page = 100
	// keep rows after they were published: a server that syncs every second may lose, in a power failure, what it acknowledged
	// in that second. They are published again then.
	keep = 10 * time.Second
	// every so often rows that were kept are dropped.
	every = 500 * time.Millisecond
)

// New makes a sender; every graph is looked at once when it starts.
func New(st *store.Store, pub Publisher, log *slog.Logger, now func() time.Time) *Sender {
	return &Sender{
		st: st, pub: pub, log: log, now: now, dirty: map[string]bool{}, token: make(chan struct{}, 1), sent: map[string]*progress{},
	}
}

// Notify says that a graph has rows to publish.
func (s *Sender) Notify(graph string) {
	s.mu.Lock()
	s.dirty[graph] = true
	s.mu.Unlock()
	select {
	case s.token <- struct{}{}:
	default:
	}
}

// Run publishes until ctx is done.
func (s *Sender) Run(ctx context.Context) error {
	again, stop := s.pub.Reconnected()
	defer stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	s.doubt()
	wait := 100 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			s.doubt()
			continue
		case <-tick.C:
			if err := s.forget(); err != nil && ctx.Err() == nil {
				s.log.Warn("published events stay in the outbox for now", "error", err)
			}
			continue
		case <-s.token:
		}
		for g := range s.take() {
			err := s.drain(ctx, g)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				wait = 100 * time.Millisecond
				continue
			}
			s.log.Warn("outbox waits", "graph", g, "error", err)
			if !pause(ctx, wait) {
				return nil
			}
			wait = min(2*wait, 5*time.Second)
			s.Notify(g)
		}
	}
}

// pause waits; false when ctx is done before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (s *Sender) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.dirty
	s.dirty = map[string]bool{}
	return out
}

func (s *Sender) progress(graph string) *progress {
	p := s.sent[graph]
	if p == nil {
		p = &progress{unsure: true}
		s.sent[graph] = p
	}
	return p
}

// doubt has the rows of every graph compared with what lies in the streams.
func (s *Sender) doubt() {
	for _, g := range s.st.Graphs() {
		s.progress(g).unsure = true
		s.Notify(g)
	}
}

// drain publishes the rows that wait; with doubts, all rows that the stream does not hold.
func (s *Sender) drain(ctx context.Context, graph string) error {
	p := s.progress(graph)
	absent := func(r store.OutboxRow) bool { return true }
	from := p.upTo
	if p.unsure {
		var err error
		if absent, err = s.compare(ctx, graph, p.upTo); err != nil {
			return err
		}
		from = 0
	}
	for {
		rows, err := s.st.Outbox(graph, from, page)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			p.unsure = false
			return nil
		}
		if err := s.publish(ctx, rows, absent); err != nil {
			return err
		}
		from = rows[len(rows)-1].No
		if from > p.upTo {
			p.upTo = from
			p.marks = append(p.marks, mark{from, s.now()})
		}
	}
}

func (s *Sender) publish(ctx context.Context, rows []store.OutboxRow, absent func(store.OutboxRow) bool) error {
	out := make([]events.Event, 0, len(rows))
	for _, r := range rows {
		if !absent(r) {
			continue
		}
		e, err := r.Event()
		if err != nil {
			return fmt.Errorf("outbox row %d: %w", r.No, err)
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil
	}
	half := len(out) / 2
	if err := s.pub.Publish(ctx, out[:half]...); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if half > 0 {
		failpoint.Hit("outbox_half")
	}
	if err := s.pub.Publish(ctx, out[half:]...); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// forget drops rows that were published long enough ago.
func (s *Sender) forget() error {
	old := s.now().Add(-keep)
	for g, p := range s.sent {
		n := 0
		for n < len(p.marks) && p.marks[n].at.Before(old) {
			n++
		}
		if n == 0 || p.unsure {
			continue
		}
		if err := s.st.OutboxDone(g, p.marks[n-1].no); err != nil {
			return fmt.Errorf("graph %s: %w", g, err)
		}
		p.marks = append([]mark(nil), p.marks[n:]...)
	}
	return nil
}
