// Package events holds the subjects and the event types of the contract, and how they are encoded. No NATS import.
package events

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kinds of events: the tokens of the subject between the graph and the job.
const (
	KindIngest      = "ingest"
	KindFound       = "doc.found"
	KindLoaded      = "doc.loaded"
	KindChunked     = "doc.chunked"
	KindStaged      = "doc.staged"
	KindExtracted   = "doc.extracted"
	KindResolved    = "doc.resolved"
	KindEnded       = "doc.ended"
	KindSealed      = "job.sealed"
	KindOpened      = "job.opened"
	KindHeld        = "job.held"
	KindCommitted   = "job.committed"
	KindRollingBack = "job.rolling_back"
	KindRolledBack  = "job.rolled_back"
	KindCandidate   = "candidate"
	KindChange      = "change"
	KindAudit       = "audit"
	KindDead        = "dead"
)

// Root is the first token of every subject.
const Root = "factmill"

var (
	graphName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	jobName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	seqJob    = regexp.MustCompile(`^j[0-9]+$`)
	token     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// DefaultGraph is the graph that is meant when none is named.
const DefaultGraph = "default"

// CheckGraph refuses a malformed graph name.
func CheckGraph(g string) error {
	if !graphName.MatchString(g) {
		return fmt.Errorf("bad graph name %q: it must match [a-z0-9][a-z0-9_-]{0,63}", clip(g, 80))
	}
	return nil
}

// CheckJob refuses a job id that a caller may not choose.
func CheckJob(j string) error {
	if !jobName.MatchString(j) {
		return fmt.Errorf("bad job id %q: it must match [A-Za-z0-9_-]{1,64}", clip(j, 80))
	}
	if seqJob.MatchString(j) {
		return fmt.Errorf("bad job id %q: j and digits are kept for events that name none", j)
	}
	return nil
}

// ValidJob says whether j can be any job's id, chosen or given.
func ValidJob(j string) bool { return jobName.MatchString(j) }

// SeqJob is the id of a job whose event named none.
func SeqJob(seq uint64) string { return "j" + strconv.FormatUint(seq, 10) }

// ParseSeqJob returns the stream sequence of a j<seq> id.
func ParseSeqJob(j string) (uint64, bool) {
	if !seqJob.MatchString(j) {
		return 0, false
	}
	n, err := strconv.ParseUint(j[1:], 10, 64)
	return n, err == nil
}

// Subject is a subject taken apart. Job and Item are empty where the kind has none.
type Subject struct {
	Graph string
	Kind  string
	Job   string // for "change" the sequence; for "candidate" the verb; for "dead" the stage
	Item  string // doc, source, candidate kind; for "dead" "<job>.<doc>"
}

// String puts the subject together.
func (s Subject) String() string {
	b := Root + "." + s.Graph + "." + s.Kind
	if s.Job != "" {
		b += "." + s.Job
	}
	if s.Item != "" {
		b += "." + s.Item
	}
	return b
}

// ParseSubject takes a subject apart and checks its tokens.
func ParseSubject(subject string) (Subject, error) {
	t := strings.Split(subject, ".")
	bad := func() (Subject, error) { return Subject{}, fmt.Errorf("unknown subject %q", clip(subject, 200)) }
	if len(t) < 3 || t[0] != Root || !graphName.MatchString(t[1]) {
		return bad()
	}
	for _, x := range t[2:] {
		if !token.MatchString(x) {
			return bad()
		}
	}
	s := Subject{Graph: t[1], Kind: t[2]}
	rest := t[3:]
	if s.Kind == "doc" || s.Kind == "job" {
		if len(rest) == 0 {
			return bad()
		}
		s.Kind += "." + rest[0]
		rest = rest[1:]
	}
	want := 0
	switch s.Kind {
	case KindIngest, KindAudit:
	case KindFound, KindLoaded, KindChunked, KindStaged, KindExtracted, KindResolved, KindEnded, KindCandidate:
		want = 2
	case KindSealed, KindOpened, KindHeld, KindCommitted, KindRollingBack, KindRolledBack, KindChange:
		want = 1
	case KindDead:
		want = 3
	default:
		return bad()
	}
	if len(rest) != want {
		return bad()
	}
	if want > 0 {
		s.Job = rest[0]
	}
	if want > 1 {
		s.Item = strings.Join(rest[1:], ".")
	}
	return s, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
