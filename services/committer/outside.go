package committer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// outside is what the job machine does in the streams.
type outside struct{ conn *bus.Conn }

const streamTimeout = 10 * time.Second

// DeleteEvent implements jobs.Outside.
func (o outside) DeleteEvent(ctx context.Context, graph string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := o.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return fmt.Errorf("delete document event %d: %w", seq, err)
	}
	// The sequence may be another graph's by now, when the stream was made anew: look first.
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete document event %d: %w", seq, err)
	}
	if at, err := events.ParseSubject(m.Subject); err != nil || at.Graph != graph {
		return nil
	}
	if err := s.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("delete document event %d: %w", seq, err)
	}
	return nil
}

// DeleteBodies implements jobs.Outside.
func (o outside) DeleteBodies(ctx context.Context, graph, job string) error {
	_, err := o.conn.DeleteBodies(ctx, graph, job, nil)
	return err
}

// PurgeJob implements jobs.Outside.
func (o outside) PurgeJob(ctx context.Context, graph, job string) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	var errs []error
	for stream, kind := range map[string]string{
		bus.StreamFound: events.KindFound, bus.StreamLoaded: events.KindLoaded, bus.StreamChunked: events.KindChunked,
		bus.StreamExtracted: events.KindExtracted,
	} {
		s, err := o.conn.JS.Stream(ctx, stream)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(events.Root+"."+graph+"."+kind+"."+job+".*"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("purge %s of job %s: %w", stream, job, err))
		}
	}
	return errors.Join(errs...)
}

// maxLook is how many waiting document events are looked through for a named job.
const maxLook = 1000

// Pending implements jobs.Outside.
func (o outside) Pending(ctx context.Context, graph, job string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := o.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return false, fmt.Errorf("look for job %s: %w", job, err)
	}
	if seq, ok := events.ParseSeqJob(job); ok {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for job %s: %w", job, err)
		}
		at, err := events.ParseSubject(m.Subject)
		if err != nil || at.Graph != graph {
			return false, nil
		}
		return jobName(m.Data) == "", nil
	}
	return o.named(ctx, s, graph, job)
}

// named looks through the oldest events that wait; a client that chose the id asks soon after it published.
func (o outside) named(ctx context.Context, s jetstream.Stream, graph, job string) (bool, error) {
	subject := events.Subject{Graph: graph, Kind: events.KindIngest}.String()
	seq := uint64(1)
	for range maxLook {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for job %s: %w", job, err)
		}
		if jobName(m.Data) == job || m.Header.Get("Factmill-Job") == job {
			return true, nil
		}
		seq = m.Sequence + 1
	}
	return false, nil
}

func jobName(body []byte) string {
	var e struct {
		Job string `json:"job"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return e.Job
}
