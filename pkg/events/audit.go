package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

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
	DecisionChoose    = "choose"    // a value of a conflict
	DecisionKeepAll   = "keep_all"  // values of a conflict
	DecisionAccept    = "accept"    // a held job
	DecisionSendBack  = "send_back" // a held job, with edits
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
	Kind      string `json:"kind"` // of the item: entity, relation, property, match, stale, conflict, job
	Key       string `json:"key"`
	ItemID    string `json:"item_id,omitempty"`
	Decision  string `json:"decision"`
	// Value is what was chosen or rejected of a conflict, and Plan the fingerprint of the item's plan in the commit of the decision: where one
	// was quoted it was that one, else the decision would have been refused.
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
	// Evidence is what said it, as it was seen; of much the first pieces (Saw).
	Evidence []AuditEvidence `json:"evidence,omitempty"`
	// Original is what was edited, Edited what the edit made of it, both whole, and Diff the fields that differ, by name. Set is what the
	// edit was asked to set, whole, of a job that was sent back its edits: with it the edit can be made again.
	Original json.RawMessage `json:"original,omitempty"`
	Edited   json.RawMessage `json:"edited,omitempty"`
	Diff     []AuditDiff     `json:"diff,omitempty"`
	Set      json.RawMessage `json:"set,omitempty"`
	// Policy is what an automatic decision went by; absent where somebody decided.
	Policy *AuditPolicy `json:"policy,omitempty"`
	Seq    uint64       `json:"commit_seq"`
}

// Bounds of the evidence of a record: pieces, bytes of one quote, and of all.
const (
	MaxAuditEvidence = 20
	MaxAuditQuote    = 500
	maxAuditQuotes   = 4 << 10
)

// Saw adds evidence as far as a record has room; it says whether it has for more.
func (e *Audit) Saw(list ...AuditEvidence) (more bool) {
	used := 0
	for _, x := range e.Evidence {
		used += len(x.Quote)
	}
	for _, x := range list {
		x.Quote = shorten(x.Quote, MaxAuditQuote)
		if len(e.Evidence) == MaxAuditEvidence || len(e.Evidence) > 0 && used+len(x.Quote) > maxAuditQuotes {
			return false
		}
		used += len(x.Quote)
		e.Evidence = append(e.Evidence, x)
	}
	return len(e.Evidence) < MaxAuditEvidence
}

// shorten cuts s to at most n bytes, at the border of a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// AuditEvidence is a piece of evidence: bytes Start to End of the document's text of Version, and what stands there.
type AuditEvidence struct {
	Document string `json:"document"`
	Version  int    `json:"version"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Quote    string `json:"quote"`
}

// AuditDiff is a field that an edit changed; a value that was not there, or is no more, is null.
type AuditDiff struct {
	Field  string `json:"field"`
	Before any    `json:"before"`
	After  any    `json:"after"`
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
