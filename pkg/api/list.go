package api

import "github.com/factmill/factmill/pkg/graph"

// The verbs query.documents, query.entities and query.relations list what is in a graph for somebody who knows no name yet. A
// cursor goes on at the sequence of its first page. A page may be shorter than its limit, be it empty: Next says whether more
// follows.

// DocumentList asks for the open documents by key.
type DocumentList struct {
	Prefix string  `json:"prefix,omitempty"` // of the key
	Limit  int     `json:"limit,omitempty"`  // default 50, at most 1000
	Cursor string  `json:"cursor,omitempty"`
	AsOf   uint64  `json:"as_of,omitempty"`
	Within *Within `json:"within,omitempty"`
}

// ListedDocument is a document's row with what its open version has.
type ListedDocument struct {
	graph.DocumentRow
	Version  int    `json:"version"`
	Chunks   int    `json:"chunks"`
	FromSeq  uint64 `json:"from_seq"`
	FromTime string `json:"from_time"`
	Job      string `json:"job"`
}

// DocumentListReply is a page.
type DocumentListReply struct {
	Seq       uint64           `json:"seq"`
	Documents []ListedDocument `json:"documents"`
	// Total counts the documents of the graph, whatever the prefix.
	Total int `json:"total"`
	// TotalUnknown: under limits it is not counted, and Total is 0.
	TotalUnknown bool `json:"total_unknown,omitempty"`
	// Outside says in words that nothing is within the limits.
	Outside string `json:"outside,omitempty"`
	Next    string `json:"next,omitempty"`
}

// EntityList asks for the entities by folded name, then id.
type EntityList struct {
	Type   string  `json:"type,omitempty"`  // that type or one below it
	Limit  int     `json:"limit,omitempty"` // default 50, at most 1000
	Cursor string  `json:"cursor,omitempty"`
	AsOf   uint64  `json:"as_of,omitempty"`
	Within *Within `json:"within,omitempty"`
}

// EntityListReply is a page; each entity has a few of its mentions and no relations.
type EntityListReply struct {
	Seq      uint64            `json:"seq"`
	Entities []graph.EntityRow `json:"entities"`
	// Total counts the entities of the type, of types below it too.
	Total int `json:"total"`
	// TotalUnknown: under limits it is not counted, and Total is 0.
	TotalUnknown bool `json:"total_unknown,omitempty"`
	// Outside says in words that nothing is within the limits.
	Outside string `json:"outside,omitempty"`
	Next    string `json:"next,omitempty"`
}

// RelationList asks for the relations by the folded name of their source, type and target id.
type RelationList struct {
	Type   string  `json:"type,omitempty"`
	Limit  int     `json:"limit,omitempty"` // default 50, at most 1000
	Cursor string  `json:"cursor,omitempty"`
	AsOf   uint64  `json:"as_of,omitempty"`
	Within *Within `json:"within,omitempty"`
}

// RelationListReply is a page; each relation has a few pieces of its evidence.
type RelationListReply struct {
	Seq       uint64              `json:"seq"`
	Relations []graph.RelationRow `json:"relations"`
	// Total counts the relations of the type.
	Total int `json:"total"`
	// TotalUnknown: under limits it is not counted, and Total is 0.
	TotalUnknown bool `json:"total_unknown,omitempty"`
	// Outside says in words that nothing is within the limits.
	Outside string `json:"outside,omitempty"`
	Next    string `json:"next,omitempty"`
}
