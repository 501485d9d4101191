// Package jobs is the job machine: it opens jobs, keeps their staged results invisible, knows when a job is complete, commits
// it or rolls it back, and goes on after a restart. All state is in the store; memory only mirrors it.
package jobs

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Spaces of the store that belong to the job machine.
const (
	spaceRecord  = byte('J') // job id → Record
	spaceOrder   = byte('L') // inverted event sequence, job id → nothing: newest first
	spaceLive    = byte('P') // job id → nothing: not ended
	spaceStaged  = byte('S') // job 0 attempt part token → event body
	spaceCleanup = byte('C') // job id → cleanup: what is left to do after the end
	// job id → graph.Failure: the job was cancelled before a loader opened it.
	spaceCancelled = byte('K')
)

// Record is what the store keeps of a job.
type Record struct {
	Job    events.Job `json:"job"`
	Digest string     `json:"digest"`
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"`
	Atomic string     `json:"atomic"`
	Hold   bool       `json:"hold,omitempty"`
	// HeldBy is the condition of the review policy that holds the job; empty: its event did. Revision counts how often the job was held, and
	// each edit since.
	HeldBy     string    `json:"held_by,omitempty"`
	Revision   uint64    `json:"revision,omitempty"`
	Supersede  bool      `json:"supersede,omitempty"`
	SchemaName string    `json:"schema_name"`
	SchemaVer  string    `json:"schema_version"`
	OpenedAt   time.Time `json:"opened_at"`
	Deadline   time.Time `json:"deadline,omitzero"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	CommitSeq  uint64    `json:"commit_seq,omitempty"`
	// Done is what commits of this job did so far (atomic: document commits many times).
	Done api.JobStatus `json:"done"`
	// Status is the whole summary once the job has ended or is held.
	Status api.JobStatus `json:"status"`
}

// cleanup is what is left to do outside the store after a job ended.
type cleanup struct {
	EventSeq  uint64 `json:"event_seq"`
	EventTime int64  `json:"event_time,omitempty"`
	// Purge the job's messages between the stages: it was rolled back, nobody needs them.
	Purge bool `json:"purge,omitempty"`
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

func orderKey(seq uint64, job string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, ^seq), job...)
}

// Parts of a staged document or source.
const (
	partStaged   = byte('s')
	partResolved = byte('r')
	partEnded    = byte('e')
	partSource   = byte('q') // a source's end
	partSealed   = byte('z')
	partDone     = byte('c') // atomic: document: the document is committed
	partTry      = byte('t') // the document is decided anew → its DocRef with the new try
	partTrace    = byte('o') // the traceparent under which the commit of a document, or with an empty token of the job, is recorded
	partReplay   = byte('p') // of a document or source: the parked message that is replayed
)

func stagedPrefix(job string) []byte { return append([]byte(job), 0) }

// stagedKey orders a job's rows by attempt, then parts of documents by token, so that a scan meets a document's parts together.
func stagedKey(job string, attempt int, part byte, token string) []byte {
	k := append([]byte(job), 0)
	k = binary.BigEndian.AppendUint32(k, uint32(attempt))
	switch part {
	case partSource, partSealed:
		k = append(k, part)
		return append(k, token...)
	default:
		k = append(k, 'd')
		k = append(k, token...)
		return append(k, 0, part)
	}
}

// parseStaged reads a staged key without the job prefix.
func parseStaged(k []byte) (attempt int, part byte, token string, ok bool) {
	if len(k) < 5 {
		return 0, 0, "", false
	}
	attempt = int(binary.BigEndian.Uint32(k))
	kind, rest := k[4], k[5:]
	switch kind {
	case partSource, partSealed:
		return attempt, kind, string(rest), true
	case 'd':
		if len(rest) < 2 || rest[len(rest)-2] != 0 {
			return 0, 0, "", false
		}
		return attempt, rest[len(rest)-1], string(rest[:len(rest)-2]), true
	}
	return 0, 0, "", false
}

// status makes the reply of jobs.get out of a record.
func (r *Record) status() api.JobStatus {
	s := r.Status
	s.Job, s.Graph, s.Op, s.State, s.Reason, s.Attempt = r.Job.ID, r.Job.Graph, r.Job.Op, r.State, r.Reason, r.Job.Attempt
	s.HeldBy = r.HeldBy
	s.Stages.Escalation.Mode = cmp.Or(s.Stages.Escalation.Mode, r.mode())
	s.CommitSeq, s.EventDigest = r.CommitSeq, r.Digest
	s.OpenedAt = stamp(r.OpenedAt)
	s.EndedAt = stamp(r.EndedAt)
	fill(&s)
	return s
}

// mode is how the job asks a model; empty: it asks none.
func (r *Record) mode() string {
	if set := r.Job.Settings.Extractor; set.Asks() {
		return set.Mode
	}
	return ""
}

// fill makes lists of what would be null.
func fill(s *api.JobStatus) {
	if s.Progress == nil {
		s.Progress = []api.Progress{}
	}
	if s.Stages.Extraction.Dropped == nil {
		s.Stages.Extraction.Dropped = []graph.Dropped{}
	}
	st := &s.Stages
	for _, f := range []*api.Failures{&st.Ingestion.Failures, &st.Chunking.Failures, &st.Extraction.Failures,
		&st.Escalation.Failures, &st.Resolution.Failures, &st.Merge.Failures, &st.Storage.Failures} {
		if f.List == nil {
			f.List = []graph.Failure{}
		}
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
