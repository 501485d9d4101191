package api

import "encoding/json"

// Requests and replies of factmill.<g>.dead-letters.<verb>. A dead letter is a message that no service could handle; a
// quarantine record is a document or source that a job under error policy quarantine put aside.

// Kinds of what the verbs are about.
const (
	DeadKind       = "dead"
	QuarantineKind = "quarantine"
)

// How a letter was replayed.
const (
	// ReplayRepublished: the message is on its stream again, for the job that still waits for it.
	ReplayRepublished = "republished"
	// ReplayNewJob: a job of its own ingests the document; the letter goes when that job has committed.
	ReplayNewJob = "new_job"
)

// DeadQuery chooses letters and records; empty fields choose all.
type DeadQuery struct {
	Kind  string `json:"kind,omitempty"` // dead, quarantine
	Stage string `json:"stage,omitempty"`
	Job   string `json:"job,omitempty"`
	Code  string `json:"code,omitempty"`
}

// DeadLetter is one dead letter or quarantine record.
type DeadLetter struct {
	// ID of a dead letter is its sequence in FACTMILL_DEAD; that of a record begins with "q".
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Stage string `json:"stage"`
	Job   string `json:"job"`
	// JobState of that job now; empty when it is unknown.
	JobState string `json:"job_state"`
	// Key of the document, or the name of the source; empty when the message could not be read.
	Key    string `json:"key"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// At is when it was parked or committed, RFC 3339.
	At      string `json:"at"`
	TraceID string `json:"trace_id,omitempty"`
	// Event is the kind of event of its message, such as doc.loaded; empty where no bytes were kept.
	Event string `json:"event,omitempty"`
	// Body refers to the message's bytes when they lie in the object store.
	Body string `json:"body,omitempty"`
	// Of a dead letter: its subject, its place in its stream, how often it was delivered, and its size in bytes.
	Subject  string `json:"subject,omitempty"`
	Stream   string `json:"stream,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Attempts uint64 `json:"attempts,omitempty"`
	Size     int64  `json:"size,omitempty"`
	// Items of a quarantined source: how many records it holds, where that is known.
	Items int `json:"items,omitempty"`
	// Replay is the last one that started a job.
	Replay *ReplayJob `json:"replay,omitempty"`
}

// ReplayJob is the job that a replay started.
type ReplayJob struct {
	Job    string `json:"job"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	At     string `json:"at"`
}

// DeadList asks for letters and records, newest first.
type DeadList struct {
	DeadQuery
	Limit  int    `json:"limit,omitempty"` // default 50, at most 500
	Cursor string `json:"cursor,omitempty"`
}

// DeadListReply is one page.
type DeadListReply struct {
	Letters []DeadLetter `json:"dead_letters"`
	Next    string       `json:"next,omitempty"`
}

// DeadShow asks for one. Content asks for the bytes of a message that travelled inline too.
type DeadShow struct {
	ID      string `json:"id"`
	Content bool   `json:"content,omitempty"`
}

// DeadShowReply is a letter with its message.
type DeadShowReply struct {
	Letter  DeadLetter        `json:"dead_letter"`
	Headers map[string]string `json:"headers,omitempty"`
	// Message is the event as JSON. Cut says that long texts and lists in it are shortened. NoMessage says why it is missing.
	Message   json.RawMessage `json:"message,omitempty"`
	Cut       bool            `json:"cut,omitempty"`
	NoMessage string          `json:"no_message,omitempty"`
	// Text is the beginning of a message that is no event.
	Text string `json:"text,omitempty"`
	// Content is the message's bytes, when they were asked for and travelled inline.
	Content []byte `json:"content,omitempty"`
}

// DeadAct asks to replay or to drop: those of IDs, or all that Query chooses, newest first, page by page.
type DeadAct struct {
	IDs       []string   `json:"ids,omitempty"` // at most 500
	Query     *DeadQuery `json:"query,omitempty"`
	Limit     int        `json:"limit,omitempty"` // of a query; default 100, at most 500
	Cursor    string     `json:"cursor,omitempty"`
	RequestID string     `json:"request_id,omitempty"`
}

// Replayed says what became of one.
type Replayed struct {
	ID string `json:"id"`
	// How is republished or new_job; Job is the job that handles it.
	How string `json:"how"`
	Job string `json:"job"`
}

// DeadSkip is why one was left as it is.
type DeadSkip struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// DeadReplayReply says what was replayed.
type DeadReplayReply struct {
	Replayed []Replayed          `json:"replayed"`
	Skipped  map[string]DeadSkip `json:"skipped"` // by id
	Next     string              `json:"next,omitempty"`
}

// DeadDropReply says what was dropped.
type DeadDropReply struct {
	Dropped []string            `json:"dropped"`
	Skipped map[string]DeadSkip `json:"skipped"` // by id
	Next    string              `json:"next,omitempty"`
}
