package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Header names of the contract.
const (
	HeaderSchema  = "Factmill-Schema"
	HeaderBody    = "Factmill-Body"
	HeaderPart    = "Factmill-Part"
	HeaderMsgID   = "Nats-Msg-Id"
	HeaderCEID    = "ce-id"
	HeaderCEType  = "ce-type"
	HeaderCESrc   = "ce-source"
	HeaderCETime  = "ce-time"
	HeaderCESpec  = "ce-specversion"
	HeaderTrace   = "traceparent"
	majorVersion  = 1
	ceSpecVersion = "1.0"
)

// ErrNewer says that an event was written by a newer major version: it is handed back, not guessed.
var ErrNewer = errors.New("event of a newer major schema")

// SchemaName is the Factmill-Schema header of a kind, for example "doc.chunked/1".
func SchemaName(kind string) string { return kind + "/" + strconv.Itoa(majorVersion) }

// Headers returns the headers of e as the contract names them; source is the service, now an RFC 3339 time.
func Headers(e Event, source, now, trace string) map[string]string {
	k := e.Where().Kind
	h := map[string]string{
		HeaderMsgID: e.ID(), HeaderCEID: e.ID(), HeaderCEType: "factmill." + k, HeaderCESrc: source,
		HeaderCETime: now, HeaderCESpec: ceSpecVersion, HeaderSchema: SchemaName(k),
	}
	if trace != "" {
		h[HeaderTrace] = trace
	}
	return h
}

// Encode writes an event's body.
func Encode(e Event) ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Where(), err)
	}
	return b, nil
}

// Decode reads the body of the event on subject. schema is the Factmill-Schema header, empty for a plain event.
// Unknown fields are ignored. A document event is read by ParseIngest instead.
func Decode(subject, schema string, body []byte) (Event, error) {
	s, err := ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	if err := checkSchema(s.Kind, schema); err != nil {
		return nil, err
	}
	var e Event
	switch s.Kind {
	case KindFound:
		e = new(Found)
	case KindLoaded:
		e = new(Loaded)
	case KindChunked:
		e = new(Chunked)
	case KindStaged:
		e = new(Staged)
	case KindExtracted:
		e = new(Extracted)
	case KindResolved:
		e = new(Resolved)
	case KindEnded:
		e = new(Ended)
	case KindSealed:
		e = new(Sealed)
	case KindOpened, KindHeld, KindCommitted, KindRollingBack, KindRolledBack:
		e = new(JobState)
	case KindCandidate:
		e = new(CandidateEvent)
	case KindChange:
		e = new(Change)
	case KindAudit:
		e = new(Audit)
	case KindDead:
		e = new(Dead)
	default:
		return nil, fmt.Errorf("no event travels on %q", subject)
	}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("decode %s: %w", s.Kind, err)
	}
	if got := e.Where(); got != s {
		return nil, fmt.Errorf("the body of %s is about %s", subject, got)
	}
	return e, nil
}

func checkSchema(kind, header string) error {
	if header == "" {
		return nil
	}
	name, major, ok := strings.Cut(header, "/")
	n, err := strconv.Atoi(major)
	if !ok || err != nil || name != kind {
		return fmt.Errorf("schema header %q does not fit %s", clip(header, 80), kind)
	}
	if n > majorVersion {
		return fmt.Errorf("%w: %s, this version reads up to %d", ErrNewer, header, majorVersion)
	}
	return nil
}
