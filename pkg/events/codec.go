package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/jsonx"
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
	b, ok := write(e)
	if ok {
		return b, nil
	}
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
	e := empty(s.Kind)
	if e == nil {
		return nil, fmt.Errorf("no event travels on %q", subject)
	}
	if !read(body, e) {
		e = empty(s.Kind)
		if err := json.Unmarshal(body, e); err != nil {
			return nil, fmt.Errorf("decode %s: %w", s.Kind, err)
		}
	}
	if got := e.Where(); got != s {
		return nil, fmt.Errorf("the body of %s is about %s", subject, got)
	}
	return e, nil
}

// empty is an event of the kind, nil if none is decoded.
func empty(kind string) Event {
	switch kind {
	case KindFound:
		return new(Found)
	case KindLoaded:
		return new(Loaded)
	case KindChunked:
		return new(Chunked)
	case KindStaged:
		return new(Staged)
	case KindExtracted:
		return new(Extracted)
	case KindResolved:
		return new(Resolved)
	case KindEnded:
		return new(Ended)
	case KindSealed:
		return new(Sealed)
	case KindOpened, KindHeld, KindCommitted, KindRollingBack, KindRolledBack:
		return new(JobState)
	case KindCandidate:
		return new(CandidateEvent)
	case KindChange:
		return new(Change)
	case KindAudit:
		return new(Audit)
	case KindDead:
		return new(Dead)
	}
	return nil
}

// read reads the events that come with every document. False: encoding/json is to read it, into another one.
func read(body []byte, e Event) bool {
	switch e := e.(type) {
	case *Found:
		return jsonx.Read(body, e, jsonx.Floats, readFound)
	case *Loaded:
		return jsonx.Read(body, e, jsonx.Floats, readLoaded)
	case *Chunked:
		return jsonx.Read(body, e, jsonx.Floats, readChunked)
	case *Staged:
		return jsonx.Read(body, e, jsonx.Floats, readStaged)
	case *Extracted:
		return jsonx.Read(body, e, jsonx.Floats, readExtracted)
	case *Resolved:
		return jsonx.Read(body, e, jsonx.Floats, readResolved)
	case *Ended:
		return jsonx.Read(body, e, jsonx.Floats, readEnded)
	}
	return false
}

// write writes what read reads. False: encoding/json is to write it.
func write(e Event) ([]byte, bool) {
	switch e := e.(type) {
	case *Found:
		return jsonx.Write(e, appendFound)
	case *Loaded:
		return jsonx.Write(e, appendLoaded)
	case *Chunked:
		return jsonx.Write(e, appendChunked)
	case *Staged:
		return jsonx.Write(e, appendStaged)
	case *Extracted:
		return jsonx.Write(e, appendExtracted)
	case *Resolved:
		return jsonx.Write(e, appendResolved)
	case *Ended:
		return jsonx.Write(e, appendEnded)
	}
	return nil, false
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
