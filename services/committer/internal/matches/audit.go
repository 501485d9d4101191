package matches

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package. Keys:
//
//	h                     → head: the last audit record
//	a number              → audit record
//	i record id           → number
//	k item key 0 ^number  an item's records, the latest first
const space = byte('D')

// maxHistory is how many records of an item are shown.
const maxHistory = 50

type head struct {
	No     uint64 `json:"no"`
	Record string `json:"id"`
}

// trail is the audit records of a graph. Records are appended in commits, so one at a time.
type trail struct {
	st    *store.Store
	graph string
}

func numbered(kind byte, no uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, no) }
func recordKey(id string) []byte           { return append([]byte("i"), id...) }
func itemKey(key string) []byte            { return append(append([]byte("k"), key...), 0) }

func (t trail) load(key []byte, into any) (bool, error) {
	b, err := t.st.Get(t.graph, space, key)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%w: audit row %q of %s: %w", store.ErrCorrupt, key, t.graph, err)
	}
	return true, nil
}

func (t trail) op(key []byte, v any) (store.Op, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return store.Op{}, fmt.Errorf("audit of %s: %w", t.graph, err)
	}
	return store.Op{Graph: t.graph, Space: space, Key: key, Value: b}, nil
}

// appended numbers and chains records behind those that are there, and makes their rows.
func (t trail) appended(records []events.Audit) (ops []store.Op, err error) {
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
		}{{numbered('a', r.No), r}, {recordKey(r.Record), r.No}, {binary.BigEndian.AppendUint64(itemKey(r.Key), ^r.No), r.No}} {
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

func (t trail) at(no uint64) (r events.Audit, err error) {
	ok, err := t.load(numbered('a', no), &r)
	if err == nil && !ok {
		err = fmt.Errorf("%w: audit record %d of %s is missing", store.ErrCorrupt, no, t.graph)
	}
	return r, err
}

// record is the one with an id.
func (t trail) record(id string) (r events.Audit, ok bool, err error) {
	var no uint64
	if ok, err = t.load(recordKey(id), &no); err != nil || !ok {
		return r, false, err
	}
	r, err = t.at(no)
	return r, err == nil, err
}

// of lists the records of an item, the latest first.
func (t trail) of(key string) ([]events.Audit, error) {
	out := []events.Audit{}
	prefix := itemKey(key)
	err := t.st.Scan(t.graph, space, prefix, nil, maxHistory, func(k, _ []byte) error {
		if len(k) != len(prefix)+8 {
			return fmt.Errorf("%w: audit row %q of %s", store.ErrCorrupt, k, t.graph)
		}
		r, err := t.at(^binary.BigEndian.Uint64(k[len(prefix):]))
		out = append(out, r)
		return err
	})
	return out, err
}

// Verify checks that the audit records of a graph are numbered without gaps and chained, and that each is found by its id and item.
func (d *Desk) Verify(ctx context.Context, graph string, problem func(api.Problem)) (checked int, err error) {
	t := trail{d.deps.Store, graph}
	var h head
	if _, err := t.load([]byte("h"), &h); err != nil {
		return 0, err
	}
	tell := func(no uint64, format string, args ...any) {
		problem(api.Problem{Kind: "audit", Key: fmt.Sprintf("audit record %d", no), Message: fmt.Sprintf(format, args...)})
	}
	prev := ""
	for no := uint64(1); no <= h.No; no++ {
		if err := ctx.Err(); err != nil {
			return checked, err
		}
		checked++
		r, err := t.at(no)
		if errors.Is(err, store.ErrCorrupt) {
			tell(no, "%v", err)
			continue
		}
		if err != nil {
			return checked, err
		}
		sealed, err := r.Sealed(no, prev)
		if err != nil {
			return checked, err
		}
		if sealed.Record != r.Record || r.No != no || r.Prev != prev {
			tell(no, "it is not what was decided then: its id is %s, its content and the record before it give %s", r.Record, sealed.Record)
		}
		prev = r.Record
		for _, k := range [][]byte{recordKey(r.Record), binary.BigEndian.AppendUint64(itemKey(r.Key), ^no)} {
			var at uint64
			if ok, err := t.load(k, &at); err != nil || !ok || at != no {
				tell(no, "it is not found by %q", k[1:])
			}
		}
	}
	if prev != h.Record {
		tell(h.No, "the last record is %s, it should be %s", prev, h.Record)
	}
	return checked, nil
}
