package committer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
)

// queues knows how much waits before each stage, of all jobs, and what hinders it: what a job's progress shows as waiting and why.
type queues struct {
	conn *bus.Conn
	now  func() time.Time

	mu      sync.Mutex
	at      time.Time
	waiting map[string]backlog // by stage
}

// backlog is what waits before a stage, and why a replica of it that was asked does not work on it; empty when it does.
type backlog struct {
	n   int
	why string
}

// stageQueues are the consumers whose backlog is a stage's.
var stageQueues = []struct{ stage, stream, durable string }{
	{"loader", bus.StreamFound, bus.DurableLoader}, {"chunker", bus.StreamLoaded, bus.DurableChunker},
	{"extractor", bus.StreamChunked, bus.DurableExtractor}, {"resolver", bus.StreamExtracted, bus.DurableResolver},
	{"committer", bus.StreamCommit, bus.DurableCommitter},
}

const (
	queuesFresh = 300 * time.Millisecond
	queuesLimit = time.Second
	// healthLimit is how long a stage may take to say whether it works.
	healthLimit = 250 * time.Millisecond
)

// fill puts the backlog of each stage into the progress of a job that has not ended. Where the streams do not answer in time the
// job's own counts stay.
func (q *queues) fill(ctx context.Context, s api.JobStatus) api.JobStatus {
	if api.Ended(s.State) || len(s.Progress) == 0 {
		return s
	}
	waiting := q.look(ctx)
	for i := range s.Progress {
		if b, ok := waiting[s.Progress[i].Stage]; ok {
			s.Progress[i].Waiting, s.Progress[i].Why = b.n, b.why
		}
	}
	return s
}

func (q *queues) look(ctx context.Context) map[string]backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now().Sub(q.at) < queuesFresh {
		return q.waiting
	}
	ctx, cancel := context.WithTimeout(ctx, queuesLimit)
	defer cancel()
	out := map[string]backlog{}
	for _, s := range stageQueues {
		c, err := q.conn.JS.Consumer(ctx, s.stream, s.durable)
		if err != nil {
			continue
		}
		// A consumer handle is made from its fresh information.
		info := c.CachedInfo()
		b := backlog{n: int(info.NumPending) + info.NumAckPending}
		if b.n > 0 && s.stage != "committer" {
			b.why = q.hindered(ctx, s.stage)
		}
		out[s.stage] = b
	}
	q.at, q.waiting = q.now(), out
	return out
}

// hindered asks a replica of a stage what keeps it from its work; empty when nothing does.
func (q *queues) hindered(ctx context.Context, stage string) string {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	var h bus.Health
	err := q.conn.Request(ctx, bus.HealthSubject(stage), nil, &h)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "no " + stage + " is running"
	case err != nil:
		return ""
	}
	return h.Why
}
