package store

import (
	"maps"
	"sort"

	"github.com/factmill/factmill/pkg/graph"
)

// Doc is a document's row: what is known of it at a sequence.
type Doc struct {
	Meta graph.Meta `json:"meta"`
	Open bool       `json:"open"`
	// Version is the open version, else the last one. Versions count from 1; 0 marks a key that was deleted before it was
	// ever added, of which only the order mark is kept.
	Version        int    `json:"version"`
	Revision       uint64 `json:"revision"`
	ContentHash    string `json:"content_hash,omitempty"`
	ChunkerFP      string `json:"chunker_fp,omitempty"`
	SchemaFP       string `json:"schema_fp,omitempty"`
	ExtractionFP   string `json:"extraction_fp,omitempty"` // empty: no stamp
	SchemaName     string `json:"schema_name,omitempty"`
	SchemaVersion  string `json:"schema_version,omitempty"`
	SchemaRevision uint64 `json:"schema_revision,omitempty"`
	MetaHash       string `json:"meta_hash,omitempty"`
	// Order is the mark that newer changes of the key must not be before.
	Order graph.Order `json:"order"`
}

// Stored is the right side of the decision table for d.
func (d Doc) Stored() graph.Stored {
	if !d.Open {
		return graph.Stored{Revision: d.Revision}
	}
	return graph.Stored{Open: true, Revision: d.Revision, ContentHash: d.ContentHash, SchemaFP: d.SchemaFP,
		ChunkerFP: d.ChunkerFP, ExtractionFP: d.ExtractionFP, MetaHash: d.MetaHash}
}

// Date is the date that property values of d count with: its content date, else its publication date, else "".
func (d Doc) Date() string { return dateOf(d.Meta) }

func dateOf(m graph.Meta) string {
	if m.ContentDate != "" {
		return m.ContentDate
	}
	return m.PublishedAt
}

// Version is one version of a document. FromSeq and ClosedSeq are commit sequences (ClosedSeq 0: open); times are RFC 3339.
type Version struct {
	Version      int           `json:"version"`
	ContentHash  string        `json:"content_hash"`
	ChunkerFP    string        `json:"chunker_fp"`
	SchemaFP     string        `json:"schema_fp"`
	ExtractionFP string        `json:"extraction_fp,omitempty"`
	Chunks       []graph.Chunk `json:"chunks"`
	// FirstNo is the number of the first chunk in the postings; the others follow.
	FirstNo    uint32 `json:"first_no"`
	Terms      int    `json:"terms"` // of all chunks
	FromSeq    uint64 `json:"from_seq"`
	FromTime   string `json:"from_time"`
	ClosedSeq  uint64 `json:"closed_seq,omitempty"`
	ClosedTime string `json:"closed_time,omitempty"`
	Job        string `json:"job,omitempty"`
}

// NameCount counts the mentions of one surface of an entity. Full says that the surface folds to the entity's merge key.
type NameCount struct {
	Name  string
	Count int
	Full  bool
}

// EntityFold is what all open mentions of an entity add up to. Names is sorted by name.
type EntityFold struct {
	ID        string
	Label     string
	Key       string // merge key
	Names     []NameCount
	Mentions  int
	Documents int
}

// Display is the name to show: the full name with most mentions, then the smallest; without a full name the smallest
// surface; without any the merge key.
func (f EntityFold) Display() string {
	best, alias := -1, ""
	for i, n := range f.Names {
		if !n.Full {
			if alias == "" || n.Name < alias {
				alias = n.Name
			}
			continue
		}
		if best < 0 || n.Count > f.Names[best].Count || n.Count == f.Names[best].Count && n.Name < f.Names[best].Name {
			best = i
		}
	}
	switch {
	case best >= 0:
		return f.Names[best].Name
	case alias != "":
		return alias
	default:
		return f.Key
	}
}

// NamedEntity is a hit of the name index. Full says that the name is the entity's merge key, not only an alias.
type NamedEntity struct {
	Name  string // folded
	ID    string
	Label string
	Full  bool
}

// MentionSpan is one mention in a chunk.
type MentionSpan struct {
	Chunk, Start, End int // Chunk is the chunk's index in its version
	Confidence        float64
	Name              string
	Extractor         string
	Rule              string
}

// MentionSupport is the mentions of one entity in one open document, by start.
type MentionSupport struct {
	DocID   string
	Version int
	Spans   []MentionSpan
}

// PropertyFold is what all open documents say of one value of one property. Owner is an entity or a relation.
type PropertyFold struct {
	Owner string
	Name  string
	Value any // string, int64, float64 or bool
	// Documents state the value; BestDocs of them with the highest confidence Best, NewestDocs with the newest date Newest
	// ("" is older than any date).
	Documents  int
	Best       float64
	BestDocs   int
	Newest     string
	NewestDocs int
}

// RelationFold is a relation. Documents state it in Evidence places.
type RelationFold struct {
	ID        string
	Type      string
	Source    string
	Target    string
	Documents int
	Evidence  int
}

// EvidenceSpan is one quote that states a relation or a property value.
type EvidenceSpan struct {
	Chunk, Start, End int
	Confidence        float64
	Assertion         string // empty for property values
	Extractor         string
	Rule              string
	Properties        map[string]any // of a relation
}

// EvidenceSupport is what one open document states of one relation or property value, by start. Date is set for property
// values.
type EvidenceSupport struct {
	DocID   string
	Version int
	Date    string
	Spans   []EvidenceSpan
}

// Edge is a relation as seen from one of its ends; Other is the far one.
type Edge struct {
	Relation string
	Type     string
	Other    string
}

// ChunkRef says where a chunk lies. Open: its version is the document's open one at the reading sequence.
type ChunkRef struct {
	DocID   string
	Version int
	Index   int
	Open    bool
	// Terms of the chunk; set by ChunkAt only.
	Terms int
}

// Stated is what one version states: its assertions (without candidates, which have rows of their own) and what was only
// counted.
type Stated struct {
	graph.Assertions
	Dropped []graph.Dropped `json:"dropped,omitempty"`
	// Kept is what an earlier version stated and this one does not, by fact id.
	Kept []Kept `json:"kept,omitempty"`
	// Decided are the ids of facts of the document that a person made, sorted.
	Decided []string `json:"decided,omitempty"`
	// Revision of the document since which it is so, where a decision changed it; 0: since it was read.
	Revision uint64 `json:"revision,omitempty"`
}

// CandidateRecord is the candidates of one key in one document.
type CandidateRecord struct {
	ID             string `json:"id"`
	DocID          string `json:"doc"`
	State          string `json:"state"`
	Version        int    `json:"version"` // of the document that its offsets refer to
	ContentHash    string `json:"content_hash"`
	ChunkerFP      string `json:"chunker_fp"`
	SchemaFP       string `json:"schema_fp"`
	SchemaVersion  string `json:"schema_version"`
	SchemaRevision uint64 `json:"schema_revision"`
	ExtractionFP   string `json:"extraction_fp"`
	Quote          string `json:"quote"` // at most 500 bytes
	Seq            uint64 `json:"seq"`   // the commit that wrote it
	At             string `json:"at"`    // its time, RFC 3339
	Job            string `json:"job,omitempty"`
	// Edited says who changed the record, and what it was; nil: nobody did.
	Edited *Edited `json:"edited,omitempty"`
	graph.Candidate
}

// Decision is what people decided on a candidate key. State is "approved" or "rejected".
type Decision struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	State string `json:"state"`
	Seq   uint64 `json:"seq"`
	At    string `json:"at"`
	// Actor and Reason say who decided and why.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Counts is what a graph holds at a sequence.
type Counts struct {
	Documents  int            `json:"documents"`
	Chunks     int            `json:"chunks"`
	Mentions   int            `json:"mentions"`
	Entities   map[string]int `json:"entities"`   // by label
	Relations  map[string]int `json:"relations"`  // by type
	Candidates int            `json:"candidates"` // pending records
	// Stale counts facts that documents no longer state and about which a person is asked.
	Stale int `json:"stale,omitempty"`
	// Decided are candidate keys by decision, also those whose records became facts.
	Decided map[string]int `json:"decided,omitempty"`
	// Matches by state.
	Matches map[string]int `json:"matches,omitempty"`
	// Conflicts are properties with several values, by ConflictClass.
	Conflicts map[string]int `json:"conflicts,omitempty"`
	// Rulings are properties about whose values somebody decided.
	Rulings int `json:"rulings,omitempty"`
	// Apart of them tell things of one name apart.
	Apart int `json:"apart,omitempty"`
	// CandidateNo is the number of the newest candidate event.
	CandidateNo uint64 `json:"candidate_no"`
	// ChunkNo is the number that the next chunk gets in the postings.
	ChunkNo uint32 `json:"chunk_no"`
	// Terms of all open chunks: over Chunks it gives their average length.
	Terms int `json:"terms"`
}

func (c Counts) clone() Counts {
	e, r := make(map[string]int, len(c.Entities)), make(map[string]int, len(c.Relations))
	maps.Copy(e, c.Entities)
	maps.Copy(r, c.Relations)
	c.Entities, c.Relations, c.Matches, c.Conflicts, c.Decided = e, r, maps.Clone(c.Matches), maps.Clone(c.Conflicts), maps.Clone(c.Decided)
	return c
}

// addCount changes a counter by type and drops it at zero.
func addCount(m map[string]int, key string, by int) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}

// Posting is a chunk that holds a term, and how often.
type Posting struct {
	No uint32 // of the chunk; see Snapshot.ChunkAt
	TF int
}

func sortNames(n []NameCount) {
	sort.Slice(n, func(i, j int) bool { return n[i].Name < n[j].Name })
}
