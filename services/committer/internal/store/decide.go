package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// Edited is what a person made of a record: its label, texts, ends and span are theirs, its key is not.
type Edited struct {
	Actor    string          `json:"actor"`
	Reason   string          `json:"reason,omitempty"`
	At       string          `json:"at"`
	Original graph.Candidate `json:"original"` // as it was first proposed
}

// Decide is DecideCandidate for every record of a key, without who and why.
func (t *Txn) Decide(ctx context.Context, k, state string) (int, error) {
	return t.DecideCandidate(ctx, Decision{Key: k, State: state}, nil)
}

// DecideCandidate records what people decided on a candidate key ("approved" or "rejected") and moves its records there: all, or those
// that choose admits, for an approval. It returns how many moved. A rejected key stays rejected.
func (t *Txn) DecideCandidate(ctx context.Context, d Decision, choose func(r *CandidateRecord) bool) (moved int, err error) {
	if err := t.lock(); err != nil {
		return 0, err
	}
	defer t.unlock()
	if d.State != api.StateApproved && d.State != api.StateRejected {
		return 0, fmt.Errorf("%w: a decision is approved or rejected, not %.40q", ErrBadChange, d.State)
	}
	if moved, err = t.decide(d, choose); err != nil {
		return moved, fmt.Errorf("decide %.200q: %w", d.Key, err)
	}
	return moved, t.flushIfFull(ctx)
}

func (t *Txn) decide(d Decision, choose func(r *CandidateRecord) bool) (moved int, err error) {
	was, ok, err := t.decision(d.Key)
	if err != nil {
		return 0, err
	}
	if ok && was.State == api.StateRejected && d.State != api.StateRejected {
		return 0, fmt.Errorf("%w: a rejected key stays rejected", ErrBadChange)
	}
	d.Kind, _, _ = strings.Cut(d.Key, "|")
	d.Seq, d.At = t.seq, t.at
	err = t.keyRecords(d.Key, func(doc id, was CandidateRecord) error {
		if was.State == d.State || choose != nil && !choose(&was) {
			return nil
		}
		now := was
		now.State, now.Seq = d.State, t.seq
		moved++
		return t.moveRecord(doc, &was, &now, d.State)
	})
	if err != nil || moved == 0 && choose != nil {
		return moved, err
	}
	if ok {
		t.countDecision(was.State, -1)
	}
	t.countDecision(d.State, 1)
	return moved, t.putJSON(newKey(t.g.id, spaceDecision).str(d.Key), d)
}

func (t *Txn) countDecision(state string, by int) {
	if t.counts.Decided == nil {
		t.counts.Decided = map[string]int{}
	}
	addCount(t.counts.Decided, state, by)
}

// moveRecord replaces a record, or removes it (nil), and tells of it.
func (t *Txn) moveRecord(doc id, was, now *CandidateRecord, verb string) error {
	d, _, err := t.loadDoc(doc)
	if err != nil {
		return err
	}
	if err := t.putRecord(doc, was, now); err != nil {
		return err
	}
	if now == nil {
		now = was
	}
	return t.tell(verb, *now, d.Meta.Key, d.Meta.Scope)
}

// keyRecords calls fn for each record of a candidate key as this commit sees it, by document id.
func (t *Txn) keyRecords(k string, fn func(doc id, r CandidateRecord) error) error {
	docs := map[id]bool{}
	it, err := t.iter(false)
	if err != nil {
		return err
	}
	prefix := newKey(t.g.id, spaceCandKey).str(k)
	err = scanRows(it, prefix, nil, t.seq, false, func(rk key, _ []byte) error {
		r := keyReader{b: rk[len(prefix):]}
		docs[r.id()] = true
		return nil
	})
	if err != nil {
		return err
	}
	for doc, keys := range t.docCands {
		if slices.Contains(keys, k) {
			docs[doc] = true
		}
	}
	for _, doc := range inOrder(docs) {
		v, ok, err := t.load(candKey(t.g.id, doc, k))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		var r CandidateRecord
		if err := decodeJSON(v, &r); err != nil {
			return err
		}
		if err := fn(doc, r); err != nil {
			return err
		}
	}
	return nil
}

// ForgetCandidate removes the records of a key that are in a state, and with rejected ones the decision: a later reading may propose
// the key again. It returns how many records went.
func (t *Txn) ForgetCandidate(ctx context.Context, k, state string) (gone int, err error) {
	if err := t.lock(); err != nil {
		return 0, err
	}
	defer t.unlock()
	if state != api.StatePending && state != api.StateRejected {
		return 0, fmt.Errorf("%w: only pending and rejected candidates are forgotten, not %.40q", ErrBadChange, state)
	}
	err = t.keyRecords(k, func(doc id, was CandidateRecord) error {
		if was.State != state {
			return nil
		}
		gone++
		return t.moveRecord(doc, &was, nil, "pruned")
	})
	if err != nil {
		return gone, fmt.Errorf("forget %.200q: %w", k, err)
	}
	if state == api.StateRejected {
		if d, ok, err := t.decision(k); err != nil {
			return gone, err
		} else if ok && d.State == api.StateRejected {
			t.countDecision(d.State, -1)
			t.put(newKey(t.g.id, spaceDecision).str(k), nil)
		}
	}
	return gone, t.flushIfFull(ctx)
}

// EditCandidate replaces a pending record by what a person made of it; key, id and state stay. The caller answers for its span.
func (t *Txn) EditCandidate(ctx context.Context, now CandidateRecord, quote string) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	doc, err := mustID(now.DocID)
	if err != nil {
		return err
	}
	v, ok, err := t.load(candKey(t.g.id, doc, now.Key))
	if err != nil {
		return err
	}
	var was CandidateRecord
	if ok {
		err = decodeJSON(v, &was)
	}
	switch {
	case err != nil:
		return err
	case !ok || was.ID != now.ID || was.State != api.StatePending || now.State != api.StatePending || now.Edited == nil:
		return fmt.Errorf("%w: candidate %s is not pending", ErrBadChange, now.ID)
	}
	now.Quote, now.Seq = clipBytes(quote, maxQuote), t.seq
	now.Edited.At, now.Edited.Original = t.at, was.Candidate
	if was.Edited != nil {
		now.Edited.Original = was.Edited.Original
	}
	if err := t.moveRecord(doc, &was, &now, "proposed"); err != nil {
		return err
	}
	return t.flushIfFull(ctx)
}

// keepEdited carries over what people made of records while the quote stands, be it that the new reading has the key or not. Approved
// ones stay anyway; theirs is what a new sighting joins.
func (a *application) keepEdited(out map[string]*CandidateRecord, stored map[string]CandidateRecord, chunks []graph.Chunk, inPlace bool) error {
	for k, r := range stored {
		if r.Edited == nil || r.State == api.StateRejected || r.State == api.StateApproved && out[k] == nil {
			continue
		}
		c := r.Candidate
		if same := inPlace && r.Version == a.d.Version; !same {
			text, err := a.t.text(a.doc, r.Version)
			if err != nil {
				return err
			}
			if r.Start > r.End || r.End > len(text) {
				continue
			}
			chunk, start, end, ok := FindQuote(a.c.Text, chunks, text[r.Start:r.End])
			if !ok {
				continue
			}
			c.Chunk, c.Start, c.End, c.More = chunk, start, end, nil
		}
		if seen := out[k]; seen != nil {
			c.Count, c.Confidence, c.Reasons, c.Extractor, c.Rule = seen.Count, seen.Confidence, seen.Reasons, seen.Extractor, seen.Rule
		}
		n := a.newRecord(c)
		n.Edited = r.Edited
		out[k] = n
	}
	return nil
}
