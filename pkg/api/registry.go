package api

// The registry holds the entities of a graph that are known beforehand. A mention that equals exactly one entry's name or alias
// takes that entry's identity. An entry is found by its type and its folded name.

// Bounds of the registry. A name has at most MaxRegistryName runes, and so has an external id.
const (
	MaxRegistryBatch   = 1000
	MaxRegistryName    = 200
	MaxRegistryAliases = 100
	MaxRegistryNote    = 1000
)

// RegistryEntry is a known entity.
type RegistryEntry struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	// ExternalID is the entity's id in another system; within a type it is one entry's.
	ExternalID string `json:"external_id,omitempty"`
	Note       string `json:"note,omitempty"`
}

// RegistryRow is an entry as it is stored.
type RegistryRow struct {
	RegistryEntry
	// ID of the entity that the entry stands for.
	ID string `json:"id"`
	// Revision of the registry that changed the entry last.
	Revision uint64 `json:"revision"`
}

// RegistryPut adds entries or replaces those of the same type and folded name, all of them or none. DryRun only says what it
// would do.
type RegistryPut struct {
	Entries   []RegistryEntry `json:"entries"`
	DryRun    bool            `json:"dry_run,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
}

// RegistryPutReply says what was done. Touched counts the names whose entities may now be somebody else's.
type RegistryPutReply struct {
	Revision  uint64   `json:"revision"`
	Added     int      `json:"added"`
	Updated   int      `json:"updated"`
	Unchanged int      `json:"unchanged"`
	Touched   int      `json:"touched"`
	Warnings  []string `json:"warnings,omitempty"`
	DryRun    bool     `json:"dry_run,omitempty"`
}

// RegistryProblem is one fault of a refused put, in the error's details.problems; Path is "entries[3].name".
type RegistryProblem struct {
	Index   int    `json:"index"`
	Field   string `json:"field"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// RegistryGet asks for the entries that have a name or alias, of all types or one, or for the one with an external id.
type RegistryGet struct {
	Type       string `json:"type,omitempty"`
	Name       string `json:"name,omitempty"`
	ExternalID string `json:"external_id,omitempty"`
}

// RegistryGetReply has at least one entry, at most 100: those with the name first, then those with the alias.
type RegistryGetReply struct {
	Revision uint64        `json:"revision"`
	Entries  []RegistryRow `json:"entries"`
}

// RegistryList asks for entries by type and name; Q is what a name or alias begins with.
type RegistryList struct {
	Type   string `json:"type,omitempty"`
	Q      string `json:"q,omitempty"`
	Limit  int    `json:"limit,omitempty"` // default 50, at most 1000
	Cursor string `json:"cursor,omitempty"`
}

// RegistryListReply is a page; it may be shorter than its limit: Next says whether more follows.
type RegistryListReply struct {
	Revision uint64        `json:"revision"`
	Entries  []RegistryRow `json:"entries"`
	// Total counts the entries of the graph, whatever the filters.
	Total int    `json:"total"`
	Next  string `json:"next,omitempty"`
}

// RegistryDelete removes the entry with this name (not alias) or external id.
type RegistryDelete struct {
	Type       string `json:"type"`
	Name       string `json:"name,omitempty"`
	ExternalID string `json:"external_id,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
}

// RegistryDeleteReply has what was removed.
type RegistryDeleteReply struct {
	Revision uint64      `json:"revision"`
	Entry    RegistryRow `json:"entry"`
	Touched  int         `json:"touched"`
}

// RegistryName is a label and a folded name.
type RegistryName struct {
	Label string `json:"label"`
	Key   string `json:"key"`
}

// RegistryLookup asks which entries names had at a revision of the registry (internal verb registry.lookup).
type RegistryLookup struct {
	Revision uint64         `json:"revision"`
	Names    []RegistryName `json:"names"`
}

// RegistryLookupReply has the names that entries have; the others have none. Only the first Answered names were looked at: the
// reply was full.
type RegistryLookupReply struct {
	Answered int             `json:"answered"`
	Found    []RegistryFound `json:"found"`
}

// RegistryFound is a name, by its place in the request. Key is the folded name of its entry when it is of exactly one.
type RegistryFound struct {
	Index   int    `json:"index"`
	Entries int    `json:"entries"`
	Key     string `json:"key,omitempty"`
}
