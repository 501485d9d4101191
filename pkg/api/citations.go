package api

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/factmill/factmill/pkg/graph"
)

// EvidencePrefix begins every evidence id.
const EvidencePrefix = "ev_"

// Cited is what an evidence id names: a span of a chunk, and the fact that it is evidence of. Ids of chunks change with the text and the
// chunker, so that a place is of one version.
type Cited struct {
	// Fact is the id of an entity or relation, for a property value that of its owner; empty for plain text.
	Fact string
	// Property is PropertyMark of the property of a value; empty for others.
	Property string
	Chunk    string // id
	// Start and End are byte offsets into the document's text, end-exclusive.
	Start, End int
}

const (
	uuidBytes    = 16
	propertyMark = 8 // bytes
	checkSum     = 4 // bytes
	// kinds of places
	placeText  = 0
	placeFact  = 1
	placeValue = 2
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// PropertyMark names a property in an evidence id: 16 hex digits.
func PropertyMark(property string) string {
	sum := sha256.Sum256([]byte(property))
	return hex.EncodeToString(sum[:propertyMark])
}

// EvidenceID is the id of a place: EvidencePrefix and lower-case base32 of its parts and a checksum, 49 to 90 characters. Empty when an id of the place is no
// UUID or the span is none. It is a name, not a permission: whoever shows it is asked for it again.
func EvidenceID(p Cited) string {
	kind := byte(placeText)
	var parts []string
	switch {
	case p.Property != "":
		kind, parts = placeValue, []string{p.Chunk, p.Fact}
	case p.Fact != "":
		kind, parts = placeFact, []string{p.Chunk, p.Fact}
	default:
		parts = []string{p.Chunk}
	}
	b := []byte{kind}
	for _, s := range parts {
		raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		if err != nil || len(raw) != uuidBytes {
			return ""
		}
		b = append(b, raw...)
	}
	if kind == placeValue {
		raw, err := hex.DecodeString(p.Property)
		if err != nil || len(raw) != propertyMark {
			return ""
		}
		b = append(b, raw...)
	}
	if p.Start < 0 || p.End < p.Start {
		return ""
	}
	b = binary.AppendUvarint(b, uint64(p.Start))
	b = binary.AppendUvarint(b, uint64(p.End-p.Start))
	sum := sha256.Sum256(b)
	return EvidencePrefix + base32Lower.EncodeToString(append(b, sum[:checkSum]...))
}

// ParseEvidenceID reads an evidence id; ok is false for what is none.
func ParseEvidenceID(id string) (p Cited, ok bool) {
	text, found := strings.CutPrefix(id, EvidencePrefix)
	if !found || len(text) > 200 {
		return p, false
	}
	b, err := base32Lower.DecodeString(text)
	if err != nil || len(b) < 1+uuidBytes+2+checkSum {
		return p, false
	}
	body := b[:len(b)-checkSum]
	if sum := sha256.Sum256(body); string(sum[:checkSum]) != string(b[len(b)-checkSum:]) {
		return p, false
	}
	kind, rest := body[0], body[1:]
	take := func(n int) []byte {
		if len(rest) < n {
			ok = false
			return nil
		}
		out := rest[:n]
		rest = rest[n:]
		return out
	}
	ok = true
	p.Chunk = uuidText(take(uuidBytes))
	if kind == placeFact || kind == placeValue {
		p.Fact = uuidText(take(uuidBytes))
	}
	if kind == placeValue {
		p.Property = hex.EncodeToString(take(propertyMark))
	}
	number := func() int {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > 1<<40 {
			ok = false
			return 0
		}
		rest = rest[used:]
		return int(n)
	}
	p.Start = number()
	p.End = p.Start + number()
	if !ok || kind > placeValue || len(rest) > 0 || EvidenceID(p) != id { // one spelling only
		return Cited{}, false
	}
	return p, true
}

func uuidText(b []byte) string {
	if len(b) != uuidBytes {
		return ""
	}
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MaxCitations is how many evidence ids one request may name.
const MaxCitations = 50

// CitationsGet asks what became of evidence, by id (query.citations).
type CitationsGet struct {
	IDs    []string `json:"ids"`
	Within *Within  `json:"within,omitempty"`
}

// States of a citation.
const (
	CitationOK          = "ok"          // the document says it, and the fact stands on it
	CitationSuperseded  = "superseded"  // the document has a newer version, or the fact is not read from there any more
	CitationUnavailable = "unavailable" // there is no such evidence, or its document was deleted, or it is outside what may be seen
	CitationMalformed   = "malformed"   // no evidence id
)

// Citation is one piece of evidence as it is now. Only one that is ok has more than its id, status and the reason.
type Citation struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Why    string `json:"why,omitempty"`
	// Document is its key.
	Document string `json:"document,omitempty"`
	Title    string `json:"title,omitempty"`
	Version  int    `json:"version,omitempty"`
	Chunk    string `json:"chunk,omitempty"`
	Start    int    `json:"start,omitempty"`
	End      int    `json:"end,omitempty"`
	Quote    string `json:"quote,omitempty"`
	// Passage is the text of the chunk around, which begins at PassageStart; empty where running text is not shown.
	Passage      string `json:"passage,omitempty"`
	PassageStart int    `json:"passage_start,omitempty"`
	// Kept: no open version says it, and nobody withdrew it.
	Kept bool `json:"kept,omitempty"`
	// Entity or Relation is the fact, without its evidence; of a property value Entity is the owner, with Property and Value.
	Entity   *Member            `json:"entity,omitempty"`
	Relation *graph.RelationRow `json:"relation,omitempty"`
	Property string             `json:"property,omitempty"`
	Value    any                `json:"value,omitempty"`
}

// CitationsReply has one citation for each id, in order. Next ones did not fit in the reply: ask again for ids[len(citations):].
type CitationsReply struct {
	Seq       uint64     `json:"seq"`
	Citations []Citation `json:"citations"`
}
