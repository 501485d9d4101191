package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/plan"
)

// KindConflict is the kind of conflicts among the kinds of review items.
const KindConflict = "conflict"

// Reasons of conflicts.
const (
	// ReasonHomonym: the property identifies, so its values are of different things of one name.
	ReasonHomonym = "homonym"
	// ReasonPropertyConflict: the property has one value, and documents say several.
	ReasonPropertyConflict = "property_conflict"
	// ReasonCardinality: an entity has more relations of a type than the schema allows. The item's property is the type and ":source",
	// where they begin at the entity, or ":target", where they end there; its values are the ids of the relations.
	ReasonCardinality = "cardinality"
	// ReasonMissing: an entity has no value of a property that the schema requires. The item's key has the property and ":missing"; it has no
	// values, its count is 0, and documents counts those that mention the entity. Such items stand behind all other conflicts of a list.
	ReasonMissing = "missing_required"
)

// ConflictFilter chooses conflicts. No states are all; one that a decision settled is approved or rejected, the others are pending.
type ConflictFilter struct {
	// IDs are the only ones, where they are given; at most MaxDecided.
	IDs      []string `json:"ids,omitempty"`
	States   []string `json:"states,omitempty"` // active, pending, approved, rejected
	Label    string   `json:"label,omitempty"`  // of the entity or relation
	Property string   `json:"property,omitempty"`
	MinScore float64  `json:"min_score,omitempty"`
	MinCount int      `json:"min_count,omitempty"`
}

// ConflictsList asks for conflicts as groups of the review list (internal verb conflicts.list). Limit 0 asks for the counts only.
type ConflictsList struct {
	ConflictFilter
	Limit int    `json:"limit,omitempty"`
	After *Place `json:"after,omitempty"`
}

// ConflictsReply is a page. More says that groups follow; Total counts all that the filter chooses.
type ConflictsReply struct {
	Seq    uint64  `json:"seq"`
	Groups []Group `json:"groups"`
	Total  int     `json:"total"`
	More   bool    `json:"more,omitempty"`
	// Reasons counts the conflicts of the graph that wait: homonym, property_conflict, cardinality, missing_required.
	Reasons map[string]int `json:"reasons"`
}

// ConflictGet asks for one conflict by id or key (internal verb conflicts.get).
type ConflictGet struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// ConflictReply is one conflict whole, and what was decided about it, the latest first.
type ConflictReply struct {
	Seq      uint64         `json:"seq"`
	Item     Group          `json:"item"`
	Conflict ConflictItem   `json:"conflict"`
	History  []events.Audit `json:"history"`
	Planned
}

// Planned is what the approval of an item would do. A decision quotes the fingerprint, which is of the whole plan; of a long plan the reply
// leaves out base documents and changes, and counts them.
type Planned struct {
	Plan        *plan.Plan `json:"plan,omitempty"`
	PlanLeftOut int        `json:"plan_left_out,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
}

// ConflictDecide decides about one conflict (internal verb conflicts.decide): by id, key or, to undo, record.
type ConflictDecide struct {
	ID       string `json:"id,omitempty"`
	Key      string `json:"key,omitempty"`
	Decision string `json:"decision"` // choose, keep_all, reject, different, undo
	// Value that is chosen or rejected: a text, number or truth value, or a number as text. To choose none is to choose the one that is
	// shown first.
	Value json.RawMessage `json:"value,omitempty"`
	// Record is the audit record of the decision that is taken back.
	Record string `json:"record,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Fingerprint of the plan that was looked at; needed, but to undo.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Revision that the item must still be at; 0 is one that nobody decided. Absent: whatever it is at.
	Revision  *uint64 `json:"revision,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
}

// ConflictItem is a property of an entity or relation with several values, the evidence of each apart; or with none, where one is required.
type ConflictItem struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"` // id of the entity or relation
	Label    string `json:"label"`
	Name     string `json:"name"`
	Property string `json:"property"`
	Reason   string `json:"reason"`
	// Apart: each value is of an entity of its own, as somebody decided.
	Apart bool `json:"apart,omitempty"`
	// Values begin with the one that reads show. ValuesTotal counts those that are not listed too.
	Values      []ConflictValue `json:"values"`
	ValuesTotal int             `json:"values_total"`
	// Undecided are, of a homonym, a few mentions in documents that give no value, which may be of any of them; UndecidedDocuments counts
	// those documents (beyond 100,000 documents with a value: at least so many). Of a missing value they are mentions of the entity.
	Undecided          []Surrounded `json:"undecided"`
	UndecidedDocuments int          `json:"undecided_documents"`
}

// ConflictValue is one of the values, and a few places that say it, of different documents first.
type ConflictValue struct {
	Value      any     `json:"value"`
	Text       string  `json:"text,omitempty"` // of a relation "A TYPE B"
	Documents  int     `json:"documents"`
	Confidence float64 `json:"confidence"`
	Newest     string  `json:"newest,omitempty"` // date of the newest document
	Rejected   bool    `json:"rejected,omitempty"`
	// Entity is, of a relation, that at its far end; of a homonym, the one that the value is of, told apart from the others: its id, whether they are told apart or not.
	Entity   string       `json:"entity,omitempty"`
	Evidence []Surrounded `json:"evidence"`
}
