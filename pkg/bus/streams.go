package bus

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/events"
)

// Streams. The work queues lie between two stages; the others are kept for readers.
const (
	StreamIngest     = "FACTMILL_INGEST"
	StreamFound      = "FACTMILL_FOUND"
	StreamLoaded     = "FACTMILL_LOADED"
	StreamChunked    = "FACTMILL_CHUNKED"
	StreamExtracted  = "FACTMILL_EXTRACTED"
	StreamCommit     = "FACTMILL_COMMIT"
	StreamJobs       = "FACTMILL_JOBS"
	StreamCandidates = "FACTMILL_CANDIDATES"
	StreamChanges    = "FACTMILL_CHANGES"
	StreamAudit      = "FACTMILL_AUDIT"
	StreamDead       = "FACTMILL_DEAD"
	// StreamReplies holds what models answered, and StreamSpent what their jobs spent on it.
	StreamReplies = "FACTMILL_REPLIES"
	StreamSpent   = "FACTMILL_SPENT"
)

// Durables: named after their service.
const (
	DurableLoader    = "loader"
	DurableChunker   = "chunker"
	DurableExtractor = "extractor"
	DurableResolver  = "resolver"
	DurableCommitter = "committer"
)

// Object-store buckets.
const (
	// BucketBodies holds the bodies that are too large for a message.
	BucketBodies = "FACTMILL_BODIES"
	// BucketUploads holds the files that a client sent.
	BucketUploads = "FACTMILL_UPLOADS"
)

const (
	// DuplicateWindow in which a stream drops a message whose id it has seen.
	DuplicateWindow = 2 * time.Minute
	// DefaultAckWait is how long a stage may be silent about a message.
	DefaultAckWait = 20 * time.Second

	mib = int64(1) << 20
	day = 24 * time.Hour
)

// Table is the streams, consumers and buckets that Factmill uses, as data.
type Table struct {
	Streams   []jetstream.StreamConfig
	Consumers []ConsumerSpec
	Buckets   []jetstream.ObjectStoreConfig
}

// ConsumerSpec is a durable consumer and the stream it reads.
type ConsumerSpec struct {
	Stream string
	Config jetstream.ConsumerConfig
}

// TableOptions are the numbers of the table that a deployment may choose. The zero value is the default of each.
type TableOptions struct {
	// AckWait of every consumer. Defaults to 20 s; the services must be told the same.
	AckWait time.Duration
	// StageBytes is how much may wait between two stages. Defaults to 256 MiB.
	StageBytes int64
	// FoundBytes is how many bytes of sources may wait to be fetched. Defaults to 512 MiB.
	FoundBytes int64
	// IngestBytes of document events of jobs that have not ended. Defaults to 1 GiB.
	IngestBytes int64
	// KeptBytes of each stream of job, candidate and change events, of which the oldest go. Defaults to 1 GiB.
	KeptBytes int64
	// BucketBytes of each bucket. Defaults to 8 GiB.
	BucketBytes int64
	// Replicas of every stream. Defaults to 1; a cluster wants 3.
	Replicas int
}

func (o TableOptions) withDefaults() TableOptions {
	set := func(n *int64, d int64) {
		if *n == 0 {
			*n = d
		}
	}
	set(&o.StageBytes, 256*mib)
	set(&o.FoundBytes, 512*mib)
	set(&o.IngestBytes, 1024*mib)
	set(&o.KeptBytes, 1024*mib)
	set(&o.BucketBytes, 8192*mib)
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	return o
}

// NewTable is the one place that says which streams, consumers and buckets exist.
func NewTable(o TableOptions) Table {
	o = o.withDefaults()
	t := Table{
		Streams: []jetstream.StreamConfig{
			// Kept until its job has ended (the committer deletes it), so that a dead job can start again.
			o.stream(StreamIngest, jetstream.LimitsPolicy, jetstream.DiscardNew, o.IngestBytes, "ingest"),
			o.queue(StreamFound, o.FoundBytes, "doc.found.*.*"),
			o.queue(StreamLoaded, o.StageBytes, "doc.loaded.*.*"),
			o.queue(StreamChunked, o.StageBytes, "doc.chunked.*.*"),
			o.queue(StreamExtracted, o.StageBytes, "doc.extracted.*.*"),
			// Everything addressed to the committer is one stream, so that a stage's outputs can be one atomic batch.
			o.queue(StreamCommit, o.StageBytes, "doc.resolved.*.*", "doc.staged.*.*", "doc.ended.*.*", "job.sealed.*"),
			o.kept(StreamJobs, 30*day, "job.opened.*", "job.held.*", "job.committed.*", "job.rolling_back.*", "job.rolled_back.*"),
			o.kept(StreamCandidates, 0, "candidate.*.*"),
			o.kept(StreamChanges, 30*day, "change.*"),
			o.audit(),
			o.stream(StreamDead, jetstream.LimitsPolicy, jetstream.DiscardNew, o.StageBytes, "dead.*.*.*"),
			o.replies(),
			o.spent(),
		},
		Consumers: []ConsumerSpec{
			o.consumer(StreamIngest, DurableLoader, 256),
			o.consumer(StreamFound, DurableLoader, 1024),
			o.consumer(StreamLoaded, DurableChunker, 1024),
			o.consumer(StreamChunked, DurableExtractor, 1024),
			o.consumer(StreamExtracted, DurableResolver, 1024),
			o.consumer(StreamCommit, DurableCommitter, 4096),
		},
		Buckets: []jetstream.ObjectStoreConfig{
			o.bucket(BucketBodies, "bodies over 256 KiB of stage events, as graph/job/sha256"),
			o.bucket(BucketUploads, "files that a client sent to be ingested"),
		},
	}
	return t
}

func (o TableOptions) stream(name string, keep jetstream.RetentionPolicy, full jetstream.DiscardPolicy, bytes int64, subjects ...string) jetstream.StreamConfig {
	for i, s := range subjects {
		subjects[i] = events.Root + ".*." + s
	}
	return jetstream.StreamConfig{
		Name: name, Subjects: subjects, Retention: keep, Discard: full, MaxBytes: bytes, Storage: jetstream.FileStorage,
		Duplicates: DuplicateWindow, Replicas: o.Replicas, AllowAtomicPublish: true,
	}
}

// queue is a work queue between two stages: full means that the stage before it waits.
func (o TableOptions) queue(name string, bytes int64, subjects ...string) jetstream.StreamConfig {
	return o.stream(name, jetstream.WorkQueuePolicy, jetstream.DiscardNew, bytes, subjects...)
}

// kept is a stream for readers, of which the oldest messages go.
func (o TableOptions) kept(name string, age time.Duration, subjects ...string) jetstream.StreamConfig {
	s := o.stream(name, jetstream.LimitsPolicy, jetstream.DiscardOld, o.KeptBytes, subjects...)
	s.MaxAge = age
	return s
}

func (o TableOptions) audit() jetstream.StreamConfig {
	s := o.stream(StreamAudit, jetstream.LimitsPolicy, jetstream.DiscardNew, -1, "audit")
	s.DenyDelete, s.DenyPurge = true, true
	return s
}

// replies holds the last reply under each key; the oldest go, which costs no more than a call.
func (o TableOptions) replies() jetstream.StreamConfig {
	s := o.stream(StreamReplies, jetstream.LimitsPolicy, jetstream.DiscardOld, o.KeptBytes, "reply.*.*")
	s.MaxMsgsPerSubject, s.AllowDirect, s.AllowAtomicPublish = 1, true, false
	return s
}

// spent holds two counters a job: of tokens, and of requests.
func (o TableOptions) spent() jetstream.StreamConfig {
	s := o.stream(StreamSpent, jetstream.LimitsPolicy, jetstream.DiscardOld, 64*mib, "spent.*", "asked.*")
	s.MaxMsgsPerSubject, s.MaxAge, s.AllowMsgCounter, s.AllowAtomicPublish, s.AllowDirect = 1, 30*day, true, false, true
	return s
}

// consumer has no BackOff, which would replace AckWait and which Nak ignores, and no MaxDeliver: at its end a work queue keeps
// the message where nobody sees it. The runner parks a message that is delivered too often in the dead-letter stream.
func (o TableOptions) consumer(stream, durable string, pending int) ConsumerSpec {
	return ConsumerSpec{Stream: stream, Config: jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait: o.AckWait, MaxDeliver: -1, MaxAckPending: pending,
	}}
}

func (o TableOptions) bucket(name, what string) jetstream.ObjectStoreConfig {
	return jetstream.ObjectStoreConfig{
		Bucket: name, Description: what, MaxBytes: o.BucketBytes, Storage: jetstream.FileStorage, Replicas: o.Replicas,
	}
}

// StreamOf names the stream that holds events of a kind; empty for an unknown kind.
func StreamOf(kind string) string {
	switch kind {
	case events.KindIngest:
		return StreamIngest
	case events.KindFound:
		return StreamFound
	case events.KindLoaded:
		return StreamLoaded
	case events.KindChunked:
		return StreamChunked
	case events.KindExtracted:
		return StreamExtracted
	case events.KindResolved, events.KindStaged, events.KindEnded, events.KindSealed:
		return StreamCommit
	case events.KindOpened, events.KindHeld, events.KindCommitted, events.KindRollingBack, events.KindRolledBack:
		return StreamJobs
	case events.KindCandidate:
		return StreamCandidates
	case events.KindChange:
		return StreamChanges
	case events.KindAudit:
		return StreamAudit
	case events.KindDead:
		return StreamDead
	default:
		return ""
	}
}

// byReference says whether events of a stream may leave their body in the object store. Kept events never do.
func byReference(stream string) bool {
	switch stream {
	case StreamFound, StreamLoaded, StreamChunked, StreamExtracted, StreamCommit:
		return true
	default:
		return false
	}
}
