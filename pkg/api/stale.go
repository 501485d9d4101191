package api

import "github.com/factmill/factmill/pkg/events"

// KindStale is the kind of facts that documents no longer state, among the kinds of review items.
const KindStale = "stale"

// The decisions about a stale fact.
const (
	DecideWithdraw = "withdraw"
	DecideKeep     = "keep"
)

// StaleList asks for stale facts as groups of the review list (internal verb stale.list). All of them are pending. Limit 0 asks for the
// count only.
type StaleList struct {
	Label    string  `json:"label,omitempty"` // relation type, or name of the property
	MinScore float64 `json:"min_score,omitempty"`
	MinCount int     `json:"min_count,omitempty"`
	Limit    int     `json:"limit,omitempty"`
	After    *Place  `json:"after,omitempty"`
}

// StaleListReply is a page. More says that groups follow; Total counts all that the filter chooses, Waiting those of the graph.
type StaleListReply struct {
	Seq     uint64  `json:"seq"`
	Groups  []Group `json:"groups"`
	Total   int     `json:"total"`
	Waiting int     `json:"waiting"`
	More    bool    `json:"more,omitempty"`
}

// StaleGet asks for one stale fact by id or key (internal verb stale.get).
type StaleGet struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// StaleReply is one stale fact whole. Evidence is what the document said; the other sources are of other documents, which are Others.
type StaleReply struct {
	Seq         uint64         `json:"seq"`
	Item        Group          `json:"item"`
	Evidence    []Surrounded   `json:"evidence"`
	Others      int            `json:"others"`
	OtherQuotes []Surrounded   `json:"other_quotes"`
	History     []events.Audit `json:"history"`
	Planned
}

// StaleDecide decides about one stale fact (internal verb stale.decide): withdraw takes the document's support away, keep leaves it.
// Fingerprint is that of the plan that was seen. Undo takes the decision of an audit record back.
type StaleDecide struct {
	ID          string `json:"id,omitempty"`
	Key         string `json:"key,omitempty"`
	Decision    string `json:"decision,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Revision    uint64 `json:"revision,omitempty"`
	Undo        string `json:"undo,omitempty"` // id of the audit record
	Actor       string `json:"actor"`
	Reason      string `json:"reason,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
}
