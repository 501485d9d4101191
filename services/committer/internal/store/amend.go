package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// Amend adds statements to what a document's open version states, as if its reading had stated them: they go with the document, and
// with its next reading. What stands in the version already gains nothing. Candidates of more are left out. It returns ErrBadChange for
// a document that is not open or statements that do not fit its text; nothing was taken in then.
func (t *Txn) Amend(ctx context.Context, docID string, more graph.Assertions, symmetric func(relation string) bool) (DocResult, error) {
	if err := t.lock(); err != nil {
		return DocResult{}, err
	}
	defer t.unlock()
	if err := ctx.Err(); err != nil {
		return DocResult{}, err
	}
	res, err := t.amend(docID, more, symmetric)
	if err != nil {
		return DocResult{}, fmt.Errorf("amend document %s: %w", docID, err)
	}
	return res, t.flushIfFull(ctx)
}

func (t *Txn) amend(docID string, more graph.Assertions, symmetric func(string) bool) (res DocResult, err error) {
	doc, err := mustID(docID)
	if err != nil {
		return res, err
	}
	d, _, err := t.loadDoc(doc)
	if err != nil {
		return res, err
	}
	if !d.Open {
		return res, badChange(docID, "the document is not open")
	}
	res.Version = d.Version
	open, err := t.version(doc, d.Version)
	if err != nil {
		return res, err
	}
	text, err := t.text(doc, d.Version)
	if err != nil {
		return res, err
	}
	add, err := flatten(d.Meta.Key, more, symmetric)
	if err != nil {
		return res, err
	}
	if err := add.check(d.Meta.Key, text, open.Chunks); err != nil {
		return res, err
	}
	st, err := t.stated(doc, d.Version)
	if err != nil {
		return res, err
	}
	before := st
	was, err := factsOfStated(st)
	if err != nil {
		return res, fmt.Errorf("assertions of version %d: %w", d.Version, err)
	}
	all, err := flatten(d.Meta.Key, st.Assertions, nil)
	if err != nil {
		return res, err
	}
	all.ms, all.ps, all.rs = append(all.ms, add.ms...), append(all.ps, add.ps...), append(all.rs, add.rs...)
	for id, ref := range add.refs {
		if _, known := all.refs[id]; !known {
			all.refs[id] = ref
		}
	}
	st.Assertions = all.assemble()
	now, err := factsOf(st.Assertions)
	if err != nil {
		return res, err
	}
	if err := t.restated(&d, &st, now, add); err != nil {
		return res, err
	}
	if now, err = factsOfStated(st); err != nil {
		return res, err
	}
	res.Outcome = Updated
	if err := t.diff(doc, side{d.Version, d.Date(), was, before}, side{d.Version, d.Date(), now, st}, &res); err != nil {
		return res, err
	}
	d.Revision++
	st.Revision = d.Revision
	if err := t.putJSON(newKey(t.g.id, spaceAssert).id(doc).u32(uint32(d.Version)), st); err != nil {
		return res, err
	}
	t.docs = append(t.docs, d.Meta.Key)
	return res, t.putJSON(newKey(t.g.id, spaceDoc).id(doc), d)
}

// restated drops from what was kept what the version states now, and notes which facts people added.
func (t *Txn) restated(d *Doc, st *Stated, now *docFacts, add *statements) error {
	var kept []Kept
	for _, k := range st.Kept {
		if !now.states(&k) {
			kept = append(kept, k)
			continue
		}
		fact, err := k.FactID()
		if err == nil {
			err = t.endStale(d, fact, k.Asked)
		}
		if err != nil {
			return err
		}
	}
	st.Kept = kept
	for _, r := range add.rs {
		st.Decided = append(st.Decided, fingerprint.RelationID(r.Type, r.src, r.dst, false))
	}
	for _, p := range add.ps {
		fact, err := valueID(p.ent, p.PropertyA.Name, p.Value)
		if err != nil {
			return err
		}
		st.Decided = append(st.Decided, fact)
	}
	slices.Sort(st.Decided)
	st.Decided = slices.Compact(st.Decided)
	return nil
}

// ConvertCandidate removes an approved record that has become a fact of this commit. Its key stays approved: a later sighting asks
// nobody.
func (t *Txn) ConvertCandidate(ctx context.Context, docID, candidateKey string) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	doc, err := mustID(docID)
	if err != nil {
		return err
	}
	v, ok, err := t.load(candKey(t.g.id, doc, candidateKey))
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
	case !ok || was.State != api.StateApproved:
		return fmt.Errorf("%w: candidate %.200q of document %s is not approved", ErrBadChange, candidateKey, docID)
	}
	if err := t.moveRecord(doc, &was, nil, "converted"); err != nil {
		return err
	}
	return t.flushIfFull(ctx)
}

// FindQuote returns the first place of a quote as whole words in the chunks of a text.
func FindQuote(text string, chunks []graph.Chunk, quote string) (chunk, start, end int, ok bool) {
	a := anchors{text: text, chunks: chunks}
	for i := range chunks {
		a.unread = append(a.unread, i)
	}
	return a.find(quote)
}
