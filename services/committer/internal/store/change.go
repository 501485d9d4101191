package store

import "github.com/factmill/factmill/pkg/graph"

// DocChange is what a job wants of one document.
type DocChange struct {
	Decision graph.Decision
	Meta     graph.Meta // Key is required; ID is filled when empty
	// Text is normalised; with Chunks and Assertions it is set for new_version and in_place.
	Text        string
	ContentHash string
	Chunks      []graph.Chunk
	Assertions  graph.Assertions
	Dropped     []graph.Dropped // what was only counted; kept with the version
	SchemaFP    string
	SchemaName  string
	// SchemaVersion and SchemaRevision are recorded with the document.
	SchemaVersion  string
	SchemaRevision uint64
	ChunkerFP      string
	// ExtractionFP is empty when some chunk failed: the document then has no stamp.
	ExtractionFP string
	Order        graph.Order
	Job          string
	// NoCandidates drops the document's pending candidates and writes none.
	NoCandidates bool
	// Symmetric says whether a relation type is symmetric; its ends are then sorted. Nil: none is.
	Symmetric func(relType string) bool
	// Stale is the policy for facts that the document no longer states. Nil: all are withdrawn.
	Stale func(f StaleFact) string

	prep *prepared
}

// Outcomes of applying a change.
const (
	Added       = "added"
	Updated     = "updated"
	Unchanged   = "unchanged"
	MetaChanged = "metadata"
	Deleted     = "deleted"
	Unknown     = "unknown" // a delete of a key that is not there
	Superseded  = "superseded"
)

// MaxRemoved bounds DocResult.Removed.
const MaxRemoved = 100

// DocResult says what applying a change did.
type DocResult struct {
	Outcome string
	Version int
	// Entities and relations that came to be, got support of this document, or went.
	EntitiesCreated  int
	EntitiesUpdated  int
	EntitiesRemoved  int
	RelationsCreated int
	RelationsJoined  int
	RelationsRemoved int
	// Conflicts counts properties that this change gave a further value.
	Conflicts int
	// CandidatesWritten and CandidatesSuppressed count sightings' records; suppressed ones have a rejected key.
	CandidatesWritten    int
	CandidatesSuppressed int
	// Kept counts facts that the new version does not state, or the deleted document stated, and that stay; of Asked of them a person is to decide.
	Kept  int
	Asked int
	// WithdrawnDecided names facts that a person decided and whose support went, at most MaxRemoved; WithdrawnDecidedTotal counts them all.
	WithdrawnDecided      []string
	WithdrawnDecidedTotal int
	// Removed names the facts that went, at most MaxRemoved; RemovedTotal counts them all.
	Removed      []string
	RemovedTotal int
}

// Committed says what a commit made current.
type Committed struct {
	Seq         uint64
	Counts      Counts
	RowsWritten int
	Bytes       int64
}
