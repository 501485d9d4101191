package jobs

import (
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// track puts a job into memory. Callers hold mu, or own the machine alone.
func (m *Machine) track(k key, l *live) {
	m.live[k] = l
	if l.rec.Supersede {
		m.superseding[k] = true
	}
}

// supersede lets earlier uncommitted jobs give up a document that arrived in l: those before l when l says supersede, and l
// itself when a later job that says so has the document already. What was given up stays so, even when the job that took it
// rolls back. Callers hold mu.
func (m *Machine) supersede(k key, l *live, token string) ([]store.Op, error) {
	if !l.rec.Supersede && len(m.superseding) == 0 {
		return nil, nil
	}
	var ops []store.Op
	for ok, o := range m.live {
		if ok.graph != k.graph || o == l {
			continue
		}
		earlier, later, ek := o, l, ok
		if l.rec.Job.At.Seq < o.rec.Job.At.Seq {
			earlier, later, ek = l, o, k
		}
		if !later.rec.Supersede || earlier.committing || later.docs[token] == nil {
			continue
		}
		d := earlier.docs[token]
		if d == nil || d.committed || d.parts&hasEnded != 0 {
			continue
		}
		ref := d.ref
		e := &events.Ended{Job: earlier.rec.Job, Doc: &ref, Source: ref.Source, Outcome: events.OutcomeSuperseded}
		b, err := events.Encode(e)
		if err != nil {
			return nil, err
		}
		earlier.addEnded(e)
		ops = append(ops, store.Op{Graph: ek.graph, Space: spaceStaged,
			Key: stagedKey(ek.job, earlier.rec.Job.Attempt, partEnded, token), Value: b})
		m.late = append(m.late, ek)
	}
	return ops, nil
}
