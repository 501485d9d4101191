package api

// VectorsReply says where the vectors of a graph are (vectors.status, vectors.reembed).
type VectorsReply struct {
	Graph    string `json:"graph"`
	Embedder string `json:"embedder"`
	// Size is how many numbers a vector has.
	Size  int    `json:"size"`
	Route string `json:"route"`
	// Vectors in the native index, of entity names and chunks, and about how many bytes of memory they take.
	Vectors int   `json:"vectors"`
	Memory  int64 `json:"memory"`
	// Position is the commit up to which the index follows; Behind the commits that are left to Seq, the last one.
	Seq      uint64 `json:"seq"`
	Position uint64 `json:"position"`
	Behind   uint64 `json:"behind"`
	// Copy is that in Milvus, where there is one.
	Copy *VectorsCopy `json:"copy,omitempty"`
}

// VectorsCopy says where a copy is.
type VectorsCopy struct {
	Position uint64 `json:"position"`
	Behind   uint64 `json:"behind"`
	Error    string `json:"error,omitempty"`
}
