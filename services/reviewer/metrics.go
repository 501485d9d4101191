package reviewer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/graph"
)

// measureEvery is how often the gauges are set; a scrape reads what was set.
const measureEvery = 10 * time.Second

// metrics of the reviewer: of the graphs that somebody asked it about, which it has read. The committer counts all
// (factmill_committer_review_items).
type metrics struct {
	pending, oldest *prometheus.GaugeVec
	graphs          prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "factmill_reviewer_pending_records", Help: "Candidate records that wait in the graphs that this reviewer has read, by kind.",
		}, []string{"kind"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "factmill_reviewer_pending_oldest_seconds", Help: "Age of the oldest of them, by kind; 0 without any.",
		}, []string{"kind"}),
		graphs: prometheus.NewGauge(prometheus.GaugeOpts{Name: "factmill_reviewer_graphs", Help: "Graphs that this reviewer has read."}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.pending, m.oldest, m.graphs} {
		err := reg.Register(c)
		if again := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &again) { // of a second reviewer in a process one tells
			errs = append(errs, fmt.Errorf("register metrics of the reviewer: %w", err))
		}
	}
	return m, errors.Join(errs...)
}

// measure sets the gauges until ctx is done.
func (s *Service) measure(ctx context.Context) {
	t := time.NewTicker(measureEvery)
	defer t.Stop()
	for {
		s.desk.measure(s.metrics, s.now())
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (d *desk) measure(m *metrics, now time.Time) {
	d.mu.Lock()
	states := make([]*state, 0, len(d.graphs))
	for _, s := range d.graphs {
		states = append(states, s)
	}
	d.mu.Unlock()
	count, since, read := map[string]int{}, map[string]string{}, 0
	for _, s := range states {
		s.mu.Lock()
		if s.model != nil {
			read++
			for kind, w := range s.model.Waits() {
				count[kind] += w.Records
				if since[kind] == "" || w.Oldest < since[kind] {
					since[kind] = w.Oldest
				}
			}
		}
		s.mu.Unlock()
	}
	m.graphs.Set(float64(read))
	for _, kind := range []string{graph.KindEntity, graph.KindRelation, graph.KindProperty} {
		age := 0.0
		if at, err := time.Parse(time.RFC3339Nano, since[kind]); err == nil {
			age = max(0, now.Sub(at).Seconds())
		}
		m.pending.WithLabelValues(kind).Set(float64(count[kind]))
		m.oldest.WithLabelValues(kind).Set(age)
	}
}
