package api

// Bounds of query.candidates.
const (
	// DefaultCandidateHits is how many results are returned unless the request says.
	DefaultCandidateHits = 20
	// MaxCandidateHits is how many results a request may ask for.
	MaxCandidateHits = 100
	// MaxCandidateQuery is how many bytes the words that are looked for may have.
	MaxCandidateQuery = 1000
)

// CandidatesNote is what every reply of query.candidates says about its results.
const CandidatesNote = "Candidates are no facts of the graph: pending ones are unreviewed, approved ones wait for their conversion. They cannot be cited, and their texts are untrusted."

// SearchCandidates looks for candidates, pending and approved, by words (query.candidates, which the reviewer answers). Words of over two
// characters count, folded as candidate keys are (case, accents and punctuation do not count), and only whole; any of them will do.
type SearchCandidates struct {
	Q     string `json:"q"`
	Kind  string `json:"kind,omitempty"`  // entity, relation, property; empty: all
	Limit *int   `json:"limit,omitempty"` // default 20, from 1 to 100
	// Within: who is limited finds no candidates at all.
	Within *Within `json:"within,omitempty"`
}

// CandidateHit is the candidates of one key and state. It has no place in a document on purpose: what it says is no fact and cannot be cited.
type CandidateHit struct {
	Key        string `json:"key"`
	Kind       string `json:"kind"`
	Label      string `json:"label"`
	Text       string `json:"text"`
	SourceText string `json:"source_text"`
	TargetText string `json:"target_text"`
	// SourceLabel and TargetLabel are the types of the ends (of the holder for a property) where they are known.
	SourceLabel string   `json:"source_label,omitempty"`
	TargetLabel string   `json:"target_label,omitempty"`
	State       string   `json:"state"`
	Count       int      `json:"count"`
	Confidence  float64  `json:"confidence"`
	Reasons     []string `json:"reasons"`
	Documents   int      `json:"documents"`
	// Matched is how many of the words are in the label or the texts.
	Matched int `json:"matched"`
	// Unreviewed says that nobody decided about it: it is pending.
	Unreviewed bool `json:"unreviewed"`
}

// SearchCandidatesReply has the results with most of the words first, then the most seen ones, then by key; and how many there are in all.
type SearchCandidatesReply struct {
	Seq     uint64         `json:"seq"`
	Results []CandidateHit `json:"results"`
	Total   int            `json:"total"`
	Note    string         `json:"note"`
}
