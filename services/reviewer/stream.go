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

// errStreamGone ends the reviewer: the events of a stream that nobody provisioned are kept nowhere.
var errStreamGone = errors.New("stream " + bus.StreamCandidates + " does not exist: run factmill provision")

// there says whether the stream of candidate events is.
func (s *Service) there(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := s.conn.JS.Stream(ctx, bus.StreamCandidates)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errStreamGone
	}
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", bus.StreamCandidates, err)
	}
	return nil
}

// watch has the desk forget its models after every reconnection, since events may have passed meanwhile, and returns an error when the
// stream is gone.
func (s *Service) watch(ctx context.Context) error {
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
			s.desk.forget()
			look = true
		case <-again.C:
		}
		if !look || !s.conn.NC.IsConnected() {
			continue
		}
		switch err := s.there(ctx); {
		case errors.Is(err, errStreamGone):
			return err
		case err == nil:
			look = false
		}
	}
}
