// Package api holds the requests and replies of the request-reply verbs, and the table of their error codes.
package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Error is the body of a refused request: {"error":{…}}.
type Error struct {
	// Status is the Nats-Service-Error-Code: 400, 403, 404, 409, 412, 413, 429, 503.
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an error with its status and stable code.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Codes is the one table of error codes that requests are answered with, and what each means.
var Codes = map[string]string{
	"bad_json":                "400: the request is not valid JSON",
	"unknown_field":           "400: the request has a field that the verb does not know",
	"bad_value":               "400: a field has a value that it cannot have",
	"bad_name":                "400: a graph, job or other name is malformed",
	"not_allowed":             "403: the NATS user may not ask that; the message names the subject",
	"unknown_verb":            "404: there is no such verb",
	"schema_invalid":          "400: the schema has problems; details.problems lists them all",
	"settings_invalid":        "400: a setting is unknown or out of its bounds",
	"job_not_found":           "404: no job of that id is known",
	"entity_not_found":        "404: no such entity is in the graph",
	"relation_not_found":      "404: no such relation is in the graph",
	"document_not_found":      "404: no document of that key is known",
	"version_not_found":       "404: the document has no such version",
	"schema_not_found":        "404: the graph has no such schema revision",
	"candidate_not_found":     "404: no candidate of that id or key is known",
	"conflict_not_found":      "404: no conflict has that id or key: the property has one value, or may have several",
	"item_not_found":          "404: the document of the held job has no such item; show lists them",
	"stale_not_found":         "404: nobody is asked about that stale fact, or not any more",
	"match_not_found":         "404: these entities do not match, or not any more, or no match has that id or key",
	"patch_not_found":         "404: no patch of that id is remembered",
	"decision_not_found":      "404: no audit record has that id",
	"sequence_unknown":        "404: the graph has not reached that sequence",
	"entry_not_found":         "404: the registry has no such entry",
	"job_id_taken":            "409: another document event used this job id",
	"operation_reused":        "409: request_id was used for another body, or for another decision",
	"already_decided":         "409: somebody decided about the item meanwhile; details.state and details.actor say what and who",
	"stale_revision":          "409: the item moved since it was looked at",
	"stale_plan":              "409: what the decision would do is not what was looked at; details.plan and details.fingerprint are those of now",
	"external_id_taken":       "409: another entry of the type has this external id; details.problems names it",
	"decision_not_current":    "412: the decision was taken back already, or a later one stands; the message names it",
	"not_supported":           "412: this version does not decide about items of that kind; the message says about which it does",
	"not_approved":            "412: a patch is of approved candidates; details.skipped says of each id what it is",
	"patch_not_applied":       "409: the active schema lacks additions of the patch; details.missing names each",
	"not_pending":             "412: only a pending candidate can be edited",
	"job_not_held":            "412: the job is not held",
	"job_ended":               "412: the job has ended",
	"job_held":                "412: the job is held: decide on it first",
	"not_replayable":          "412: the letter or record cannot be replayed; the message says what to do instead",
	"replay_running":          "412: it is being replayed already; the message names the job",
	"dead_letter_not_found":   "404: no such dead letter",
	"too_large":               "413: the request or its reply is over the limit",
	"feed_cut":                "409: what follows that position is not kept, or it is of another history; a read replica is made anew by itself",
	"too_many_backups":        "429: that many backups are being read already; end one, or wait",
	"no_backup":               "404: there is no such backup, or no such file in it",
	"busy":                    "429: too many requests are under way; try again",
	"model_missing":           "412: the model server does not have the model that was named",
	"model_differs":           "412: the model server has another model under that name than was asked for",
	"model_unreachable":       "503: nobody answers at the model server's address, or it lets nobody in; the message names it",
	"model_busy":              "503: the model server said that it is busy, several times over; try again",
	"no_space":                "503: the free disk space is below the reserve; new work waits",
	"not_ready":               "503: the service is not ready",
	"no_vectors":              "503: the service keeps no vectors, or their embedder does not answer; the message names the way out",
	"embedder_mismatch":       "412: the graph's vectors are another embedder's: `factmill reembed` makes them anew",
	"committed_with_failures": "502: the change stands, something behind it failed and is tried again; details.report says what was done",
	"internal":                "500: something failed inside; the log says more",
}

// Wrap is the JSON body of an error reply.
func Wrap(e *Error) []byte {
	b, err := json.Marshal(map[string]*Error{"error": e})
	if err != nil {
		return []byte(`{"error":{"code":"internal","message":"the error could not be encoded"}}`)
	}
	return b
}

// Unwrap reads an error reply; nil when b is not one.
func Unwrap(b []byte) *Error {
	var w struct {
		Error *Error `json:"error"`
	}
	if json.Unmarshal(b, &w) != nil || w.Error == nil || w.Error.Code == "" {
		return nil
	}
	return w.Error
}

// Read decodes a request strictly: an unknown field is refused with its name. An empty body is {}.
func Read(body []byte, into any) *Error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return Errorf(400, "unknown_field", "unknown field %s", name)
		}
		return Errorf(400, "bad_json", "the request is not valid JSON for this verb: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Errorf(400, "bad_json", "the request has something after its end")
	}
	return nil
}

// Job states.
const (
	JobPending     = "pending"
	JobHeld        = "held"
	JobCommitted   = "committed"
	JobRollingBack = "rolling_back"
	JobRolledBack  = "rolled_back"
)

// Ended says whether a job state is final.
func Ended(state string) bool { return state == JobCommitted || state == JobRolledBack }

// StageLinker is the stage of a job's progress that compares names behind the commit; a committed job has it while it is not done.
const StageLinker = "linker"

// Settled says whether nothing more will happen for a job by itself: it has ended, and its names are compared, or something hinders that.
func Settled(s JobStatus) bool {
	for _, p := range s.Progress {
		if p.Stage == StageLinker && p.Waiting > 0 && p.Why == "" {
			return false
		}
	}
	return Ended(s.State)
}

// DocumentCounts of a job.
type DocumentCounts struct {
	Total       int `json:"total"`
	Added       int `json:"added"`
	Updated     int `json:"updated"`
	Unchanged   int `json:"unchanged"`
	Deleted     int `json:"deleted"`
	Skipped     int `json:"skipped"`
	Quarantined int `json:"quarantined"`
	Failed      int `json:"failed"`
	Superseded  int `json:"superseded"`
}

// Failures of one stage: at most 200 of them, and how many there were.
type Failures struct {
	List  []graph.Failure `json:"failures"`
	Total int             `json:"failures_total"`
}

// MaxFailures listed a stage.
const MaxFailures = 200

// Add counts a failure and keeps it while there is room.
func (f *Failures) Add(x graph.Failure) {
	f.Total++
	if len(f.List) < MaxFailures {
		f.List = append(f.List, x)
	}
}

// Stages of a job's summary.
type Stages struct {
	Ingestion  Ingestion  `json:"ingestion"`
	Chunking   Chunking   `json:"chunking"`
	Extraction Extraction `json:"extraction"`
	Escalation Escalation `json:"escalation"`
	Resolution Resolution `json:"resolution"`
	Merge      Merge      `json:"merge"`
	Storage    Storage    `json:"storage"`
}

// Ingestion counts of a job.
type Ingestion struct {
	Documents        int `json:"documents"`
	Sources          int `json:"sources"`
	Skipped          int `json:"skipped"`
	Quarantined      int `json:"quarantined"`
	Unchanged        int `json:"unchanged"`
	QuarantinedItems int `json:"quarantined_items"`
	Failures
}

// Chunking counts of a job.
type Chunking struct {
	Chunks   int `json:"chunks"`
	Sections int `json:"sections"`
	Tables   int `json:"tables"`
	Failures
}

// Extraction counts of a job.
type Extraction struct {
	ChunksProcessed      int             `json:"chunks_processed"`
	ChunksFailed         int             `json:"chunks_failed"`
	Entities             int             `json:"entities"`
	Relations            int             `json:"relations"`
	Properties           int             `json:"properties"`
	Dropped              []graph.Dropped `json:"dropped"`
	CandidatesWritten    int             `json:"candidates_written"`
	CandidatesSuppressed int             `json:"candidates_suppressed"`
	// Items are counted once here, in Dropped once a reason: those that were only counted, and those that a person could decide on, whether
	// or not candidates are kept.
	ItemsDropped   int `json:"items_dropped"`
	ItemsUndecided int `json:"items_undecided"`
	Failures
}

// Escalation counts of a job.
type Escalation struct {
	events.EscalationStats
	// What the job has cost in all its attempts and over all replicas, also where nothing came of it.
	SpentRequests int `json:"spent_requests"`
	SpentTokens   int `json:"spent_tokens"`
	Failures
}

// Matched counts links by method.
type Matched struct {
	Fuzzy     int `json:"fuzzy"`
	Embedding int `json:"embedding"`
	LLM       int `json:"llm"`
}

// Resolution counts of a job. Exact counts every mention; of those, Registry took the identity of a known entity, and Ambiguous
// have a name that several known entities have, so they kept their own.
type Resolution struct {
	Exact       int     `json:"exact"`
	Registry    int     `json:"registry"`
	Ambiguous   int     `json:"ambiguous"`
	Compared    int     `json:"compared"`
	Matched     Matched `json:"matched"`
	Unclear     int     `json:"unclear"`
	LLMRequests int     `json:"llm_requests"`
	LLMFailed   int     `json:"llm_failed"`
	CapLeft     int     `json:"cap_left"`
	// LLMLeft pairs wait for a later job, whose budget of model requests has room for them.
	LLMLeft int `json:"llm_left"`
	Failures
}

// Merge counts of a job.
type Merge struct {
	EntitiesCreated  int `json:"entities_created"`
	EntitiesUpdated  int `json:"entities_updated"`
	RelationsCreated int `json:"relations_created"`
	RelationsJoined  int `json:"relations_joined"`
	Conflicts        int `json:"conflicts"`
	Failures
}

// Storage counts of a job.
type Storage struct {
	RowsWritten      int `json:"rows_written"`
	RowsRemoved      int `json:"rows_removed"`
	EntitiesRemoved  int `json:"entities_removed"`
	RelationsRemoved int `json:"relations_removed"`
	// StaleKept counts facts that a new version no longer states, or a deleted document stated, and that stay; about StaleAsked of them a
	// person is asked.
	StaleKept  int `json:"stale_kept"`
	StaleAsked int `json:"stale_asked"`
	// DecidedWithdrawn counts facts that a person had decided and that lost the support of a document that was deleted, or whose schema does
	// not declare them any more.
	DecidedWithdrawn int `json:"decided_withdrawn"`
	Bytes            int `json:"bytes"`
	Failures
}

// Progress of one stage while a job runs.
type Progress struct {
	Stage   string `json:"stage"`
	Done    int    `json:"done"`
	Waiting int    `json:"waiting"`
	// Why a replica of the stage that was asked does not work on it; empty when it does.
	Why string `json:"why,omitempty"`
}

// JobStatus is the reply of jobs.get.
type JobStatus struct {
	Job       string         `json:"job"`
	Graph     string         `json:"graph"`
	Op        string         `json:"op"`
	State     string         `json:"state"`
	Reason    string         `json:"reason"`
	Attempt   int            `json:"attempt"`
	Documents DocumentCounts `json:"documents"`
	Stages    Stages         `json:"stages"`
	Progress  []Progress     `json:"progress"`
	// Next is what a job that has not ended waits for, in words.
	Next    string   `json:"next,omitempty"`
	Removed []string `json:"removed,omitempty"` // facts that went, in words; at most 200
	// WithdrawnDecided are the facts that Storage.DecidedWithdrawn counts, in words; at most 200.
	WithdrawnDecided []string `json:"withdrawn_decided,omitempty"`
	CommitSeq        uint64   `json:"commit_seq"`
	// EventDigest is the SHA-256 of the document event's body: whose job this is when an id was chosen twice.
	EventDigest string `json:"event_digest,omitempty"`
	// HeldBy is the condition of the review policy that holds the job, or held it; absent where its event asked for that.
	HeldBy   string `json:"held_by,omitempty"`
	OpenedAt string `json:"opened_at"`
	EndedAt  string `json:"ended_at"`
}

// Failed says how many documents did not make it: exit code 4.
func (s JobStatus) Failed() int {
	return s.Documents.Skipped + s.Documents.Quarantined + s.Documents.Failed
}

// JobGet asks for one job; Wait (a duration) waits for its end, or for it to be held.
type JobGet struct {
	Job  string `json:"job"`
	Wait string `json:"wait,omitempty"`
}

// JobList asks for jobs, newest first.
type JobList struct {
	State  string `json:"state,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// JobListReply lists jobs.
type JobListReply struct {
	Jobs []JobStatus `json:"jobs"`
	Next string      `json:"next,omitempty"`
}

// JobCancel rolls a job back that has not committed.
type JobCancel struct {
	Job       string `json:"job"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// JobAccept lets a held job commit exactly the plan that was looked at, whose Fingerprint it quotes.
type JobAccept struct {
	Job         string `json:"job"`
	Fingerprint string `json:"fingerprint"`
	Actor       string `json:"actor"`
	Reason      string `json:"reason,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
}

// JobOpen is what the loader asks the committer when it accepts a document event (internal verb jobs.open).
type JobOpen struct {
	Job         string      `json:"job"`
	Digest      string      `json:"digest"` // SHA-256 of the event's body
	At          graph.Order `json:"at"`
	Op          string      `json:"op"`
	ErrorPolicy string      `json:"error_policy"`
	Atomic      string      `json:"atomic"`
	Force       bool        `json:"force,omitempty"`
	Candidates  bool        `json:"candidates"`
	Hold        bool        `json:"hold,omitempty"`
	Supersede   bool        `json:"supersede,omitempty"`
	Deadline    string      `json:"deadline,omitempty"`
	// Refused opens the job only to roll it back: why the event cannot run.
	Refused *graph.Failure `json:"refused,omitempty"`
}

// JobOpenReply tells the loader under which settings the job runs. State other than pending: nothing is left to do.
type JobOpenReply struct {
	State string     `json:"state"`
	Job   events.Job `json:"job"`
}

// StoredGet asks for what the graph stores of documents (internal verb query.stored), by key.
type StoredGet struct {
	Keys []string `json:"keys"`
}

// StoredReply has one entry a key, in order.
type StoredReply struct {
	Stored []graph.Stored `json:"stored"`
}
