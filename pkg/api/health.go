package api

// HealthReply is how the committer is (query.health): its store and what waits in it, over all graphs.
type HealthReply struct {
	// Time is the committer's clock, RFC 3339 with nanoseconds.
	Time string `json:"time"`
	// Format of the store, and the epoch of its writer: it rises with each start.
	Format uint64 `json:"format"`
	Epoch  uint64 `json:"epoch"`
	// Bytes of the store on disk; FreeBytes of its disk, -1 where nobody can tell; ReserveBytes that commits leave alone.
	Bytes        uint64 `json:"bytes"`
	FreeBytes    int64  `json:"free_bytes"`
	ReserveBytes uint64 `json:"reserve_bytes"`
	Graphs       int    `json:"graphs"`
	// Known says whether there is a graph of the name that was asked; absent from a committer that does not tell.
	Known *bool `json:"known,omitempty"`
	// Jobs that have not ended, by state, and when the oldest held one was opened.
	Jobs       map[string]int `json:"jobs"`
	OldestHeld string         `json:"oldest_held,omitempty"`
	// Quarantined documents and sources, as of the last count.
	Quarantined int `json:"quarantined"`
}
