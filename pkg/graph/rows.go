package graph

import (
	"encoding/json"
	"math"
)

// Rows of the export (spec 2). Fields stand in the order of their JSON names, so that the encoder writes sorted keys. Query
// replies reuse them with more fields, those marked "replies only". Document is the document's key in every row and reply.

// Evidence backs one fact.
type Evidence struct {
	Assertion  string   `json:"assertion,omitempty"`
	Chunk      string   `json:"chunk"`
	ClosedSeq  uint64   `json:"closed_seq,omitempty"` // the commit that closed its document version; query.evidence with history only
	Confidence float64  `json:"confidence"`
	Document   string   `json:"document,omitempty"` // replies, and what is kept
	End        int      `json:"end"`
	Extractors []string `json:"extractors,omitempty"`
	// Kept: the document has no open version that states it, and nobody withdrew it; the quote is of an earlier one, whose chunks are no
	// rows of the export.
	Kept    bool   `json:"kept,omitempty"`
	Quote   string `json:"quote,omitempty"`
	Start   int    `json:"start"`
	Version int    `json:"version,omitempty"` // of the document; query.evidence with history only
}

// DocumentRow of the export.
type DocumentRow struct {
	ChunkerFP    string         `json:"chunker_fingerprint"`
	ContentDate  string         `json:"content_date"`
	ContentHash  string         `json:"content_hash"`
	ExtractionFP string         `json:"extraction_fingerprint"`
	ID           string         `json:"id"`
	Key          string         `json:"key"`
	Kind         string         `json:"kind"`
	Metadata     map[string]any `json:"metadata"`
	PublishedAt  string         `json:"published_at"`
	SchemaFP     string         `json:"schema_fingerprint"`
	Scope        Scope          `json:"scope"`
	Title        string         `json:"title"`
}

// ChunkRow of the export.
type ChunkRow struct {
	Content    string   `json:"content"`
	Document   string   `json:"document"`
	DocumentID string   `json:"document_id,omitempty"` // not in the canonical export
	End        int      `json:"end"`
	Heading    []string `json:"heading_path"`
	ID         string   `json:"id"`
	Index      int      `json:"index"`
	Kind       string   `json:"kind"`
	Prefix     string   `json:"prefix"`
	Start      int      `json:"start"`
	Text       string   `json:"text"`
}

// MentionRow is one mention of an entity in the export.
type MentionRow struct {
	Chunk      string  `json:"chunk"`
	Confidence float64 `json:"confidence"`
	Document   string  `json:"document,omitempty"` // replies only
	End        int     `json:"end"`
	Quote      string  `json:"quote,omitempty"` // replies only
	Start      int     `json:"start"`
}

// PropertyRow is a property's shown value with its sources; Others are the values that lost.
type PropertyRow struct {
	Evidence Sources `json:"evidence"`
	// Kept is what no open version says, of the shown value; the export only.
	Kept   []Evidence `json:"kept,omitempty"`
	Others []OtherRow `json:"others"`
	Value  any        `json:"value"`
	// OthersTotal counts the others where a reply shows a part of them; replies only.
	OthersTotal int `json:"others_total,omitempty"`
}

// OtherRow is a value that lost, with its sources.
type OtherRow struct {
	Evidence Sources `json:"evidence"`
	// Kept is as that of PropertyRow.
	Kept []Evidence `json:"kept,omitempty"`
	// Rejected: somebody decided that it is not to be shown.
	Rejected bool `json:"rejected,omitempty"`
	Value    any  `json:"value"`
}

// Sources back a property value. A reply gives each in full, the export gives the ids of the chunks alone; both forms can be
// read.
type Sources []Evidence

// UnmarshalJSON reads a list of evidence or of chunk ids.
func (s *Sources) UnmarshalJSON(b []byte) error {
	var chunks []string
	if err := json.Unmarshal(b, &chunks); err != nil {
		return json.Unmarshal(b, (*[]Evidence)(s))
	}
	*s = make(Sources, len(chunks))
	for i, c := range chunks {
		(*s)[i].Chunk = c
	}
	return nil
}

// EntityRow of the export. Labels is the type and its ancestors, sorted.
type EntityRow struct {
	// Homonym is there where people told several things of one name apart, of which this is one.
	Homonym    *Homonym               `json:"homonym,omitempty"`
	ID         string                 `json:"id"`
	Kind       string                 `json:"kind"`
	Labels     []string               `json:"labels"`
	Mentions   []MentionRow           `json:"mentions"`
	MergeKey   string                 `json:"merge_key"`
	Name       string                 `json:"name"`
	Properties map[string]PropertyRow `json:"properties"`
	Type       string                 `json:"type"`
	// Evidence repeats the mentions as evidence with quotes, at most a page; replies only.
	Evidence []Evidence `json:"evidence,omitempty"`
	// MentionsTotal and DocumentsTotal count beyond the page; replies only.
	MentionsTotal  int `json:"mentions_total,omitempty"`
	DocumentsTotal int `json:"documents_total,omitempty"`
	// PropertiesTotal counts the properties where a reply shows a part of them; replies only.
	PropertiesTotal int `json:"properties_total,omitempty"`
}

// Homonym is one of several things of a name: the one of a value of Property, or the undecided one, of which documents give no value.
type Homonym struct {
	Of        string `json:"of"` // id that label and merge key give, which is that of the undecided one
	Property  string `json:"property"`
	Undecided bool   `json:"undecided,omitempty"`
	Value     any    `json:"value,omitempty"`
}

// Why a relation is not shown: of more than the schema allows, somebody rejected it, or chose another one.
const (
	HiddenRejected  = "rejected"
	HiddenNotChosen = "not_chosen"
)

// RelationRow of the export.
type RelationRow struct {
	Evidence []Evidence `json:"evidence"`
	// Hidden says why the relation is not shown: HiddenRejected, HiddenNotChosen. Its documents state it all the same.
	Hidden string `json:"hidden,omitempty"`
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	// NoOpenSource: all that states it was kept, no open document does; replies only.
	NoOpenSource bool           `json:"no_open_source,omitempty"`
	Properties   map[string]any `json:"properties"`
	Source       string         `json:"source"`
	SourceName   string         `json:"source_name,omitempty"` // replies only
	Target       string         `json:"target"`
	TargetName   string         `json:"target_name,omitempty"` // replies only
	Type         string         `json:"type"`
	// EvidenceTotal counts beyond the page; replies only.
	EvidenceTotal int `json:"evidence_total,omitempty"`
}

// MatchRow of the export: two entities that may be one thing. A is the lesser id.
type MatchRow struct {
	A      string  `json:"a"`
	AName  string  `json:"a_name,omitempty"` // replies only
	B      string  `json:"b"`
	BName  string  `json:"b_name,omitempty"` // replies only
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Method string  `json:"method"`
	Score  float64 `json:"score"`
	State  string  `json:"state"`
	Why    string  `json:"why,omitempty"` // of a link that a cluster leaves out: who is kept apart by that; replies only
}

// CandidateRow of the export. Chunk is a chunk id.
type CandidateRow struct {
	CandidateKind string   `json:"candidate_kind"`
	Chunk         string   `json:"chunk"`
	Confidence    float64  `json:"confidence"`
	Count         int      `json:"count"`
	Document      string   `json:"document"`
	DocumentID    string   `json:"document_id,omitempty"` // not in the canonical export
	End           int      `json:"end"`
	Key           string   `json:"key"`
	Kind          string   `json:"kind"`
	Label         string   `json:"label"`
	Reasons       []string `json:"reasons"`
	SourceEntity  string   `json:"source_entity"`
	SourceText    string   `json:"source_text"`
	Start         int      `json:"start"`
	TargetEntity  string   `json:"target_entity"`
	TargetText    string   `json:"target_text"`
	Text          string   `json:"text"`
}

// DecisionRow of the export: a decided key.
type DecisionRow struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	State string `json:"state"`
}

// Round6 rounds a float to the six digits behind the point that the export shows. Floats of 2^33 and more lie so far apart
// that their shortest form has no more.
func Round6(f float64) float64 {
	if math.IsNaN(f) || math.Abs(f) >= 1<<33 {
		return f
	}
	return math.Round(f*1e6)/1e6 + 0 // no negative zero
}
