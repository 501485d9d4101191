package reviewer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// load is the reading of all of a graph's records, which of a million takes longer than a request may.
type load struct {
	records atomic.Int64  // so far
	done    chan struct{} // closed when it has ended
	err     error         // read behind done
}

// loaded waits until the graph's model was read from the committer, unless it includes the wanted event already. Requests share one
// load, and it goes on when they have waited as long as they may: the next ones find it further.
func (d *desk) loaded(ctx context.Context, graph string, s *state, want uint64) error {
	s.mu.Lock()
	if s.model != nil && s.model.No >= want {
		s.mu.Unlock()
		return nil
	}
	l := s.load
	if l == nil {
		l = &load{done: make(chan struct{})}
		s.load, s.early = l, nil
		d.loads.Go(func() { d.fill(graph, s, l) })
	}
	s.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return api.Errorf(503, "not_ready", "the review desk still reads the candidates of graph %s (%d so far): ask again in a moment", graph, l.records.Load())
	}
	return ctx.Err()
}

// fill reads the graph's records into a new model.
func (d *desk) fill(graph string, s *state, l *load) {
	m, err := d.read(graph, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		for _, e := range s.early {
			if !m.Apply(e) {
				break
			}
		}
		s.model = m
		close(s.moved)
		s.moved = make(chan struct{})
	}
	s.load, s.early, l.err = nil, nil, err
	close(l.done)
}

func (d *desk) read(graph string, l *load) (m *model.Graph, err error) {
	req := api.RecordsGet{}
	for {
		page, err := d.committer.Records(d.base, graph, req)
		if err != nil {
			return nil, fmt.Errorf("load candidates of %s: %w", graph, err)
		}
		if m == nil {
			m = model.New(page.Seq, page.No)
		}
		for _, r := range page.Records {
			m.Put(r)
		}
		l.records.Add(int64(len(page.Records)))
		if page.Next == "" {
			m.Settle()
			return m, nil
		}
		req.Seq, req.Cursor = page.Seq, page.Next
	}
}
