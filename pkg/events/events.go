package events

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
)

// Event is one decoded event. The subject names graph, kind, job and item; ID is its deterministic message id.
type Event interface {
	// Where is the event's subject.
	Where() Subject
	// ID is the message id: equal for equal work of one attempt, so that a broker drops what was published twice.
	ID() string
}

// Error policies of a job.
const (
	PolicyRaise      = "raise"
	PolicySkip       = "skip"
	PolicyQuarantine = "quarantine"
)

// Atomic levels of a job.
const (
	AtomicJob      = "job"
	AtomicDocument = "document"
)

// Operations of a document event.
const (
	OpAdd    = "add"
	OpUpdate = "update"
	OpDelete = "delete"
)

// Job is what every stage event carries of its job: who it is and the settings under which it runs.
type Job struct {
	Graph   string `json:"graph"`
	ID      string `json:"job"`
	Attempt int    `json:"attempt"`
	Op      string `json:"op"`
	// Schema the job uses to its end: the graph's schema revision and its fingerprint.
	SchemaRevision uint64 `json:"schema_revision"`
	// RegistryRevision of the known entities that the job uses to its end, and its fingerprint; 0: the graph has none.
	RegistryRevision uint64            `json:"registry_revision,omitempty"`
	RegistryFP       string            `json:"registry_fingerprint,omitempty"`
	SchemaFP         string            `json:"schema_fingerprint"`
	ChunkerFP        string            `json:"chunker_fingerprint"`
	ExtractionFP     string            `json:"extraction_fingerprint"`
	Settings         settings.Pipeline `json:"settings"`
	ErrorPolicy      string            `json:"error_policy"`
	Force            bool              `json:"force,omitempty"`
	NoCandidates     bool              `json:"no_candidates,omitempty"`
	// At is the document event's time and sequence.
	At graph.Order `json:"at"`
}

func (j Job) where(kind, item string) Subject {
	return Subject{Graph: j.Graph, Kind: kind, Job: j.ID, Item: item}
}

func (j Job) id(kind, item, extra string) string {
	s := j.Graph + ":" + kind + ":" + j.ID + ":" + strconv.Itoa(j.Attempt) + ":" + item
	if extra != "" {
		s += ":" + extra
	}
	return s
}

// DocRef names a document in an event of its job. Token is the subject token of its key; Source the token of its source;
// Sole says that the source is exactly this document, so that no source end follows.
type DocRef struct {
	Key         string `json:"key"`
	Token       string `json:"token"`
	Source      string `json:"source"`
	Sole        bool   `json:"sole,omitempty"`
	ContentHash string `json:"content_hash,omitempty"`
	// SourceUpdatedAt of a document that ended unchanged: it moves the key's order mark too.
	SourceUpdatedAt string `json:"source_updated_at,omitempty"`
	// Try counts how often the document was decided anew in this attempt.
	Try int `json:"try,omitempty"`
}

// id tells the events of a document apart, besides its token: by its source, so that a key that two sources of a job give arrives
// twice and fails the job, and by its try.
func (d DocRef) id() string {
	if d.Try == 0 {
		return d.Source
	}
	return d.Source + ":t" + strconv.Itoa(d.Try)
}

// Source is one unit of input: a file, an object, an uploaded file, a list of inline documents, or keys to delete.
type Source struct {
	Token string `json:"token"`
	// Name is what a person calls it: the path, the object, "inline".
	Name string `json:"name"`
	// Path of a file as the loader sees it; empty for the other kinds.
	Path string `json:"path,omitempty"`
	// Object is "<bucket>/<name>" in the object store.
	Object string `json:"object,omitempty"`
	// Data is an uploaded file's bytes.
	Data []byte `json:"data,omitempty"`
	// Document is one inline document.
	Document *InputDocument `json:"document,omitempty"`
	// Delete is a key to delete.
	Delete string `json:"delete,omitempty"`
	// Meta given for a single file: key, title, format, dates, metadata, scope.
	Meta *InputDocument `json:"meta,omitempty"`
	// Only limits the fetch to one key: a document that is decided anew. The loader finds the source in the document event.
	Only string `json:"only,omitempty"`
	Try  int    `json:"try,omitempty"`
	// Relist asks the loader to list the job's document event again: a new attempt.
	Relist bool `json:"relist,omitempty"`
}

// Found: a source to fetch.
type Found struct {
	Job    Job    `json:"job"`
	Source Source `json:"source"`
	// Trace is the traceparent of a document that is decided anew: it comes from the outbox, which knows none.
	Trace string `json:"trace,omitempty"`
}

// Where implements Event.
func (e *Found) Where() Subject { return e.Job.where(KindFound, e.Source.Token) }

// ID implements Event.
func (e *Found) ID() string {
	x := ""
	if e.Source.Try > 0 {
		x = "t" + strconv.Itoa(e.Source.Try)
	}
	return e.Job.id(KindFound, e.Source.Token, x)
}

// Loaded: a document's normalised text.
type Loaded struct {
	Job      Job            `json:"job"`
	Doc      DocRef         `json:"doc"`
	Meta     graph.Meta     `json:"meta"`
	Decision graph.Decision `json:"decision"`
	// Base is the document's revision that the decision was taken against.
	Base uint64 `json:"base"`
	Text string `json:"text"`
	// Markup is "markdown" or "plain": how the chunker reads structure out of Text.
	Markup string `json:"markup"`
}

// Where implements Event.
func (e *Loaded) Where() Subject { return e.Job.where(KindLoaded, e.Doc.Token) }

// ID implements Event.
func (e *Loaded) ID() string { return e.Job.id(KindLoaded, e.Doc.Token, e.Doc.id()) }

// Chunked: what the extractor reads. Chunks are slices of Text.
type Chunked struct {
	Job    Job           `json:"job"`
	Doc    DocRef        `json:"doc"`
	Title  string        `json:"title,omitempty"`
	Text   string        `json:"text"`
	Chunks []graph.Chunk `json:"chunks"`
}

// Where implements Event.
func (e *Chunked) Where() Subject { return e.Job.where(KindChunked, e.Doc.Token) }

// ID implements Event.
func (e *Chunked) ID() string { return e.Job.id(KindChunked, e.Doc.Token, e.Doc.id()) }

// Staged: what the committer keeps of a document besides its assertions. Text and Chunks are empty for metadata_only and
// delete, for which no Resolved follows.
type Staged struct {
	Job      Job            `json:"job"`
	Doc      DocRef         `json:"doc"`
	Meta     graph.Meta     `json:"meta"`
	Decision graph.Decision `json:"decision"`
	Base     uint64         `json:"base"`
	Text     string         `json:"text,omitempty"`
	Chunks   []graph.Chunk  `json:"chunks,omitempty"`
	Sections int            `json:"sections,omitempty"`
	Tables   int            `json:"tables,omitempty"`
}

// Where implements Event.
func (e *Staged) Where() Subject { return e.Job.where(KindStaged, e.Doc.Token) }

// ID implements Event.
func (e *Staged) ID() string { return e.Job.id(KindStaged, e.Doc.Token, e.Doc.id()) }

// Extracted: what was read, before resolution. No text.
type Extracted struct {
	Job        Job              `json:"job"`
	Doc        DocRef           `json:"doc"`
	DocID      string           `json:"doc_id"`
	Extraction graph.Extraction `json:"extraction"`
	Stats      ExtractionStats  `json:"stats"`
	Escalation *EscalationStats `json:"escalation,omitempty"`
}

// Where implements Event.
func (e *Extracted) Where() Subject { return e.Job.where(KindExtracted, e.Doc.Token) }

// ID implements Event.
func (e *Extracted) ID() string { return e.Job.id(KindExtracted, e.Doc.Token, e.Doc.id()) }

// ExtractionStats of one document.
type ExtractionStats struct {
	Processed int `json:"processed"`
	// Failures of chunks under SKIP and QUARANTINE; the document commits without its extraction stamp.
	Failures   []graph.Failure `json:"failures,omitempty"`
	Incomplete int             `json:"incomplete,omitempty"`
	Entities   int             `json:"entities"`
	Relations  int             `json:"relations"`
	Properties int             `json:"properties"`
	// Items that were only counted, and those that a person can decide on, each once; and the reasons of both together.
	Discarded int `json:"discarded,omitempty"`
	Undecided int `json:"undecided,omitempty"`
	Reasons   int `json:"reasons,omitempty"`
}

// StageEscalation is the stage of failures of a model beside the rules.
const StageEscalation = "escalation"

// EscalationStats of one document (hybrid and llm modes).
type EscalationStats struct {
	Mode             string `json:"mode"`
	Total            int    `json:"total"`
	Eligible         int    `json:"eligible"`
	Escalated        int    `json:"escalated"`
	Left             int    `json:"left"`
	Failed           int    `json:"failed"`
	PromptTokens     int    `json:"prompt_tokens"`
	CompletionTokens int    `json:"completion_tokens"`
	CacheHits        int    `json:"cache_hits"`
	// Asked are chunks of which a model was asked at all.
	Asked int `json:"asked,omitempty"`
	// Requests to the model, repairs and retries included, and the time they took.
	Requests int   `json:"requests"`
	Repaired int   `json:"repaired"`
	Millis   int64 `json:"model_ms"`
}

// Add counts those of another document in. The mode is the last one's.
func (s *EscalationStats) Add(o EscalationStats) {
	s.Mode = o.Mode
	s.Total += o.Total
	s.Eligible += o.Eligible
	s.Escalated += o.Escalated
	s.Left += o.Left
	s.Failed += o.Failed
	s.PromptTokens += o.PromptTokens
	s.CompletionTokens += o.CompletionTokens
	s.CacheHits += o.CacheHits
	s.Asked += o.Asked
	s.Requests += o.Requests
	s.Repaired += o.Repaired
	s.Millis += o.Millis
}

// ResolutionStats of one document. Of the Exact mentions, Registry took the identity of a known entity, and Ambiguous have a name
// of several.
type ResolutionStats struct {
	Exact     int `json:"exact"`
	Registry  int `json:"registry,omitempty"`
	Ambiguous int `json:"ambiguous,omitempty"`
	Compared  int `json:"compared,omitempty"`
	SelfLoop  int `json:"self_loop,omitempty"`
}

// Resolved: the document's assertions between identified entities.
type Resolved struct {
	Job        Job              `json:"job"`
	Doc        DocRef           `json:"doc"`
	Assertions graph.Assertions `json:"assertions"`
	Dropped    []graph.Dropped  `json:"dropped,omitempty"`
	Extraction ExtractionStats  `json:"extraction"`
	Escalation *EscalationStats `json:"escalation,omitempty"`
	Resolution ResolutionStats  `json:"resolution"`
}

// Where implements Event.
func (e *Resolved) Where() Subject { return e.Job.where(KindResolved, e.Doc.Token) }

// ID implements Event.
func (e *Resolved) ID() string { return e.Job.id(KindResolved, e.Doc.Token, e.Doc.id()) }

// Outcomes of an Ended event.
const (
	OutcomeListed      = "listed" // the source has Documents documents with this Digest
	OutcomeUnchanged   = "unchanged"
	OutcomeSkipped     = "skipped"
	OutcomeQuarantined = "quarantined"
	OutcomeFailed      = "failed"
	// OutcomeSuperseded: a later job that says supersede took the document.
	OutcomeSuperseded = "superseded"
)

// Ended: a document or a whole source needs nothing more. A source that ends skipped, quarantined or failed has no documents.
type Ended struct {
	Job Job `json:"job"`
	// Doc is set when one document ends; a source ends without it.
	Doc     *DocRef `json:"doc,omitempty"`
	Source  string  `json:"source"`
	Name    string  `json:"name,omitempty"` // of the source
	Outcome string  `json:"outcome"`
	// Documents and Digest of a listed source: count and the XOR of its documents' token digests.
	Documents int    `json:"documents,omitempty"`
	Digest    string `json:"digest,omitempty"`
	// Base is the revision that "unchanged" was decided against.
	Base uint64 `json:"base,omitempty"`
	// Failure is why; with "listed" and "unchanged" a note, which fails nothing.
	Failure *graph.Failure `json:"failure,omitempty"`
	// Body refers to the bytes of what was quarantined, where they are kept: an event of kind BodyKind.
	Body     string `json:"body,omitempty"`
	BodyKind string `json:"body_kind,omitempty"`
	// Items counts records inside a quarantined source.
	Items int `json:"items,omitempty"`
	// Parked names the message that became a dead letter, "<stream>:<sequence>": one that is replayed may be parked again, and its
	// end is then another event.
	Parked string `json:"parked,omitempty"`
}

func (e *Ended) item() string {
	if e.Doc != nil {
		return e.Doc.Token
	}
	return e.Source
}

// Where implements Event.
func (e *Ended) Where() Subject { return e.Job.where(KindEnded, e.item()) }

// ID implements Event.
func (e *Ended) ID() string {
	x := e.Outcome
	if e.Doc != nil {
		x = e.Doc.id() + ":d" + x
	}
	if e.Parked != "" {
		x += ":" + e.Parked
	}
	return e.Job.id(KindEnded, e.item(), x)
}

// Sealed: every source of the job is listed.
type Sealed struct {
	Job     Job      `json:"job"`
	Sources []string `json:"sources"` // tokens, sorted
	// Refused ends the job at once: why the document event cannot run.
	Refused *graph.Failure `json:"refused,omitempty"`
}

// Where implements Event.
func (e *Sealed) Where() Subject { return e.Job.where(KindSealed, "") }

// ID implements Event.
func (e *Sealed) ID() string { return e.Job.id(KindSealed, "", "") }

// JobState is a kept event about a job: opened, held, committed, rolling_back, rolled_back.
type JobState struct {
	Graph   string          `json:"graph"`
	Job     string          `json:"job"`
	Attempt int             `json:"attempt"`
	State   string          `json:"state"` // the last token of the kind
	Reason  string          `json:"reason,omitempty"`
	Seq     uint64          `json:"commit_seq,omitempty"`
	Status  json.RawMessage `json:"status,omitempty"`
}

// Where implements Event.
func (e *JobState) Where() Subject {
	return Subject{Graph: e.Graph, Kind: "job." + e.State, Job: e.Job}
}

// ID implements Event.
func (e *JobState) ID() string {
	return e.Graph + ":job." + e.State + ":" + e.Job + ":" + strconv.Itoa(e.Attempt)
}

// CandidateItem is one record in a candidate event, as the review desk shows it.
type CandidateItem struct {
	ID          string   `json:"id"`
	Document    string   `json:"document"`
	DocumentID  string   `json:"document_id"`
	ContentHash string   `json:"content_hash"`
	State       string   `json:"state"`
	Quote       string   `json:"quote"`
	ChunkID     string   `json:"chunk_id"`
	Scope       []string `json:"scope,omitempty"`
	// At is the time of the commit that wrote the record, RFC 3339.
	At string `json:"at,omitempty"`
	graph.Candidate
}

// CandidateEvent: candidates of one kind that one commit proposed, approved, rejected, converted, withdrew or pruned.
// No numbers a graph's candidate events without gaps, so that a reader knows what it missed.
type CandidateEvent struct {
	Graph string          `json:"graph"`
	Verb  string          `json:"verb"`
	Kind  string          `json:"kind"`
	Seq   uint64          `json:"commit_seq"`
	No    uint64          `json:"no"`
	Job   string          `json:"job,omitempty"`
	Items []CandidateItem `json:"items"`
}

// Where implements Event.
func (e *CandidateEvent) Where() Subject {
	return Subject{Graph: e.Graph, Kind: KindCandidate, Job: e.Verb, Item: e.Kind}
}

// ID implements Event.
func (e *CandidateEvent) ID() string {
	return e.Graph + ":candidate:" + strconv.FormatUint(e.No, 10)
}

// Change: what one commit changed, in parts when large.
type Change struct {
	Graph     string   `json:"graph"`
	Seq       uint64   `json:"commit_seq"`
	Part      int      `json:"part"` // from 1
	Parts     int      `json:"parts"`
	Job       string   `json:"job,omitempty"`
	Documents []string `json:"documents,omitempty"` // keys added, updated or deleted
	Upserted  []string `json:"upserted,omitempty"`  // entity and relation ids
	Removed   []string `json:"removed,omitempty"`
}

// Where implements Event.
func (e *Change) Where() Subject {
	return Subject{Graph: e.Graph, Kind: KindChange, Job: strconv.FormatUint(e.Seq, 10)}
}

// ID implements Event.
func (e *Change) ID() string {
	return fmt.Sprintf("%s:change:%d:%d", e.Graph, e.Seq, e.Part)
}

// Dead is a parked message: what could not be handled, and the event itself to look at and replay.
type Dead struct {
	Graph    string            `json:"graph"`
	Stage    string            `json:"stage"`
	Job      string            `json:"job"`
	Doc      string            `json:"doc"`
	Item     string            `json:"item,omitempty"` // the document's key or the source's name, where it could be read
	Subject  string            `json:"subject"`
	Stream   string            `json:"stream"`
	Seq      uint64            `json:"seq"` // in Stream
	Attempts uint64            `json:"attempts"`
	Code     string            `json:"code"`
	Error    string            `json:"error"`
	TraceID  string            `json:"trace_id,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     []byte            `json:"body,omitempty"` // empty when the message travelled by reference
}

// Where implements Event.
func (e *Dead) Where() Subject {
	return Subject{Graph: e.Graph, Kind: KindDead, Job: e.Stage, Item: e.Job + "." + e.Doc}
}

// ID implements Event.
func (e *Dead) ID() string { return "dead:" + e.Message() }

// Message names the parked message, "<stream>:<sequence>".
func (e *Dead) Message() string { return e.Stream + ":" + strconv.FormatUint(e.Seq, 10) }
