package api

import "github.com/factmill/factmill/pkg/events"

// KindJob is the kind of held jobs among the kinds of review items.
const KindJob = "job"

// Reasons of held jobs.
const (
	ReasonHold       = "hold"   // the document event asked for it
	ReasonHoldPolicy = "policy" // a condition of the review policy did
)

// The decisions about a held job; DecideReject is one too.
const (
	DecideAccept   = events.DecisionAccept
	DecideSendBack = events.DecisionSendBack
)

// MaxEdits is how many edits one request sends a job back with.
const MaxEdits = 100

// JobKey is the key of the review item of a held job.
func JobKey(job string) string { return KindJob + "|" + job }

// HeldList asks for held jobs as groups of the review list (internal verb held.list): text is the job, label its operation, count and documents
// its documents, ids the job's id. All of them are pending. Limit 0 asks for the count only.
type HeldList struct {
	IDs      []string `json:"ids,omitempty"` // the only ones, where they are given
	Label    string   `json:"label,omitempty"`
	MinScore float64  `json:"min_score,omitempty"` // jobs have no confidence: above 0 none is listed
	MinCount int      `json:"min_count,omitempty"`
	Limit    int      `json:"limit,omitempty"`
	After    *Place   `json:"after,omitempty"`
}

// HeldListReply is a page. More says that groups follow; Total counts all that the filter chooses, Waiting those of the graph.
type HeldListReply struct {
	Seq     uint64  `json:"seq"`
	Groups  []Group `json:"groups"`
	Total   int     `json:"total"`
	Waiting int     `json:"waiting"`
	More    bool    `json:"more,omitempty"`
}

// HeldGet asks for one held job by id or key (internal verb held.get). Document chooses the document whose items are listed.
type HeldGet struct {
	ID       string `json:"id,omitempty"`
	Key      string `json:"key,omitempty"`
	Document string `json:"document,omitempty"`
}

// HeldReply is one held job whole.
type HeldReply struct {
	Seq     uint64         `json:"seq"`
	Item    Group          `json:"item"`
	Job     JobItem        `json:"job"`
	History []events.Audit `json:"history"`
	Planned
}

// JobItem is what a held job would do.
type JobItem struct {
	Job    string `json:"job"`
	Op     string `json:"op"`
	HeldBy string `json:"held_by,omitempty"` // the condition of the review policy that holds it
	// Deadline after which the job is rolled back, decided or not; absent: it waits as long as it takes.
	OpenedAt string `json:"opened_at"`
	Deadline string `json:"deadline,omitempty"`
	// Does counts what accepting it would do.
	Does JobDoes `json:"does"`
	// Documents that it changes, by key, with what was read out of them: those that fit. DocumentsTotal counts all.
	Documents      []JobDocument `json:"documents"`
	DocumentsTotal int           `json:"documents_total"`
}

// JobDoes counts what a commit would do.
type JobDoes struct {
	Documents            DocumentCounts `json:"documents"`
	EntitiesCreated      int            `json:"entities_created"`
	EntitiesUpdated      int            `json:"entities_updated"`
	EntitiesRemoved      int            `json:"entities_removed"`
	RelationsCreated     int            `json:"relations_created"`
	RelationsJoined      int            `json:"relations_joined"`
	RelationsRemoved     int            `json:"relations_removed"`
	Conflicts            int            `json:"conflicts"`
	StaleKept            int            `json:"stale_kept"`
	StaleAsked           int            `json:"stale_asked"`
	CandidatesWritten    int            `json:"candidates_written"`
	CandidatesSuppressed int            `json:"candidates_suppressed"`
}

// JobDocument is a document of a held job: added, updated, metadata, deleted, superseded, unchanged or unknown, and the items that can be edited.
type JobDocument struct {
	Key        string       `json:"key"`
	Outcome    string       `json:"outcome"`
	Items      []StagedItem `json:"items"`
	ItemsTotal int          `json:"items_total"`
}

// StagedItem is something that was read out of a document. Item names it in an edit: equal as long as it is not edited itself.
type StagedItem struct {
	Item  string `json:"item"`
	Kind  string `json:"kind"`            // entity, mention, property, relation, candidate
	Label string `json:"label,omitempty"` // type, or name of the property
	Text  string `json:"text,omitempty"`  // name of the entity, the mention as written, the quote of a relation, what a candidate says
	Value any    `json:"value,omitempty"` // of a property
	// Source is the entity, the source of a relation, or the holder of a property: by name, and the item that it is.
	Source     string         `json:"source,omitempty"`
	SourceItem string         `json:"source_item,omitempty"`
	Target     string         `json:"target,omitempty"`
	TargetItem string         `json:"target_item,omitempty"`
	Entity     string         `json:"entity,omitempty"` // id of an entity
	Properties map[string]any `json:"properties,omitempty"`
	Start      int            `json:"start"`
	End        int            `json:"end"`
	Quote      string         `json:"quote,omitempty"`
	Confidence float64        `json:"confidence,omitempty"`
}

// JobEdit changes one staged item of a document of a held job, or drops it. What can be set: of an entity type, name, entity (the id of one in the
// graph); of a mention start and end; of a property name, value, source (its holder), start and end; of a relation type, source, target, start,
// end and properties (null takes one away), or properties.NAME. Ends are named by item, by the id of the entity, or by its name.
type JobEdit struct {
	Document string         `json:"document"`
	Item     string         `json:"item"`
	Drop     bool           `json:"drop,omitempty"`
	Set      map[string]any `json:"set,omitempty"`
}

// HeldDecide decides about one held job (internal verb held.decide), by id or key: accept commits it, reject rolls it back, send_back applies the
// edits and keeps it held. Fingerprint is that of the plan that was looked at.
type HeldDecide struct {
	ID          string    `json:"id,omitempty"`
	Key         string    `json:"key,omitempty"`
	Decision    string    `json:"decision"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Edits       []JobEdit `json:"edits,omitempty"`
	// Revision that the job must still be at; absent: whatever it is at.
	Revision  *uint64 `json:"revision,omitempty"`
	Actor     string  `json:"actor"`
	Reason    string  `json:"reason,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
}
