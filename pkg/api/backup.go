package api

// BackupFile is one file of a backup. Name has no directory.
type BackupFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 in hex, of a backup that was written.
	SHA256 string `json:"sha256,omitempty"`
}

// BackupGraph is a graph in a backup and the last sequence that it has of it.
type BackupGraph struct {
	Graph string `json:"graph"`
	Seq   uint64 `json:"seq"`
}

// Backup is a state of a whole store (all graphs) at one moment.
type Backup struct {
	ID     string        `json:"id,omitempty"` // while it can be read
	Format uint64        `json:"store_format"`
	At     string        `json:"at"` // RFC 3339
	Graphs []BackupGraph `json:"graphs"`
	Files  []BackupFile  `json:"files"`
}

// BackupRead asks for a part of a file: at most BackupPart bytes from Offset on.
type BackupRead struct {
	ID     string `json:"id"`
	File   string `json:"file"`
	Offset int64  `json:"offset"`
}

// BackupPart is how many bytes of a file a reply holds at most.
const BackupPart = 512 << 10

// BackupReadReply has the bytes; fewer than asked for, and none, at the file's end.
type BackupReadReply struct {
	Data []byte `json:"data"`
}

// BackupEnd lets a backup go.
type BackupEnd struct {
	ID string `json:"id"`
}

// BackupEndReply says whether it was there.
type BackupEndReply struct {
	Ended bool `json:"ended"`
}
