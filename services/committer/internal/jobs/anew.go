package jobs

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxTries of one document's decision in one attempt; a document that moves that often fails.
const maxTries = 10

// decideAnew sends documents back to the loader: their decisions rested on stored values that moved meanwhile. What was
// staged of them goes, and the events that ask for them again lie in the outbox, all in one write.
func (m *Machine) decideAnew(ctx context.Context, k key, l *live, tokens []string) error {
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	m.mu.Lock()
	job := l.rec.Job
	var ops []store.Op
	var out []events.Event
	for _, t := range tokens {
		d := l.docs[t]
		if d.ref.Try >= maxTries {
			l.fault(graph.Failure{Stage: "committer", Item: d.ref.Key, Code: "decision_unstable",
				Message: fmt.Sprintf("the document moved %d times while its decision was taken", maxTries)})
			m.mu.Unlock()
			return m.requeue(k, l)
		}
		m.cached -= d.size
		d.size = 0
		l.again(d)
		for _, p := range []byte{partStaged, partResolved, partEnded} {
			ops = append(ops, store.Op{Graph: k.graph, Space: spaceStaged, Key: stagedKey(k.job, job.Attempt, p, t), Delete: true})
		}
		b, err := encode(d.ref)
		if err != nil {
			m.mu.Unlock()
			return err
		}
		ops = append(ops, store.Op{Graph: k.graph, Space: spaceStaged, Key: stagedKey(k.job, job.Attempt, partTry, t), Value: b})
		out = append(out, &events.Found{Job: job, Source: events.Source{Token: d.ref.Source, Name: d.ref.Key, Only: d.ref.Key, Try: d.ref.Try}, Trace: l.traces[t]})
	}
	l.progressed = m.cfg.Now()
	rec, held := l.rec, l.rec.State == api.JobHeld
	m.mu.Unlock()
	if held { // until it is complete again
		rec.State, rec.Hold = api.JobPending, true
		row, err := m.recordOps(&rec, true)
		if err != nil {
			return err
		}
		ops = append(ops, row...)
	}
	more, err := m.st.OutboxOps(k.graph, out...)
	if err != nil {
		return err
	}
	if err := m.st.WriteReserved(ctx, append(ops, more...), true); err != nil {
		return fmt.Errorf("decide %d documents of job %s anew: %w", len(tokens), k.job, err)
	}
	if held {
		m.mu.Lock()
		l.rec = rec
		m.mu.Unlock()
	}
	m.outbox(k.graph)
	return nil
}

func (m *Machine) requeue(k key, l *live) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consider(k, l)
	return nil
}
