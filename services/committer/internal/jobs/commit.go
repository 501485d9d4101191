package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxAlone documents of an atomic: document job commit together.
const maxAlone = 500

// commit applies a complete job (or, with atomic: document, the documents that are ready) at one sequence.
func (m *Machine) commit(ctx context.Context, k key, l *live, complete bool) error {
	m.mu.Lock()
	// A dead letter that was replayed since the worker looked makes the job wait again.
	complete = complete && l.complete()
	var tokens []string
	if complete {
		tokens = l.tokens()
	} else if tokens = l.alone(); len(tokens) == 0 {
		m.mu.Unlock()
		return nil
	}
	l.committing = complete
	rec, was := l.rec, l.rec
	m.mu.Unlock()

	failpoint.Hit("before_commit")
	began, traces := time.Now(), m.tracedAs(l)
	done, err := m.apply(ctx, &rec, l, tokens, complete, Hooks{})
	if err != nil {
		m.mu.Lock()
		l.committing = false
		l.rec.Done, l.rec.CommitSeq = was.Done, was.CommitSeq // what the commit would have said
		m.mu.Unlock()
		return m.commitFailed(ctx, k, l, err)
	}
	failpoint.Hit("after_commit")
	m.cfg.OnCommit(time.Since(began), len(tokens))
	m.spans(k, traces, tokens, "commit", rec.CommitSeq, "", began)
	m.mu.Lock()
	l.rec.Done, l.rec.CommitSeq = done, rec.CommitSeq
	for _, t := range tokens {
		d := l.docs[t]
		d.committed = true
		m.cached -= d.size
		d.stagedEv, d.resolvedEv, d.size = nil, nil, 0
	}
	if !complete {
		l.ready = slices.DeleteFunc(l.ready, func(t string) bool { return l.docs[t].committed })
		l.progressed = m.cfg.Now()
		m.consider(k, l)
	}
	m.mu.Unlock()
	if complete {
		m.ended(k, api.JobCommitted)
	} else {
		m.outbox(k.graph)
	}
	return nil
}

// commitFailed says what an error before the end of a commit means: no room waits, a stop leaves the job pending, a broken
// store ends the process (reopening reads the job back), anything else rolls the job back.
func (m *Machine) commitFailed(ctx context.Context, k key, l *live, err error) error {
	var stale *staleError
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &stale):
		return m.decideAnew(ctx, k, l, stale.tokens)
	case errors.Is(err, store.ErrNoSpace):
		m.cfg.Log.Warn("commit waits for free space", "graph", k.graph, "job", k.job, "error", err)
		return nil // tend queues it again
	case errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrClosed):
		return err
	default:
		m.cfg.Log.Error("commit failed", "graph", k.graph, "job", k.job, "error", err)
		m.mu.Lock()
		l.fault(graph.Failure{Stage: "committer", Item: k.job, Code: "commit_failed", Message: err.Error()})
		m.mu.Unlock()
		return m.rollback(ctx, k, l, "commit_failed: "+err.Error())
	}
}

// apply writes the documents at the next sequence and makes it current together with the job's record.
func (m *Machine) apply(ctx context.Context, rec *Record, l *live, tokens []string, complete bool, hooks Hooks) (done api.JobStatus, err error) {
	g := rec.Job.Graph
	txn, err := m.st.Begin(ctx, g)
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, txn.Abort())
		}
	}()
	done = rec.Done
	var applied []AppliedDocument
	if err := m.applyAll(ctx, txn, rec, l, tokens, &done, func(d stagedDoc, res store.DocResult) {
		if hooks.Check != nil {
			applied = append(applied, AppliedDocument{d.change.Meta.Key, d.token, res})
		}
	}, nil); err != nil {
		return done, err
	}
	if hooks.Check != nil {
		if err := hooks.Check(m.applied(rec, txn, applied, done)); err != nil {
			return done, err
		}
	}
	w, err := txn.Written()
	if err != nil {
		return done, err
	}
	storage := &done.Stages.Storage
	storage.RowsWritten, storage.RowsRemoved, storage.Bytes = storage.RowsWritten+w.Rows, storage.RowsRemoved+w.Removed, storage.Bytes+int(w.Bytes)
	failpoint.Hit("in_commit")
	rec.CommitSeq, rec.Done = txn.Seq(), done
	ops, err := m.commitOps(ctx, rec, l, tokens, complete)
	if err != nil {
		return done, err
	}
	if complete {
		ev, err := stateEvent(rec)
		if err != nil {
			return done, err
		}
		if err := txn.Emit(ev); err != nil {
			return done, err
		}
	}
	return done, hooks.finish(ctx, txn, ops)
}

// applyAll brings documents into a commit and counts what they do. edits are assertions that stand instead of the staged ones, by token.
func (m *Machine) applyAll(ctx context.Context, txn *store.Txn, rec *Record, l *live, tokens []string, done *api.JobStatus,
	took func(stagedDoc, store.DocResult), edits map[string]*events.Resolved) error {
	sch, err := m.graphs.Schema(rec.Job.Graph, rec.Job.SchemaRevision)
	if err != nil {
		return err
	}
	symmetric := func(relType string) bool { r, ok := sch.Relation(relType); return ok && r.Symmetric }
	policy := stalePolicy(sch)
	ctx, cancel := context.WithCancel(ctx)
	ahead := make(chan batch, 1)
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()
	reads.Go(func() {
		defer close(ahead)
		for left := tokens; len(left) > 0; {
			var b batch
			b.docs, left, b.stale, b.err = m.changes(rec, l, left)
			for i := range b.docs {
				d := &b.docs[i]
				if e := edits[d.token]; e != nil {
					d.change.Assertions = e.Assertions
				}
				d.change.Symmetric, d.change.Stale = symmetric, policy
				d.change.Prepare()
			}
			select {
			case ahead <- b:
			case <-ctx.Done():
				return
			}
			if b.err != nil {
				return
			}
		}
	})
	var stale []string
	for b := range ahead {
		if b.err != nil {
			return b.err
		}
		stale = append(stale, b.stale...)
		changes := make([]store.DocChange, len(b.docs))
		for i := range b.docs {
			changes[i] = b.docs[i].change
		}
		if err := txn.Ahead(ctx, changes); err != nil {
			return err
		}
		for _, d := range b.docs {
			moved, res, err := applyOne(ctx, txn, d.change, d.base)
			if err != nil {
				return fmt.Errorf("document %q: %w", d.change.Meta.Key, err)
			}
			if moved {
				stale = append(stale, d.token)
				continue
			}
			count(done, res, m.arrivedUnchanged(l, d.token))
			took(d, res)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(stale) > 0 {
		return &staleError{stale}
	}
	return nil
}

// batch are the next documents of a job, and those that were read in two states.
type batch struct {
	docs  []stagedDoc
	stale []string
	err   error
}

// What is read of a job before it is applied: at most this many documents, and no more once their texts have this size.
const (
	aheadDocs  = 128
	aheadBytes = 4 << 20
)

// stagedDoc is one document of a job, ready to be applied.
type stagedDoc struct {
	token  string
	change store.DocChange
	base   uint64
}

// changes reads the next documents of a job; rest are those it left, stale those that were read in two states.
func (m *Machine) changes(rec *Record, l *live, tokens []string) (docs []stagedDoc, rest, stale []string, err error) {
	for size := 0; len(tokens) > 0 && len(docs) < aheadDocs && size < aheadBytes; tokens = tokens[1:] {
		c, base, err := m.change(rec, l, tokens[0])
		if errors.Is(err, errMixed) {
			stale = append(stale, tokens[0])
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		docs = append(docs, stagedDoc{tokens[0], c, base})
		size += len(c.Text)
	}
	return docs, tokens, stale, nil
}

// errMixed: text and assertions of a document come from two readings of a source that changed between them.
var errMixed = errors.New("text and assertions are of different contents")

// staleError: documents moved since their decisions were taken, which need to be taken anew.
type staleError struct{ tokens []string }

func (e *staleError) Error() string { return fmt.Sprintf("%d decisions are stale", len(e.tokens)) }

// applyOne applies one document. A decision that rests on what was stored (no_op, metadata_only) is stale when that moved,
// unless the document is superseded anyway.
func applyOne(ctx context.Context, txn *store.Txn, c store.DocChange, base uint64) (stale bool, res store.DocResult, err error) {
	rests := c.Decision == graph.NoOp || c.Decision == graph.MetadataOnly
	moved := false
	if rests {
		now, err := txn.Stored(fingerprint.DocumentID(c.Meta.Key))
		if err != nil {
			return false, res, err
		}
		moved = now.Revision != base
	}
	res, err = txn.Apply(ctx, c)
	if errors.Is(err, store.ErrStale) {
		return true, res, nil
	}
	return moved && res.Outcome != store.Superseded, res, err
}

// commitOps are the job machine's own rows of a commit.
func (m *Machine) commitOps(ctx context.Context, rec *Record, l *live, tokens []string, complete bool) ([]store.Op, error) {
	if complete {
		m.mu.Lock()
		l.rec.Done, l.rec.CommitSeq = rec.Done, rec.CommitSeq
		rec.Status = l.status()
		m.mu.Unlock()
		rec.Status.Progress, rec.Status.Next = nil, ""
		m.cost(ctx, rec)
		m.end(rec, api.JobCommitted, "")
		ops, err := m.quarantineOps(rec, l)
		if err != nil {
			return nil, err
		}
		more, err := m.endOps(rec)
		return append(ops, more...), err
	}
	ops, err := m.recordOps(rec, true)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		ops = append(ops, store.Op{Graph: rec.Job.Graph, Space: spaceStaged,
			Key: stagedKey(rec.Job.ID, rec.Job.Attempt, partDone, t), Value: []byte{}})
	}
	return ops, nil
}

// change builds what one document would do, from memory or from its staged rows, and the revision its decision rests on.
func (m *Machine) change(rec *Record, l *live, token string) (store.DocChange, uint64, error) {
	m.mu.Lock()
	d := l.docs[token]
	staged, resolved, decision, base, ref := d.stagedEv, d.resolvedEv, d.decision, d.base, d.ref
	unchanged := d.parts&hasEnded != 0
	m.mu.Unlock()
	g, id, at := rec.Job.Graph, rec.Job.ID, rec.Job.Attempt
	c := store.DocChange{
		Decision: decision, SchemaFP: rec.Job.SchemaFP, SchemaName: rec.SchemaName, SchemaVersion: rec.SchemaVer,
		SchemaRevision: rec.Job.SchemaRevision, ChunkerFP: rec.Job.ChunkerFP, Job: id, NoCandidates: rec.Job.NoCandidates,
	}
	if unchanged {
		// A delete of a key that was unknown stays a delete: the key may be there by now.
		c.Decision, c.ContentHash = graph.NoOp, ref.ContentHash
		if rec.Job.Op == events.OpDelete {
			c.Decision = graph.Delete
		}
		c.Meta = graph.Meta{Key: ref.Key, SourceUpdatedAt: ref.SourceUpdatedAt}
		c.Order = orderOf(c.Meta, rec.Job.At)
		return c, base, nil
	}
	if staged == nil {
		staged = new(events.Staged)
		if err := m.readStaged(g, stagedKey(id, at, partStaged, token), staged); err != nil {
			return c, base, err
		}
	}
	c.Meta, c.Text, c.ContentHash, c.Chunks = staged.Meta, staged.Text, staged.Doc.ContentHash, staged.Chunks
	c.Order = orderOf(staged.Meta, rec.Job.At)
	if decision == graph.MetadataOnly || decision == graph.Delete {
		return c, base, nil
	}
	if resolved == nil {
		resolved = new(events.Resolved)
		if err := m.readStaged(g, stagedKey(id, at, partResolved, token), resolved); err != nil {
			return c, base, err
		}
	}
	if resolved.Doc.ContentHash != staged.Doc.ContentHash {
		return c, base, errMixed
	}
	c.Assertions, c.Dropped = resolved.Assertions, resolved.Dropped
	if len(resolved.Extraction.Failures) == 0 {
		c.ExtractionFP = rec.Job.ExtractionFP
	}
	return c, base, nil
}

// arrivedUnchanged says whether the document was counted as unchanged already.
func (m *Machine) arrivedUnchanged(l *live, token string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return l.docs[token].outcome == events.OutcomeUnchanged
}

func (m *Machine) readStaged(g string, key []byte, into any) error {
	b, err := m.st.Get(g, spaceStaged, key)
	if err != nil {
		return err
	}
	if b == nil {
		return fmt.Errorf("staged row %q is gone", key)
	}
	return decodeStaged(key, b, into)
}

func decodeStaged(key, b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("staged row %q: %w", key, err)
	}
	return nil
}

// Years whose times nanoseconds since 1970 can hold.
const (
	firstYear = 1678
	lastYear  = 2261
)

// orderOf ranks a version of its key: its source's own time, else the event's. Times so far off that they are placeholders (0001,
// 9999-12-31) rank before and after all others.
func orderOf(meta graph.Meta, at graph.Order) graph.Order {
	t, err := events.ParseTime(meta.SourceUpdatedAt)
	switch {
	case err != nil:
	case t.Year() < firstYear:
		at.Time = math.MinInt64
	case t.Year() > lastYear:
		at.Time = math.MaxInt64
	default:
		at.Time = t.UnixNano()
	}
	return at
}

// maxRemoved facts are listed in a job's result.
const maxRemoved = 200

// count adds one document's effect to the job's summary.
func count(s *api.JobStatus, r store.DocResult, counted bool) {
	if counted {
		s.Documents.Unchanged-- // it was counted when it arrived
	}
	d, mg, st := &s.Documents, &s.Stages.Merge, &s.Stages.Storage
	switch r.Outcome {
	case store.Added:
		d.Added++
	case store.Updated, store.MetaChanged:
		d.Updated++
	case store.Deleted:
		d.Deleted++
	case store.Superseded:
		d.Superseded++
	case store.Unknown, store.Unchanged:
		d.Unchanged++
	}
	mg.EntitiesCreated += r.EntitiesCreated
	mg.EntitiesUpdated += r.EntitiesUpdated
	mg.RelationsCreated += r.RelationsCreated
	mg.RelationsJoined += r.RelationsJoined
	mg.Conflicts += r.Conflicts
	st.EntitiesRemoved += r.EntitiesRemoved
	st.RelationsRemoved += r.RelationsRemoved
	st.StaleKept += r.Kept
	st.StaleAsked += r.Asked
	st.DecidedWithdrawn += r.WithdrawnDecidedTotal
	s.WithdrawnDecided = listed(s.WithdrawnDecided, r.WithdrawnDecided)
	s.Stages.Extraction.CandidatesWritten += r.CandidatesWritten
	s.Stages.Extraction.CandidatesSuppressed += r.CandidatesSuppressed
	s.Removed = listed(s.Removed, r.Removed)
}

// listed adds facts to a list, up to maxRemoved.
func listed(list, more []string) []string {
	return append(list, more[:max(0, min(len(more), maxRemoved-len(list)))]...)
}

// addDone adds what commits did to what arrived.
func addDone(s, done *api.JobStatus) {
	d, x := &s.Documents, done.Documents
	d.Added += x.Added
	d.Updated += x.Updated
	d.Deleted += x.Deleted
	d.Superseded += x.Superseded
	d.Unchanged += x.Unchanged
	st, y := &s.Stages, done.Stages
	st.Merge.EntitiesCreated += y.Merge.EntitiesCreated
	st.Merge.EntitiesUpdated += y.Merge.EntitiesUpdated
	st.Merge.RelationsCreated += y.Merge.RelationsCreated
	st.Merge.RelationsJoined += y.Merge.RelationsJoined
	st.Merge.Conflicts += y.Merge.Conflicts
	st.Storage.EntitiesRemoved += y.Storage.EntitiesRemoved
	st.Storage.RelationsRemoved += y.Storage.RelationsRemoved
	st.Storage.StaleKept += y.Storage.StaleKept
	st.Storage.StaleAsked += y.Storage.StaleAsked
	st.Storage.DecidedWithdrawn += y.Storage.DecidedWithdrawn
	st.Storage.RowsWritten += y.Storage.RowsWritten
	st.Storage.RowsRemoved += y.Storage.RowsRemoved
	st.Storage.Bytes += y.Storage.Bytes
	st.Extraction.CandidatesWritten += y.Extraction.CandidatesWritten
	st.Extraction.CandidatesSuppressed += y.Extraction.CandidatesSuppressed
	s.Removed = append(s.Removed, done.Removed...)
	s.WithdrawnDecided = append(s.WithdrawnDecided, done.WithdrawnDecided...)
}
