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

// seekRow returns the value of a fact row at a sequence: one seek. The value is the iterator's and valid until it moves. A row
// that is not there and one that was removed look alike.
func seekRow(it *pebble.Iterator, prefix key, seq uint64) (v []byte, ok bool, err error) {
	if !it.SeekGE(prefix.seq(seq)) {
		if err := it.Error(); err != nil {
			return nil, false, fmt.Errorf("read: %w", err)
		}
		return nil, false, nil
	}
	k := it.Key()
	if len(k) != len(prefix)+seqLen || !bytes.HasPrefix(k, prefix) {
		return nil, false, nil
	}
	if v, err = it.ValueAndErr(); err == nil {
		v, err = unseal(prefix, v)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", describe(k), err)
	}
	return v, len(v) > 0, nil
}

// maxNext is how many older versions of a row are stepped over before the iterator jumps.
const maxNext = 4

// scanRows calls fn for each row of a prefix as it is at a sequence, in key order, from the first row whose key (without its
// sequence) is at least from. With lenient rows whose checksum is wrong are passed over. The slices are valid during the call.
func scanRows(it *pebble.Iterator, prefix, from key, seq uint64, lenient bool, fn func(k key, v []byte) error) error {
	start := prefix
	if bytes.Compare(from, prefix) > 0 {
		start = from
	}
	var last []byte
	steps := 0
	for ok := it.SeekGE(start); ok; {
		k := it.Key()
		if !bytes.HasPrefix(k, prefix) {
			break
		}
		base, at := splitSeq(k)
		if last != nil && bytes.Equal(base, last) {
			if steps++; steps <= maxNext {
				ok = it.Next()
				continue
			}
			steps = 0
			ok = it.SeekGE(key(last).clone().seq(0).byte(0))
			continue
		}
		if at > seq {
			ok = it.SeekGE(key(base).with(seq))
			continue
		}
		v, err := it.ValueAndErr()
		if err == nil {
			if v, err = unseal(base, v); lenient && err != nil {
				v, err = nil, nil
			}
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(k), err)
		}
		last, steps = append(last[:0], base...), 0
		if len(v) > 0 {
			if err := fn(last, v); err != nil {
				return stopped(err)
			}
		}
		ok = it.Next()
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}
