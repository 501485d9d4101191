package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/events"
)

// Decisions about candidates. Matches have words of their own.
const (
	DecideApprove = "approve"
	DecideReject  = "reject"
)

// MaxCandidates is how many candidates one request names by id or key; a query chooses as many as there are.
const MaxCandidates = 10_000

// Reasons why a candidate is skipped. A label that is refused is skipped with LabelRefused, a colon and what is wrong with it.
const (
	SkippedUnknownID      = "unknown id"
	SkippedNoCandidate    = "candidate_not_found"
	LabelRefused          = "label_refused"
	EndpointUnresolved    = "endpoint_unresolved"         // no entity, and no approved candidate, has the end's name
	EndpointAmbiguous     = "endpoint_ambiguous"          // several have
	EndpointMissing       = "endpoint_missing"            // the candidate names no end, or its entity is gone
	EndpointTypeNotSchema = "endpoint_type_not_in_schema" // the end's entity has a type that the active schema does not declare
)

// CandidateFilter chooses groups of candidates as review.list does. No kinds are all three, no states all. Hide is "current" or a whole
// schema: pending groups that it covers are left out.
type CandidateFilter struct {
	Kinds    []string        `json:"kinds,omitempty"`
	States   []string        `json:"states,omitempty"`
	Label    string          `json:"label,omitempty"`
	MinScore float64         `json:"min_score,omitempty"`
	MinCount int             `json:"min_count,omitempty"`
	Hide     json.RawMessage `json:"hide,omitempty"`
}

// CandidatesDecide decides about candidates (internal verb candidates.decide): exactly one of ids, keys and query. It acts on every record
// of a key. Many keys take several commits; the same request again goes on behind the last of them.
type CandidatesDecide struct {
	IDs      []string         `json:"ids,omitempty"`
	Keys     []string         `json:"keys,omitempty"`
	Query    *CandidateFilter `json:"query,omitempty"`
	Decision string           `json:"decision"` // approve, reject
	Actor    string           `json:"actor"`
	Reason   string           `json:"reason,omitempty"`
	Revision uint64           `json:"revision,omitempty"`
	// Fingerprint of the plan that was looked at; of one candidate.
	Fingerprint string `json:"fingerprint,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
}

// CandidatePlanGet asks what approving a candidate does, by its key or the id of a record (internal verb candidates.plan).
type CandidatePlanGet struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// CandidatePlan is what approving a candidate does, as of Seq. The plan of a rejected one is empty.
type CandidatePlan struct {
	Seq uint64 `json:"seq"`
	Key string `json:"key"`
	Planned
}

// CandidatesKinds asks what ids belong to (internal verb candidates.kinds), and what a request id decided already.
type CandidatesKinds struct {
	IDs       []string `json:"ids"`
	RequestID string   `json:"request_id,omitempty"`
}

// CandidatesKindsReply has the kinds of the ids that are known: entity, relation, property, match. An id that a record had before counts.
type CandidatesKindsReply struct {
	Kinds map[string]string `json:"kinds"`
	// Decided is the internal verb of the decision that has the request id; absent where there is none.
	Decided string `json:"decided,omitempty"`
}

// ReviewPrune asks to forget candidates, so that a later reading may propose them again: rejected ones, pending ones that nothing was
// seen of for days, pending ones seen less often than a count. What meets one of the criteria goes, approved ones never. Without apply
// it says what would go.
type ReviewPrune struct {
	Rejected             bool `json:"rejected,omitempty"`
	PendingOlderThanDays *int `json:"pending_older_than_days,omitempty"`
	PendingBelowCount    *int `json:"pending_below_count,omitempty"`
	// Keys are the only ones that may go, where they are given; at most MaxCandidates.
	Keys      []string `json:"keys,omitempty"`
	Apply     bool     `json:"apply,omitempty"`
	Actor     string   `json:"actor,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	RequestID string   `json:"request_id,omitempty"`
}

// ReviewPruneReply: matched are keys, the first ones of many; deleted counts records.
type ReviewPruneReply struct {
	Seq          uint64   `json:"seq"`
	Matched      []string `json:"matched"`
	MatchedTotal int      `json:"matched_total"`
	Deleted      int      `json:"deleted"`
	Applied      bool     `json:"applied"`
}

// CandidatesUndo takes back a rejection by the id of its audit record (internal verb candidates.undo).
type CandidatesUndo struct {
	Record    string `json:"record"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// ReviewEdit changes a pending candidate, one record by its id. Set has label (or type), text (or name, value), source_text, source_label,
// source_entity, target_text, target_label, target_entity (or source, target: {text, label, entity}, or both in endpoints), start, end (or span:
// {start, end} or [start, end]), quote: a piece of the document's text, entity (or matched_entity): the id of the entity that an entity candidate is,
// and of a property candidate properties: {name: value}.
type ReviewEdit struct {
	ID        string         `json:"id"`
	Set       map[string]any `json:"set"`
	Actor     string         `json:"actor"`
	Reason    string         `json:"reason,omitempty"`
	Revision  uint64         `json:"revision,omitempty"`
	RequestID string         `json:"request_id,omitempty"`
}

// CandidateEdited says what an edit did (internal verb candidates.edit).
type CandidateEdited struct {
	Seq      uint64 `json:"seq"`
	ID       string `json:"id"`
	Key      string `json:"key"`
	Revision uint64 `json:"revision"`
	Record   string `json:"record"` // of the audit
	// Planned is what approving the edited candidate does.
	Planned
}

// ReviewEditReply is the edited item whole; record is that of the audit.
type ReviewEditReply struct {
	ReviewShowReply
	Record string `json:"record"`
}

// ReviewAudit asks for audit records, the latest first. Item is a key or an id; From and To are RFC 3339 times. Verify checks the chain
// too.
type ReviewAudit struct {
	Operation string `json:"operation,omitempty"`
	Item      string `json:"item,omitempty"`
	Actor     string `json:"actor,omitempty"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	Record    string `json:"record,omitempty"` // one record by its id
	Limit     *int   `json:"limit,omitempty"`  // default 100, at most 1000
	Cursor    string `json:"cursor,omitempty"`
	Verify    bool   `json:"verify,omitempty"`
	// OldestFirst lists all records in the order in which they were written; nothing else may choose among them.
	OldestFirst bool `json:"oldest_first,omitempty"`
}

// ReviewAuditReply is a page, which may be shorter than its limit, be it empty: next says whether more may follow.
type ReviewAuditReply struct {
	Records []events.Audit `json:"records"`
	Total   uint64         `json:"total"` // records of the graph
	Head    string         `json:"head"`  // id of the last one
	Next    string         `json:"next,omitempty"`
	// Verified says how many records the check of the chain read, and Problems what it found; absent unless asked for.
	Verified *int      `json:"verified,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	// Operation says how far the request got that was asked for; absent where it is not remembered: none has the id, or it was refused.
	Operation *OperationStatus `json:"operation,omitempty"`
}

// OperationStatus is how far a decision got that named its intent: done, or the last of its commits so far. A request that changed nothing
// is done too, and has no records.
type OperationStatus struct {
	RequestID string `json:"request_id"`
	Verb      string `json:"verb"` // as the committer answers it
	Done      bool   `json:"done"`
	Changed   int    `json:"changed"`
	Skipped   int    `json:"skipped"`
	Seq       uint64 `json:"commit_seq"`
}
