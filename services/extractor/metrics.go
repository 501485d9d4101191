package extractor

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/events"
)

// metrics of the extractor; the runner counts messages and times.
type metrics struct {
	chunks  *prometheus.CounterVec
	items   *prometheus.CounterVec
	dropped *prometheus.CounterVec
}

// newMetrics registers the metrics; several extractors of one process share them.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var errs []error
	counter := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		err := reg.Register(c)
		var again prometheus.AlreadyRegisteredError
		if errors.As(err, &again) {
			if old, ok := again.ExistingCollector.(*prometheus.CounterVec); ok {
				return old
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("register %s: %w", name, err))
		}
		return c
	}
	m := &metrics{
		chunks:  counter("factmill_extractor_chunks_total", "Chunks by how they were read.", "state"),
		items:   counter("factmill_extractor_items_total", "Kept items by kind.", "kind"),
		dropped: counter("factmill_extractor_discarded_total", "Reasons of items that were not kept.", "reason"),
	}
	return m, errors.Join(errs...)
}

func (m *metrics) count(e *events.Extracted) {
	st := e.Stats
	m.chunks.WithLabelValues("complete").Add(float64(st.Processed - st.Incomplete - len(st.Failures)))
	m.chunks.WithLabelValues("incomplete").Add(float64(st.Incomplete))
	m.chunks.WithLabelValues("failed").Add(float64(len(st.Failures)))
	m.items.WithLabelValues("entity").Add(float64(st.Entities))
	m.items.WithLabelValues("relation").Add(float64(st.Relations))
	m.items.WithLabelValues("property").Add(float64(st.Properties))
	for _, d := range e.Extraction.Dropped {
		m.dropped.WithLabelValues(d.Reason).Add(float64(d.Count))
	}
}
