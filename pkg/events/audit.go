package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/schema"
)

// Decisions of an Audit.
const (
	DecisionSame      = "same"
	DecisionDifferent = "different"
	DecisionUndo      = "undo"
	DecisionApprove   = "approve"
	DecisionReject    = "reject"
	DecisionEdit      = "edit"
	DecisionPrune     = "prune"
	DecisionConvert   = "convert"
	DecisionChoose    = "choose"   // a value of a conflict
	DecisionKeepAll   = "keep_all" // values of a conflict
)

// Audit records one change that somebody decided. The records of a graph are numbered without gaps and chained: an id is a hash of
// the record and of the id before it.
type Audit struct {
	Record string `json:"id"`
	Graph  string `json:"graph"`
	No     uint64 `json:"no"` // from 1
	// Prev is the id of the record before; empty for the first.
	Prev string `json:"prev,omitempty"`
	At   string `json:"at"` // RFC 3339
	// Operation names the request that the decision came with: its request_id, else "c" and the commit's sequence.
	Operation string `json:"operation"`
	RequestID string `json:"request_id,omitempty"`
	Kind      string `json:"kind"` // of the item: entity, relation, property, match, conflict
	Key       string `json:"key"`
	ItemID    string `json:"item_id,omitempty"`
	Decision  string `json:"decision"`
	// Value is what was chosen or rejected of a conflict, and Plan the fingerprint of the plan that was looked at.
	Value json.RawMessage `json:"value,omitempty"`
	Plan  string          `json:"plan_fingerprint,omitempty"`
	// Undoes is the id of the record that an undo takes back.
	Undoes string `json:"undoes,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Before and After are states of the item; After is empty where the item is not there.
	Before string `json:"before"`
	After  string `json:"after"`
	// Item is what was decided about, as it was then.
	Item json.RawMessage `json:"item,omitempty"`
	// Edited is what an edit made of it.
	Edited json.RawMessage `json:"edited,omitempty"`
	// Set is what an edit was asked to set, whole: with it the edit can be made again.
	Set json.RawMessage `json:"set,omitempty"`
	// Policy is what an automatic decision went by; absent where somebody decided.
	Policy *AuditPolicy `json:"policy,omitempty"`
	Seq    uint64       `json:"commit_seq"`
}

// AuditPolicy says by which rules, and on what, the policy decided.
type AuditPolicy struct {
	Version     string `json:"version,omitempty"` // of the schema's review section
	Fingerprint string `json:"fingerprint"`       // of the same
	// Rules are the conditions that the item's records met, in order: each record met one of them first.
	Rules             []AuditRule `json:"rules"`
	Schema            string      `json:"schema"`
	SchemaVersion     string      `json:"schema_version"`
	SchemaFingerprint string      `json:"schema_fingerprint"`
	// Extractions are the extraction fingerprints (schema, prompt, model, validator) of the records, sorted; of many the first ones.
	Extractions []string `json:"extraction_fingerprints"`
}

// AuditRule is a condition of the policy: which one of which list, and what it said then.
type AuditRule struct {
	List      string           `json:"list"` // auto_reject, auto_accept
	Index     int              `json:"index"`
	Condition schema.Condition `json:"condition"`
}

// Where implements Event.
func (e *Audit) Where() Subject { return Subject{Graph: e.Graph, Kind: KindAudit} }

// ID implements Event.
func (e *Audit) ID() string { return e.Graph + ":audit:" + e.Record }

// Sealed returns a copy with the id that the record has behind the one of id prev.
func (e Audit) Sealed(no uint64, prev string) (Audit, error) {
	e.Record, e.No, e.Prev = "", no, prev
	b, err := json.Marshal(e)
	if err != nil {
		return e, fmt.Errorf("audit record %d: %w", no, err)
	}
	sum := sha256.Sum256(b)
	e.Record = hex.EncodeToString(sum[:16])
	return e, nil
}
