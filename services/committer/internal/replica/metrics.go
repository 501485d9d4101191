package replica

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a replica.
type Metrics struct {
	behind, lag prometheus.Gauge
	made, bytes prometheus.Counter
}

// NewMetrics registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		behind: prometheus.NewGauge(prometheus.GaugeOpts{Name: "factmill_replica_behind_batches", Help: "Batches of the committer that are not in the copy."}),
		lag:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "factmill_replica_lag_seconds", Help: "How long ago nothing was missing in the copy; 0: nothing is."}),
		made:   prometheus.NewCounter(prometheus.CounterOpts{Name: "factmill_replica_copies_total", Help: "How often the copy was made anew."}),
		bytes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "factmill_replica_received_bytes_total", Help: "Bytes that came from the committer."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.behind, m.lag, m.made, m.bytes} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the replica: %w", err)
		}
	}
	return m, nil
}

func (r *Replica) measure() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg.Metrics.behind.Set(float64(r.behind()))
	if !r.level.IsZero() {
		r.cfg.Metrics.lag.Set(r.lag().Seconds())
	}
}
