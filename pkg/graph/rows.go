package graph

// Rows of the canonical export (spec 2). Fields stand in the order of their JSON names, so that the encoder writes sorted
// keys. Query replies reuse them.

// Evidence backs one fact.
type Evidence struct {
	Assertion  string   `json:"assertion,omitempty"`
	Chunk      string   `json:"chunk"`
	ClosedSeq  uint64   `json:"closed_seq,omitempty"` // the commit that closed its document version; query.evidence with history only
	Confidence float64  `json:"confidence"`
	Document   string   `json:"document,omitempty"` // document key; query replies only
	End        int      `json:"end"`
	Extractors []string `json:"extractors,omitempty"`
	Quote      string   `json:"quote,omitempty"`
	Start      int      `json:"start"`
	Version    int      `json:"version,omitempty"` // of the document; query.evidence with history only
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

// ChunkRow of the export. Document is the document's id.
type ChunkRow struct {
	Content  string `json:"content"`
	Document string `json:"document"`
	// DocumentKey is the document's key; query replies only.
	DocumentKey string   `json:"document_key,omitempty"`
	End         int      `json:"end"`
	Heading     []string `json:"heading_path"`
	ID          string   `json:"id"`
	Index       int      `json:"index"`
	Kind        string   `json:"kind"`
	Prefix      string   `json:"prefix"`
	Start       int      `json:"start"`
	Text        string   `json:"text"`
}

// MentionRow is one mention of an entity in the export.
type MentionRow struct {
	Chunk      string  `json:"chunk"`
	Confidence float64 `json:"confidence"`
	Document   string  `json:"document,omitempty"` // query replies only
	End        int     `json:"end"`
	Quote      string  `json:"quote,omitempty"` // query replies only
	Start      int     `json:"start"`
}

// PropertyRow is a property's shown value with its sources; Others are the values that lost.
type PropertyRow struct {
	Evidence []string   `json:"evidence"`
	Others   []OtherRow `json:"others"`
	Value    any        `json:"value"`
	Quotes   []Evidence `json:"quotes,omitempty"` // query replies only
}

// OtherRow is a value that lost, with its sources.
type OtherRow struct {
	Evidence []string `json:"evidence"`
	Value    any      `json:"value"`
}

// EntityRow of the export. Labels is the type and its ancestors, sorted.
type EntityRow struct {
	ID         string                 `json:"id"`
	Kind       string                 `json:"kind"`
	Labels     []string               `json:"labels"`
	Mentions   []MentionRow           `json:"mentions"`
	MergeKey   string                 `json:"merge_key"`
	Name       string                 `json:"name"`
	Properties map[string]PropertyRow `json:"properties"`
	Type       string                 `json:"type"`
	// Evidence repeats the mentions as evidence with quotes, at most a page; query replies only.
	Evidence []Evidence `json:"evidence,omitempty"`
	// MentionsTotal and DocumentsTotal count beyond the page; query replies only.
	MentionsTotal  int `json:"mentions_total,omitempty"`
	DocumentsTotal int `json:"documents_total,omitempty"`
}

// RelationRow of the export.
type RelationRow struct {
	Evidence   []Evidence     `json:"evidence"`
	ID         string         `json:"id"`
	Kind       string         `json:"kind"`
	Properties map[string]any `json:"properties"`
	Source     string         `json:"source"`
	SourceName string         `json:"source_name,omitempty"` // query replies only
	Target     string         `json:"target"`
	TargetName string         `json:"target_name,omitempty"` // query replies only
	Type       string         `json:"type"`
	// EvidenceTotal counts beyond the page; query replies only.
	EvidenceTotal int `json:"evidence_total,omitempty"`
}

// CandidateRow of the export. Chunk is a chunk id.
type CandidateRow struct {
	CandidateKind string   `json:"candidate_kind"`
	Chunk         string   `json:"chunk"`
	Confidence    float64  `json:"confidence"`
	Count         int      `json:"count"`
	Document      string   `json:"document"`
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

// Round6 cuts a float to the six digits that the export shows.
func Round6(f float64) float64 {
	const m = 1e6
	if f < 0 {
		return -Round6(-f)
	}
	return float64(int64(f*m+0.5)) / m
}
