package committer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
)

// numbersEvery is how long to wait before the ingest stream is looked at again that could not be numbered on.
const numbersEvery = 250 * time.Millisecond

// numbers keeps the ids of jobs that are named after their event's sequence from being given twice. A stream that was lost and made
// anew counts from 1 again: at the start and at every reconnection it is made to go on behind the last event that a job of this
// store came from. Until then, or when events lie in it already, jobs.Open gives a new event the number of a job that has ended.
func (s *Service) numbers(ctx context.Context) error {
	status := s.conn.NC.StatusChanged(nats.CONNECTED)
	defer s.conn.NC.RemoveStatusListener(status)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-status:
		case <-timer.C:
		}
		done, err := s.numberOn(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Debug("the ingest stream cannot be looked at now", "error", err)
		}
		if !done {
			timer.Reset(numbersEvery)
		}
	}
}

// numberOn is done when the stream's next sequence is behind those of all jobs.
func (s *Service) numberOn(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	last, err := s.jobs.LastEvent()
	if err != nil {
		return false, err
	}
	stream, err := s.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return false, err
	}
	state := stream.CachedInfo().State
	if state.LastSeq >= last {
		return true, nil
	}
	if state.Msgs > 0 {
		return false, nil // a purge would take them
	}
	purged, err := s.purgeTo(ctx, last+1)
	if err != nil {
		return false, err
	}
	s.log.Warn("the ingest stream was made anew; it goes on behind the events of known jobs", "sequence", last+1)
	if purged > 0 {
		s.log.Error("document events that arrived at that moment were lost: publish them again", "events", purged)
	}
	return true, nil
}

// purgeTo makes seq the first sequence of the empty ingest stream, and says how many messages were not so empty after all.
func (s *Service) purgeTo(ctx context.Context, seq uint64) (purged uint64, err error) {
	body, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		return 0, fmt.Errorf("encode a purge: %w", err)
	}
	m, err := s.conn.NC.RequestWithContext(ctx, "$JS.API.STREAM.PURGE."+bus.StreamIngest, body)
	if err != nil {
		return 0, fmt.Errorf("number %s on: %w", bus.StreamIngest, err)
	}
	var reply struct {
		Error  *jetstream.APIError `json:"error"`
		Purged uint64              `json:"purged"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return 0, fmt.Errorf("number %s on: %w", bus.StreamIngest, err)
	}
	if reply.Error != nil {
		return 0, fmt.Errorf("number %s on: %w", bus.StreamIngest, reply.Error)
	}
	return reply.Purged, nil
}
