// Package replies keeps what models answered: in memory, before a store that outlives the process.
package replies

import (
	"context"
	"fmt"

	"github.com/dgraph-io/ristretto/v2"
)

// Durable is the store behind the memory; *bus.Conn is one.
type Durable interface {
	Reply(ctx context.Context, graph, fp, shown string) ([]byte, error)
	KeepReply(ctx context.Context, graph, fp, shown string, body []byte) error
}

// Store implements model.Replies.
type Store struct {
	durable Durable
	memory  *ristretto.Cache[string, []byte]
}

// New makes a store whose memory holds up to bytes. Close ends it.
func New(d Durable, bytes int64) (*Store, error) {
	c, err := ristretto.NewCache(&ristretto.Config[string, []byte]{
		NumCounters: max(1000, bytes/200), MaxCost: bytes, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("memory of replies: %w", err)
	}
	return &Store{durable: d, memory: c}, nil
}

// Close ends the memory.
func (s *Store) Close() { s.memory.Close() }

// Reply implements model.Replies.
func (s *Store) Reply(ctx context.Context, graph, fp, shown string) ([]byte, error) {
	k := graph + "/" + fp + "/" + shown
	if b, ok := s.memory.Get(k); ok {
		return b, nil
	}
	b, err := s.durable.Reply(ctx, graph, fp, shown)
	if err == nil && b != nil {
		s.memory.Set(k, b, int64(len(b)+len(k)))
	}
	return b, err
}

// KeepReply implements model.Replies: the durable store has it before KeepReply returns.
func (s *Store) KeepReply(ctx context.Context, graph, fp, shown string, body []byte) error {
	if err := s.durable.KeepReply(ctx, graph, fp, shown, body); err != nil {
		return err
	}
	k := graph + "/" + fp + "/" + shown
	s.memory.Set(k, body, int64(len(body)+len(k)))
	return nil
}

// None keeps nothing, for a stage without a broker.
type None struct{}

// Reply implements Durable.
func (None) Reply(context.Context, string, string, string) ([]byte, error) { return nil, nil }

// KeepReply implements Durable.
func (None) KeepReply(context.Context, string, string, string, []byte) error { return nil }
