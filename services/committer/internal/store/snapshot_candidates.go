package store

import "fmt"

// Candidates calls fn for each candidate record of a document, by key.
func (sn *Snapshot) Candidates(docID string, fn func(CandidateRecord) error) error {
	doc, ok := parseID(docID)
	if !ok {
		return nil
	}
	return sn.scan(sn.key(spaceCand).id(doc), nil, func(k key, b []byte) error {
		var r CandidateRecord
		if err := decodeJSON(b, &r); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(r)
	})
}

// CandidatesByKey calls fn for each record of a candidate key, by document id.
func (sn *Snapshot) CandidatesByKey(candidateKey string, fn func(CandidateRecord) error) error {
	return sn.records(sn.key(spaceCandKey).str(candidateKey), nil, fn)
}

// CandidateCursor is where CandidateAll goes on.
type CandidateCursor struct{ Key, DocID string }

// CandidateAll calls fn for every candidate record by key, then document id, behind a cursor (zero: all).
func (sn *Snapshot) CandidateAll(after CandidateCursor, fn func(CandidateRecord) error) error {
	var from key
	if doc, ok := parseID(after.DocID); ok {
		from = candGroupKey(sn.g.id, after.Key, doc).next()
	}
	return sn.records(sn.key(spaceCandKey), from, fn)
}

func (sn *Snapshot) records(prefix, from key, fn func(CandidateRecord) error) error {
	return sn.scan(prefix, from, func(k key, _ []byte) error {
		kr := readKey(k)
		candidate, doc := kr.str(), kr.id()
		var r CandidateRecord
		ok, err := sn.get(candKey(sn.g.id, doc, candidate), func(b []byte) error { return decodeJSON(b, &r) })
		if err != nil || !ok {
			return err
		}
		return fn(r)
	})
}

// Decision reads what was decided on a candidate key.
func (sn *Snapshot) Decision(candidateKey string) (d Decision, ok bool, err error) {
	ok, err = sn.get(sn.key(spaceDecision).str(candidateKey), func(b []byte) error { return decodeJSON(b, &d) })
	return d, ok, err
}

// Decisions calls fn for every decided key, in order.
func (sn *Snapshot) Decisions(fn func(Decision) error) error { return sn.DecisionsFrom("", "", fn) }

// CandidateRow is what the look-up by key says of a record.
type CandidateRow struct {
	Key, DocID, State string
	Count             int
	Confidence        float64
}

// CandidateRows calls fn for every record whose key begins with prefix, by key, then document id, from a key on ("": the first). It does
// not read the records.
func (sn *Snapshot) CandidateRows(prefix, from string, fn func(CandidateRow) error) error {
	p := sn.key(spaceCandKey).part(prefix)
	var at key
	if from != "" {
		at = sn.key(spaceCandKey).str(from)
	}
	return sn.scan(p, at, func(k key, v []byte) error {
		kr, r := readKey(k), reader{b: v}
		row := CandidateRow{Key: kr.str(), DocID: kr.id().String(), State: r.str(), Count: r.uint(), Confidence: r.float()}
		if err := r.err("candidate key"); err != nil || !kr.done() {
			return fmt.Errorf("%w: %s", ErrCorrupt, describe(k.with(sn.seq)))
		}
		return fn(row)
	})
}

// CandidateByID is where the record of an id is, or was: its document and key. current says whether that record has the id now.
func (sn *Snapshot) CandidateByID(recordID string) (docID, candidateKey string, current bool, err error) {
	v, valid := parseID(recordID)
	if !valid {
		return "", "", false, nil
	}
	ok, err := sn.get(sn.key(spaceCandID).id(v), func(b []byte) error {
		r := reader{b: b}
		docID, candidateKey = r.id().String(), r.str()
		return r.err("candidate id")
	})
	if err != nil || !ok {
		return "", "", false, err
	}
	r, ok, err := sn.Candidate(docID, candidateKey)
	return docID, candidateKey, ok && r.ID == recordID, err
}

// DecisionsFrom calls fn for every decided key that begins with prefix, in order, from a key on ("": the first).
func (sn *Snapshot) DecisionsFrom(prefix, from string, fn func(Decision) error) error {
	var at key
	if from != "" {
		at = sn.key(spaceDecision).str(from)
	}
	return sn.scan(sn.key(spaceDecision).part(prefix), at, func(k key, b []byte) error {
		var d Decision
		if err := decodeJSON(b, &d); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(d)
	})
}
