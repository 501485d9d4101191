package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// key names a job in a store of many graphs.
type key struct{ graph, job string }

// live mirrors the staged rows of one job that has not ended. Guarded by Machine.mu.
type live struct {
	rec     Record
	sealed  bool
	named   map[string]bool // sources of the seal
	closed  int             // named sources that are closed
	sources map[string]*source
	docs    map[string]*document
	// summary grows with what arrives; the commit adds its own counts.
	summary api.JobStatus
	dropped map[dropKey]*graph.Dropped
	// doneDocs counts documents that need nothing more, ended those that ended early, of any source.
	doneDocs   int
	ended      int
	staged     int
	resolved   int
	progressed time.Time
	// committing: the commit worker has it; nothing may roll it back any more.
	committing bool
	queued     bool
	// judged: the review policy was asked about the whole job, and does not hold it.
	judged bool
	// fail is why the job must roll back, once something said so.
	fail *graph.Failure
	// ready lists documents that may commit on their own (atomic: document); markDone those that a recovery found committed.
	ready    []string
	markDone []string
	// quarantined are the ends that become quarantine records.
	quarantined []endRef
	// replayed are the parked messages whose end does not count any more, by document or source token.
	replayed map[string]string
	// trace of the message that is being staged.
	trace string
	// traces are the traceparents of what is recorded, by document token; "" is the job's.
	traces map[string]string
}

type dropKey struct{ kind, label, reason string }

// source is what is known of one source.
type source struct {
	ended    bool
	expected int
	digest   string // hex; empty: not compared
	have     int
	sum      [sha256.Size]byte
	closed   bool // ended, and all its documents are known
}

// document is what is known of one document.
type document struct {
	ref      events.DocRef
	parts    byte // bits below
	decision graph.Decision
	outcome  string // of an end
	base     uint64
	size     int
	// The decoded events while memory allows; else they are read back.
	stagedEv   *events.Staged
	resolvedEv *events.Resolved
	committed  bool
}

const (
	hasStaged byte = 1 << iota
	hasResolved
	hasEnded
)

func (d *document) done() bool {
	if d.parts&hasEnded != 0 {
		return true
	}
	if d.parts&hasStaged == 0 {
		return false
	}
	if d.decision == graph.MetadataOnly || d.decision == graph.Delete {
		return true
	}
	return d.parts&hasResolved != 0
}

func newLive(rec Record, now time.Time) *live {
	return &live{
		rec: rec, sources: map[string]*source{}, docs: map[string]*document{},
		dropped: map[dropKey]*graph.Dropped{}, replayed: map[string]string{}, traces: map[string]string{}, progressed: now,
	}
}

func (l *live) source(token string) *source {
	s := l.sources[token]
	if s == nil {
		s = &source{}
		l.sources[token] = s
	}
	return s
}

// doc registers a document at its first event. It fails the job when the same key came from another source.
func (l *live) doc(ref events.DocRef) *document {
	d := l.docs[ref.Token]
	if d == nil {
		d = &document{ref: ref}
		l.docs[ref.Token] = d
		s := l.source(ref.Source)
		s.have++
		h := sha256.Sum256([]byte(ref.Token))
		for i := range s.sum {
			s.sum[i] ^= h[i]
		}
		if ref.Sole {
			s.ended, s.expected = true, 1
		}
		l.touch(ref.Source, s)
		return d
	}
	if d.ref.Source != ref.Source {
		l.fault(graph.Failure{Stage: "committer", Item: ref.Key, Code: "duplicate_key",
			Message: fmt.Sprintf("the key %q comes from two sources of one job", ref.Key)})
	}
	return d
}

// failWith ends the job, by the first reason.
func (l *live) failWith(f graph.Failure) {
	if l.fail == nil {
		l.fail = &f
	}
}

// again takes a document back to be decided anew: what was staged of it does not count any more.
func (l *live) again(d *document) {
	if d.done() {
		l.doneDocs--
	}
	if d.parts&hasStaged != 0 {
		l.staged--
	}
	if d.parts&hasResolved != 0 {
		l.resolved--
	}
	if d.parts&hasEnded != 0 {
		l.ended--
	}
	if d.outcome == events.OutcomeUnchanged {
		l.summary.Stages.Ingestion.Unchanged--
		l.summary.Documents.Unchanged--
	}
	l.ready = slices.DeleteFunc(l.ready, func(t string) bool { return t == d.ref.Token })
	l.judged = false
	d.ref.Try++
	d.parts, d.outcome, d.decision, d.base, d.stagedEv, d.resolvedEv = 0, "", "", 0, nil, nil
}

// settled notes that d is done.
func (l *live) settled(was bool, d *document) {
	if was || !d.done() {
		return
	}
	l.doneDocs++
	if l.rec.Atomic == events.AtomicDocument && d.parts&hasEnded == 0 {
		l.ready = append(l.ready, d.ref.Token)
	}
}

// late says that a document needs nothing more: what arrives now was done twice, perhaps against stored values that moved
// meanwhile. The first decision stands, since it is checked at the commit.
func (d *document) late(try int) bool {
	return try < d.ref.Try || d.committed || d.outcome == events.OutcomeUnchanged
}

func (l *live) addStaged(e *events.Staged, size int) bool {
	d := l.doc(e.Doc)
	if d.parts&hasStaged != 0 || d.late(e.Doc.Try) {
		return false
	}
	was := d.done()
	d.parts |= hasStaged
	d.ref, d.decision, d.base, d.stagedEv = e.Doc, e.Decision, e.Base, e
	d.size += size
	l.staged++
	c := &l.summary.Stages.Chunking
	c.Chunks += len(e.Chunks)
	c.Sections += e.Sections
	c.Tables += e.Tables
	l.settled(was, d)
	return true
}

func (l *live) addResolved(e *events.Resolved, size int) bool {
	d := l.doc(e.Doc)
	if d.parts&hasResolved != 0 || d.late(e.Doc.Try) {
		return false
	}
	was := d.done()
	d.parts |= hasResolved
	d.resolvedEv = e
	d.size += size
	l.resolved++
	x := &l.summary.Stages.Extraction
	x.ChunksProcessed += e.Extraction.Processed
	x.Entities += e.Extraction.Entities
	x.Relations += e.Extraction.Relations
	x.Properties += e.Extraction.Properties
	for _, f := range e.Extraction.Failures {
		// A chunk that the rules read and a model did not is no failed chunk.
		if f.Stage == events.StageEscalation {
			l.summary.Stages.Escalation.Failures.Add(f)
			continue
		}
		x.ChunksFailed++
		x.Failures.Add(f)
	}
	reasons := 0
	for _, n := range e.Dropped {
		reasons += n.Count
		l.drop(n)
	}
	// What the resolver dropped besides has one reason each.
	x.ItemsDropped += e.Extraction.Discarded + max(0, reasons-e.Extraction.Reasons)
	x.ItemsUndecided += e.Extraction.Undecided
	l.summary.Stages.Resolution.Exact += e.Resolution.Exact
	l.summary.Stages.Resolution.Registry += e.Resolution.Registry
	l.summary.Stages.Resolution.Ambiguous += e.Resolution.Ambiguous
	l.summary.Stages.Resolution.Compared += e.Resolution.Compared
	if s := e.Escalation; s != nil {
		l.summary.Stages.Escalation.EscalationStats.Add(*s)
	}
	l.settled(was, d)
	return true
}

// addEnded counts an end. Policy raise turns a failure into the end of the job.
func (l *live) addEnded(e *events.Ended) bool {
	in := &l.summary.Stages.Ingestion
	if e.Doc != nil {
		d := l.doc(*e.Doc)
		was := d.done()
		if d.parts&hasEnded != 0 || d.late(e.Doc.Try) || was && e.Outcome != events.OutcomeSuperseded || l.taken(e, e.Doc.Token) {
			return false
		}
		d.parts |= hasEnded
		l.ended++
		d.ref = *e.Doc
		d.outcome, d.base = e.Outcome, e.Base
		l.settled(was, d)
		l.countEnd(e, 1)
		return true
	}
	s := l.source(e.Source)
	if s.ended || l.taken(e, e.Source) {
		return false
	}
	s.ended, s.expected, s.digest = true, e.Documents, e.Digest
	if e.Outcome != events.OutcomeListed {
		s.expected, s.digest = s.have, ""
	}
	l.touch(e.Source, s)
	if e.Outcome == events.OutcomeListed {
		if e.Failure != nil { // a note about documents that go on all the same
			l.failuresOf(e.Failure.Stage).Add(*e.Failure)
		}
		return true
	}
	l.countEnd(e, 1)
	in.QuarantinedItems += e.Items
	return true
}

func (l *live) countEnd(e *events.Ended, n int) {
	in, docs := &l.summary.Stages.Ingestion, &l.summary.Documents
	switch e.Outcome {
	case events.OutcomeUnchanged:
		in.Unchanged += n
		docs.Unchanged += n
	case events.OutcomeSkipped:
		in.Skipped += n
		docs.Skipped += n
	case events.OutcomeQuarantined:
		in.Quarantined += n
		docs.Quarantined += n
		l.quarantined = append(l.quarantined, refOf(e))
	case events.OutcomeFailed:
		docs.Failed += n
	case events.OutcomeSuperseded:
		docs.Superseded += n
	}
	if e.Failure == nil {
		return
	}
	l.failuresOf(e.Failure.Stage).Add(*e.Failure)
	if e.Outcome == events.OutcomeFailed && (l.rec.Job.ErrorPolicy == events.PolicyRaise || events.JobFault(e.Failure.Code)) {
		l.failWith(*e.Failure)
	}
}

// failuresOf is the summary's list for a stage's failures.
func (l *live) failuresOf(stage string) *api.Failures {
	st := &l.summary.Stages
	switch stage {
	case "chunker":
		return &st.Chunking.Failures
	case "extractor":
		return &st.Extraction.Failures
	case "resolver":
		return &st.Resolution.Failures
	case "committer":
		return &st.Storage.Failures
	default:
		return &st.Ingestion.Failures
	}
}

func (l *live) addSealed(e *events.Sealed) bool {
	if l.sealed {
		return false
	}
	l.sealed = true
	l.named = make(map[string]bool, len(e.Sources))
	for _, s := range e.Sources {
		l.named[s] = true
	}
	l.closed = 0
	for t, s := range l.sources {
		if s.closed && l.named[t] {
			l.closed++
		}
	}
	l.summary.Stages.Ingestion.Sources = len(e.Sources)
	if e.Refused != nil {
		l.fault(*e.Refused)
	}
	return true
}

// settleDone marks the documents that were committed before a restart.
func (l *live) settleDone() {
	for _, t := range l.markDone {
		if d := l.docs[t]; d != nil {
			d.committed = true
		}
	}
	l.markDone = nil
	rest := l.ready[:0]
	for _, t := range l.ready {
		if !l.docs[t].committed {
			rest = append(rest, t)
		}
	}
	l.ready = rest
}

// alone lists documents that may commit on their own now, at most maxAlone.
func (l *live) alone() []string {
	// One that was given up to a later job meanwhile is not.
	l.ready = slices.DeleteFunc(l.ready, func(t string) bool { return l.docs[t].parts&hasEnded != 0 })
	return slices.Clone(l.ready[:min(len(l.ready), maxAlone)])
}

// touch keeps the count of closed named sources.
func (l *live) touch(token string, s *source) {
	closed := s.ended && s.have >= s.expected
	if closed == s.closed {
		return
	}
	s.closed = closed
	if !l.named[token] {
		return
	}
	if closed {
		l.closed++
	} else {
		l.closed--
	}
}

// complete says whether every named source has ended and every document of it is done; an inconsistent source fails the job.
func (l *live) complete() bool {
	if !l.sealed || l.doneDocs < len(l.docs) || l.closed < len(l.named) {
		return false
	}
	for token := range l.named {
		s := l.sources[token]
		if s == nil || s.have > s.expected || s.digest != "" && s.digest != hex.EncodeToString(s.sum[:]) {
			l.fault(graph.Failure{Stage: "committer", Item: token, Code: "source_mismatch",
				Message: "the documents that arrived are not the ones that the source listed"})
			return false
		}
	}
	return true
}

// tokens lists the documents that a commit applies, sorted: those of named sources that did not end early, and those that
// were decided to be unchanged (their order mark moves, and the decision is checked).
func (l *live) tokens() []string {
	out := make([]string, 0, len(l.docs))
	for t, d := range l.docs {
		ended := d.parts&hasEnded != 0 && d.outcome != events.OutcomeUnchanged
		if !ended && !d.committed && l.named[d.ref.Source] {
			out = append(out, t)
		}
	}
	sort.Strings(out)
	return out
}

// progress of the stages as far as the committer sees them.
func (l *live) progress() []api.Progress {
	n := len(l.docs)
	return []api.Progress{
		{Stage: "loader", Done: n},
		{Stage: "chunker", Done: l.staged},
		{Stage: "extractor", Done: l.resolved, Waiting: max(0, l.staged-l.resolved)},
		{Stage: "resolver", Done: l.resolved},
		{Stage: "committer", Done: l.doneDocs, Waiting: max(0, n-l.doneDocs)},
	}
}

// status is the job as it stands.
func (l *live) status() api.JobStatus {
	r := l.rec
	r.Status = l.summary
	addDone(&r.Status, &l.rec.Done)
	r.Status.Documents.Total = len(l.docs) + l.sourcesWithout()
	r.Status.Stages.Ingestion.Documents = len(l.docs)
	r.Status.Stages.Extraction.Dropped = l.droppedList()
	r.Status.Progress = l.progress()
	r.Status.Next = l.next()
	return r.status()
}

// next says what the job waits for.
func (l *live) next() string {
	left := len(l.docs) - l.ended
	switch {
	case l.fail != nil || l.rec.State == api.JobRollingBack:
		return "the roll-back"
	case l.rec.State == api.JobHeld:
		return "a person's decision"
	case l.committing:
		return "the commit under way"
	case l.rec.Reason != "":
		return "room for the commit: " + l.rec.Reason
	case !l.sealed:
		return "the loader to list the sources"
	case l.closed < len(l.named):
		return fmt.Sprintf("the loader to fetch %d sources", len(l.named)-l.closed)
	case l.staged < left:
		return fmt.Sprintf("the chunker, for %d documents", left-l.staged)
	case l.doneDocs < len(l.docs):
		return fmt.Sprintf("the extractor and the resolver, for %d documents", len(l.docs)-l.doneDocs)
	default:
		return "the commit"
	}
}

// sourcesWithout counts sources that ended without a document: skipped, quarantined, failed.
func (l *live) sourcesWithout() int {
	n := 0
	for t, s := range l.sources {
		if s.ended && s.have == 0 && s.digest == "" && s.expected == 0 && (l.named == nil || l.named[t]) {
			n++
		}
	}
	return n
}
