package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// AuditChain checks audit records one behind the other, as they are stored and exported: each is the bytes that it was sealed as, is
// numbered behind the one before it and chained to it. The zero value begins before the first record.
type AuditChain struct {
	// No and Head are the number and id of the last record that was taken.
	No   uint64
	Head string
}

// Next takes the next record. After an error the chain goes on behind that record, as it says it is, so that each damage is told once or
// twice and not for every record that follows.
func (c *AuditChain) Next(line []byte) (r Audit, err error) {
	prev := c.Head
	c.No++
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("it cannot be read: %w", err)
	}
	c.Head = r.Record
	again, err := json.Marshal(r)
	if err != nil {
		return r, fmt.Errorf("it cannot be read: %w", err)
	}
	sealed, err := r.Sealed(c.No, prev)
	if err != nil {
		return r, err
	}
	if sealed.Record == r.Record && r.No == c.No && r.Prev == prev && !bytes.Equal(again, line) {
		return r, errors.New("it is not what was decided then: its bytes are not those that it was sealed as, though they say the same")
	}
	if sealed.Record != r.Record || r.No != c.No || r.Prev != prev {
		return r, fmt.Errorf("it is not what was decided then: its id is %s, its content and the record before it give %s", r.Record, sealed.Record)
	}
	return r, nil
}

// Skip goes on behind records that are missing: the next one is number no.
func (c *AuditChain) Skip(no uint64) { c.No = no - 1 }
