package api

import "github.com/factmill/factmill/pkg/patch"

// ReviewConvert asks to make the approved candidates of a patch facts: of a whole patch, or of one that a reply showed, by its id.
// Sightings of their keys that came since are converted with them.
type ReviewConvert struct {
	Patch   *patch.Patch `json:"patch,omitempty"`
	PatchID string       `json:"patch_id,omitempty"`
	// ErrorPolicy is what an answer is when something failed behind the commit: raise (the default) is an error with the report, skip
	// and quarantine are the report.
	ErrorPolicy string `json:"error_policy,omitempty"`
	Actor       string `json:"actor,omitempty"`
	Reason      string `json:"reason,omitempty"`
	RequestID   string `json:"request_id,omitempty"`
}

// The policies of a request, and of a job.
const (
	PolicyRaise      = "raise"
	PolicySkip       = "skip"
	PolicyQuarantine = "quarantine"
)

// Why an approved candidate was not converted. It stays as it is. The ends of relations and holders of properties fail as they do at
// an approval.
const (
	SkippedNotApproved  = "not approved"
	EvidenceGone        = "evidence_gone"
	LabelNotInSchema    = "label_not_in_schema"
	PatternNotApplied   = "pattern_not_applied"
	PropertyNotDeclared = "property_not_declared"
)

// ConvertReport is what a conversion did. It was one commit: all of it is there at Seq, or nothing was to be done.
type ConvertReport struct {
	// ConvertedEntities are entities that were not there; Folded are candidates' names that joined an entity.
	ConvertedEntities int `json:"converted_entities"`
	Folded            int `json:"folded"`
	CreatedRelations  int `json:"created_relations"`
	// JoinedRelations were there and have more evidence now.
	JoinedRelations int `json:"joined_relations"`
	// SetProperties counts values that entities did not have.
	SetProperties int `json:"set_properties"`
	// Records is how many candidate records were converted; they are gone.
	Records int `json:"records"`
	// Skipped says why candidates were not converted, by id; of many the first ones, SkippedTotal counts all.
	Skipped      map[string]string `json:"skipped"`
	SkippedTotal int               `json:"skipped_total"`
	// Entities is what entity candidates have become, candidate id → entity id; of many the first ones, EntitiesTotal counts all.
	Entities      map[string]string `json:"entities"`
	EntitiesTotal int               `json:"entities_total"`
	// Failures came behind the commit, which stands.
	Failures []ConvertFailure `json:"failures"`
	PatchID  string           `json:"patch_id"`
	Seq      uint64           `json:"seq"`
}

// ConvertFailure is something that could not be done behind a conversion's commit; it is tried again by itself.
type ConvertFailure struct {
	Stage   string `json:"stage"`
	Code    string `json:"code"`
	Message string `json:"message"`
}
