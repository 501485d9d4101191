package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// What a job put aside: quarantine records at its end, and dead letters that are replayed while it still waits.

// endRef names the staged row of an end.
type endRef struct {
	part  byte
	token string
}

func refOf(e *events.Ended) endRef {
	if e.Doc != nil {
		return endRef{partEnded, e.Doc.Token}
	}
	return endRef{partSource, e.Source}
}

// quarantineOps makes a record of every end that says quarantined. They are written with the end of the job.
func (m *Machine) quarantineOps(rec *Record, l *live) ([]store.Op, error) {
	m.mu.Lock()
	refs := slices.Clone(l.quarantined)
	m.mu.Unlock()
	records := make([]quarantine.Record, 0, len(refs))
	for _, r := range refs {
		e := new(events.Ended)
		if err := m.readStaged(rec.Job.Graph, stagedKey(rec.Job.ID, rec.Job.Attempt, r.part, r.token), e); err != nil {
			return nil, err
		}
		records = append(records, quarantine.Of(e, rec.CommitSeq, m.cfg.Now()))
	}
	slices.SortFunc(records, func(a, b quarantine.Record) int { return cmp.Compare(a.Key, b.Key) })
	return quarantine.Ops(rec.Job.Graph, rec.CommitSeq, records)
}

// Brief is what others need to know of a job.
type Brief struct {
	State  string // empty for an unknown job
	Reason string
	Seq    uint64 // of its last commit
}

// Brief looks a job up without its summary.
func (m *Machine) Brief(g, id string) (Brief, error) {
	m.mu.Lock()
	if l := m.live[key{g, id}]; l != nil {
		defer m.mu.Unlock()
		return Brief{l.rec.State, l.rec.Reason, l.rec.CommitSeq}, nil
	}
	m.mu.Unlock()
	rec, err := m.record(g, id)
	if err != nil || rec == nil {
		return Brief{}, err
	}
	return Brief{rec.State, rec.Reason, rec.CommitSeq}, nil
}

// Reopen takes back the end that a dead letter's message got when it was parked, so that its job waits for it again: it is about
// to be replayed. e is the message's event, parked its name. It returns the job's state: only in a pending job was anything
// reopened. A crash before the message is published leaves a job that waits for nothing; its lease starts it again.
func (m *Machine) Reopen(ctx context.Context, e events.Event, parked string) (state string, err error) {
	job := bus.JobOf(e)
	if job == nil {
		return "", fmt.Errorf("reopen %s: it belongs to no job", e.Where())
	}
	m.stageMu.Lock()
	defer m.stageMu.Unlock()
	m.mu.Lock()
	l := m.live[key{job.Graph, job.ID}]
	if l == nil {
		m.mu.Unlock()
		b, err := m.Brief(job.Graph, job.ID)
		return b.State, err
	}
	if err := l.reopenable(job); err != nil {
		defer m.mu.Unlock()
		return l.rec.State, err
	}
	end := bus.EndedFor(e, events.OutcomeFailed, graph.Failure{})
	if end == nil { // an end or a seal: nothing ended with it
		m.mu.Unlock()
		return api.JobPending, nil
	}
	at := refOf(end)
	was := new(events.Ended)
	row, err := m.st.Get(job.Graph, spaceStaged, stagedKey(job.ID, job.Attempt, at.part, at.token))
	if err == nil && row != nil {
		err = json.Unmarshal(row, was)
	}
	if err != nil {
		m.mu.Unlock()
		return "", fmt.Errorf("reopen %s: %w", e.Where(), err)
	}
	ops := []store.Op{{Graph: job.Graph, Space: spaceStaged, Key: stagedKey(job.ID, job.Attempt, partReplay, at.token), Value: []byte(parked)}}
	if row != nil && was.Parked == parked {
		l.unend(was)
		ops = append(ops, store.Op{Graph: job.Graph, Space: spaceStaged, Key: stagedKey(job.ID, job.Attempt, at.part, at.token), Delete: true})
	}
	l.replayed[at.token] = parked
	l.progressed = m.cfg.Now()
	m.consider(key{job.Graph, job.ID}, l)
	m.mu.Unlock()
	// Not cut short by whoever asked: memory is ahead already.
	if err := m.st.Write(context.WithoutCancel(ctx), ops, true); err != nil {
		err = fmt.Errorf("reopen %s: %w", e.Where(), err)
		m.st.Fatal(err) // memory is ahead of the store now
		return "", err
	}
	return api.JobPending, nil
}

// reopenable refuses jobs in which nothing can be taken back now.
func (l *live) reopenable(job *events.Job) error {
	switch {
	case l.rec.State == api.JobHeld:
		return api.Errorf(412, "job_held", "job %s is held: decide on it, then replay", job.ID)
	case l.committing || l.fail != nil || l.rec.State != api.JobPending:
		return api.Errorf(429, "busy", "job %s is about to end: try again", job.ID)
	case job.Attempt < l.rec.Job.Attempt:
		return api.Errorf(412, "not_replayable", "job %s has started again since (attempt %d), which repeats everything: drop the letter", job.ID, l.rec.Job.Attempt)
	}
	return nil
}

// taken says that an end came from a message that is replayed.
func (l *live) taken(e *events.Ended, token string) bool {
	return e.Parked != "" && l.replayed[token] == e.Parked
}

// unend takes back that something ended failed, and what was counted for it.
func (l *live) unend(e *events.Ended) {
	l.judged = false
	if e.Doc != nil {
		d := l.docs[e.Doc.Token]
		if d == nil || d.parts&hasEnded == 0 {
			return
		}
		d.parts &^= hasEnded
		d.outcome = ""
		if !d.done() {
			l.doneDocs--
		} else if l.rec.Atomic == events.AtomicDocument {
			l.ready = append(l.ready, d.ref.Token)
		}
	} else {
		s := l.source(e.Source)
		if !s.ended {
			return
		}
		s.ended, s.expected = false, 0
		l.touch(e.Source, s)
	}
	l.summary.Documents.Failed--
	if e.Failure == nil {
		return
	}
	list := l.failuresOf(e.Failure.Stage)
	list.Total--
	if i := slices.Index(list.List, *e.Failure); i >= 0 {
		list.List = slices.Delete(slices.Clone(list.List), i, i+1)
	}
}

// fault ends the job by something that no document's end has listed: the summary names it.
func (l *live) fault(f graph.Failure) {
	if l.fail != nil {
		return
	}
	if f.TraceID == "" {
		f.TraceID = l.trace
	}
	l.failuresOf(f.Stage).Add(f)
	l.failWith(f)
}
