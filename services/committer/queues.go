package committer

import (
	"context"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
)

// queues knows how much waits before each stage, of all jobs: what a job's progress shows as waiting.
type queues struct {
	conn *bus.Conn
	now  func() time.Time

	mu      sync.Mutex
	at      time.Time
	waiting map[string]int // by stage
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
)

// fill puts the backlog of each stage into the progress of a job that has not ended. Where the streams do not answer in time the
// job's own counts stay.
func (q *queues) fill(ctx context.Context, s api.JobStatus) api.JobStatus {
	if api.Ended(s.State) || len(s.Progress) == 0 {
		return s
	}
	waiting := q.look(ctx)
	for i := range s.Progress {
		if n, ok := waiting[s.Progress[i].Stage]; ok {
			s.Progress[i].Waiting = n
		}
	}
	return s
}

func (q *queues) look(ctx context.Context) map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now().Sub(q.at) < queuesFresh {
		return q.waiting
	}
	ctx, cancel := context.WithTimeout(ctx, queuesLimit)
	defer cancel()
	out := map[string]int{}
	for _, s := range stageQueues {
		c, err := q.conn.JS.Consumer(ctx, s.stream, s.durable)
		if err != nil {
			continue
		}
		// A consumer handle is made from its fresh information.
		info := c.CachedInfo()
		out[s.stage] = int(info.NumPending) + info.NumAckPending
	}
	q.at, q.waiting = q.now(), out
	return out
}
