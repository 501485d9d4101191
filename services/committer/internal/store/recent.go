package store

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
)

// recent holds the folds that commits read or wrote last, as the next commit of their graph finds them: most facts of a commit are
// those of the commits before it. Only commits use it, and of a graph one at a time. What a commit writes out before it ends is here
// too, as it reads that itself; when it is aborted then, everything is forgotten. Reopening begins with nothing.
//
// Memory is a ring of parts without pointers. A new row goes to the part under way; when that is full, the oldest part is emptied.
type recent struct {
	mu   sync.Mutex
	seed maphash.Seed
	at   map[uint64]uint32 // hash of a key → place of its row; guarded by mu
	ring [recentParts][]byte
	part int // under way; guarded by mu
	size int // of a part
}

const (
	recentParts = 8
	recentHead  = 12 // hash of the key, lengths of key and value
	recentMax   = 4 << 10
)

// newRecent makes one of at most size bytes and a third of that for its table.
func newRecent(size int) *recent {
	return &recent{seed: maphash.MakeSeed(), at: map[uint64]uint32{}, size: max(size/recentParts, recentMax)}
}

// isFold says whether a key is that of a row which commits read in order to change it.
func isFold(k []byte) bool {
	switch k[headLen-1] {
	case spaceEntity, spaceRelation, spacePropFold:
		return true
	}
	return false
}

// find returns the row at a key's place, if it is that key's.
func (r *recent) find(h uint64, k []byte) (part, off int, v []byte, ok bool) {
	at, ok := r.at[h]
	if !ok {
		return 0, 0, nil, false
	}
	part, off = int(at)/r.size, int(at)%r.size
	b := r.ring[part][off:]
	nk, nv := int(binary.LittleEndian.Uint16(b[8:])), int(binary.LittleEndian.Uint16(b[10:]))
	if !bytes.Equal(b[recentHead:recentHead+nk], k) {
		return 0, 0, nil, false
	}
	return part, off, b[recentHead+nk : recentHead+nk+nv], true
}

// get appends a row's value to buf.
func (r *recent) get(k, buf []byte) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _, v, ok := r.find(maphash.Bytes(r.seed, k), k)
	return append(buf, v...), ok
}

// put takes in a row; an empty value, or one that is too large to keep, takes it away.
func (r *recent) put(k, v []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := maphash.Bytes(r.seed, k)
	n := recentHead + len(k) + len(v)
	if len(v) == 0 || n > recentMax {
		delete(r.at, h)
		return
	}
	// A row keeps its place while it is among the newer ones and its length is the same, as that of a counter mostly is.
	part, _, was, ok := r.find(h, k)
	if age := (r.part - part + recentParts) % recentParts; ok && len(was) == len(v) && age < recentParts/2 {
		copy(was, v)
		return
	}
	if len(r.ring[r.part])+n > r.size {
		r.part = (r.part + 1) % recentParts
		r.empty(r.part)
	}
	p := &r.ring[r.part]
	if *p == nil {
		*p = make([]byte, 0, r.size)
	}
	r.at[h] = uint32(r.part*r.size + len(*p))
	*p = binary.LittleEndian.AppendUint64(*p, h)
	*p = binary.LittleEndian.AppendUint16(*p, uint16(len(k)))
	*p = binary.LittleEndian.AppendUint16(*p, uint16(len(v)))
	*p = append(append(*p, k...), v...)
}

// empty forgets the rows of a part.
func (r *recent) empty(part int) {
	b := r.ring[part]
	for off := 0; off < len(b); {
		h := binary.LittleEndian.Uint64(b[off:])
		if r.at[h] == uint32(part*r.size+off) {
			delete(r.at, h)
		}
		off += recentHead + int(binary.LittleEndian.Uint16(b[off+8:])) + int(binary.LittleEndian.Uint16(b[off+10:]))
	}
	r.ring[part] = b[:0]
}

// clear forgets everything.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.at)
	for i, b := range r.ring {
		r.ring[i] = b[:0]
	}
}
