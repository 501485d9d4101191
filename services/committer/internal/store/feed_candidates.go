package store

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
)

// The candidate feed says which candidate keys a commit gave another set of waiting records: its rows hold the ids of records that came,
// changed, or went while they waited. A decision leaves none. It lies beside the feed and is trimmed with it.

// CandidatePage is a piece of the candidate feed.
type CandidatePage struct {
	Seq  uint64   // the commit that all of the page is of
	Keys []string // of candidates, each once, in the order of the commit
	Next int      // the offset of what follows in the same commit; 0: nothing does
}

// feedCandidate notes a record that waits now, or went.
func (t *Txn) feedCandidate(was, now *CandidateRecord) error {
	r := now
	if now == nil {
		r = was
	}
	if r == nil || r.State != api.StatePending {
		return nil
	}
	v, err := mustID(r.ID)
	if err != nil {
		return err
	}
	t.candFed = append(t.candFed, v[:]...)
	t.size += idLen
	return nil
}

// candFeedRows makes the rows of what was noted.
func (t *Txn) candFeedRows(set func(k, v []byte) error) error {
	for fed := t.candFed; len(fed) > 0; t.candFedParts++ {
		n := min(len(fed), feedPart*idLen)
		k := newKey(t.g.id, spaceCandFeed).u64(t.seq).u32(uint32(t.candFedParts))
		if err := set(k.end(), append([]byte(nil), fed[:n]...)); err != nil {
			return err
		}
		fed = fed[n:]
	}
	t.candFed = t.candFed[:0]
	return nil
}

// CandidateFeed returns the candidate keys that the first commit behind seq with any gave other waiting records, beginning with its entry
// number offset (seq is then the commit before it), of about limit entries. Seq is 0 when there is none. ErrFeedGone: rows behind seq
// were trimmed.
func (s *Store) CandidateFeed(ctx context.Context, graph string, seq uint64, offset, limit int) (page CandidatePage, err error) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return page, err
	}
	trimmed, err := s.feedTrimmed(g.id)
	if err != nil {
		return page, err
	}
	if seq < trimmed {
		return page, fmt.Errorf("%w: graph %s behind commit %d", ErrFeedGone, graph, seq)
	}
	current := g.current.Load()
	sn := newSnapshot(s, g, current)
	defer func() { err = errorsJoin(err, sn.Close()) }()
	at, taken, seen := 0, 0, map[string]bool{}
	prefix := newKey(g.id, spaceCandFeed)
	err = s.scanFrom(prefix, prefix.clone().u64(seq+1), func(k key, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := readKey(k)
		of := r.u64()
		if of > current || page.Seq != 0 && of != page.Seq {
			return ErrStop
		}
		v, err := unseal(k, v)
		if err != nil {
			return fmt.Errorf("%s: %w", describe(k), err)
		}
		if len(v)%idLen != 0 {
			return fmt.Errorf("%s: %w", describe(k), ErrCorrupt)
		}
		page.Seq = of
		for ; len(v) > 0; v = v[idLen:] {
			if at++; at <= offset {
				continue
			}
			if taken++; taken > limit {
				page.Next = at - 1
				return ErrStop
			}
			name, err := sn.candidateKey(id(v[:idLen]))
			if err != nil {
				return err
			}
			if name != "" && !seen[name] {
				seen[name] = true
				page.Keys = append(page.Keys, name)
			}
		}
		return nil
	})
	return page, err
}

// candidateKey is the key that a record of an id has, or had.
func (sn *Snapshot) candidateKey(v id) (name string, err error) {
	_, err = sn.get(sn.key(spaceCandID).id(v), func(b []byte) error {
		r := reader{b: b}
		r.id()
		name = r.str()
		return r.err("candidate id")
	})
	return name, err
}
