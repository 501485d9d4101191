// Package bare does the same amounts of work without Factmill: what its messages cost in JetStream alone, and its rows in Pebble alone.
package bare

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/events"
)

// Amount of messages.
type Amount struct {
	Messages, Bytes int
}

// Traffic is how much travelled, by kind (doc.loaded, job.sealed).
type Traffic map[string]Amount

// Messages of all kinds.
func (t Traffic) Messages() (n int) {
	for _, a := range t {
		n += a.Messages
	}
	return n
}

// Bytes of all kinds.
func (t Traffic) Bytes() (n int) {
	for _, a := range t {
		n += a.Bytes
	}
	return n
}

// Listen counts the stage events and kept events from now on; the returned function ends it.
func Listen(nc *nats.Conn) (end func() (Traffic, error), err error) {
	var mu sync.Mutex
	t := Traffic{}
	sub, err := nc.Subscribe(events.Root+".*.>", func(m *nats.Msg) {
		at, err := events.ParseSubject(m.Subject)
		if err != nil || m.Header.Get(nats.MsgIdHdr) == "" { // a request
			return
		}
		mu.Lock()
		defer mu.Unlock()
		a := t[at.Kind]
		a.Messages++
		a.Bytes += m.Size()
		t[at.Kind] = a
	})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := nc.Flush(); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return func() (Traffic, error) {
		if err := nc.Flush(); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		if err := sub.Unsubscribe(); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		return t, nil
	}, nil
}

// stage says whether messages of a kind lie between two stages.
func stage(kind string) bool { return strings.HasPrefix(kind, "doc.") }
