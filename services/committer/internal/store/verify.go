package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/factmill/factmill/pkg/api"
)

// MaxProblems listed in a reply of Verify; all are counted and given to its callback.
const MaxProblems = 1000

// kinds are the words for spaces in the reply of Verify.
var kinds = map[byte]string{
	spaceDoc: "document", spaceVersion: "version", spaceText: "text", spaceAssert: "assertions", spaceKey: "key", spaceChunk: "chunk",
	spaceNo: "chunk_number", spaceEntity: "entity", spaceName: "name", spaceMention: "mention", spaceProp: "property",
	spacePropFold: "property_fold", spaceRelation: "relation", spaceEvidence: "evidence", spaceOut: "out", spaceIn: "in",
	spaceCand: "candidate", spaceCandKey: "candidate_key", spaceDecision: "decision", spaceCandID: "candidate_id", spaceStale: "stale", spaceStaleID: "stale_id", spacePosting: "posting", spaceCounts: "counts",
	spaceMatch: "match", spaceMatchID: "match_id", spaceConflict: "conflict", spaceRuling: "ruling", spaceRulingID: "ruling_id", spaceApart: "apart", spaceDegree: "degree", spaceDegreeID: "degree_id", spaceShape: "shape", spaceShaped: "shaped", spaceShapeOf: "shape_of", spaceVerdict: "verdict", spaceFeed: "feed", spaceCandFeed: "candidate_feed", spaceFeedTrim: "feed_trimmed",
	spaceOutbox: "outbox", spaceJournal: "journal", spaceCurrent: "current", 0: "raw", 1: "unknown",
}

// Verify checks every key of a graph at its current sequence: that rows are whole, refer to rows that are there, slice,
// and that every fold, count and index equals what the assertions say. Facts are rebuilt one at a time; besides them memory
// grows by about 40 bytes a distinct term, none by document. fn (may be nil) is told each problem as it is found.
func (s *Store) Verify(ctx context.Context, graph string, fn func(api.Problem)) (api.VerifyReply, error) {
	sn, err := s.Snapshot(graph, 0)
	if err != nil {
		return api.VerifyReply{}, err
	}
	v := &verifier{ctx: ctx, sn: sn, fn: fn, seed: maphash.MakeSeed(), sums: map[uint64]uint64{}, nameTerms: map[uint64]struct{}{}, long: map[versionAt]versionHead{}}
	v.reply = api.VerifyReply{Seq: sn.seq, Checked: map[string]int{}, Problems: []api.Problem{}}
	v.found = Counts{Entities: map[string]int{}, Relations: map[string]int{}, Decided: map[string]int{}}
	for _, pass := range []func() error{v.keys, v.postingRows, v.versions, v.lostPostings, v.documents, v.index, v.entities, v.relations,
		v.properties, v.supports, v.candidates, v.matches, v.conflicts, v.stale, v.rulings, v.apart, v.degrees, v.shapes, v.counts} {
		if err = pass(); err != nil {
			break
		}
	}
	if err = errorsJoin(err, sn.Close()); err != nil {
		return v.reply, fmt.Errorf("verify graph %s: %w", graph, err)
	}
	return v.reply, nil
}

type verifier struct {
	ctx   context.Context
	sn    *Snapshot
	fn    func(api.Problem)
	reply api.VerifyReply
	found Counts
	seed  maphash.Seed
	// sums holds, by hash of a term, the sum over its postings of a hash of each: that of the rows less that of the texts.
	sums map[uint64]uint64
	// nameTerms holds hashes of the pairs (term, entity) of the name index.
	nameTerms map[uint64]struct{}
	// long and last spare reading the same version for each of its rows.
	long map[versionAt]versionHead
	last lastVersion
	// expected counts the support rows that the open versions ask for; seen counts those that are there.
	expected map[byte]int
	// asked counts the stale facts that open versions ask about.
	asked int
}

// problem reports a key.
func (v *verifier) problem(k []byte, format string, args ...any) {
	space := k[headLen-1]
	kind, ok := kinds[space]
	if !ok {
		kind = "raw"
	}
	p := api.Problem{Kind: kind, Key: describe(k), Message: fmt.Sprintf(format, args...)}
	v.reply.Total++
	if len(v.reply.Problems) < MaxProblems {
		v.reply.Problems = append(v.reply.Problems, p)
	}
	if v.fn != nil {
		v.fn(p)
	}
}

// get reads a row; one that is damaged was reported by the first pass and counts as missing.
func (v *verifier) get(k key, decode func([]byte) error) (bool, error) {
	ok, err := v.sn.get(k, decode)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return ok, err
}

// has says whether a row is there.
func (v *verifier) has(k key) (bool, error) { return v.get(k, func([]byte) error { return nil }) }

// need reports a row that should be there.
func (v *verifier) need(k key, why string, args ...any) error {
	ok, err := v.has(k)
	if err == nil && !ok {
		v.problem(k, "missing: "+why, args...)
	}
	return err
}

// each walks the live rows of a space. A row that fn cannot decode is reported and the walk goes on.
func (v *verifier) each(prefix key, fn func(k key, r *keyReader, val []byte) error) error {
	it, err := v.sn.borrow()
	if err != nil {
		return err
	}
	defer v.sn.giveBack(it)
	return scanRows(it, prefix, nil, v.sn.seq, true, func(k key, val []byte) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		r := readKey(k)
		err := fn(k, &r, val)
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrBadChange) {
			v.problem(k, "%v", err)
			return nil
		}
		return err
	})
}

// keys reads every key of the graph: it must be well formed, at a sequence that was reached, and its value whole.
func (v *verifier) keys() error {
	prefix := newKey(v.sn.g.id, 0)[:4]
	s := v.sn.s
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	ck := newKey(v.sn.g.id, spaceCurrent)
	if row, _, err := s.first(ck); err != nil {
		return err
	} else if row == nil && v.sn.seq > 0 {
		v.problem(ck, "missing: the current sequence is %d", v.sn.seq)
	}
	return s.scanRaw(prefix, nil, func(k, val []byte) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.reply.Keys++
		if len(k) < headLen {
			v.problem(append(key(nil).raw(k), make([]byte, headLen)...), "a key too short")
			return nil
		}
		v.checkKey(k, val)
		return nil
	})
}

func (v *verifier) checkKey(k, val []byte) {
	space := k[headLen-1]
	base, seq, fact := splitRow(k)
	if !fact {
		k = base
	}
	switch {
	case checkSpace(space) == nil:
		v.reply.Checked[kinds[0]]++
		return
	case kinds[space] == "":
		v.reply.Checked[kinds[1]]++
		v.problem(k, "no such kind of row")
		return
	}
	v.reply.Checked[kinds[space]]++
	switch space {
	case spaceCurrent:
		if len(k) != headLen || len(val) != 8 || binary.BigEndian.Uint64(val) < v.sn.seq || !v.reached(binary.BigEndian.Uint64(val)) {
			v.problem(k, "the current sequence is not what the store works with")
		}
	case spaceJournal:
		r := readKey(k)
		if r.u64() <= v.sn.seq {
			v.problem(k, "the journal of a commit that ended")
		}
	case spaceFeed, spaceCandFeed:
		r := readKey(base)
		if seq := r.u64(); seq > v.sn.g.current.Load()+1 {
			v.problem(k, "what commit %d touched, which never was", seq)
		}
		if _, err := unseal(base, val); err != nil {
			v.problem(k, "%v", err)
		}
	case spaceFeedTrim:
		if len(k) != headLen || len(val) != 8 {
			v.problem(k, "a malformed number")
		}
	case spaceOutbox:
		seq, _, err := readOutbox(k, val)
		if err != nil {
			v.problem(k, "%v", err)
		} else if seq > v.sn.g.current.Load()+1 {
			v.problem(k, "an event of commit %d, which never was", seq)
		}
	default:
		r := readKey(base)
		if parts := describeParts(space, &r); !fact || parts == "" || !r.done() {
			v.problem(k, "a malformed key")
			return
		}
		if seq > v.sn.seq && !v.reached(seq) {
			v.problem(k, "a row above the current sequence %d", v.sn.seq)
		}
		if _, err := unseal(base, val); err != nil {
			v.problem(k, "%v", err)
		}
	}
}

// reached says whether rows of a sequence can be there: a commit under way writes at the one that follows the current one, and may end while
// rows are read.
func (v *verifier) reached(seq uint64) bool {
	writing := v.sn.s.writing(v.sn.g) // before the look at what is current: what ended in between is
	now := v.sn.g.current.Load()
	return seq <= now || writing && seq == now+1
}

// writing says whether a commit of a graph is under way, or was a moment ago.
func (s *Store) writing(g *graphState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.txns {
		if t.g == g {
			return true
		}
	}
	return false
}

// expect counts a support row that an open version asks for and compares it.
func (v *verifier) expect(k key, want []byte) error {
	if v.expected == nil {
		v.expected = map[byte]int{}
	}
	v.expected[k[headLen-1]]++
	ok, err := v.get(k, func(got []byte) error {
		if string(got) != string(want) {
			v.problem(k, "differs from the assertions of its document")
		}
		return nil
	})
	if err == nil && !ok {
		v.problem(k, "missing: its document states it")
	}
	return err
}

func (v *verifier) termHash(term string) uint64 { return maphash.String(v.seed, term) }

func (v *verifier) postingHash(no, tf uint32) uint64 {
	x := (uint64(no)<<32 | uint64(tf)) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	return x ^ x>>32
}
