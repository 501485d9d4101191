package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Held jobs: complete, and waiting for a person. What the person sees is made by applying the job to a commit that is aborted; what is
// accepted is applied again, compared, and made current in one commit with the decision's record.

// Held is a job that waits for a person.
type Held struct {
	Job      events.Job
	HeldBy   string // the condition that holds it; empty: its event
	Revision uint64
	OpenedAt time.Time
	Deadline time.Time // zero: none
	// Status is the job as it stands: what its stages did.
	Status api.JobStatus
	// First is the key of one of its documents.
	First string
}

// AppliedDocument is what a job did to one of its documents.
type AppliedDocument struct {
	Key    string
	Token  string
	Result store.DocResult
}

// Applied is a held job whose documents are applied to a commit that nobody sees yet.
type Applied struct {
	Held
	Txn *store.Txn
	// Documents by key, those that came apart from ends: every document that the commit looks at.
	Documents []AppliedDocument
	// Does counts what the commit does.
	Does api.JobStatus
}

// Hooks of a decision about a held job. Check sees the job applied, before anything is written; its error leaves all as it was. Finish ends a
// commit in which the machine's rows are written.
type Hooks struct {
	Check  func(Applied) error
	Finish func(ctx context.Context, txn *store.Txn, ops []store.Op) error
}

func (h Hooks) finish(ctx context.Context, txn *store.Txn, ops []store.Op) error {
	if h.Finish != nil {
		return h.Finish(ctx, txn, ops)
	}
	_, err := txn.Finish(ctx, ops)
	return err
}

// ErrAnew: documents of the job moved so that their decisions have to be taken again. It waits for that, and is held once more then.
var ErrAnew = errors.New("documents of the job moved, and are read anew")

func heldOf(l *live) Held {
	h := Held{Job: l.rec.Job, HeldBy: l.rec.HeldBy, Revision: l.rec.Revision, OpenedAt: l.rec.OpenedAt, Deadline: l.rec.Deadline, Status: l.status()}
	for _, d := range l.docs {
		if h.First == "" || d.ref.Key < h.First {
			h.First = d.ref.Key
		}
	}
	return h
}

// AllHeld lists the held jobs of a graph, by id.
func (m *Machine) AllHeld(g string) []Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Held
	for k, l := range m.live {
		if k.graph == g && l.rec.State == api.JobHeld && l.fail == nil {
			out = append(out, heldOf(l))
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Job.ID, b.Job.ID) })
	return out
}

// notHeld says why a job is not one that is decided about.
func (m *Machine) notHeld(ctx context.Context, g, id string) error {
	s, err := m.Get(ctx, g, id)
	if err != nil {
		return err
	}
	return api.Errorf(412, "job_not_held", "job %s is %s, not held", id, s.State)
}

// applied makes what hooks see.
func (m *Machine) applied(rec *Record, txn *store.Txn, docs []AppliedDocument, does api.JobStatus) Applied {
	slices.SortFunc(docs, func(a, b AppliedDocument) int { return strings.Compare(a.Key, b.Key) })
	m.mu.Lock()
	defer m.mu.Unlock()
	a := Applied{Txn: txn, Documents: docs, Does: does}
	if l := m.live[key{rec.Job.Graph, rec.Job.ID}]; l != nil {
		a.Held = heldOf(l)
	}
	return a
}

// look is a held job, its record and the documents that its commit applies.
func (m *Machine) look(ctx context.Context, k key) (l *live, rec Record, tokens []string, err error) {
	m.mu.Lock()
	l = m.live[k]
	if l == nil || l.rec.State != api.JobHeld || l.fail != nil {
		m.mu.Unlock()
		return nil, rec, nil, m.notHeld(ctx, k.graph, k.job)
	}
	defer m.mu.Unlock()
	return l, l.rec, l.tokens(), nil
}

// Try applies a held job to a commit that is aborted, and shows it. Where documents have moved so that they must be read anew, ErrAnew says so.
func (m *Machine) Try(ctx context.Context, g, id string, see func(Applied) error) error {
	k := key{g, id}
	if err := m.undecided(ctx, k); err != nil {
		return err
	}
	l, rec, tokens, err := m.look(ctx, k)
	if err != nil {
		return err
	}
	err = m.try(ctx, &rec, l, tokens, nil, see)
	m.mu.Lock()
	gone := m.live[k] != l || l.rec.State != api.JobHeld
	m.mu.Unlock()
	if err != nil && gone { // it was decided while this waited for its turn
		return m.notHeld(ctx, g, id)
	}
	return m.anew(ctx, k, l, err)
}

// undecided waits until no decision about the job is under way.
func (m *Machine) undecided(ctx context.Context, k key) error {
	deciding := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		l := m.live[k]
		return l != nil && l.committing && l.rec.State == api.JobHeld
	}
	if !deciding() {
		return nil
	}
	_, err := m.Wait(ctx, k.graph, k.job, time.Minute, func(api.JobStatus) bool { return !deciding() })
	if err == nil && deciding() {
		err = api.Errorf(429, "busy", "somebody is deciding about job %s: try again", k.job)
	}
	return err
}

// anew sends documents back whose decisions are stale, when err says so.
func (m *Machine) anew(ctx context.Context, k key, l *live, err error) error {
	var stale *staleError
	if !errors.As(err, &stale) {
		return err
	}
	if err := m.decideAnew(context.WithoutCancel(ctx), k, l, stale.tokens); err != nil {
		m.st.Fatal(err) // memory is ahead of the store now
		return err
	}
	return ErrAnew
}

func (m *Machine) try(ctx context.Context, rec *Record, l *live, tokens []string, edits map[string]*events.Resolved, see func(Applied) error) (err error) {
	txn, err := m.st.Begin(ctx, rec.Job.Graph)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, txn.Abort()) }()
	var docs []AppliedDocument
	var does api.JobStatus
	take := func(d stagedDoc, res store.DocResult) {
		docs = append(docs, AppliedDocument{d.change.Meta.Key, d.token, res})
	}
	if err := m.applyAll(ctx, txn, rec, l, tokens, &does, take, edits); err != nil {
		return err
	}
	return see(m.applied(rec, txn, docs, does))
}

// seize takes a held job for a decision: whatever arrives meanwhile leaves it alone. letGo or the job's end must follow. Who comes while another
// decision is under way waits for what comes of it.
func (m *Machine) seize(ctx context.Context, k key) (l *live, rec Record, tokens []string, err error) {
	for {
		if err := m.undecided(ctx, k); err != nil {
			return nil, rec, nil, err
		}
		l, rec, tokens, err = m.take(ctx, k)
		if !errors.Is(err, errDeciding) {
			return l, rec, tokens, err
		}
		if err := ctx.Err(); err != nil {
			return nil, rec, nil, err
		}
	}
}

// errDeciding: a decision about the job is under way.
var errDeciding = errors.New("a decision is under way")

func (m *Machine) take(ctx context.Context, k key) (l *live, rec Record, tokens []string, err error) {
	m.stageMu.Lock() // nothing is half staged
	m.mu.Lock()
	l = m.live[k]
	held := l != nil && l.rec.State == api.JobHeld && l.fail == nil
	free := held && !l.committing
	if free {
		l.committing, rec, tokens = true, l.rec, l.tokens()
	}
	m.mu.Unlock()
	m.stageMu.Unlock()
	switch {
	case free:
		return l, rec, tokens, nil
	case held:
		return nil, rec, nil, errDeciding
	}
	return nil, rec, nil, m.notHeld(ctx, k.graph, k.job)
}

// letGo gives a job back that stays held, after an error or an edit; documents that a later job wanted meanwhile go to it.
func (m *Machine) letGo(ctx context.Context, k key, l *live, was Record, err error) error {
	if errors.Is(err, store.ErrBroken) {
		return err // the outcome is unclear until the store is opened anew
	}
	m.stageMu.Lock()
	m.mu.Lock()
	l.committing = false
	l.rec.Done, l.rec.CommitSeq = was.Done, was.CommitSeq // what the commit would have said
	var ops []store.Op
	for o := range m.superseding {
		later := m.live[o]
		if later == nil || later == l || o.graph != k.graph || later.rec.Job.At.Seq < l.rec.Job.At.Seq {
			continue
		}
		for token := range later.docs {
			if l.docs[token] == nil {
				continue
			}
			more, e := m.supersede(o, later, token)
			err = errors.Join(err, e)
			ops = append(ops, more...)
		}
	}
	m.late = nil
	m.wake(k)
	m.consider(k, l)
	m.mu.Unlock()
	if len(ops) > 0 {
		if e := m.st.WriteReserved(context.WithoutCancel(ctx), ops, true); e != nil {
			m.st.Fatal(e) // memory is ahead of the store now
			err = errors.Join(err, e)
		}
	}
	m.stageMu.Unlock()
	return m.anew(ctx, k, l, err)
}

// Accept commits a held job, in one commit with what hooks.Finish adds.
func (m *Machine) Accept(ctx context.Context, g, id string, hooks Hooks) (api.JobStatus, error) {
	k := key{g, id}
	l, rec, tokens, err := m.seize(ctx, k)
	if err != nil {
		return api.JobStatus{}, err
	}
	was := rec
	failpoint.Hit("before_commit")
	began, traces := time.Now(), m.tracedAs(l)
	if _, err := m.apply(ctx, &rec, l, tokens, true, hooks); err != nil {
		return api.JobStatus{}, m.letGo(ctx, k, l, was, err)
	}
	failpoint.Hit("after_commit")
	m.cfg.OnCommit(time.Since(began), len(tokens))
	m.spans(k, traces, tokens, "commit", rec.CommitSeq, "", began)
	m.ended(k, api.JobCommitted)
	return rec.status(), nil
}

// Reject rolls a held job back, once hooks.Check has seen it; that it will be is written in the commit that hooks.Finish ends.
func (m *Machine) Reject(ctx context.Context, g, id, reason string, hooks Hooks) (api.JobStatus, error) {
	k := key{g, id}
	l, rec, tokens, err := m.seize(ctx, k)
	if err != nil {
		return api.JobStatus{}, err
	}
	was := rec
	if err = m.try(ctx, &rec, l, tokens, nil, hooks.Check); err == nil {
		m.mu.Lock()
		rec.State, rec.Reason = api.JobRollingBack, reason
		rec.Status = l.status()
		m.mu.Unlock()
		rec.Status.Progress, rec.Status.Next = nil, ""
		err = m.decided(ctx, &rec, nil, hooks)
	}
	if err != nil {
		return api.JobStatus{}, m.letGo(ctx, k, l, was, err)
	}
	failpoint.Hit("in_rollback")
	m.mu.Lock()
	l.rec, l.committing = rec, false
	m.push(k, l)
	m.mu.Unlock()
	return m.Wait(ctx, g, id, 10*time.Second, func(s api.JobStatus) bool { return api.Ended(s.State) })
}

// push queues a job for the worker. Callers hold mu.
func (m *Machine) push(k key, l *live) {
	if l.queued {
		return
	}
	l.queued = true
	m.commits = append(m.commits, k)
	select {
	case m.queue <- struct{}{}:
	default:
	}
}

// decided writes a job's record, and more rows of it, in a commit of its own that has no documents.
func (m *Machine) decided(ctx context.Context, rec *Record, more []store.Op, hooks Hooks) error {
	ops, err := m.recordOps(rec, true)
	if err != nil {
		return err
	}
	txn, err := m.st.Begin(ctx, rec.Job.Graph)
	if err != nil {
		return err
	}
	if err := hooks.finish(ctx, txn, append(ops, more...)); err != nil {
		return errors.Join(err, txn.Abort())
	}
	return nil
}

// StagedDocument is a document of a held job as its stages left it. Resolved is nil for one that is not read: a delete, other metadata.
type StagedDocument struct {
	Token    string
	Staged   *events.Staged
	Resolved *events.Resolved
}

// Read reads documents of a held job, by their keys; all of them must be of the job.
func (m *Machine) Read(ctx context.Context, g, id string, keys []string) (out []StagedDocument, err error) {
	m.mu.Lock()
	l := m.live[key{g, id}]
	if l == nil || l.rec.State != api.JobHeld {
		m.mu.Unlock()
		return nil, m.notHeld(ctx, g, id)
	}
	rec := l.rec
	at := make(map[string]string, len(l.docs))
	for token, d := range l.docs {
		at[d.ref.Key] = token
	}
	m.mu.Unlock()
	for _, k := range keys {
		token, ok := at[k]
		if !ok {
			return nil, api.Errorf(404, "document_not_found", "job %s has no document %.200q", id, k)
		}
		d := StagedDocument{Token: token}
		for part, into := range map[byte]any{partStaged: &d.Staged, partResolved: &d.Resolved} {
			if err := m.readIf(g, stagedKey(id, rec.Job.Attempt, part, token), into); err != nil {
				return nil, err
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// readIf reads a staged row, if there is one; into points to a pointer.
func (m *Machine) readIf(g string, key []byte, into any) error {
	b, err := m.st.Get(g, spaceStaged, key)
	if err != nil || b == nil {
		return err
	}
	return decodeStaged(key, b, into)
}

// Edit puts other assertions in the place of staged ones. hooks.Check sees the job as it is, change makes the edited documents by their tokens,
// then sees how the job does with them; only after that they are written, in the commit that hooks.Finish ends. The job stays held.
func (m *Machine) Edit(ctx context.Context, g, id string, hooks Hooks, change func() (map[string]*events.Resolved, error), then func(Applied) error) error {
	k := key{g, id}
	l, rec, tokens, err := m.seize(ctx, k)
	if err != nil {
		return err
	}
	was := rec
	edited, err := m.edit(ctx, &rec, l, tokens, hooks, change, then)
	if err == nil {
		m.mu.Lock()
		l.rec = rec
		for token := range edited {
			l.docs[token].resolvedEv = nil // read back
		}
		m.mu.Unlock()
	}
	return m.letGo(ctx, k, l, was, err)
}

func (m *Machine) edit(ctx context.Context, rec *Record, l *live, tokens []string, hooks Hooks, change func() (map[string]*events.Resolved, error), then func(Applied) error) (map[string]*events.Resolved, error) {
	if err := m.try(ctx, rec, l, tokens, nil, hooks.Check); err != nil {
		return nil, err
	}
	edited, err := change()
	if err != nil {
		return nil, err
	}
	rec.Revision++
	err = m.try(ctx, rec, l, tokens, edited, func(a Applied) error {
		a.Revision = rec.Revision
		return then(a)
	})
	if errors.Is(err, store.ErrBadChange) {
		return nil, api.Errorf(400, "bad_value", "edits: what is left cannot be committed: %v", err)
	}
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	for token, e := range edited {
		b, err := events.Encode(e)
		if err != nil {
			return nil, fmt.Errorf("edited document %s: %w", e.Doc.Key, err)
		}
		ops = append(ops, store.Op{Graph: rec.Job.Graph, Space: spaceStaged, Key: stagedKey(rec.Job.ID, rec.Job.Attempt, partResolved, token), Value: b})
	}
	return edited, m.decided(ctx, rec, ops, hooks)
}
