package api

// KindConflict is the kind of conflicts among the kinds of review items.
const KindConflict = "conflict"

// Reasons of conflicts.
const (
	// ReasonHomonym: the property identifies, so its values are of different things of one name.
	ReasonHomonym = "homonym"
	// ReasonPropertyConflict: the property has one value, and documents say several.
	ReasonPropertyConflict = "property_conflict"
)

// ConflictFilter chooses conflicts. No states are all; every conflict is pending.
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
	// Reasons counts all conflicts of the graph: homonym, property_conflict.
	Reasons map[string]int `json:"reasons"`
}

// ConflictGet asks for one conflict by id or key (internal verb conflicts.get).
type ConflictGet struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// ConflictReply is one conflict whole.
type ConflictReply struct {
	Seq      uint64       `json:"seq"`
	Item     Group        `json:"item"`
	Conflict ConflictItem `json:"conflict"`
}

// ConflictItem is a property of an entity or relation with several values, the evidence of each apart.
type ConflictItem struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"` // id of the entity or relation
	Label    string `json:"label"`
	Name     string `json:"name"`
	Property string `json:"property"`
	Reason   string `json:"reason"`
	// Values begin with the one that reads show. ValuesTotal counts those that are not listed too.
	Values      []ConflictValue `json:"values"`
	ValuesTotal int             `json:"values_total"`
	// Undecided are, of a homonym, a few mentions in documents that give no value, which may be of any of them; UndecidedDocuments counts
	// those documents (beyond 100,000 documents with a value: at least so many).
	Undecided          []Surrounded `json:"undecided"`
	UndecidedDocuments int          `json:"undecided_documents"`
}

// ConflictValue is one of the values, and a few places that say it, of different documents first.
type ConflictValue struct {
	Value      any          `json:"value"`
	Documents  int          `json:"documents"`
	Confidence float64      `json:"confidence"`
	Newest     string       `json:"newest,omitempty"` // date of the newest document
	Evidence   []Surrounded `json:"evidence"`
}
