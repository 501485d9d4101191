package api

import (
	"encoding/json"

	"github.com/factmill/factmill/pkg/graph"
)

// Requests and replies of factmill.<g>.query.<verb>. As of is a commit sequence; 0 is now. Rows are those of the export with more
// fields (package graph): a document is named by its key everywhere, and every entity, relation and property value has its
// evidence as a list of {document, chunk, start, end, quote, confidence, assertion, extractors}.

// StatsReply counts what the graph holds.
type StatsReply struct {
	Graph      string `json:"graph"`
	Seq        uint64 `json:"seq"`
	Documents  int    `json:"documents"`
	Chunks     int    `json:"chunks"`
	Mentions   int    `json:"mentions"`
	Entities   int    `json:"entities"`
	Relations  int    `json:"relations"`
	Candidates int    `json:"candidates"`
	Matches    int    `json:"matches"`
	// ByMatch are matches by state.
	ByMatch    map[string]int `json:"matches_by_state,omitempty"`
	ByType     map[string]int `json:"entities_by_type"`
	ByRelation map[string]int `json:"relations_by_type"`
	// CandidateNo is the number of the newest candidate event of the graph.
	CandidateNo uint64 `json:"candidate_no"`
	Schema      string `json:"schema"`
	SchemaFP    string `json:"schema_fingerprint"`
	// Replica is how far behind the answer may be, where a read replica gave it.
	Replica *ReplicaState `json:"replica,omitempty"`
}

// EntityGet asks for one entity by id, or by type and name; by name alone when one type has it. Of a name, case, white space,
// a dot at the end, accents, hyphens and a leading article do not count; a name that mentions are written with (an alias) will do
// where only one entity has it. Unless raw is set, links are read through: see EntityReply.
type EntityGet struct {
	ID      string  `json:"id,omitempty"`
	Type    string  `json:"type,omitempty"`
	Name    string  `json:"name,omitempty"`
	AsOf    uint64  `json:"as_of,omitempty"`
	Limit   int     `json:"limit,omitempty"` // evidence and relations a page; default 50
	Offsets string  `json:"offsets,omitempty"`
	Raw     bool    `json:"raw,omitempty"`
	Within  *Within `json:"within,omitempty"`
}

// EntityReply is an entity and the relations it stands in; with a cluster those of all its members, the asked one's first, each with
// the ends that it has.
type EntityReply struct {
	Seq            uint64              `json:"seq"`
	Entity         graph.EntityRow     `json:"entity"`
	Relations      []graph.RelationRow `json:"relations"`
	RelationsTotal int                 `json:"relations_total"`
	// Cluster is absent where no link begins at the entity, and with raw.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Unclear matches of the members wait for a person: the strongest, at most 50; absent with raw.
	Unclear      []graph.MatchRow `json:"unclear,omitempty"`
	UnclearTotal int              `json:"unclear_total,omitempty"`
}

// Cluster is what hangs together over links (matches that are active or confirmed) with no two members that must stay apart: none that
// were rejected, whose names exclude each other, or that only likeness links and that are not alike. It is the same from each of its
// members. Rejecting the match of two members keeps these two apart.
type Cluster struct {
	ID      string   `json:"id"`   // the least of its members'
	Name    string   `json:"name"` // of the member that is mentioned most, then the smallest
	Members []Member `json:"members"`
	// Links between members, strongest first, and those to others that were left out to keep members apart, weakest first; at most 500 of each.
	Links        []graph.MatchRow `json:"links"`
	LinksTotal   int              `json:"links_total"`
	LeftOut      []graph.MatchRow `json:"left_out"`
	LeftOutTotal int              `json:"left_out_total"`
	// Cut says that the bounds were met: over 200 members, 2,000 links or 20,000 matches. There is more, and it may differ by member.
	Cut bool `json:"cut"`
	// Unchecked says why the likeness of names was not looked at; absent when it was, or did not matter.
	Unchecked string `json:"unchecked,omitempty"`
}

// Member is an entity of a cluster.
type Member struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
	Mentions  int    `json:"mentions,omitempty"`
	Documents int    `json:"documents,omitempty"`
}

// Filters of a search: a hit passes all of them, and by each any of its values. They hold in every mode.
type Filters struct {
	// Labels admit entities of these types or below them, relations of these types or with such an entity at an end, and chunks that
	// mention one.
	Labels []string `json:"labels,omitempty"`
	// RelationTypes admit relations of these types, the entities that stand in one, and chunks that state one.
	RelationTypes []string `json:"relation_types,omitempty"`
	// The others admit documents. What is shown rests on those alone.
	Documents []string       `json:"documents,omitempty"` // keys
	Scope     []string       `json:"scope,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"` // all of them; a value that is a list has the one asked for
	// Since and Until are dates (2024, 2024-05, 2024-05-31) or RFC 3339 times, each included with all that it covers. They are compared with
	// a document's content_date, else its published_at; a date that is a year or a month lies within when a part of it does, and a document
	// without either is not admitted.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
}

// Search asks for entities, relations and chunks by their words (mode lexical, the default), for entities and chunks by the vectors of
// names and texts (vector), or for both, fused by rank (hybrid). as_of goes with lexical only. Filters hold in every mode. The entities of one cluster are one hit,
// the best of them; raw shows each.
type Search struct {
	Q       string   `json:"q"`
	Mode    string   `json:"mode,omitempty"`
	Kinds   []string `json:"kinds,omitempty"`
	Filters Filters  `json:"filters"`
	Limit   int      `json:"limit,omitempty"` // default 10, at most 100
	AsOf    uint64   `json:"as_of,omitempty"`
	Offsets string   `json:"offsets,omitempty"`
	Raw     bool     `json:"raw,omitempty"`
	Within  *Within  `json:"within,omitempty"`
}

// Hit is one result.
type Hit struct {
	Kind  string  `json:"kind"`
	ID    string  `json:"id"`
	Score float64 `json:"score"`
	// Snippet is a part of a chunk, of the quote that matched, or of the text around an entity's first mention: text of a document, with white
	// space as one space and "…" where it was cut. It has no marks of its own: Matches are the places of the query's words in it (of an entity
	// without one of them there, the mention), in order and apart.
	Snippet string          `json:"snippet,omitempty"`
	Matches []Match         `json:"matches,omitempty"`
	Row     json.RawMessage `json:"row"`
	// Cluster is what an entity is linked to; of each member id and name. Members that the filters leave nothing of are not shown.
	Cluster *HitCluster `json:"cluster,omitempty"`
}

// Match is a part of a snippet: where it begins and, exclusive, ends, in the unit of the request's offsets, bytes of UTF-8 by default.
type Match struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// HitCluster is the cluster of a hit; query.entity tells more.
type HitCluster struct {
	ID      string   `json:"id"`
	Members []Member `json:"members"`
	Cut     bool     `json:"cut,omitempty"`
}

// SearchReply lists hits, best first.
type SearchReply struct {
	Seq  uint64 `json:"seq"`
	Hits []Hit  `json:"hits"`
	// Incomplete says that the filters left too few of the 20,000 best chunks by words, the 5,000 best names by words or the 5,000 nearest
	// vectors of a kind; further ones were not looked at.
	Incomplete bool `json:"incomplete,omitempty"`
	// Failed are the methods that mode hybrid did without. When all fail, the search does.
	Failed []FailedMethod `json:"failed,omitempty"`
	// Outside says in words that nothing within the limits of the request was found. Under limits scores are those of the ranks.
	Outside string `json:"outside,omitempty"`
}

// FailedMethod says why a method of a hybrid search gave nothing.
type FailedMethod struct {
	Method  string `json:"method"` // lexical or vector
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Neighbors asks for what stands around an entity.
type Neighbors struct {
	ID            string   `json:"id,omitempty"`
	Type          string   `json:"type,omitempty"`
	Name          string   `json:"name,omitempty"`
	Depth         int      `json:"depth,omitempty"` // default 1, at most 5
	RelationTypes []string `json:"relation_types,omitempty"`
	Direction     string   `json:"direction,omitempty"` // out, in, both (default)
	Limit         int      `json:"limit,omitempty"`     // edges; default 100, at most 1000
	AsOf          uint64   `json:"as_of,omitempty"`
	Offsets       string   `json:"offsets,omitempty"`
	Within        *Within  `json:"within,omitempty"`
}

// Path asks for a shortest path between two entities, each by id or "Type:name".
type Path struct {
	From          string   `json:"from"`
	To            string   `json:"to"`
	MaxDepth      int      `json:"max_depth,omitempty"` // default 4, at most 8
	RelationTypes []string `json:"relation_types,omitempty"`
	AsOf          uint64   `json:"as_of,omitempty"`
	Offsets       string   `json:"offsets,omitempty"`
	Within        *Within  `json:"within,omitempty"`
}

// Subgraph is the reply of neighbors and path.
type Subgraph struct {
	Seq       uint64              `json:"seq"`
	Nodes     []graph.EntityRow   `json:"nodes"`
	Edges     []graph.RelationRow `json:"edges"`
	Truncated bool                `json:"truncated,omitempty"`
	// Outside is as that of SearchReply.
	Outside string `json:"outside,omitempty"`
}

// EvidenceGet asks for the evidence of an entity, relation by id.
type EvidenceGet struct {
	ID      string  `json:"id"`
	History bool    `json:"history,omitempty"`
	AsOf    uint64  `json:"as_of,omitempty"`
	Limit   int     `json:"limit,omitempty"`
	Cursor  string  `json:"cursor,omitempty"`
	Offsets string  `json:"offsets,omitempty"`
	Within  *Within `json:"within,omitempty"`
}

// EvidenceReply lists evidence by document id, chunk index, start and end (not by document key: one fact may have a million
// documents, and the store has them by id). With history it is by document id, version, chunk index, start and end, and
// covers documents that no longer state the fact. Mentions and evidence in entities and relations are in the same order.
type EvidenceReply struct {
	Seq      uint64           `json:"seq"`
	ID       string           `json:"id"`
	Kind     string           `json:"kind"`
	Evidence []graph.Evidence `json:"evidence"`
	Total    int              `json:"total"`
	Next     string           `json:"next,omitempty"`
}

// DocumentGet asks for one document.
type DocumentGet struct {
	Key     string `json:"key"`
	Version int    `json:"version,omitempty"` // 0: the open one; of a deleted document neither chunks nor text nor items
	Text    bool   `json:"text,omitempty"`
	Items   bool   `json:"items,omitempty"`
	Offsets string `json:"offsets,omitempty"`
	// Cursor goes on behind a reply that had a next.
	Cursor string  `json:"cursor,omitempty"`
	Within *Within `json:"within,omitempty"`
	// FromByte leaves out the chunks that end at or before this byte of the text, and MaxChunks those behind so many (0: as many as fit); next then says that there are
	// more. They are for readers of chunks alone: not with text, items or a cursor.
	FromByte  int `json:"from_byte,omitempty"`
	MaxChunks int `json:"max_chunks,omitempty"`
}

// VersionRow is one version of a document.
type VersionRow struct {
	Version     int    `json:"version"`
	ContentHash string `json:"content_hash"`
	FromSeq     uint64 `json:"from_seq"`
	FromTime    string `json:"from_time"`
	ClosedSeq   uint64 `json:"closed_seq,omitempty"`
	ClosedTime  string `json:"closed_time,omitempty"`
	Job         string `json:"job"`
}

// DocumentReply is one document: state "open" or "deleted", versions, stored fingerprints, and on request text and items.
type DocumentReply struct {
	Seq            uint64            `json:"seq"`
	State          string            `json:"state"`
	Document       graph.DocumentRow `json:"document"`
	Revision       uint64            `json:"revision"`
	SchemaName     string            `json:"schema_name"`
	SchemaVersion  string            `json:"schema_version"`
	SchemaRevision uint64            `json:"schema_revision"`
	Versions       []VersionRow      `json:"versions"`
	Version        int               `json:"version"`
	Chunks         []graph.ChunkRow  `json:"chunks"`
	Text           string            `json:"text,omitempty"`
	Items          *DocumentItems    `json:"items,omitempty"`
	// Next is set when the document does not fit in one reply: the chunks, text and items of the pages put one behind the other
	// are the document's.
	Next string `json:"next,omitempty"`
}

// DocumentItems is every extracted item of a document with its outcome.
type DocumentItems struct {
	Items   []ItemRow       `json:"items"`
	Dropped []graph.Dropped `json:"dropped"`
}

// ItemRow is one extracted item: outcome "fact" or "candidate".
type ItemRow struct {
	Kind       string   `json:"kind"`
	Outcome    string   `json:"outcome"`
	Label      string   `json:"label"`
	Text       string   `json:"text"`
	SourceText string   `json:"source_text,omitempty"`
	TargetText string   `json:"target_text,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`
	State      string   `json:"state,omitempty"`
	Confidence float64  `json:"confidence"`
	Chunk      string   `json:"chunk"`
	Start      int      `json:"start"`
	End        int      `json:"end"`
	Extractor  string   `json:"extractor"`
	Rule       string   `json:"rule,omitempty"`
}

// RelationTypesGet asks for the types of relations.
type RelationTypesGet struct {
	Within *Within `json:"within,omitempty"`
}

// RelationTypesReply counts relations by type.
type RelationTypesReply struct {
	Seq   uint64         `json:"seq"`
	Types map[string]int `json:"relation_types"`
	// Cut: under limits 100,000 documents or relations were looked at, and there are more.
	Cut bool `json:"cut,omitempty"`
	// Outside is as that of SearchReply.
	Outside string `json:"outside,omitempty"`
}

// Export asks for a page of the export at one pinned sequence: documents by key, chunks by document key and index, entities and
// relations by id, candidates by key and document key, decisions by key; mentions and evidence by document id, chunk index,
// start and end.
type Export struct {
	Seq        uint64 `json:"seq,omitempty"` // 0 pins the current one
	Cursor     string `json:"cursor,omitempty"`
	Canonical  bool   `json:"canonical,omitempty"`
	Text       bool   `json:"text,omitempty"`
	Candidates bool   `json:"candidates,omitempty"`
}

// ExportReply is a page: rows as JSON objects, one a line of the file.
type ExportReply struct {
	Seq  uint64            `json:"seq"`
	Rows []json.RawMessage `json:"rows"`
	// Part is a piece of one row that is too large for a page; it stands alone in its page. The row is the parts of the pages
	// up to the one with last, put together. See ExportRows.
	Part string `json:"part,omitempty"`
	Last bool   `json:"last,omitempty"`
	Next string `json:"next,omitempty"`
	// Total rows of the whole export where known; for a progress bar.
	Total int `json:"total,omitempty"`
}

// Verify asks the committer to check its whole store.
type Verify struct {
	Schema bool `json:"schema,omitempty"` // also list missing required values and excess relations
}

// VerifyReply lists what is wrong, at most 1000 problems.
type VerifyReply struct {
	Seq      uint64         `json:"seq"`
	Keys     int            `json:"keys"`
	Checked  map[string]int `json:"checked"` // keys by kind
	Problems []Problem      `json:"problems"`
	Total    int            `json:"problems_total"`
	// Unchecked says what could not be checked now, and why.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Problem names a key and what is wrong with it.
type Problem struct {
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// SchemaGet asks for the active schema, or another revision.
type SchemaGet struct {
	Revision uint64 `json:"revision,omitempty"`
}

// SchemaReply is one schema of the graph's history.
type SchemaReply struct {
	Revision    uint64          `json:"revision"`
	Active      bool            `json:"active"`
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Fingerprint string          `json:"fingerprint"`
	PutAt       string          `json:"put_at"`
	Seq         uint64          `json:"seq,omitempty"` // the last commit before it was put
	Actor       string          `json:"actor,omitempty"`
	Schema      json.RawMessage `json:"schema"`           // the effective schema, as JSON
	Source      string          `json:"source,omitempty"` // the file as it was put
	Changed     bool            `json:"changed"`
	Warnings    []string        `json:"warnings,omitempty"`
}

// SchemaPut makes a schema the active one. Schema is the text of a YAML or JSON file with no extends left, or the JSON form.
type SchemaPut struct {
	Schema    string `json:"schema"`
	Name      string `json:"name,omitempty"`
	Source    string `json:"source,omitempty"`
	Actor     string `json:"actor,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// SchemaHistoryReply lists the schemas a graph had, newest first, without their bodies.
type SchemaHistoryReply struct {
	Schemas []SchemaReply `json:"schemas"`
}

// SettingsReply is the graph's pipeline settings by name.
type SettingsReply struct {
	Revision uint64            `json:"revision"`
	Settings map[string]string `json:"settings"`
	Changed  []string          `json:"changed,omitempty"` // "name: old -> new"
}

// SettingsPut changes settings by name.
type SettingsPut struct {
	Settings  map[string]string `json:"settings"`
	Actor     string            `json:"actor,omitempty"`
	RequestID string            `json:"request_id,omitempty"`
}
