package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/events"
)

// LastID returns the message id of the last message that lies on a subject; empty when none does.
func (c *Conn) LastID(ctx context.Context, subject string) (string, error) {
	at, err := events.ParseSubject(subject)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	s, err := c.JS.Stream(ctx, StreamOf(at.Kind))
	if err != nil {
		return "", fmt.Errorf("look for the last message on %s: %w", subject, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the last message on %s: %w", subject, err)
	}
	return m.Header.Get(events.HeaderMsgID), nil
}

// Reconnected tells of every reconnection until stop is called.
func (c *Conn) Reconnected() (again <-chan nats.Status, stop func()) {
	ch := c.NC.StatusChanged(nats.CONNECTED)
	return ch, func() { c.NC.RemoveStatusListener(ch) }
}

// Kept says whether events of a kind stay in their stream for whoever reads them later.
func Kept(kind string) bool {
	switch StreamOf(kind) {
	case StreamJobs, StreamCandidates, StreamChanges, StreamAudit:
		return true
	default:
		return false
	}
}
