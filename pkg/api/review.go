package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Candidate states.
const (
	StatePending  = "pending"
	StateApproved = "approved"
	// StateConverted is what an audit record says of a candidate that became a fact; no record has it.
	StateConverted = "converted"
	StateRejected  = "rejected"
)

// ReviewList asks for groups of candidates, matches and conflicts. No kinds are entity, relation and property. State absent is pending, null is
// all; "active" is matches that are linked and nobody decided. Schema is "current" or a whole schema as
// an object or text: pending groups that it covers are hidden unless IncludeCovered.
type ReviewList struct {
	Kinds          []string        `json:"kinds,omitempty"`
	Label          string          `json:"label,omitempty"`
	State          json.RawMessage `json:"state,omitempty"`
	MinCount       int             `json:"min_count,omitempty"`
	MinScore       float64         `json:"min_score,omitempty"` // least confidence; of a match its score
	Limit          *int            `json:"limit,omitempty"`
	Skip           int             `json:"skip,omitempty"`
	Cursor         string          `json:"cursor,omitempty"`
	Schema         json.RawMessage `json:"schema,omitempty"`
	IncludeCovered bool            `json:"include_covered,omitempty"`
}

// Sample is where a group was first seen.
type Sample struct {
	Document string `json:"document"`
	Chunk    string `json:"chunk,omitempty"`
	Quote    string `json:"quote"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
}

// Group is the candidates of one key and state, or a match: then text is "A ~ B", the source and target texts are the names of the two
// entities, count adds the documents of both, documents counts those that mention either, reasons is the method, confidence the score,
// ids the match's id, the sample a mention of the first entity, and the revision the commit that decided it (0: nobody did). Or a conflict:
// then label is the type of the entity, text its name, the source text the property, the target text a few of its values, count adds the
// documents of each value, documents counts those that give any, reasons is homonym, property_conflict, cardinality or missing_required, confidence that of the surest
// value, ids the conflict's id, and the sample a place that gives the value which is shown.
type Group struct {
	Key        string `json:"key"`
	Kind       string `json:"kind"`
	Label      string `json:"label"`
	Text       string `json:"text"`
	SourceText string `json:"source_text"`
	TargetText string `json:"target_text"`
	// SourceLabel and TargetLabel are the types of the ends (of the holder for a property) where they are known.
	SourceLabel string   `json:"source_label,omitempty"`
	TargetLabel string   `json:"target_label,omitempty"`
	Reasons     []string `json:"reasons"`
	State       string   `json:"state"`
	Count       int      `json:"count"`
	Confidence  float64  `json:"confidence"`
	Documents   int      `json:"documents"`
	IDs         []string `json:"ids"`
	Covered     bool     `json:"covered"`
	Sample      Sample   `json:"sample"`
	Revision    uint64   `json:"revision"`
	// Fits counts, of a match, the entities that fit the name of one of its two, the more of either; absent where that is the other alone.
	Fits int `json:"fits,omitempty"`
}

// ReviewListReply is one page of groups: count desc, confidence desc, key asc.
type ReviewListReply struct {
	Seq    uint64  `json:"seq"`
	Groups []Group `json:"groups"`
	Total  int     `json:"total"`
	Next   string  `json:"next,omitempty"`
}

// ReviewShow asks for one item by record id or key.
type ReviewShow struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
	// Document of a held job whose items are listed; absent: of the first ones.
	Document string `json:"document,omitempty"`
}

// Surrounded is a quote with the text around it.
type Surrounded struct {
	graph.Evidence
	Before string `json:"before"`
	After  string `json:"after"`
}

// SourceQuote is another place that says the same.
type SourceQuote struct {
	Document string `json:"document"`
	Chunk    string `json:"chunk"`
	Quote    string `json:"quote"`
}

// ReviewShowReply is a whole item.
type ReviewShowReply struct {
	Seq          uint64        `json:"seq"`
	Item         Group         `json:"item"`
	Records      []Record      `json:"records"`  // of many as many as fit; the item counts all
	Evidence     []Surrounded  `json:"evidence"` // of the first document
	OtherSources []SourceQuote `json:"other_sources"`
	Revision     uint64        `json:"revision"`
	// Match is what a match has besides.
	Match *MatchItem `json:"match,omitempty"`
	// Conflict is what a conflict has besides.
	Conflict *ConflictItem `json:"conflict,omitempty"`
	// Job is what a held job has besides.
	Job *JobItem `json:"job,omitempty"`
	// Planned is what approving the item would do; of a rejected candidate nothing is planned.
	Planned
	// Others are, of a stale fact, how many other documents state it.
	Others *int `json:"others,omitempty"`
	// History is what was decided about the item, the latest first.
	History []events.Audit `json:"history"`
}

// ReviewPatch asks for the patch of approved candidates: of these records, or of all. The reply is a patch.Patch; one with more ids than
// a reply holds comes in pages, which differ in candidate_ids and next alone.
type ReviewPatch struct {
	IDs    []string `json:"ids,omitempty"`
	Cursor string   `json:"cursor,omitempty"`
}

// CandidatesPatch is ReviewPatch as the committer answers it (internal verb candidates.patch). Keys are another way to choose: those
// that are not approved are left out. Budget is how many bytes of JSON the reply may have, 0 as many as a reply holds. With a request id
// the patch is remembered: that of an approval which is asked again stays as it was.
type CandidatesPatch struct {
	IDs    []string `json:"ids,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Cursor string   `json:"cursor,omitempty"`
	Budget int      `json:"budget,omitempty"`

	RequestID string `json:"request_id,omitempty"`
}

// Record is one candidate record: Before and After are up to 200 bytes of the text around the quote.
type Record struct {
	events.CandidateItem
	Seq    uint64 `json:"commit_seq"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// What it was read under: absent in the records of a read model.
	Version       int    `json:"version,omitempty"` // of the document
	SchemaVersion string `json:"schema_version,omitempty"`
	SchemaFP      string `json:"schema_fingerprint,omitempty"`
	ExtractionFP  string `json:"extraction_fingerprint,omitempty"`
}

// ReviewStatsReply counts the queue.
type ReviewStatsReply struct {
	Seq     uint64         `json:"seq"`
	Records int            `json:"records"`
	Groups  int            `json:"groups"`
	ByKind  map[string]int `json:"by_kind"`
	ByState map[string]int `json:"by_state"`
	ByLabel map[string]int `json:"by_label"`
	// Matches counts pairs of entities by state, which the other numbers do not count.
	Matches map[string]int `json:"matches"`
	// Conflicts counts properties with several values by reason; the other numbers do not.
	Conflicts map[string]int `json:"conflicts"`
	// Stale counts facts that documents no longer state and that wait.
	Stale int `json:"stale"`
	// Jobs counts the jobs that are held.
	Jobs           int     `json:"jobs"`
	Oldest         string  `json:"oldest"`
	AcceptanceRate float64 `json:"acceptance_rate"`
}

// RecordsGet asks the committer for candidate records (internal verb query.records): all live ones of the graph at one
// sequence, page by page, for a read model that starts; or those of one key, with the text around.
type RecordsGet struct {
	Seq    uint64 `json:"seq,omitempty"` // 0 pins the current one
	Cursor string `json:"cursor,omitempty"`
	Key    string `json:"key,omitempty"`
	// First is the key of the document whose record comes first of those of one key.
	First string `json:"first,omitempty"`
}

// RecordsReply is a page of records, and the number of the newest candidate event that they include.
type RecordsReply struct {
	Seq     uint64   `json:"seq"`
	No      uint64   `json:"no"`
	Records []Record `json:"records"`
	Next    string   `json:"next,omitempty"`
}

// SeqReply says how far a graph is (internal verb query.seq): its commit sequence and the number of its newest candidate
// event.
type SeqReply struct {
	Seq uint64 `json:"seq"`
	No  uint64 `json:"no"`
	// Approved and Rejected count decided keys, also of candidates that became facts.
	Approved int `json:"approved,omitempty"`
	Rejected int `json:"rejected,omitempty"`
}
