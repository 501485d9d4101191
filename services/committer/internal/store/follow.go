package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
)

// ErrReadOnly says that a store is a copy that follows another one: nothing but that one's batches is written to it.
var ErrReadOnly = errors.New("the store is a read replica")

// Position is the last batch of the store that is in this copy.
func (s *Store) Position() (Position, error) {
	if err := s.enter(); err != nil {
		return Position{}, err
	}
	defer s.exit()
	p, _, _, err := s.shipped()
	return p, err
}

// Follow applies the whole batches at the beginning of data, as Shipped returned them, to a copy that was opened with Options.Follower. It returns
// how many bytes of data they are, and the last one. They are on disk when it returns. What is not the next batch of this copy is ErrCut.
func (s *Store) Follow(data []byte) (used int, at Position, err error) {
	if err := s.enter(); err != nil {
		return 0, at, err
	}
	defer s.exit()
	if !s.opt.Follower {
		return 0, at, errors.New("follow: the store is no copy")
	}
	if at, _, _, err = s.shipped(); err != nil {
		return 0, at, err
	}
	for len(data)-used >= shipHead {
		h := readShipHead(data[used:])
		end := used + shipHead + int(h.size)
		if len(data) < end {
			break
		}
		switch {
		case h.sum != crc32.Checksum(data[used+8:end], castagnoli):
			return used, at, fmt.Errorf("%w: batch %s is damaged", ErrCut, h.pos)
		case h.prev != at:
			return used, at, fmt.Errorf("%w: batch %s follows %s, this copy is at %s", ErrCut, h.pos, h.prev, at)
		}
		if err := s.copyBatch(data[used+shipHead : end]); err != nil {
			return used, at, fmt.Errorf("batch %s: %w", h.pos, err)
		}
		used, at = end, h.pos
	}
	if used > 0 {
		if err := s.db.LogData(nil, pebble.Sync); err != nil {
			return used, at, fmt.Errorf("write batches: %w", err)
		}
	}
	format, err := s.systemNumber(rowFormat)
	if err == nil && format > formatVersion {
		err = fmt.Errorf("%w: the committer writes format %d, this program reads up to %d: start its newer version", ErrNewerFormat, format, formatVersion)
	}
	return used, at, err
}

// Need is how many bytes a batch has of which data is the beginning; 0 while that is not to be seen.
func Need(data []byte) int {
	if len(data) < shipHead {
		return 0
	}
	return shipHead + int(readShipHead(data).size)
}

func (s *Store) copyBatch(repr []byte) error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := b.SetRepr(bytes.Clone(repr)); err != nil { // it is kept, and written to
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	var after []func()
	for r := b.Reader(); ; {
		kind, k, v, ok, err := r.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCut, err)
		}
		if !ok {
			break
		}
		if kind == pebble.InternalKeyKindSet {
			after = append(after, s.known(k, v)...)
		}
	}
	if err := s.db.Apply(b, pebble.NoSync); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	for _, f := range after { // now the rows are there
		f()
	}
	if p := s.broken.Load(); p != nil {
		return *p
	}
	return nil
}

// known is what memory has to learn of a row.
func (s *Store) known(k, v []byte) []func() {
	if len(k) < headLen || len(v) != 8 || k[4] != spaceGraph && k[4] != spaceCurrent {
		return nil
	}
	base, _, fact := splitRow(k)
	num, n := binary.BigEndian.Uint32(k), binary.BigEndian.Uint64(v)
	switch {
	case fact:
		return nil
	case k[4] == spaceGraph && num == 0:
		name := string(base[headLen:])
		return []func(){func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.graphs[name] == nil {
				s.addGraph(name, uint32(n), 0, 1)
			}
		}}
	case k[4] == spaceCurrent && len(base) == headLen:
		return []func(){func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if g := s.byID[num]; g != nil {
				g.current.Store(n)
			}
		}}
	}
	return nil
}
