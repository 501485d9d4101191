package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// Snapshot reads a graph as it was at one sequence. It may be used from several goroutines and must be closed. Callbacks of
// its scans may call it again; ErrStop from one ends its scan without an error.
type Snapshot struct {
	s   *Store
	g   *graphState
	seq uint64

	mu     sync.Mutex
	closed bool               // guarded by mu
	free   []*pebble.Iterator // guarded by mu

	apartOnce sync.Once // guards the two below
	apart     bool      // people told things of one name apart
	apartErr  error
}

// Snapshot reads at sequence seq; 0 is the current one. ErrSequence: the graph has not reached it.
func (s *Store) Snapshot(graph string, seq uint64) (*Snapshot, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return nil, err
	}
	current := g.current.Load()
	if seq > current {
		return nil, fmt.Errorf("%w: graph %s is at %d, not yet at %d", ErrSequence, graph, current, seq)
	}
	if seq == 0 {
		seq = current
	}
	return newSnapshot(s, g, seq), nil
}

func newSnapshot(s *Store, g *graphState, seq uint64) *Snapshot {
	sn := &Snapshot{s: s, g: g, seq: seq}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snaps[sn] = struct{}{}
	return sn
}

// Seq is the sequence that the snapshot reads at.
func (sn *Snapshot) Seq() uint64 { return sn.seq }

// Graph is the graph's name.
func (sn *Snapshot) Graph() string { return sn.g.name }

// Close lets go of what the snapshot holds. Closing it again does nothing.
func (sn *Snapshot) Close() error {
	sn.s.mu.Lock()
	delete(sn.s.snaps, sn)
	sn.s.mu.Unlock()
	return sn.closeIters()
}

func (sn *Snapshot) closeIters() error {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	sn.closed = true
	var err error
	for _, it := range sn.free {
		err = errors.Join(err, it.Close())
	}
	sn.free = nil
	if err != nil {
		return fmt.Errorf("close snapshot: %w", err)
	}
	return nil
}

// borrow hands out an iterator; giveBack must follow when it returns nil.
func (sn *Snapshot) borrow() (*pebble.Iterator, error) {
	if err := sn.s.enter(); err != nil {
		return nil, err
	}
	it, err := sn.take()
	if err != nil {
		sn.s.exit()
	}
	return it, err
}

func (sn *Snapshot) take() (*pebble.Iterator, error) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if sn.closed {
		return nil, fmt.Errorf("snapshot of graph %s: %w", sn.g.name, ErrDone)
	}
	if n := len(sn.free); n > 0 {
		it := sn.free[n-1]
		sn.free = sn.free[:n-1]
		return it, nil
	}
	it, err := sn.s.db.NewIter(&iterOptions)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return it, nil
}

func (sn *Snapshot) giveBack(it *pebble.Iterator) {
	defer sn.s.exit()
	sn.mu.Lock()
	defer sn.mu.Unlock()
	// An iterator that met an error, or whose snapshot was closed meanwhile, is not used again.
	if sn.closed || it.Error() != nil {
		if err := it.Close(); err != nil {
			sn.s.opt.Log.Warn("close iterator", "graph", sn.g.name, "error", err)
		}
		return
	}
	sn.free = append(sn.free, it)
}

// get reads one row; decode is called with it, if it is there, while the value is valid.
func (sn *Snapshot) get(k key, decode func(v []byte) error) (bool, error) {
	it, err := sn.borrow()
	if err != nil {
		return false, err
	}
	defer sn.giveBack(it)
	v, ok, err := seekRow(it, k, sn.seq)
	if err != nil || !ok {
		return false, err
	}
	if err := decode(v); err != nil {
		return false, fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
	}
	return true, nil
}

// scan calls fn for each row of a prefix from key from on (nil: all).
func (sn *Snapshot) scan(prefix, from key, fn func(k key, v []byte) error) error {
	it, err := sn.borrow()
	if err != nil {
		return err
	}
	defer sn.giveBack(it)
	return scanRows(it, prefix, from, sn.seq, false, fn)
}

func (sn *Snapshot) key(space byte) key { return newKey(sn.g.id, space) }

// Counts is what the graph holds.
func (sn *Snapshot) Counts() (Counts, error) {
	c := Counts{Entities: map[string]int{}, Relations: map[string]int{}}
	_, err := sn.get(sn.key(spaceCounts), func(v []byte) error { return decodeJSON(v, &c) })
	return c, err
}

// Doc reads a document by id. ok is false when its key was never added. A deleted document is there, not open.
func (sn *Snapshot) Doc(docID string) (d Doc, ok bool, err error) {
	v, valid := parseID(docID)
	if !valid {
		return d, false, nil
	}
	ok, err = sn.get(sn.key(spaceDoc).id(v), func(v []byte) error { return decodeJSON(v, &d) })
	if d.Version == 0 {
		return Doc{}, false, err
	}
	return d, ok, err
}

// DocByKey reads a document by its key.
func (sn *Snapshot) DocByKey(docKey string) (Doc, bool, error) {
	var docID string
	ok, err := sn.get(sn.key(spaceKey).str(docKey), func(v []byte) error {
		r := reader{b: v}
		docID = r.id().String()
		return r.err("document id")
	})
	if err != nil || !ok {
		return Doc{}, false, err
	}
	return sn.Doc(docID)
}

// Docs calls fn for each document, deleted ones too, in the order of their keys, beginning behind key after ("": all).
func (sn *Snapshot) Docs(after string, fn func(Doc) error) error {
	var from key
	if after != "" {
		from = sn.key(spaceKey).str(after).next()
	}
	return sn.scan(sn.key(spaceKey), from, func(_ key, v []byte) error {
		r := reader{b: v}
		docID := r.id()
		if err := r.err("document id"); err != nil {
			return err
		}
		d, ok, err := sn.Doc(docID.String())
		if err != nil || !ok {
			return err
		}
		return fn(d)
	})
}

// Version reads one version of a document; ok is false when there is none of that number.
func (sn *Snapshot) Version(docID string, n int) (v Version, ok bool, err error) {
	doc, valid := parseID(docID)
	if !valid || n < 1 {
		return v, false, nil
	}
	ok, err = sn.get(versionKey(sn.g.id, doc, n), func(b []byte) error { return decodeJSON(b, &v) })
	return v, ok, err
}

// Versions lists the versions of a document, oldest first.
func (sn *Snapshot) Versions(docID string) ([]Version, error) {
	doc, valid := parseID(docID)
	if !valid {
		return nil, nil
	}
	var out []Version
	err := sn.scan(sn.key(spaceVersion).id(doc), nil, func(_ key, b []byte) error {
		var v Version
		if err := decodeJSON(b, &v); err != nil {
			return err
		}
		out = append(out, v)
		return nil
	})
	return out, err
}

// Text is the normalised text of a version.
func (sn *Snapshot) Text(docID string, version int) (text string, ok bool, err error) {
	doc, valid := parseID(docID)
	if !valid || version < 1 {
		return "", false, nil
	}
	ok, err = sn.get(sn.key(spaceText).id(doc).u32(uint32(version)), func(v []byte) error {
		text = string(v[1:])
		return nil
	})
	return text, ok, err
}

// Assertions is what a version states at the snapshot's sequence, as it counts: where people told things of one name apart, its names stand
// for these.
func (sn *Snapshot) Assertions(docID string, version int) (st Stated, ok bool, err error) {
	if st, ok, err = sn.stated(docID, version); err != nil || !ok {
		return st, ok, err
	}
	some, err := sn.anyApart()
	if err == nil && some {
		st, _, err = st.apart(sn.told)
	}
	return st, err == nil, err
}

func (sn *Snapshot) stated(docID string, version int) (st Stated, ok bool, err error) {
	doc, valid := parseID(docID)
	if !valid || version < 1 {
		return st, false, nil
	}
	ok, err = sn.get(sn.key(spaceAssert).id(doc).u32(uint32(version)), func(v []byte) error {
		st, err = decodeStated(v)
		return err
	})
	return st, ok, err
}

// ChunkRef finds a chunk by id: the newest version that has it.
func (sn *Snapshot) ChunkRef(chunkID string) (ref ChunkRef, ok bool, err error) {
	c, valid := parseID(chunkID)
	if !valid {
		return ref, false, nil
	}
	ok, err = sn.get(sn.key(spaceChunk).id(c), func(v []byte) error {
		r := reader{b: v}
		ref = ChunkRef{DocID: r.id().String(), Version: r.uint(), Index: r.uint()}
		return r.err("chunk")
	})
	if err != nil || !ok {
		return ref, false, err
	}
	ref.Open, err = sn.isOpen(ref)
	return ref, true, err
}

// OpenChunks calls fn for each chunk of an open version, document by document, behind a chunk of an open version ("": all; behind another one's
// document's first).
func (sn *Snapshot) OpenChunks(after string, fn func(id string) error) error {
	key, next := "", 0
	if after != "" {
		ref, ok, err := sn.ChunkRef(after)
		if err != nil {
			return err
		}
		if ok {
			d, _, err := sn.Doc(ref.DocID)
			if err != nil {
				return err
			}
			if key = d.Meta.Key; ref.Open {
				next = ref.Index + 1
			}
			if err := sn.chunksOf(d, next, fn); err != nil {
				return stopped(err)
			}
		}
	}
	return sn.Docs(key, func(d Doc) error { return sn.chunksOf(d, 0, fn) })
}

// chunksOf calls fn for the chunks of a document's open version from one on.
func (sn *Snapshot) chunksOf(d Doc, from int, fn func(id string) error) error {
	if !d.Open {
		return nil
	}
	v, ok, err := sn.Version(d.Meta.ID, d.Version)
	if err != nil || !ok {
		return err
	}
	for i := from; i < len(v.Chunks); i++ {
		if err := fn(fingerprint.ChunkID(d.Meta.ID, v.ContentHash, v.ChunkerFP, i)); err != nil {
			return err
		}
	}
	return nil
}

func (sn *Snapshot) isOpen(ref ChunkRef) (bool, error) {
	d, ok, err := sn.Doc(ref.DocID)
	return ok && d.Open && d.Version == ref.Version, err
}

// ChunkAt finds a chunk by its number in the postings.
func (sn *Snapshot) ChunkAt(no uint32) (ref ChunkRef, ok bool, err error) {
	it, err := sn.borrow()
	if err != nil {
		return ref, false, err
	}
	defer sn.giveBack(it)
	// The row is that of the last version whose first number is not above no.
	prefix := sn.key(spaceNo)
	if !it.SeekLT(prefix.clone().u32(no).next().end()) {
		return ref, false, it.Error()
	}
	k := it.Key()
	base, seq, fact := splitRow(k)
	if !fact || len(base) != len(prefix)+4 || !bytes.HasPrefix(base, prefix) || seq > sn.seq {
		return ref, false, nil
	}
	r := keyReader{b: base[len(prefix):]}
	first := r.u32()
	v, err := it.ValueAndErr()
	if err == nil {
		v, err = unseal(base, v)
	}
	if err != nil {
		return ref, false, fmt.Errorf("read %s: %w", describe(k), err)
	}
	n, err := decodeNumbered(v)
	if err != nil {
		return ref, false, fmt.Errorf("%s: %w", describe(k), err)
	}
	i := int(no - first)
	if i >= len(n.terms) {
		return ref, false, nil
	}
	ref = ChunkRef{DocID: n.doc.String(), Version: n.version, Index: i, Terms: n.terms[i]}
	ref.Open, err = sn.isOpen(ref)
	return ref, err == nil, err
}

// postings calls fn for every part of a term's list that is visible; a part of one commit does not replace another's.
func (sn *Snapshot) postings(list byte, term string, fn func(v []byte) error) error {
	it, err := sn.borrow()
	if err != nil {
		return err
	}
	defer sn.giveBack(it)
	prefix := sn.key(spacePosting).byte(list).str(term)
	for ok := it.SeekGE(prefix.clone().end()); ok; ok = it.Next() {
		k := it.Key()
		base, seq, fact := splitRow(k)
		if !bytes.HasPrefix(base, prefix) {
			break
		}
		if seq > sn.seq {
			continue
		}
		v, err := it.ValueAndErr()
		if err == nil {
			v, err = unsealFact(base, v, fact)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(k), err)
		}
		if err := fn(v); err != nil {
			return stopped(err)
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// Postings calls fn for each chunk that holds a term, closed ones too: ask ChunkAt. Numbers rise within a commit only.
func (sn *Snapshot) Postings(term string, fn func(Posting) error) error {
	return sn.postings(ListChunks, term, func(v []byte) error {
		var inner error
		err := lexical.Each(v, func(no, tf uint32) bool {
			inner = fn(Posting{No: no, TF: int(tf)})
			return inner == nil
		})
		if err != nil {
			return fmt.Errorf("%w: postings of %q: %w", ErrCorrupt, term, err)
		}
		return inner
	})
}

// NamePostings calls fn for each entity that was ever found under a name with the term. It may name one twice, one that is
// gone, or one whose name with the term is gone: read the entity to be sure.
func (sn *Snapshot) NamePostings(term string, fn func(entityID string) error) error {
	return sn.postings(listEntities, term, func(v []byte) error {
		r := reader{b: v}
		for len(r.b) > 0 && !r.bad {
			e := r.id()
			if r.bad {
				break
			}
			if err := fn(e.String()); err != nil {
				return err
			}
		}
		return r.err("postings of " + term)
	})
}
