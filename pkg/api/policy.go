package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/schema"
)

// ActorPolicy acts in automatic decisions; nobody else may take the name.
const ActorPolicy = "policy"

// SkippedPolicy: the policy does not decide about the candidate, or not any more.
const SkippedPolicy = "left to people"

// MaxPolicySamples is how many sample keys of a condition a reply of review.policy has at most.
const MaxPolicySamples = 100

// ReviewPolicy asks what a review policy would do about all that waits, and changes nothing (review.policy, internal verb
// candidates.policy). Schema is "current" (the default) or a whole schema as an object or text; Limit is how many sample keys each
// condition is shown with, 5 by default.
type ReviewPolicy struct {
	Schema json.RawMessage `json:"schema,omitempty"`
	Limit  *int            `json:"limit,omitempty"`
}

// ReviewPolicyReply is the queue at one sequence as the policy sees it. Keys and Records are those that wait; each key is counted under
// one condition or one reason of People.
type ReviewPolicyReply struct {
	Seq               uint64 `json:"seq"`
	Schema            string `json:"schema"`
	SchemaVersion     string `json:"schema_version"`
	SchemaFingerprint string `json:"schema_fingerprint"`
	Version           string `json:"version"`     // of the review section
	Fingerprint       string `json:"fingerprint"` // of the same
	// Active says that this is the policy that decides now.
	Active  bool `json:"active"`
	Keys    int  `json:"keys"`
	Records int  `json:"records"`
	Decided int  `json:"decided"` // keys that the policy would decide
	// Conditions are the first 1000; ConditionsTotal counts all.
	Conditions      []PolicyCondition `json:"conditions"`
	ConditionsTotal int               `json:"conditions_total"`
	// People counts the keys that wait for people by why: see the constants below.
	People map[string]int `json:"people"`
	// Blocked counts keys that the policy would approve and cannot, by why, as an approval says it.
	Blocked map[string]int `json:"blocked"`
	// Unused are conditions of candidates that fit no record of the queue, the first 1000; UnusedTotal counts all.
	Unused      []PolicyRule `json:"unused"`
	UnusedTotal int          `json:"unused_total"`
}

// PolicyRule names a condition by its list (auto_reject, manual, auto_accept) and its place there, from 0.
type PolicyRule struct {
	List  string `json:"list"`
	Index int    `json:"index"`
}

// PolicyCondition is a condition and what it would do. Keys of the list manual are those that it keeps for people.
type PolicyCondition struct {
	PolicyRule
	Condition schema.Condition `json:"condition"`
	Fits      int              `json:"fits"` // records that it fits, whichever condition decides
	Keys      int              `json:"keys"`
	Records   int              `json:"records"` // of those keys
	Blocked   int              `json:"blocked"` // keys besides that it would approve and that cannot be approved
	Samples   []string         `json:"samples"` // keys, the first in order
}

// Why a key waits for people.
const (
	PeopleNoCondition = "no_condition" // no condition fits it
	PeopleManual      = "manual"       // a condition asks people, or asked when it was read
	PeopleDiffer      = "differ"       // its records get different verdicts
	PeopleEdited      = "edited"       // somebody edited it
	PeopleDecided     = "decided"      // somebody decided it; what waits failed alone
	PeopleTakenBack   = "taken_back"   // somebody took a decision about it back
)
