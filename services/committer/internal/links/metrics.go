package links

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	linked, waiting *prometheus.GaugeVec
	judged          *prometheus.CounterVec
	compared        prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		linked:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_links_position", Help: "Commit sequence up to which names are compared."}, []string{"graph"}),
		waiting:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_links_waiting", Help: "Pairs that wait for a model."}, []string{"graph"}),
		judged:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "factmill_committer_links_judged_total", Help: "Pairs that a model judged."}, []string{"verdict"}),
		compared: prometheus.NewCounter(prometheus.CounterOpts{Name: "factmill_committer_links_compared_total", Help: "Pairs of names that were compared."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.linked, m.waiting, m.judged, m.compared} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of links: %w", err)
		}
	}
	return m, nil
}
