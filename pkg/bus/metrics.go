package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes in factmill_<service>_messages_total{outcome}.
const (
	outcomeHandled = "handled"
	outcomeFailed  = "failed" // the document ended: failed, skipped or quarantined
	outcomeRetried = "retried"
	outcomeDead    = "dead"
	outcomeHanded  = "handed_back" // interrupted, unserved, newer
)

type metrics struct {
	messages *prometheus.CounterVec
	faults   *prometheus.CounterVec
	seconds  prometheus.Histogram
	inFlight prometheus.Gauge
	// By stream: what waits to be delivered, what was delivered to any replica and not answered, and the bytes of the stream.
	lag, unanswered *prometheus.GaugeVec
}

// lagEvery is how often a runner asks the broker how far its consumer is; a scrape reads what was answered. Every replica tells the same:
// take the max over them.
const lagEvery = 5 * time.Second

// newMetrics registers the metrics of a service; a second runner of it shares them.
func newMetrics(reg prometheus.Registerer, service string) (*metrics, error) {
	p := "factmill_" + strings.ReplaceAll(service, "-", "_")
	m := &metrics{}
	var err error
	if m.messages, err = register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: p + "_messages_total", Help: "Messages by what became of them.",
	}, []string{"outcome"})); err != nil {
		return nil, err
	}
	if m.seconds, err = register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: p + "_handle_seconds", Help: "Time in the handler, a message or a batch.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
	})); err != nil {
		return nil, err
	}
	if m.inFlight, err = register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: p + "_in_flight", Help: "Messages held by this process.",
	})); err != nil {
		return nil, err
	}
	if m.faults, err = register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: p + "_faults_total", Help: "Errors of the handler by class: what they mean for the message.",
	}, []string{"class"})); err != nil {
		return nil, err
	}
	if m.lag, err = register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: p + "_lag_messages", Help: "Messages that wait before this service, of all replicas.",
	}, []string{"stream"})); err != nil {
		return nil, err
	}
	m.unanswered, err = register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: p + "_unacknowledged_messages", Help: "Messages that replicas of this service were given and have not answered.",
	}, []string{"stream"}))
	return m, err
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	err := reg.Register(c)
	var again prometheus.AlreadyRegisteredError
	if errors.As(err, &again) {
		if old, ok := again.ExistingCollector.(C); ok {
			return old, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("register a metric: %w", err)
	}
	return c, nil
}

func (m *metrics) took(d time.Duration) { m.seconds.Observe(d.Seconds()) }

func (m *metrics) count(outcome string) { m.messages.WithLabelValues(outcome).Inc() }
