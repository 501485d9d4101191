package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/events"
)

// LastID returns the message id of the last message that lies on a subject; empty when none does.
func (c *Conn) LastID(ctx context.Context, subject string) (string, error) {
	m, err := c.last(ctx, subject)
	if err != nil || m == nil {
		return "", err
	}
	return m.Header.Get(events.HeaderMsgID), nil
}

// LastTime returns when the last message on a subject was stored; the zero time when none lies there.
func (c *Conn) LastTime(ctx context.Context, subject string) (time.Time, error) {
	m, err := c.last(ctx, subject)
	if err != nil || m == nil {
		return time.Time{}, err
	}
	return m.Time, nil
}

// Last returns the last event that lies on a subject; nil when none does.
func (c *Conn) Last(ctx context.Context, subject string) (events.Event, error) {
	m, err := c.last(ctx, subject)
	if err != nil || m == nil {
		return nil, err
	}
	e, err := events.Decode(m.Subject, m.Header.Get(events.HeaderSchema), m.Data)
	if err != nil {
		return nil, fmt.Errorf("read the last message on %s: %w", subject, err)
	}
	return e, nil
}

func (c *Conn) last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	at, err := events.ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	s, err := c.JS.Stream(ctx, StreamOf(at.Kind))
	if err != nil {
		return nil, fmt.Errorf("look for the last message on %s: %w", subject, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the last message on %s: %w", subject, err)
	}
	return m, nil
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
