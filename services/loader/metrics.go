package loader

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the loader. Names and labels stand here only.
type metrics struct {
	listed    prometheus.Counter
	documents *prometheus.CounterVec
	bytes     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		listed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "factmill_loader_sources_listed_total", Help: "Sources found for document events."}),
		documents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "factmill_loader_documents_total", Help: "Documents by what was decided for them."}, []string{"decision"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "factmill_loader_text_bytes_total", Help: "Bytes of normalised text of documents."}),
	}
	var err error
	if m.listed, err = register(reg, m.listed); err != nil {
		return nil, err
	}
	if m.documents, err = register(reg, m.documents); err != nil {
		return nil, err
	}
	m.bytes, err = register(reg, m.bytes)
	return m, err
}

// register shares a collector between replicas in one process.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	err := reg.Register(c)
	var have prometheus.AlreadyRegisteredError
	if errors.As(err, &have) {
		if same, ok := have.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("register the loader's metrics: %w", err)
	}
	return c, nil
}
