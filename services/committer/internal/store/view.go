package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumLen = 4

// seal ends a value with a checksum over its key (without the sequence) and itself, so that a row that was altered or moved
// is told from one that was written. A removed row stays empty.
func seal(k, v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	sum := crc32.Update(crc32.Checksum(k, castagnoli), castagnoli, v)
	return binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(v)+sumLen), v...), sum)
}

// setSealed writes a row whose value is sealed over base, without memory besides the batch's.
func setSealed(b *pebble.Batch, k, base, v []byte) error {
	if len(v) == 0 {
		if err := b.Set(k, nil, nil); err != nil {
			return fmt.Errorf("write %s: %w", describe(k), err)
		}
		return nil
	}
	op := b.SetDeferred(len(k), len(v)+sumLen)
	copy(op.Key, k)
	copy(op.Value, v)
	binary.LittleEndian.PutUint32(op.Value[len(v):], crc32.Update(crc32.Checksum(base, castagnoli), castagnoli, v))
	if err := op.Finish(); err != nil {
		return fmt.Errorf("write %s: %w", describe(k), err)
	}
	return nil
}

// unseal checks and drops the checksum.
func unseal(k, v []byte) ([]byte, error) {
	if len(v) == 0 {
		return nil, nil
	}
	if n := len(v) - sumLen; n > 0 {
		if sum := crc32.Update(crc32.Checksum(k, castagnoli), castagnoli, v[:n]); binary.LittleEndian.Uint32(v[n:]) == sum {
			return v[:n], nil
		}
	}
	return nil, fmt.Errorf("%w: its checksum is wrong", ErrCorrupt)
}

// iterOptions let a look-up of one row use the filters of the lowest level too: most rows that a commit asks for are not there yet.
var iterOptions = pebble.IterOptions{UseL6Filters: true}

// seekRow returns the value of a fact row at a sequence: one seek, past every table whose filter does not know the row. The value
// is the iterator's and valid until it moves. A row that is not there and one that was removed look alike.
func seekRow(it *pebble.Iterator, k key, seq uint64) (v []byte, ok bool, err error) {
	if !it.SeekPrefixGE(k.seq(seq)) {
		if err := it.Error(); err != nil {
			return nil, false, fmt.Errorf("read: %w", err)
		}
		return nil, false, nil
	}
	if v, err = it.ValueAndErr(); err == nil {
		v, err = unseal(k, v)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", describe(it.Key()), err)
	}
	return v, len(v) > 0, nil
}

// scanRows calls fn for each row of a prefix as it is at a sequence, in key order, from the first row whose key (without its
// sequence) is at least from. With lenient rows that cannot be read are passed over. The slices are valid during the call.
func scanRows(it *pebble.Iterator, prefix, from key, seq uint64, lenient bool, fn func(k key, v []byte) error) error {
	start := prefix
	if bytes.Compare(from, prefix) > 0 {
		start = from
	}
	for ok := it.SeekGE(start.clone().end()); ok; {
		base, at, fact := splitRow(it.Key())
		if !bytes.HasPrefix(base, prefix) {
			break
		}
		if at > seq {
			ok = it.SeekGE(base.with(seq))
			continue
		}
		v, err := it.ValueAndErr()
		if err == nil {
			v, err = unsealFact(base, v, fact)
		}
		if err != nil && !lenient {
			return fmt.Errorf("read %s: %w", describe(it.Key()), err)
		}
		if err == nil && len(v) > 0 {
			if err := fn(base, v); err != nil {
				return stopped(err)
			}
		}
		ok = it.NextPrefix()
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// unsealFact is unseal for a row that must be a fact's.
func unsealFact(k, v []byte, fact bool) ([]byte, error) {
	if !fact {
		return nil, fmt.Errorf("%w: its key has no sequence", ErrCorrupt)
	}
	return unseal(k, v)
}
