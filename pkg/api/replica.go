package api

// FeedRead asks the committer for what it wrote behind a position: batches of rows, byte by byte, beginning Offset bytes into the first.
type FeedRead struct {
	After  string `json:"after"`
	Offset int64  `json:"offset"`
}

// FeedPart is how many bytes of batches a reply holds at most, before they are compressed.
const FeedPart = 512 << 10

// FeedHead is the first line of a reply to feed.read; compressed batches (an S2 block) follow it.
type FeedHead struct {
	// Head is the number of the last batch that can be had now.
	Head uint64 `json:"head"`
	// Size of what follows, before it was compressed.
	Size int `json:"size"`
}

// ReplicaState says how far a read replica is behind the committer.
type ReplicaState struct {
	// Seq is the graph's sequence here, and Announced the greatest that a change event named.
	Seq       uint64 `json:"seq"`
	Announced uint64 `json:"announced"`
	// Behind is how many of the committer's batches are not here, as of the last time that it answered.
	Behind uint64 `json:"behind"`
	// LevelAt is when nothing was missing for the last time, and Lag how long ago that was, in seconds: what is missing is not older.
	LevelAt string  `json:"level_at,omitempty"` // RFC 3339
	Lag     float64 `json:"lag_seconds"`
	// Why the committer is not followed right now; empty when it is.
	Why string `json:"why,omitempty"`
}
