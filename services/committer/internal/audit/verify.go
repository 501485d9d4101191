package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// Published returns the last record of a graph that was published; nil when none was.
type Published func(ctx context.Context, graph string) (*events.Audit, error)

// VerifyPublished is Verify, and asks whether the store has what was published of it last: records that were lost with the end of the store's
// log leave no gap in the chain. What is published is in the store before, so it is looked up first.
func (t Trail) VerifyPublished(ctx context.Context, last Published, problem func(api.Problem)) (checked int, err error) {
	out, err := last(ctx, t.Graph)
	if err != nil {
		return 0, fmt.Errorf("look for the last published audit record: %w", err)
	}
	if checked, err = t.Verify(ctx, problem); err != nil || out == nil {
		return checked, err
	}
	no, _, err := t.Head()
	if err != nil {
		return checked, err
	}
	tell := func(at uint64, format string, args ...any) {
		problem(api.Problem{Kind: "audit", Key: fmt.Sprintf("audit record %d", at), Message: fmt.Sprintf(format, args...)})
	}
	switch _, ok, err := t.Record(out.Record); {
	case err != nil:
		return checked, err
	case ok:
	case out.No > no+1:
		tell(no+1, "it and those up to %d were published, the last as %s, and are not in the store", out.No, out.Record)
	default:
		tell(out.No, "it was published as %s, which is not in the store", out.Record)
	}
	return checked, nil
}

// Verify checks every row: that the records are the bytes they were sealed as, numbered without gaps and chained, that each is found by its id,
// item and request, that the head is the last of them, and that there is no row besides. Each problem names the record.
func (t Trail) Verify(ctx context.Context, problem func(api.Problem)) (checked int, err error) {
	v := &verifier{t: t, problem: problem}
	err = t.Store.Scan(t.Graph, space, nil, nil, 0, func(k, value []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return v.row(k, value)
	})
	if err != nil {
		return v.checked, err
	}
	v.end()
	if v.found != 3*v.records {
		err = t.Store.Scan(t.Graph, space, nil, []byte("h"), 0, func(k, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return v.pointer(k, value)
		})
	}
	return v.checked, err
}

// verifier reads the rows of one scan, which is as of one moment: records, head, then what leads to records.
type verifier struct {
	t       Trail
	problem func(api.Problem)
	chain   events.AuditChain
	checked int // records, and numbers that are missing
	records int
	head    *head
	found   int // rows that lead to records
}

func (v *verifier) tell(no uint64, format string, args ...any) {
	v.problem(api.Problem{Kind: "audit", Key: fmt.Sprintf("audit record %d", no), Message: fmt.Sprintf(format, args...)})
}

func (v *verifier) row(k, value []byte) error {
	switch {
	case len(k) == 9 && k[0] == 'a':
		return v.record(binary.BigEndian.Uint64(k[1:]), value)
	case len(k) == 1 && k[0] == 'h':
		v.head = &head{}
		again, err := json.Marshal(v.head)
		if e := json.Unmarshal(value, v.head); e == nil {
			again, err = json.Marshal(v.head)
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(again, value) {
			v.tell(v.chain.No, "the row that says which record is the last cannot be read: %.200q", value)
		}
	case len(k) > 1 && (k[0] == 'i' || k[0] == 'k' || k[0] == 'o'):
		v.found++
	default:
		v.tell(v.chain.No, "there is a row that is nobody's: %.80q", k)
	}
	return nil
}

func (v *verifier) record(no uint64, value []byte) error {
	if next := v.chain.No + 1; no != next {
		v.missing(next, no-1)
		v.chain.Skip(no)
	}
	v.checked++
	v.records++
	r, err := v.chain.Next(value)
	if err != nil {
		v.tell(no, "%v", err)
	}
	want := fmt.Append(nil, no)
	for _, k := range pointers(r) {
		at, err := v.t.Store.Get(v.t.Graph, space, k)
		if err != nil {
			return err
		}
		if !bytes.Equal(at, want) {
			v.tell(no, "it is not found by %.200q", k[1:])
		}
	}
	return nil
}

// pointers are the keys of the rows that lead to a record.
func pointers(r events.Audit) [][]byte {
	return [][]byte{recordKey(r.Record), latest(itemKey(r.Key), r.No), latest(operationKey(r.Operation), r.No)}
}

func (v *verifier) missing(from, to uint64) {
	v.checked += int(min(to-from+1, 1<<31)) // a damaged head may name any number
	if from == to {
		v.tell(from, "it is missing")
		return
	}
	v.tell(from, "it and those up to %d are missing", to)
}

// end compares the head with the last record.
func (v *verifier) end() {
	switch h := v.head; {
	case h == nil && v.records == 0:
	case h == nil:
		v.tell(v.chain.No, "the row that says that it is the last is missing")
	case h.No > v.chain.No:
		v.tell(v.chain.No, "the last record is %s, it should be record %d, %s", v.chain.Head, h.No, h.Record)
		v.missing(v.chain.No+1, h.No)
	case h.No != v.chain.No || h.Record != v.chain.Head:
		v.tell(v.chain.No, "the last record is %s, it should be record %d, %s", v.chain.Head, h.No, h.Record)
	}
}

// pointer names a row that leads to no record, or to one that it is not of.
func (v *verifier) pointer(k, value []byte) error {
	var no uint64
	var r events.Audit
	if err := json.Unmarshal(value, &no); err == nil {
		if _, err := v.t.load(numbered('a', no), &r); err != nil && r.Record == "" {
			return nil // told already
		}
	}
	for _, x := range pointers(r) {
		if r.Record != "" && bytes.Equal(x, k) {
			return nil
		}
	}
	v.tell(no, "a row leads to it that is not its own: %.200q", k)
	return nil
}
