// Package outbox publishes what commits left to say, in order, with deterministic ids: a row goes only after its PubAck, so
// an event may be published twice, never lost.
package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Publisher publishes acknowledged.
type Publisher interface {
	Publish(ctx context.Context, out ...events.Event) error
}

// Sender is the one publisher of a store's outbox rows.
type Sender struct {
	st  *store.Store
	pub Publisher
	log *slog.Logger

	mu    sync.Mutex
	dirty map[string]bool
	token chan struct{}
}

// New makes a sender; every graph is looked at once when it starts.
func New(st *store.Store, pub Publisher, log *slog.Logger) *Sender {
	return &Sender{st: st, pub: pub, log: log, dirty: map[string]bool{}, token: make(chan struct{}, 1)}
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
	for _, g := range s.st.Graphs() {
		s.Notify(g)
	}
	wait := 100 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.token:
		}
		for g := range s.take() {
			if err := s.drain(ctx, g); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				s.log.Warn("outbox waits", "graph", g, "error", err)
				timer := time.NewTimer(wait)
				select {
				case <-ctx.Done():
					timer.Stop()
					return nil
				case <-timer.C:
				}
				wait = min(2*wait, 5*time.Second)
				s.Notify(g)
				continue
			}
			wait = 100 * time.Millisecond
		}
	}
}

func (s *Sender) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.dirty
	s.dirty = map[string]bool{}
	return out
}

const page = 100

func (s *Sender) drain(ctx context.Context, graph string) error {
	for {
		rows, err := s.st.Outbox(graph, 0, page)
		if err != nil || len(rows) == 0 {
			return err
		}
		out := make([]events.Event, 0, len(rows))
		for _, r := range rows {
			e, err := r.Event()
			if err != nil {
				return fmt.Errorf("outbox row %d: %w", r.No, err)
			}
			out = append(out, e)
		}
		half := len(out) / 2
		if err := s.pub.Publish(ctx, out[:half]...); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		failpoint.Hit("outbox_half")
		if err := s.pub.Publish(ctx, out[half:]...); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if err := s.st.OutboxDone(graph, rows[len(rows)-1].No); err != nil {
			return err
		}
	}
}
