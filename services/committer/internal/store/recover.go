package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

func sortStrings(s []string) { slices.Sort(s) }

// loadGraphs reads the graphs and undoes the commits that did not end.
func (s *Store) loadGraphs(ctx context.Context) error {
	type entry struct {
		name string
		num  uint32
	}
	var found []entry
	prefix := newKey(0, spaceGraph)
	err := s.scanDB(prefix, func(k key, v []byte) error {
		if len(v) != 8 {
			return fmt.Errorf("%w: graph %q", ErrCorrupt, k[len(prefix):])
		}
		found = append(found, entry{string(k[len(prefix):]), uint32(binary.BigEndian.Uint64(v))})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read graphs: %w", err)
	}
	for _, e := range found {
		current, err := s.readNumber(newKey(e.num, spaceCurrent))
		if err != nil {
			return fmt.Errorf("graph %s: %w", e.name, err)
		}
		if err := s.undo(ctx, e.num, current); err != nil {
			return fmt.Errorf("undo the unfinished commit of graph %s: %w", e.name, err)
		}
		next, err := s.lastOutbox(e.num)
		if err != nil {
			return fmt.Errorf("graph %s: %w", e.name, err)
		}
		s.addGraph(e.name, e.num, current, next+1)
	}
	return nil
}

// undo deletes what a commit wrote above the current sequence, batch by batch as its journal lists it. It may be cut off
// and begun again at any point: a batch's keys and its journal row go together.
func (s *Store) undo(ctx context.Context, g uint32, current uint64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, v, err := s.first(newKey(g, spaceJournal))
		if err != nil || k == nil {
			return err
		}
		r := readKey(k)
		seq := r.u64()
		b := s.db.NewBatch()
		err = func() error {
			defer b.Close()
			if seq > current {
				if err := eachKey(v, func(row []byte) error { return b.Delete(row, nil) }); err != nil {
					return fmt.Errorf("journal %s: %w", describe(k), err)
				}
			}
			if err := b.Delete(k.end(), nil); err != nil {
				return err
			}
			return s.apply(b, true)
		}()
		if err != nil {
			return err
		}
	}
}

// journal is the list of the keys of a batch as a row: each is the length it shares with the one before, then its rest.
type journal struct {
	row  writer
	last []byte
}

// add lists a key; of nil it does nothing.
func (j *journal) add(k []byte) {
	if j == nil {
		return
	}
	n := 0
	for n < len(k) && n < len(j.last) && k[n] == j.last[n] {
		n++
	}
	j.row = j.row.uint(n).bytes(k[n:])
	j.last = append(j.last[:n], k[n:]...)
}

func eachKey(row []byte, fn func(k []byte) error) error {
	r := reader{b: row}
	var last []byte
	for len(r.b) > 0 {
		n := r.uint()
		rest := r.bytes()
		if r.bad || n > len(last) {
			return ErrCorrupt
		}
		last = append(last[:n:n], rest...)
		if err := fn(last); err != nil {
			return err
		}
	}
	return nil
}

// first returns copies of the first row without a sequence of a prefix; nil when there is none.
func (s *Store) first(prefix key) (k key, v []byte, err error) {
	err = s.scanDB(prefix, func(rk key, rv []byte) error {
		k, v = rk.clone(), slices.Clone(rv)
		return ErrStop
	})
	return k, v, err
}

// scanDB calls fn for every row without a sequence of a prefix in order. The slices are valid during the call.
func (s *Store) scanDB(prefix key, fn func(k key, v []byte) error) error {
	return s.scanFrom(prefix, nil, fn)
}
