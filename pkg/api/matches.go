package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/patch"
)

// Kind of matches among the kinds of review items.
const KindMatch = "match"

// StateActive is a match that the comparison links and nobody decided. Pending, approved and rejected are unclear, confirmed and
// rejected ones.
const StateActive = "active"

// Bounds of decisions.
const (
	// MaxDecided is how many matches one request decides.
	MaxDecided = 2000
	// MaxActor and MaxReason are bytes.
	MaxActor  = 200
	MaxReason = 2000
)

// Place is where a group stands in a list: count desc, confidence desc, key asc, state asc.
type Place struct {
	Count      int     `json:"c"`
	Confidence float64 `json:"f"`
	Key        string  `json:"k"`
	State      string  `json:"s"`
}

// Before says whether p stands before q.
func (p Place) Before(q Place) bool {
	switch {
	case p.Count != q.Count:
		return p.Count > q.Count
	case p.Confidence != q.Confidence:
		return p.Confidence > q.Confidence
	case p.Key != q.Key:
		return p.Key < q.Key
	default:
		return p.State < q.State
	}
}

// Place of a group.
func (g Group) Place() Place { return Place{g.Count, g.Confidence, g.Key, g.State} }

// MatchFilter chooses matches. No states are all.
type MatchFilter struct {
	States   []string `json:"states,omitempty"` // active, pending, approved, rejected
	Label    string   `json:"label,omitempty"`
	MinScore float64  `json:"min_score,omitempty"`
	// MinCount of the documents that mention either entity.
	MinCount int `json:"min_count,omitempty"`
}

// MatchesList asks for matches as groups of the review list (internal verb matches.list). Limit 0 asks for the counts only.
type MatchesList struct {
	MatchFilter
	Limit int    `json:"limit,omitempty"`
	After *Place `json:"after,omitempty"`
}

// MatchesReply is a page. More says that groups follow; Total counts all that the filter chooses.
type MatchesReply struct {
	Seq    uint64  `json:"seq"`
	Groups []Group `json:"groups"`
	Total  int     `json:"total"`
	More   bool    `json:"more,omitempty"`
	// States counts all matches of the graph: active, pending, approved, rejected.
	States map[string]int `json:"states"`
}

// MatchGet asks for one match by id or key (internal verb matches.get).
type MatchGet struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
}

// MatchReply is one match whole, and what was decided about it, the latest first.
type MatchReply struct {
	Seq     uint64         `json:"seq"`
	Item    Group          `json:"item"`
	Match   MatchItem      `json:"match"`
	History []events.Audit `json:"history"`
	// Planned is what approving it as same does.
	Planned
}

// MatchItem is a pair of entities that may be one.
type MatchItem struct {
	ID     string    `json:"id"`
	A      MatchSide `json:"a"`
	B      MatchSide `json:"b"`
	Method string    `json:"method"`
	Score  float64   `json:"score"`
	// Found is what the comparison or a model says, in the words of states.
	Found string `json:"found"`
	// Decided is the decision that stands above it.
	Decided *MatchDecided `json:"decided,omitempty"`
	// Judged is what a model said about the two names, whatever came of it.
	Judged *MatchJudged `json:"judged,omitempty"`
	// Fits say of either side whose name several entities fit which those are. One of them can be chosen.
	Fits []MatchFits `json:"fits,omitempty"`
}

// MatchFits are the entities that fit one name: all that match it and are not told apart from it, the likeliest first. Total counts those
// that are not listed too.
type MatchFits struct {
	Entity string     `json:"entity"` // whose name it is
	Name   string     `json:"name"`
	Total  int        `json:"total"`
	Fits   []MatchFit `json:"fits"`
}

// MatchFit is an entity that fits a name, by the match with the id and key.
type MatchFit struct {
	ID        string  `json:"id"`
	Key       string  `json:"key"`
	Entity    string  `json:"entity"`
	Name      string  `json:"name"`
	State     string  `json:"state"` // active, pending, approved
	Method    string  `json:"method"`
	Score     float64 `json:"score"`
	Documents int     `json:"documents"`
}

// MatchJudged is a model's verdict on two names, and why it is uncertain by handling (see JudgeVerdict).
type MatchJudged struct {
	Model   string `json:"model"`
	Prompt  string `json:"prompt_id"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	Why     string `json:"why,omitempty"`
}

// MatchDecided is who decided what about a match.
type MatchDecided struct {
	Decision string `json:"decision"` // same, different
	Actor    string `json:"actor"`
	Reason   string `json:"reason,omitempty"`
	At       string `json:"at"`
	Seq      uint64 `json:"commit_seq"`
}

// MatchSide is one entity of a match.
type MatchSide struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Name  string `json:"name"`
	// Names are how it is written, the most frequent first; a few of them.
	Names     []string `json:"names"`
	Documents int      `json:"documents"`
	Mentions  int      `json:"mentions"`
	// Evidence is a few of the mentions, of different documents first.
	Evidence []Surrounded `json:"evidence"`
}

// MatchDecide decides about matches (internal verb matches.decide): exactly one of ids, keys, query and, to undo, record.
type MatchDecide struct {
	IDs      []string     `json:"ids,omitempty"`
	Keys     []string     `json:"keys,omitempty"`
	Query    *MatchFilter `json:"query,omitempty"`
	Decision string       `json:"decision"` // same, different, choose, undo
	// Entity is, to choose, the one that a name stands for: it is the same, all others that fit the name are different. The ids or keys name
	// matches of that name.
	Entity string `json:"entity,omitempty"`
	// Fingerprint of the plan that was looked at, of one match. Absent: whatever it is now.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Record is the audit record of the decision that is taken back.
	Record string `json:"record,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Revision that the item must still be at; 0 is a match that nobody decided. Absent: whatever it is at.
	Revision  *uint64 `json:"revision,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
}

// Outcome of a decision: keys of what changed, and by id or key, as it was asked for, why something did not.
type Outcome struct {
	Changed []string          `json:"changed"`
	Skipped map[string]string `json:"skipped"`
	// ChangedTotal and SkippedTotal count all of them, for candidates: of many, the reply names the first ones.
	ChangedTotal int `json:"changed_total,omitempty"`
	SkippedTotal int `json:"skipped_total,omitempty"`
	// CurrentKeys are the keys of skipped ids that other records have replaced since.
	CurrentKeys map[string]string `json:"current_keys,omitempty"`
}

// Reasons of Outcome.Skipped.
const (
	SkippedUnknown  = "match_not_found"
	SkippedApproved = "already approved"
	SkippedRejected = "already rejected"
)

// DecideReply says what a decision did. Records are the audit records by key.
type DecideReply struct {
	Seq     uint64            `json:"seq"`
	Outcome Outcome           `json:"outcome"`
	Records map[string]string `json:"records"`
	// Patch is what the schema needs for the candidates that were approved; absent where it does not fit the reply (review.patch has it).
	Patch *patch.Patch `json:"patch,omitempty"`
	// Planned is what accepting a held job would do now, of one that was sent back.
	Planned
}

// ReviewDecide asks for an approval or rejection: exactly one of ids, keys and query.
type ReviewDecide struct {
	IDs   []string    `json:"ids,omitempty"`
	Keys  []string    `json:"keys,omitempty"`
	Query *ReviewList `json:"query,omitempty"`
	// Decision is what approving or rejecting means; for a match same or different, which is meant when it is absent, or choose; for a
	// conflict choose or keep_all, and reject.
	Decision string `json:"decision,omitempty"`
	// Entity is that which is chosen of several matches of one name.
	Entity string `json:"entity,omitempty"`
	// Value that is chosen or rejected of a conflict, and the Fingerprint of the plan that was looked at: of one item, needed for a conflict, stale
	// fact or held job, checked where given.
	Value       json.RawMessage `json:"value,omitempty"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	// Edits of what a held job states, of a job that is sent back.
	Edits  []JobEdit `json:"edits,omitempty"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	// Revision that the item must still be at; 0 is a match that nobody decided. Absent: whatever it is at.
	Revision  *uint64 `json:"revision,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
}

// ReviewUndo takes a decision back, by the id of its audit record.
type ReviewUndo struct {
	Decision  string `json:"decision"`
	Actor     string `json:"actor"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}
