package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// recover rolls every job that had not ended forward to where it stood.
func (m *Machine) recover() error {
	for _, g := range m.st.Graphs() {
		var ids []string
		if err := m.st.Scan(g, spaceLive, nil, nil, 0, func(k, _ []byte) error {
			ids = append(ids, string(k))
			return nil
		}); err != nil {
			return fmt.Errorf("recover jobs of %s: %w", g, err)
		}
		for _, id := range ids {
			if err := m.recoverJob(g, id); err != nil {
				return fmt.Errorf("recover job %s of %s: %w", id, g, err)
			}
		}
	}
	return nil
}

func (m *Machine) recoverJob(g, id string) error {
	rec, err := m.record(g, id)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("the store lists a job without a record")
	}
	l := newLive(*rec, m.cfg.Now())
	k := key{g, id}
	if rec.State == api.JobRollingBack {
		m.track(k, l)
		return nil // finished by the worker
	}
	err = m.st.Scan(g, spaceStaged, stagedPrefix(id), nil, 0, func(sk, v []byte) error {
		attempt, part, token, ok := parseStaged(sk[len(stagedPrefix(id)):])
		if !ok || attempt != rec.Job.Attempt {
			return nil
		}
		return l.replay(part, token, v)
	})
	if err != nil {
		return err
	}
	l.settleDone()
	l.dropCached()
	m.track(k, l)
	m.consider(k, l)
	return nil
}

// replay puts one staged row back into memory.
func (l *live) replay(part byte, token string, v []byte) error {
	var err error
	switch part {
	case partStaged:
		e := new(events.Staged)
		if err = json.Unmarshal(v, e); err == nil {
			l.addStaged(e, 0)
		}
	case partResolved:
		e := new(events.Resolved)
		if err = json.Unmarshal(v, e); err == nil {
			l.addResolved(e, 0)
		}
	case partEnded, partSource:
		e := new(events.Ended)
		if err = json.Unmarshal(v, e); err == nil {
			l.addEnded(e)
		}
	case partSealed:
		e := new(events.Sealed)
		if err = json.Unmarshal(v, e); err == nil {
			l.addSealed(e)
		}
	case partDone:
		l.markDone = append(l.markDone, token)
	case partTrace:
		l.traces[token] = string(v)
	case partReplay:
		l.replayed[token] = string(v)
	case partTry:
		var ref events.DocRef
		if err = json.Unmarshal(v, &ref); err == nil {
			d := l.doc(ref)
			d.ref.Try = max(d.ref.Try, ref.Try)
		}
	}
	if err != nil {
		return fmt.Errorf("staged row %c of %s: %w", part, token, err)
	}
	return nil
}

func (l *live) dropCached() {
	for _, d := range l.docs {
		d.stagedEv, d.resolvedEv, d.size = nil, nil, 0
	}
}
