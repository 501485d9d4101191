package graph

// What an extractor says of a chunk, after validation and before resolution.

// Chunk read states.
const (
	Complete   = "complete"
	Incomplete = "incomplete"
	Failed     = "failed"
)

// Extraction is what was read out of one document version.
type Extraction struct {
	Chunks []ChunkItems `json:"chunks"`
	// Dropped counts items that were only counted, over all chunks.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// ChunkItems is what was read out of one chunk. Chunks without items are left out unless their state is not complete.
type ChunkItems struct {
	Index      int             `json:"i"`
	State      string          `json:"state,omitempty"` // empty: complete
	Entities   []EntityItem    `json:"entities,omitempty"`
	Relations  []RelationItem  `json:"relations,omitempty"`
	Candidates []CandidateItem `json:"candidates,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`
}

// EntityItem is a mention that passed the validator.
type EntityItem struct {
	Type string `json:"type"`
	// Name as written: the text at Start…End with white space collapsed.
	Name string `json:"name"`
	// Of is the full name when Name is a short form or acronym of one given in the same document; else empty.
	Of         string         `json:"of,omitempty"`
	Start      int            `json:"s"`
	End        int            `json:"e"`
	Confidence float64        `json:"c"`
	Extractor  string         `json:"x"` // "rules", "llm"
	Rule       string         `json:"rule,omitempty"`
	Properties []PropertyItem `json:"properties,omitempty"`
}

// PropertyItem is a typed value. Value is a string, int64, float64 or bool.
type PropertyItem struct {
	Name       string  `json:"name"`
	Value      any     `json:"value"`
	Start      int     `json:"s"`
	End        int     `json:"e"`
	Confidence float64 `json:"c"`
}

// RelationItem is a relation between two kept mentions of its chunk. Source and Target index ChunkItems.Entities;
// Start…End is the quote.
type RelationItem struct {
	Type       string         `json:"type"`
	Source     int            `json:"source"`
	Target     int            `json:"target"`
	Start      int            `json:"s"`
	End        int            `json:"e"`
	Confidence float64        `json:"c"`
	Assertion  string         `json:"a,omitempty"` // empty: explicit
	Extractor  string         `json:"x"`
	Rule       string         `json:"rule,omitempty"`
	Properties []PropertyItem `json:"properties,omitempty"`
}

// Dropped is a count of items of one kind, label and reason, with one sample.
type Dropped struct {
	Kind   string `json:"kind"`
	Label  string `json:"label"`
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Candidates is how many of them a person can decide on; the others were only counted.
	Candidates int    `json:"candidates,omitempty"`
	Sample     string `json:"sample,omitempty"`
}

// Failure is one counted failure.
type Failure struct {
	Stage   string `json:"stage,omitempty"`
	Item    string `json:"item"`
	Code    string `json:"code"`
	Message string `json:"message"`
	TraceID string `json:"trace_id,omitempty"`
	// Reply is the beginning of what a model answered, where that was the fault, and Attempt how often it was asked.
	Reply   string `json:"reply,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
}

// Candidate kinds.
const (
	KindEntity   = "entity"
	KindRelation = "relation"
	KindProperty = "property"
)

// CandidateItem is an item that the schema or a threshold kept out. For a relation, Text is the quote; for a property, Label
// is the property's name, Text the value as written, SourceText and SourceLabel its holder.
type CandidateItem struct {
	Kind        string   `json:"kind"`
	Label       string   `json:"label"`
	Text        string   `json:"text"`
	SourceText  string   `json:"source_text,omitempty"`
	TargetText  string   `json:"target_text,omitempty"`
	SourceLabel string   `json:"source_label,omitempty"`
	TargetLabel string   `json:"target_label,omitempty"`
	Confidence  float64  `json:"c"`
	Reasons     []string `json:"reasons"`
	Start       int      `json:"s"`
	End         int      `json:"e"`
	Assertion   string   `json:"a,omitempty"`
	Extractor   string   `json:"x"`
	Rule        string   `json:"rule,omitempty"`
}

// Reasons of candidates and drops (spec 5).
const (
	ReasonNoEvidence         = "no_evidence"
	ReasonUndeclaredLabel    = "undeclared_label"
	ReasonBadConfidence      = "bad_confidence"
	ReasonEntityBand         = "entity_band"
	ReasonBelowRelationCut   = "below_relation_cut"
	ReasonBelowFloor         = "below_floor"
	ReasonUnresolvedEndpoint = "unresolved_endpoint"
	ReasonOffPattern         = "off_pattern"
	ReasonSelfLoop           = "self_loop"
	ReasonAssertionKind      = "assertion_kind"
	ReasonPolicy             = "policy"
	ReasonUndeclaredProperty = "undeclared_property"
	ReasonBadValue           = "bad_value"
	ReasonNotInEnum          = "not_in_enum"
	ReasonBadName            = "bad_name"
	ReasonLimit              = "limit"
	// ReasonInstruction: a model's item whose evidence is a text that tells its reader what to do.
	ReasonInstruction = "instruction"
	// ReasonLooseEvidence: a model's relation whose quote names neither end, or whose ends stand far apart.
	ReasonLooseEvidence = "loose_evidence"
)

// What the resolver makes of an extraction: assertions between identified entities.

// Assertions is everything one document version states. Entities is sorted by id; the rest refers to it by place.
type Assertions struct {
	Entities   []EntityRef       `json:"entities,omitempty"`
	Chunks     []ChunkAssertions `json:"chunks,omitempty"`
	Candidates []Candidate       `json:"candidates,omitempty"`
}

// EntityRef identifies an entity: the id is U5 of label and merge key.
type EntityRef struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Key   string `json:"key"` // merge key: the folded name
}

// ChunkAssertions is what one chunk states. Chunks that state nothing and were read whole are left out.
type ChunkAssertions struct {
	Index      int         `json:"i"`
	State      string      `json:"state,omitempty"` // empty: complete
	Mentions   []Mention   `json:"mentions,omitempty"`
	Properties []PropertyA `json:"properties,omitempty"`
	Relations  []RelationA `json:"relations,omitempty"`
}

// Mention is a span that names an entity.
type Mention struct {
	Entity int `json:"n"` // place in Assertions.Entities
	// Name as written. Only a name whose fold is the entity's merge key counts towards the display name.
	Name       string  `json:"name"`
	Start      int     `json:"s"`
	End        int     `json:"e"`
	Confidence float64 `json:"c"`
	Extractor  string  `json:"x"`
	Rule       string  `json:"rule,omitempty"`
}

// PropertyA asserts a property value of an entity.
type PropertyA struct {
	Entity     int     `json:"n"`
	Name       string  `json:"name"`
	Value      any     `json:"value"`
	Start      int     `json:"s"`
	End        int     `json:"e"`
	Confidence float64 `json:"c"`
	Extractor  string  `json:"x"`
}

// RelationA asserts a relation; Start…End is the quote.
type RelationA struct {
	Type       string         `json:"type"`
	Source     int            `json:"source"`
	Target     int            `json:"target"`
	Start      int            `json:"s"`
	End        int            `json:"e"`
	Confidence float64        `json:"c"`
	Assertion  string         `json:"a,omitempty"` // empty: explicit
	Extractor  string         `json:"x"`
	Rule       string         `json:"rule,omitempty"`
	Properties map[string]any `json:"properties,omitempty"`
}

// AssertionKind returns the assertion kind in full.
func (r RelationA) AssertionKind() string {
	if r.Assertion == "" {
		return "explicit"
	}
	return r.Assertion
}

// Candidate is one record: equal items (one key) of one document version.
type Candidate struct {
	Key          string   `json:"key"`
	Kind         string   `json:"kind"`
	Label        string   `json:"label"`
	Text         string   `json:"text"`
	SourceText   string   `json:"source_text,omitempty"`
	TargetText   string   `json:"target_text,omitempty"`
	SourceLabel  string   `json:"source_label,omitempty"`
	TargetLabel  string   `json:"target_label,omitempty"`
	SourceEntity string   `json:"source_entity,omitempty"` // entity id where the end is a kept mention
	TargetEntity string   `json:"target_entity,omitempty"`
	Confidence   float64  `json:"confidence"`
	Reasons      []string `json:"reasons"`
	Count        int      `json:"count"`
	Chunk        int      `json:"chunk"` // index of the first sighting's chunk
	Start        int      `json:"start"`
	End          int      `json:"end"`
	Assertion    string   `json:"assertion,omitempty"`
	Extractor    string   `json:"extractor"`
	Rule         string   `json:"rule,omitempty"`
	// More sightings in the same version, at most 20, as [chunk, start, end].
	More [][3]int `json:"more,omitempty"`
}
