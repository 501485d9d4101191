package reviewer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
)

// Errors after which the reviewer has to be started again: who follows a stream that is not there waits for ever, and one that was
// made anew counts from 1, far behind where the follower stands.
var (
	errStreamGone = errors.New("stream " + bus.StreamCandidates + " does not exist: run factmill provision")
	errStreamAnew = errors.New("stream " + bus.StreamCandidates + " was made anew: it has to be followed from its begin")
)

// created says when the stream of candidate events was made.
func (s *Service) created(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, err := s.conn.JS.Stream(ctx, bus.StreamCandidates)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return time.Time{}, errStreamGone
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look at stream %s: %w", bus.StreamCandidates, err)
	}
	return st.CachedInfo().Created, nil
}

// same looks after every reconnection whether the stream is the one that was made at began, and returns why not.
func (s *Service) same(ctx context.Context, began time.Time) error {
	status := s.conn.NC.StatusChanged(nats.CONNECTED)
	defer s.conn.NC.RemoveStatusListener(status)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	look := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-status:
			look = true
		case <-again.C:
		}
		if !look || !s.conn.NC.IsConnected() {
			continue
		}
		at, err := s.created(ctx)
		switch {
		case errors.Is(err, errStreamGone):
			return err
		case err == nil && !at.Equal(began):
			return errStreamAnew
		case err == nil:
			look = false
		}
	}
}
