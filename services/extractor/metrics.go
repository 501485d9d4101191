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

	failures, requests, tokens *prometheus.CounterVec
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

		failures: counter("factmill_extractor_failures_total", "Chunks that were not read as they should be, by code.", "code"),
		requests: counter("factmill_extractor_model_requests_total", "Questions to a model: asked, or answered by a kept reply.", "how"),
		tokens:   counter("factmill_extractor_model_tokens_total", "Tokens of prompts and replies, as the server counts.", "of"),
	}
	return m, errors.Join(errs...)
}

func (m *metrics) count(e *events.Extracted) {
	st := e.Stats
	failed := 0
	for i := range st.Failures {
		m.failures.WithLabelValues(st.Failures[i].Code).Inc()
		if st.Failures[i].Stage == Name {
			failed++
		}
	}
	m.chunks.WithLabelValues("complete").Add(float64(st.Processed - st.Incomplete - failed))
	m.chunks.WithLabelValues("incomplete").Add(float64(st.Incomplete))
	m.chunks.WithLabelValues("failed").Add(float64(failed))
	if x := e.Escalation; x != nil {
		m.requests.WithLabelValues("asked").Add(float64(x.Requests))
		m.requests.WithLabelValues("kept").Add(float64(x.CacheHits))
		m.tokens.WithLabelValues("prompt").Add(float64(x.PromptTokens))
		m.tokens.WithLabelValues("reply").Add(float64(x.CompletionTokens))
	}
	m.items.WithLabelValues("entity").Add(float64(st.Entities))
	m.items.WithLabelValues("relation").Add(float64(st.Relations))
	m.items.WithLabelValues("property").Add(float64(st.Properties))
	for _, d := range e.Extraction.Dropped {
		m.dropped.WithLabelValues(d.Reason).Add(float64(d.Count))
	}
}
