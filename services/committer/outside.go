package committer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/dead"
	"github.com/factmill/factmill/services/committer/internal/jobs"
)

// outside is what the job machine does in the streams.
type outside struct {
	conn *bus.Conn
	desk *dead.Desk // set before the machine runs
}

const streamTimeout = 10 * time.Second

// DeleteEvent implements jobs.Outside.
func (o *outside) DeleteEvent(ctx context.Context, name string, at graph.Order) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := o.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return fmt.Errorf("delete document event %d: %w", at.Seq, err)
	}
	there, err := isEvent(ctx, s, name, at)
	if err != nil || !there {
		return err
	}
	if err := s.DeleteMsg(ctx, at.Seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("delete document event %d: %w", at.Seq, err)
	}
	return nil
}

// isEvent says whether a graph's document event lies at its sequence. Another one may lie there by now, when the stream was lost
// and made anew; its time tells.
func isEvent(ctx context.Context, s jetstream.Stream, name string, at graph.Order) (bool, error) {
	m, err := s.GetMsg(ctx, at.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for document event %d: %w", at.Seq, err)
	}
	subject, err := events.ParseSubject(m.Subject)
	return err == nil && subject.Graph == name && (at.Time == 0 || at.Time == m.Time.UnixNano()), nil
}

// Published implements audit.Published by the kept stream of audit records.
func (o *outside) Published(ctx context.Context, name string) (*events.Audit, error) {
	e, err := o.conn.Last(ctx, (&events.Audit{Graph: name}).Where().String())
	r, _ := e.(*events.Audit)
	return r, err
}

// DeleteUploads implements jobs.Outside.
func (o *outside) DeleteUploads(ctx context.Context, ended []jobs.Ended) error {
	return o.desk.DeleteUploads(ctx, ended)
}

// DeleteBodies implements jobs.Outside.
func (o *outside) DeleteBodies(ctx context.Context, graph, job string) error {
	return o.desk.DeleteBodies(ctx, graph, job)
}

// Cost implements jobs.Outside.
func (o *outside) Cost(ctx context.Context, graph, job string) (requests, tokens int, err error) {
	return o.conn.Cost(ctx, graph, job)
}

// PurgeJob implements jobs.Outside.
func (o *outside) PurgeJob(ctx context.Context, graph, job string) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	var errs []error
	for _, k := range stageKinds[:len(stageKinds)-1] {
		s, err := o.conn.JS.Stream(ctx, k.stream)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(events.Root+"."+graph+"."+k.kinds[0]+"."+job+".*"))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("purge %s of job %s: %w", k.stream, job, err))
		}
	}
	return errors.Join(errs...)
}

// stageKinds are the streams between the stages, upstream to downstream, and the kinds of event that lie in them.
var stageKinds = []struct {
	stream, durable string
	kinds           []string
}{
	{bus.StreamFound, bus.DurableLoader, []string{events.KindFound}},
	{bus.StreamLoaded, bus.DurableChunker, []string{events.KindLoaded}},
	{bus.StreamChunked, bus.DurableExtractor, []string{events.KindChunked}},
	{bus.StreamExtracted, bus.DurableResolver, []string{events.KindExtracted}},
	{bus.StreamCommit, bus.DurableCommitter, []string{events.KindStaged, events.KindResolved, events.KindEnded, events.KindSealed}},
}

// Holds implements jobs.Outside. The streams are asked upstream to downstream, so that a message that moves on meanwhile is
// seen where it arrives.
func (o *outside) Holds(ctx context.Context, graph, job string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	for _, s := range stageKinds {
		stream, err := o.conn.JS.Stream(ctx, s.stream)
		if err != nil {
			return false, fmt.Errorf("look for messages of job %s: %w", job, err)
		}
		for _, kind := range s.kinds {
			subject := events.Root + "." + graph + "." + kind + "." + job
			if kind != events.KindSealed {
				subject += ".*"
			}
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
			if err != nil {
				return false, fmt.Errorf("look for messages of job %s in %s: %w", job, s.stream, err)
			}
			if len(info.State.Subjects) == 0 {
				continue
			}
			if delivers, err := o.delivers(ctx, s.stream, s.durable); err != nil || delivers {
				return true, err
			}
		}
	}
	return o.listing(ctx, graph, job)
}

// delivers says whether a consumer has anything left to give. A server that was killed may come back with a message that its
// consumer takes for acknowledged: it lies in the stream for ever, and nobody gets it.
func (o *outside) delivers(ctx context.Context, stream, durable string) (bool, error) {
	c, err := o.conn.JS.Consumer(ctx, stream, durable)
	if err != nil {
		return false, fmt.Errorf("look at consumer %s on %s: %w", durable, stream, err)
	}
	info := c.CachedInfo()
	return info.NumPending > 0 || info.NumAckPending > 0, nil
}

// listing says whether the loader has not acknowledged the job's document event yet.
func (o *outside) listing(ctx context.Context, _, _ string) (bool, error) {
	c, err := o.conn.JS.Consumer(ctx, bus.StreamIngest, bus.DurableLoader)
	if err != nil {
		return false, fmt.Errorf("look at the loader: %w", err)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("look at the loader: %w", err)
	}
	// Which events are not acknowledged is not told: any of them counts, for as long as it takes.
	return info.NumAckPending > 0, nil
}

// EventKept implements jobs.Outside.
func (o *outside) EventKept(ctx context.Context, name string, at graph.Order) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := o.conn.JS.Stream(ctx, bus.StreamIngest)
	if err != nil {
		return false, fmt.Errorf("look for document event %d: %w", at.Seq, err)
	}
	return isEvent(ctx, s, name, at)
}

// maxLook is how many waiting document events are looked through for a named job.
const maxLook = 1000

// Pending implements jobs.Outside.
func (o *outside) Pending(ctx context.Context, graph, job string) (bool, error) {
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
		// An event whose own job id is malformed is refused under the one of its sequence.
		return events.CheckJob(jobName(m.Data, m.Header)) != nil, nil
	}
	return o.named(ctx, s, graph, job)
}

// named looks through the oldest events that wait; a client that chose the id asks soon after it published.
func (o *outside) named(ctx context.Context, s jetstream.Stream, graph, job string) (bool, error) {
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
		if jobName(m.Data, m.Header) == job {
			return true, nil
		}
		seq = m.Sequence + 1
	}
	return false, nil
}

// jobName is the id that a document event gives its job, as the loader reads it.
func jobName(body []byte, header nats.Header) string {
	var e struct {
		Job string `json:"job"`
	}
	if json.Unmarshal(body, &e) != nil || e.Job == "" {
		return header.Get("Factmill-Job")
	}
	return e.Job
}
