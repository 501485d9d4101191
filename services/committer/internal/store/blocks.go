package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/factmill/factmill/pkg/linkage"
)

const (
	blockLen = 8
	// listIDs is how many entities the list of a block holds; further ones have a row each.
	listIDs = 128
	// defaultMaxBlock is how many names of one blocking key are compared with a new one.
	defaultMaxBlock = 5000
)

// block is a blocking key of one label.
type block [blockLen]byte

func blocksOf(label string, keys []string) []block {
	out := make([]block, 0, len(keys))
	for _, k := range keys {
		h := fnv.New64a()
		_, _ = h.Write([]byte(label))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(k))
		out = append(out, block(binary.BigEndian.AppendUint64(nil, h.Sum64())))
	}
	return out
}

func blockKey(g uint32, b block) key      { return newKey(g, spaceBlock).raw(b[:]) }
func moreKey(g uint32, b block, v id) key { return newKey(g, spaceMore).raw(b[:]).id(v) }
func morePrefix(g uint32, b block) key    { return newKey(g, spaceMore).raw(b[:]) }

// blockRow is the list of a block: most have no more than that.
type blockRow struct {
	more bool // entities were filed behind the list
	ids  []id
}

func (r blockRow) encode() []byte {
	w := make(writer, 0, 1+len(r.ids)*idLen).bool(r.more)
	for _, v := range r.ids {
		w = w.id(v)
	}
	return w
}

func decodeBlock(b []byte) (r blockRow, err error) {
	if len(b)%idLen != 1 {
		return r, fmt.Errorf("%w: block", ErrCorrupt)
	}
	rd := reader{b: b}
	r.more = rd.bool()
	r.ids = make([]id, 0, len(b)/idLen)
	for len(rd.b) > 0 {
		r.ids = append(r.ids, rd.id())
	}
	return r, rd.err("block")
}

// refile files entities under their blocking keys, and no longer under those of the names they had.
func (t *Txn) refile(list []renamed) error {
	type change struct {
		block block
		id    id
		add   bool
	}
	var all []change
	for _, r := range list {
		var was, is []block
		if r.before != (shown{}) {
			n := r.before.prepare()
			was = blocksOf(r.before.label, linkage.Blocks(&n))
		}
		if r.now != (shown{}) {
			n := r.now.prepare()
			is = blocksOf(r.now.label, linkage.Blocks(&n))
		}
		for _, b := range was {
			if !slices.Contains(is, b) {
				all = append(all, change{b, r.id, false})
			}
		}
		for _, b := range is {
			if !slices.Contains(was, b) {
				all = append(all, change{b, r.id, true})
			}
		}
	}
	// In the order of the rows, so that each look-up goes on where the last one ended.
	slices.SortFunc(all, func(a, b change) int {
		if c := bytes.Compare(a.block[:], b.block[:]); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	for _, c := range all {
		var err error
		if c.add {
			err = t.file(c.block, c.id)
		} else {
			err = t.unfile(c.block, c.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Txn) blockList(b block) (blockRow, error) {
	v, ok, err := t.load(blockKey(t.g.id, b))
	if err != nil || !ok {
		return blockRow{}, err
	}
	return decodeBlock(v)
}

// file adds an entity to a block.
func (t *Txn) file(b block, v id) error {
	r, err := t.blockList(b)
	if err != nil || slices.Contains(r.ids, v) {
		return err
	}
	if len(r.ids) < listIDs {
		r.ids = append(r.ids, v)
		t.put(blockKey(t.g.id, b), r.encode())
		return nil
	}
	if !r.more {
		r.more = true
		t.put(blockKey(t.g.id, b), r.encode())
	}
	t.putMore(b, v, []byte{1})
	return nil
}

// unfile takes an entity out of a block.
func (t *Txn) unfile(b block, v id) error {
	r, err := t.blockList(b)
	if err != nil {
		return err
	}
	i := slices.Index(r.ids, v)
	if i < 0 {
		if r.more {
			t.putMore(b, v, nil)
		}
		return nil
	}
	r.ids = slices.Delete(r.ids, i, i+1)
	var row []byte
	if len(r.ids) > 0 || r.more {
		row = r.encode()
	}
	t.put(blockKey(t.g.id, b), row)
	return nil
}

func (t *Txn) putMore(b block, v id, row []byte) {
	t.put(moreKey(t.g.id, b, v), row)
	if t.filed[b] == nil {
		t.filed[b] = map[id]bool{}
	}
	t.filed[b][v] = row != nil
}

// members calls fn for each entity of a block until it says stop.
func (t *Txn) members(b block, fn func(id) error) error {
	r, err := t.blockList(b)
	if err != nil {
		return err
	}
	for _, v := range r.ids {
		if err := fn(v); err != nil {
			return stopped(err)
		}
	}
	if !r.more {
		return nil
	}
	pending := t.filed[b]
	for _, v := range inOrder(pending) {
		if pending[v] {
			if err := fn(v); err != nil {
				return stopped(err)
			}
		}
	}
	it, err := t.iter(false)
	if err != nil {
		return err
	}
	// fn looks up rows with the same iterator: what is there is read first.
	var rest []id
	prefix := morePrefix(t.g.id, b)
	err = scanRows(it, prefix, nil, t.seq, false, func(k key, _ []byte) error {
		kr := keyReader{b: k[len(prefix):]}
		v := kr.id()
		if _, changed := pending[v]; !changed {
			rest = append(rest, v)
		}
		if len(rest) > t.s.opt.maxBlock {
			return ErrStop
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range rest {
		if err := fn(v); err != nil {
			return stopped(err)
		}
	}
	return nil
}
