package resolver

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/services/resolver/internal/resolve"
)

// metrics of the resolver; the runner counts messages and times.
type metrics struct {
	mentions   prometheus.Counter
	known      prometheus.Counter
	ambiguous  prometheus.Counter
	relations  prometheus.Counter
	candidates prometheus.Counter
	selfLoops  prometheus.Counter
}

// newMetrics registers them; a second resolver of the process shares them.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		mentions:   counter("mentions_total", "Mentions resolved by exact name."),
		known:      counter("known_total", "Mentions that took the identity of a known entity."),
		ambiguous:  counter("ambiguous_total", "Mentions whose name several known entities have."),
		relations:  counter("relations_total", "Relation assertions between resolved entities."),
		candidates: counter("candidates_total", "Candidate records."),
		selfLoops:  counter("self_loops_total", "Relations dropped because both ends are one entity."),
	}
	return m, errors.Join(share(reg, &m.mentions), share(reg, &m.known), share(reg, &m.ambiguous),
		share(reg, &m.relations), share(reg, &m.candidates), share(reg, &m.selfLoops))
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "factmill_resolver_" + name, Help: help})
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
		return fmt.Errorf("register a metric of the resolver: %w", err)
	}
	return nil
}

func (m *metrics) count(res resolve.Result) {
	relations := 0
	for i := range res.Assertions.Chunks {
		relations += len(res.Assertions.Chunks[i].Relations)
	}
	m.mentions.Add(float64(res.Mentions))
	m.known.Add(float64(res.Known))
	m.ambiguous.Add(float64(res.Ambiguous))
	m.relations.Add(float64(relations))
	m.candidates.Add(float64(len(res.Assertions.Candidates)))
	m.selfLoops.Add(float64(res.SelfLoops))
}
