package store

import (
	"bytes"
	"fmt"
	"slices"
)

// Past is what a document said of one fact from one commit until another.
type Past[S any] struct {
	From  uint64 // the commit that wrote it
	Until uint64 // the commit that replaced or removed it; 0: it stands at the snapshot's sequence
	Said  S
}

// EverMentioned calls fn for each document that mentions an entity or once did, by document id, behind document afterDoc
// ("": all), with all it said, oldest first. What one document ever said of the entity is in memory at once.
func (sn *Snapshot) EverMentioned(entityID, afterDoc string, fn func(docID string, said []Past[MentionSupport]) error) error {
	return everSaid(sn, spaceMention, entityID, afterDoc, fn, func(docID string, b []byte) (MentionSupport, error) {
		m := MentionSupport{DocID: docID}
		err := decodeMentions(b, &m)
		return m, err
	})
}

// EverStated is EverMentioned for a relation.
func (sn *Snapshot) EverStated(relationID, afterDoc string, fn func(docID string, said []Past[EvidenceSupport]) error) error {
	return everSaid(sn, spaceEvidence, relationID, afterDoc, fn, func(docID string, b []byte) (EvidenceSupport, error) {
		e := EvidenceSupport{DocID: docID}
		err := decodeEvidence(b, &e)
		return e, err
	})
}

// everSaid reads every row of a fact's documents up to the snapshot's sequence, removed ones too.
func everSaid[S any](sn *Snapshot, space byte, factID, afterDoc string, fn func(string, []Past[S]) error, decode func(string, []byte) (S, error)) error {
	v, ok := parseID(factID)
	if !ok {
		return nil
	}
	it, err := sn.borrow()
	if err != nil {
		return err
	}
	defer sn.giveBack(it)
	prefix := sn.key(space).id(v)
	start := prefix
	if from := behind(prefix, afterDoc); from != nil {
		start = from
	}
	var doc key // the rows under way, newest first
	var said []Past[S]
	until := uint64(0)
	end := func() error {
		if len(said) == 0 {
			return nil
		}
		slices.Reverse(said)
		r := keyReader{b: doc[len(prefix):]}
		err := fn(r.id().String(), said)
		said = nil
		return err
	}
	for ok := it.SeekGE(start.clone().end()); ok; ok = it.Next() {
		k := it.Key()
		base, seq, fact := splitRow(k)
		if !bytes.HasPrefix(base, prefix) {
			break
		}
		if !fact || len(base) != len(prefix)+idLen {
			return fmt.Errorf("%w: %s", ErrCorrupt, describe(k))
		}
		if !bytes.Equal(base, doc) {
			if err := end(); err != nil {
				return stopped(err)
			}
			doc, until = append(doc[:0], base...), 0
		}
		if seq > sn.seq {
			continue
		}
		b, err := it.ValueAndErr()
		if err == nil {
			b, err = unseal(base, b)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(k), err)
		}
		if len(b) > 0 {
			r := keyReader{b: base[len(prefix):]}
			s, err := decode(r.id().String(), b)
			if err != nil {
				return fmt.Errorf("%s: %w", describe(k), err)
			}
			said = append(said, Past[S]{From: seq, Until: until, Said: s})
		}
		until = seq
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return stopped(end())
}

// Candidate reads one document's record of a candidate key.
func (sn *Snapshot) Candidate(docID, candidateKey string) (r CandidateRecord, ok bool, err error) {
	doc, valid := parseID(docID)
	if !valid {
		return r, false, nil
	}
	ok, err = sn.get(candKey(sn.g.id, doc, candidateKey), func(b []byte) error { return decodeJSON(b, &r) })
	return r, ok, err
}
