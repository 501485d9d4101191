package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxClean jobs of one graph are cleaned up at a time.
const maxClean = 200

// left is a job that ended and what is left to do of it.
type left struct {
	job string
	cleanup
}

// cleanUp removes what jobs that ended left outside the store: messages, uploads, document events, bodies. What fails is tried
// again at the next tick.
func (m *Machine) cleanUp(ctx context.Context) {
	for _, g := range m.st.Graphs() {
		rest, err := m.left(g)
		if err == nil && len(rest) > 0 {
			err = m.clean(ctx, g, rest)
		}
		if err != nil && ctx.Err() == nil {
			m.cfg.Log.Error("clean-up", "graph", g, "error", err)
		}
	}
}

func (m *Machine) left(g string) (rest []left, err error) {
	err = m.st.Scan(g, spaceCleanup, nil, nil, maxClean, func(k, v []byte) error {
		l := left{job: string(k)}
		if err := json.Unmarshal(v, &l.cleanup); err != nil {
			return fmt.Errorf("clean-up row of job %s: %w", l.job, err)
		}
		rest = append(rest, l)
		return nil
	})
	return rest, err
}

func (m *Machine) clean(ctx context.Context, g string, rest []left) error {
	ended := make([]Ended, len(rest))
	for i, l := range rest {
		ended[i] = Ended{Graph: g, Job: l.job, Seq: l.EventSeq, Time: l.EventTime}
	}
	// The events name the uploads, so they go after them.
	if err := m.outside.DeleteUploads(ctx, ended); err != nil {
		m.cfg.Log.Debug("uploads stay for now", "graph", g, "error", err)
		return nil
	}
	var ops []store.Op
	for _, l := range rest {
		if err := m.cleanJob(ctx, g, l); err != nil {
			m.cfg.Log.Debug("a job's messages stay for now", "graph", g, "job", l.job, "error", err)
			continue
		}
		ops = append(ops, store.Op{Graph: g, Space: spaceCleanup, Key: []byte(l.job), Delete: true})
	}
	return m.st.Write(ctx, ops, false)
}

func (m *Machine) cleanJob(ctx context.Context, g string, l left) error {
	if l.Purge {
		if err := m.outside.PurgeJob(ctx, g, l.job); err != nil {
			return err
		}
	}
	if err := m.outside.DeleteEvent(ctx, g, graph.Order{Time: l.EventTime, Seq: l.EventSeq}); err != nil {
		return err
	}
	return m.outside.DeleteBodies(ctx, g, l.job)
}
