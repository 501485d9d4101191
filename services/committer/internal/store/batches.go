package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// bundle is what one batch of a commit holds.
type bundle struct {
	seq  uint64
	rows map[string][]byte // of the cache: key without sequence → value; empty removes
	more []pair            // postings, feeds, events

	written int
	removed int // of written: rows that end others
	bytes   int64
}

// pair is a row: its key as Pebble has it, and its value.
type pair struct{ k, v []byte }

// flushIfFull writes the cache at the next sequence, under a journal, when it has grown to its bound.
func (t *Txn) flushIfFull(ctx context.Context) error {
	if t.size+t.post.Size() < t.s.opt.BatchBytes {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.emitFolds(); err != nil {
		return err
	}
	rows, err := t.gather()
	if err != nil {
		return err
	}
	jk := t.journalKey(t.batches)
	t.batches++ // also of a batch whose outcome is unclear: Abort undoes it
	if err := t.s.writeBundle(rows, jk, t.size); err != nil {
		return err
	}
	t.counted(rows)
	t.reset()
	return t.closeIters()
}

// counted adds what a batch wrote.
func (t *Txn) counted(b *bundle) {
	t.written, t.removed, t.bytes = t.written+b.written, t.removed+b.removed, t.bytes+b.bytes
}

// writeBundle writes a batch and its journal row.
func (s *Store) writeBundle(rows *bundle, journalKey key, size int) error {
	b := s.db.NewBatchWithSize(size)
	defer b.Close()
	var j journal
	if err := rows.fill(b, &j); err != nil {
		return err
	}
	if err := b.Set(journalKey.end(), j.row, nil); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	s.space.relieve()
	rows.bytes = int64(b.Len())
	return s.apply(b, false)
}

// journalKey is that of the list of what a batch wrote.
func (t *Txn) journalKey(batch int) key {
	return newKey(t.g.id, spaceJournal).u64(t.seq).u32(uint32(batch))
}

// postingPart is about how large one row of a posting list is.
const postingPart = 64 << 10

// gather takes what the cache holds as the rows of a batch.
func (t *Txn) gather() (*bundle, error) {
	out := &bundle{seq: t.seq, rows: t.rows}
	set := func(k, v []byte) error {
		out.more = append(out.more, pair{k, v})
		return nil
	}
	next := t.part
	lists := func(list byte, term string, data []byte, split func([]byte, int) ([][]byte, error)) error {
		parts, err := split(data, postingPart)
		if err != nil {
			return fmt.Errorf("postings of %q: %w", term, err)
		}
		for i, p := range parts {
			k := newKey(t.g.id, spacePosting).byte(list).str(term).u32(t.part + uint32(i)).with(t.seq)
			if err := set(k, p); err != nil {
				return err
			}
		}
		next = max(next, t.part+uint32(len(parts)))
		return nil
	}
	if err := t.post.Each(func(term string, data []byte) error { return lists(ListChunks, term, data, lexical.Split) }); err != nil {
		return nil, err
	}
	for term, ids := range t.names {
		if err := lists(listEntities, term, ids, splitIDs); err != nil {
			return nil, err
		}
	}
	t.part = next
	if err := t.feedRows(set); err != nil {
		return nil, err
	}
	if err := t.candFeedRows(set); err != nil {
		return nil, err
	}
	for _, e := range t.events {
		no := t.g.out.take()
		t.numbers = append(t.numbers, no)
		if err := set(outboxKey(t.g.id, no).end(), append(writer(nil).u64(t.seq), e...)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fill puts the rows into a batch, and their keys into a journal row unless that is nil.
func (r *bundle) fill(b *pebble.Batch, j *journal) error {
	set := func(k, v []byte) error {
		r.written++
		if len(v) == 0 {
			r.removed++
		}
		base, _, _ := splitRow(k)
		j.add(k)
		return setSealed(b, k, base, v)
	}
	var row key
	for _, p := range inKeyOrder(r.rows) {
		row = append(row[:0], p.k...).seq(r.seq)
		if err := set(row, p.v); err != nil {
			return err
		}
	}
	for _, p := range r.more {
		if err := set(p.k, p.v); err != nil {
			return err
		}
	}
	return nil
}

// keyed is a row beside eight bytes of its key behind the graph's number, which tell nearly all keys of a graph apart: sorting by them
// leaves most keys where they are in memory.
type keyed struct {
	head uint64
	k    string
	v    []byte
}

// inKeyOrder are the rows of one graph, sorted.
func inKeyOrder(rows map[string][]byte) []keyed {
	out := make([]keyed, 0, len(rows))
	var b [8]byte
	for k, v := range rows {
		clear(b[copy(b[:], k[headLen-1:]):])
		out = append(out, keyed{binary.BigEndian.Uint64(b[:]), k, v})
	}
	slices.SortFunc(out, func(a, b keyed) int {
		if a.head != b.head {
			if a.head < b.head {
				return -1
			}
			return 1
		}
		return strings.Compare(a.k, b.k)
	})
	return out
}

func splitIDs(data []byte, size int) ([][]byte, error) {
	var out [][]byte
	for part := range slices.Chunk(data, size/idLen*idLen) {
		out = append(out, part)
	}
	return out, nil
}
