// Package quarantine keeps what a job under error policy quarantine could not use: which document or source, why, and where its
// bytes are. A record is written with the commit of its job and stays until somebody drops it or replays it with success.
package quarantine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Spaces of the store that belong to this package.
const (
	spaceRecord = byte('Q') // inverted commit sequence, number in it → Record: newest first
	spaceUpload = byte('U') // upload 0 record id → nothing
)

// Record is one quarantined document or source.
type Record struct {
	ID string `json:"id"`
	// Job in which it was put aside, and the sequence at which that job committed.
	Job string `json:"job"`
	Seq uint64 `json:"seq"`
	// Key of the document, or the name of the source that gave no document.
	Key    string `json:"key"`
	Source string `json:"source,omitempty"`
	Stage  string `json:"stage"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Items is how many records the source holds, where that is known.
	Items   int       `json:"items,omitempty"`
	TraceID string    `json:"trace_id,omitempty"`
	At      time.Time `json:"at"`
	// Body refers to the bytes, an event of kind Event; empty where none were kept.
	Body  string `json:"body,omitempty"`
	Event string `json:"event,omitempty"`
}

// Of makes the record of an end with outcome quarantined.
func Of(e *events.Ended, seq uint64, at time.Time) Record {
	r := Record{Job: e.Job.ID, Seq: seq, Key: e.Name, Source: e.Name, At: at, Body: e.Body, Event: e.BodyKind, Items: e.Items}
	if e.Doc != nil {
		r.Key = e.Doc.Key
	}
	if f := e.Failure; f != nil {
		r.Stage, r.Code, r.Reason, r.TraceID = f.Stage, f.Code, f.Message, f.TraceID
		if r.Key == "" {
			r.Key = f.Item
		}
	}
	return r
}

// upload is the uploaded object that a replay of the record would read.
func (r Record) upload() string {
	object, ok := strings.CutPrefix(r.Source, events.ObjectPrefix+bus.BucketUploads+"/")
	if !ok {
		return ""
	}
	return object
}

var idForm = regexp.MustCompile(`^q([0-9]{1,20})-([0-9]{1,10})$`)

// IsID tells an id of a quarantine record from that of a dead letter.
func IsID(id string) bool { return idForm.MatchString(id) }

func key(seq uint64, no uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, ^seq), no)
}

// keyOf is the row of an id; nil for what is none.
func keyOf(id string) []byte {
	m := idForm.FindStringSubmatch(id)
	if m == nil {
		return nil
	}
	seq, err1 := strconv.ParseUint(m[1], 10, 64)
	no, err2 := strconv.ParseUint(m[2], 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	return key(seq, uint32(no))
}

func uploadKey(object, id string) []byte {
	return append(append([]byte(object), 0), id...)
}

// Ops writes the records of one commit, of which there are none yet. Their ids are numbered in the order given.
func Ops(graph string, seq uint64, records []Record) ([]store.Op, error) {
	ops := make([]store.Op, 0, len(records))
	for i, r := range records {
		r.ID, r.Seq = fmt.Sprintf("q%d-%d", seq, i+1), seq
		b, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("quarantine record of %q: %w", r.Key, err)
		}
		ops = append(ops, store.Op{Graph: graph, Space: spaceRecord, Key: key(seq, uint32(i+1)), Value: b})
		if u := r.upload(); u != "" {
			ops = append(ops, store.Op{Graph: graph, Space: spaceUpload, Key: uploadKey(u, r.ID), Value: []byte{}})
		}
	}
	return ops, nil
}

// DropOps removes a record.
func DropOps(graph string, r Record) []store.Op {
	ops := []store.Op{{Graph: graph, Space: spaceRecord, Key: keyOf(r.ID), Delete: true}}
	if u := r.upload(); u != "" {
		ops = append(ops, store.Op{Graph: graph, Space: spaceUpload, Key: uploadKey(u, r.ID), Delete: true})
	}
	return ops
}

// Get reads a record; nil when there is none of that id.
func Get(st *store.Store, graph, id string) (*Record, error) {
	k := keyOf(id)
	if k == nil {
		return nil, nil
	}
	b, err := st.Get(graph, spaceRecord, k)
	if err != nil || b == nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("quarantine record %s: %w", id, err)
	}
	return r, nil
}

// Scan calls fn for the records of a graph, newest commit first, after the one with id after (empty: from the first) until fn
// returns an error; store.ErrStop ends it without one.
func Scan(st *store.Store, graph, after string, fn func(Record) error) error {
	var from []byte
	if after != "" {
		if from = keyOf(after); from == nil {
			return fmt.Errorf("%q is no id of a quarantine record", after)
		}
	}
	return scan(st, graph, nil, from, fn)
}

// OfCommit calls fn for the records that one commit wrote.
func OfCommit(st *store.Store, graph string, seq uint64, fn func(Record) error) error {
	return scan(st, graph, key(seq, 0)[:8], nil, fn)
}

func scan(st *store.Store, graph string, prefix, after []byte, fn func(Record) error) error {
	return st.Scan(graph, spaceRecord, prefix, after, 0, func(_, v []byte) error {
		var r Record
		if err := json.Unmarshal(v, &r); err != nil {
			return fmt.Errorf("quarantine records of %s: %w", graph, err)
		}
		return fn(r)
	})
}

// NamesUpload says whether a record of any graph needs an uploaded object.
func NamesUpload(st *store.Store, object string) (named bool, err error) {
	for _, g := range st.Graphs() {
		err := st.Scan(g, spaceUpload, uploadKey(object, ""), nil, 1, func(_, _ []byte) error {
			named = true
			return nil
		})
		if err != nil || named {
			return named, err
		}
	}
	return false, nil
}

// Changed grows whenever a record comes or goes.
func Changed(st *store.Store) uint64 { return st.Changed(spaceRecord) }

// Count counts the records of all graphs, which reads them all: only when Changed has grown.
func Count(st *store.Store) (n int, err error) {
	for _, g := range st.Graphs() {
		if err := st.Scan(g, spaceRecord, nil, nil, 0, func(_, _ []byte) error { n++; return nil }); err != nil {
			return 0, fmt.Errorf("count quarantine records of %s: %w", g, err)
		}
	}
	return n, nil
}
