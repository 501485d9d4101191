// Package audit keeps what people decided: records in the order of their commits, numbered without gaps and chained, found by id, item and
// request. Who decides appends in the commit of the decision.
package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package. Keys:
//
//	h                     → head: the last audit record
//	a number              → audit record
//	i record id           → number
//	k item key 0 ^number  an item's records, the latest first
//	o operation 0 ^number a request's records, the latest first
const space = byte('D')

const (
	// maxHistory is how many records of an item are shown.
	maxHistory = 50
	// maxLooked is how many records one request for a list looks at.
	maxLooked = 20_000
	// listBudget is about how many bytes of records a reply has.
	listBudget = 700 << 10
)

type head struct {
	No     uint64 `json:"no"`
	Record string `json:"id"`
}

// Trail is the audit records of a graph. Records are appended in commits, so one at a time.
type Trail struct {
	Store *store.Store
	Graph string
}

func numbered(kind byte, no uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, no) }
func recordKey(id string) []byte           { return append([]byte("i"), id...) }
func itemKey(key string) []byte            { return append(append([]byte("k"), key...), 0) }
func operationKey(name string) []byte      { return append(append([]byte("o"), name...), 0) }

// latest is the key of a record under its item or operation.
func latest(prefix []byte, no uint64) []byte { return binary.BigEndian.AppendUint64(prefix, ^no) }

func (t Trail) load(key []byte, into any) (bool, error) {
	b, err := t.Store.Get(t.Graph, space, key)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%w: audit row %q of %s: %w", store.ErrCorrupt, key, t.Graph, err)
	}
	return true, nil
}

func (t Trail) op(key []byte, v any) (store.Op, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return store.Op{}, fmt.Errorf("audit of %s: %w", t.Graph, err)
	}
	return store.Op{Graph: t.Graph, Space: space, Key: key, Value: b}, nil
}

// Append numbers and chains records behind those that are there, and makes their rows.
func (t Trail) Append(records []events.Audit) (ops []store.Op, err error) {
	var h head
	if _, err := t.load([]byte("h"), &h); err != nil {
		return nil, err
	}
	for i := range records {
		if records[i], err = records[i].Sealed(h.No+1, h.Record); err != nil {
			return nil, err
		}
		r := records[i]
		h = head{r.No, r.Record}
		for _, row := range []struct {
			key   []byte
			value any
		}{{numbered('a', r.No), r}, {recordKey(r.Record), r.No}, {latest(itemKey(r.Key), r.No), r.No}, {latest(operationKey(r.Operation), r.No), r.No}} {
			op, err := t.op(row.key, row.value)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
	}
	op, err := t.op([]byte("h"), h)
	return append(ops, op), err
}

func (t Trail) at(no uint64) (r events.Audit, err error) {
	r, _, err = t.sized(no)
	return r, err
}

// sized is a record and how many bytes it has.
func (t Trail) sized(no uint64) (r events.Audit, size int, err error) {
	b, err := t.Store.Get(t.Graph, space, numbered('a', no))
	switch {
	case err != nil:
		return r, 0, err
	case b == nil:
		return r, 0, fmt.Errorf("%w: audit record %d of %s is missing", store.ErrCorrupt, no, t.Graph)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, 0, fmt.Errorf("%w: audit record %d of %s: %w", store.ErrCorrupt, no, t.Graph, err)
	}
	return r, len(b), nil
}

// Record is the one with an id.
func (t Trail) Record(id string) (r events.Audit, ok bool, err error) {
	var no uint64
	if ok, err = t.load(recordKey(id), &no); err != nil || !ok {
		return r, false, err
	}
	r, err = t.at(no)
	return r, err == nil, err
}

// Of lists the records of an item, the latest first.
func (t Trail) Of(key string) ([]events.Audit, error) {
	out := []events.Audit{}
	prefix := itemKey(key)
	err := t.Store.Scan(t.Graph, space, prefix, nil, maxHistory, func(k, _ []byte) error {
		if len(k) != len(prefix)+8 { // of another key that begins with this one and a zero
			return nil
		}
		r, err := t.at(^binary.BigEndian.Uint64(k[len(prefix):]))
		out = append(out, r)
		return err
	})
	return out, err
}

// Head is the number and id of the last record.
func (t Trail) Head() (no uint64, id string, err error) {
	var h head
	_, err = t.load([]byte("h"), &h)
	return h.No, h.Record, err
}

// Filter chooses records.
type Filter struct {
	Operation, Key, ItemID, Actor string
	From, To                      time.Time // zero: any
}

func (f Filter) fits(r events.Audit) bool {
	if f.Operation != "" && r.Operation != f.Operation || f.Key != "" && r.Key != f.Key || f.ItemID != "" && r.ItemID != f.ItemID || f.Actor != "" && r.Actor != f.Actor {
		return false
	}
	if f.From.IsZero() && f.To.IsZero() {
		return true
	}
	at, err := time.Parse(time.RFC3339Nano, r.At)
	return err == nil && (f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To))
}

// List gives the records that a filter chooses, the latest first, before a number (0: from the last). next is the number to go on before
// when more may follow: a page may be shorter than its limit, be it empty.
func (t Trail) List(ctx context.Context, f Filter, before uint64, limit int) (out []events.Audit, next uint64, err error) {
	out = []events.Audit{}
	looked, used := 0, 0
	last := uint64(0)
	look := func(no uint64) (more bool, err error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if looked == maxLooked || len(out) == limit {
			next = last
			return false, nil
		}
		r, size, err := t.sized(no)
		if err != nil {
			return false, err
		}
		if f.fits(r) {
			if used += size + len(","); used > listBudget && len(out) > 0 {
				next = last
				return false, nil
			}
			out = append(out, r)
		}
		looked++
		last = no
		return true, nil
	}
	var prefix []byte
	switch {
	case f.Key != "":
		prefix = itemKey(f.Key)
	case f.Operation != "":
		prefix = operationKey(f.Operation)
	default:
		no, _, err := t.Head()
		if err != nil {
			return nil, 0, err
		}
		if before > 0 {
			no = min(no, before-1)
		}
		for ; no > 0; no-- {
			if more, err := look(no); err != nil || !more {
				return out, next, err
			}
		}
		return out, 0, nil
	}
	var after []byte
	if before > 0 {
		after = latest(bytes.Clone(prefix), before)
	}
	err = t.Store.Scan(t.Graph, space, prefix, after, 0, func(k, _ []byte) error {
		if len(k) != len(prefix)+8 { // of another key that begins with this one and a zero
			return nil
		}
		more, err := look(^binary.BigEndian.Uint64(k[len(prefix):]))
		if err == nil && !more {
			err = store.ErrStop
		}
		return err
	})
	return out, next, err
}

// After gives the records behind a number in the order in which they were written, at most limit of them. next is the number to go on
// behind when more follow, else 0.
func (t Trail) After(ctx context.Context, after uint64, limit int) (out []events.Audit, next uint64, err error) {
	out = []events.Audit{}
	last, _, err := t.Head()
	if err != nil {
		return out, 0, err
	}
	used := 0
	for no := after + 1; no <= last && no > 0; no++ {
		if err := ctx.Err(); err != nil {
			return out, 0, err
		}
		r, size, err := t.sized(no)
		if err != nil {
			return out, 0, err
		}
		if used += size + len(","); len(out) == limit || used > listBudget && len(out) > 0 {
			return out, no - 1, nil
		}
		out = append(out, r)
	}
	return out, 0, nil
}
