package chunker

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/services/chunker/internal/split"
)

// metrics of the chunker; the runner counts messages and times.
type metrics struct {
	bytes  prometheus.Counter
	chunks *prometheus.CounterVec
	empty  prometheus.Counter
}

// newMetrics registers them; a second chunker of the process shares them.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "factmill_chunker_text_bytes_total", Help: "Bytes of text that were cut.",
		}),
		chunks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "factmill_chunker_chunks_total", Help: "Chunks by what they hold.",
		}, []string{"content"}),
		empty: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "factmill_chunker_blank_documents_total", Help: "Documents without a chunk.",
		}),
	}
	return m, errors.Join(share(reg, &m.bytes), share(reg, &m.chunks), share(reg, &m.empty))
}

// share registers *c, or puts the collector there that is registered already.
func share[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var again prometheus.AlreadyRegisteredError
	if errors.As(err, &again) {
		if old, ok := again.ExistingCollector.(C); ok {
			*c = old
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("register a metric of the chunker: %w", err)
	}
	return nil
}

func (m *metrics) count(bytes int, res split.Result) {
	m.bytes.Add(float64(bytes))
	if len(res.Chunks) == 0 {
		m.empty.Inc()
	}
	for i := range res.Chunks {
		m.chunks.WithLabelValues(res.Chunks[i].Content).Inc()
	}
}
