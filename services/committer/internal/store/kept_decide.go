package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/factmill/factmill/pkg/api"
)

// DecideStale ends the question about a kept fact of a document: its support is withdrawn, or stays. ErrBadChange says that nothing waits.
func (t *Txn) DecideStale(ctx context.Context, x StaleItem, withdraw bool, d Decision) (DocResult, error) {
	docID, fact := x.Doc, x.Fact
	if err := t.lock(); err != nil {
		return DocResult{}, err
	}
	defer t.unlock()
	res, err := t.decideStale(docID, fact, x.Gone, func(list []Kept, i int) ([]Kept, error) {
		if i < 0 || !list[i].Asked {
			return nil, badChange(docID, "nobody is asked about fact %s", fact)
		}
		d.State = api.StateRejected
		if withdraw {
			d.State = api.StateApproved
		}
		d.Key, d.Kind, d.Seq, d.At = StaleKey(docID, fact), "stale", t.seq, t.at
		if err := t.putStale(docID, fact, &d); err != nil {
			return nil, err
		}
		if withdraw {
			return slices.Delete(slices.Clone(list), i, i+1), nil
		}
		list = slices.Clone(list)
		list[i].Asked = false
		return list, nil
	})
	if err != nil {
		return res, fmt.Errorf("decide about stale fact %s: %w", fact, err)
	}
	return res, t.flushIfFull(ctx)
}

// AskAgain takes a decision about a stale fact back: what was kept waits again. ErrBadChange says that it cannot: the document was deleted
// since, states the fact, or waits already.
func (t *Txn) AskAgain(ctx context.Context, x StaleItem) (DocResult, error) {
	if err := t.lock(); err != nil {
		return DocResult{}, err
	}
	defer t.unlock()
	res, err := t.decideStale(x.Doc, x.Fact, x.Gone, func(list []Kept, i int) ([]Kept, error) {
		list = slices.Clone(list)
		if i < 0 {
			i = len(list)
			list = append(list, x.Kept)
		} else if list[i].Asked {
			return nil, badChange(x.Doc, "fact %s waits already", x.Fact)
		}
		list[i].Asked = true
		key, err := staleKey(t.g.id, x.Doc, x.Fact)
		if err != nil {
			return nil, err
		}
		t.counts.Stale++
		x.Kept, x.Seq, x.At = list[i], t.seq, t.at
		if err := t.putJSON(key, x); err != nil {
			return nil, err
		}
		return list, t.forgetStale(x.Doc, x.Fact)
	})
	if err != nil {
		return res, fmt.Errorf("ask again about stale fact %s: %w", x.Fact, err)
	}
	return res, t.flushIfFull(ctx)
}

// forgetStale drops the decision about a stale fact.
func (t *Txn) forgetStale(doc, fact string) error {
	k := StaleKey(doc, fact)
	_, ok, err := t.decision(k)
	if err == nil && ok {
		err = t.putStale(doc, fact, nil)
	}
	return err
}

// putStale stores the decision about a stale fact, nil: none, and the row by which the item's id leads to it.
func (t *Txn) putStale(doc, fact string, d *Decision) error {
	k := newKey(t.g.id, spaceDecision).str(StaleKey(doc, fact))
	ik, err := staleIDKey(t.g.id, doc, fact)
	if err != nil {
		return err
	}
	if d == nil {
		t.put(k, nil)
		t.put(ik, nil)
		return nil
	}
	t.put(ik, []byte(doc+"|"+fact))
	return t.putJSON(k, d)
}

func staleIDKey(g uint32, doc, fact string) (key, error) {
	v, err := mustID(StaleID(doc, fact))
	return newKey(g, spaceStaleID).id(v), err
}

// StaleDecided is the decision about a stale fact by the id of its item; ok is false when none stands.
func (sn *Snapshot) StaleDecided(itemID string) (d Decision, ok bool, err error) {
	v, valid := parseID(itemID)
	if !valid {
		return d, false, nil
	}
	at := ""
	if ok, err = sn.get(sn.key(spaceStaleID).id(v), func(b []byte) error { at = string(b); return nil }); err != nil || !ok {
		return d, false, err
	}
	return sn.Decision("stale|" + at)
}

// decideStale changes what is kept of a document; at is the place of the fact, -1 when it is not kept. gone is the last version of a document
// that was deleted when the question arose.
func (t *Txn) decideStale(docID, fact string, gone int, change func(list []Kept, at int) ([]Kept, error)) (res DocResult, err error) {
	doc, err := mustID(docID)
	if err != nil {
		return res, err
	}
	d, _, err := t.loadDoc(doc)
	if err != nil {
		return res, err
	}
	var st Stated
	switch {
	case d.Open:
		st, err = t.stated(doc, d.Version)
	case d.Version == 0 || gone != d.Version: // a deletion since withdrew it, or asked itself
		return res, badChange(docID, "the document is not open")
	default:
		st, err = t.left(doc)
	}
	if err != nil {
		return res, err
	}
	at := -1
	for i := range st.Kept {
		f, err := st.Kept[i].FactID()
		if err != nil {
			return res, err
		}
		if f == fact {
			at = i
		}
	}
	if f, err := factsOf(st.Assertions); err != nil {
		return res, err
	} else if at < 0 && f.hasID(fact) {
		return res, badChange(docID, "the document states fact %s", fact)
	}
	was, err := factsOfStated(st)
	if err != nil {
		return res, err
	}
	before := st
	before.Kept = slices.Clone(st.Kept)
	asked := at >= 0 && st.Kept[at].Asked
	if st.Kept, err = change(st.Kept, at); err != nil {
		return res, err
	}
	if asked {
		if err := t.endStale(&d, fact, true); err != nil {
			return res, err
		}
	}
	if err := sortKept(st.Kept); err != nil {
		return res, err
	}
	now, err := factsOfStated(st)
	if err != nil {
		return res, err
	}
	res.Outcome, res.Version = Updated, d.Version
	if err := t.diff(doc, side{d.Version, d.Date(), was, before}, side{d.Version, d.Date(), now, st}, &res); err != nil {
		return res, err
	}
	d.Revision++
	st.Revision = d.Revision
	if d.Open {
		err = t.putJSON(newKey(t.g.id, spaceAssert).id(doc).u32(uint32(d.Version)), st)
	} else {
		err = t.putLeft(doc, st)
	}
	if err != nil {
		return res, err
	}
	t.docs = append(t.docs, d.Meta.Key)
	return res, t.putJSON(newKey(t.g.id, spaceDoc).id(doc), d)
}

// hasID says whether a fact of that id is stated.
func (f *docFacts) hasID(fact string) bool {
	if v, ok := parseID(fact); ok && f.rels[v] != nil {
		return true
	}
	for p, x := range f.props {
		if id, err := valueID(p.owner.String(), p.name, x.value); err == nil && id == fact {
			return true
		}
	}
	return false
}

// Stale calls fn for each item that waits, in the order of ids.
func (sn *Snapshot) Stale(fn func(StaleItem) error) error {
	prefix := sn.key(spaceStale)
	return sn.scan(prefix, nil, func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		x := StaleItem{ID: r.id().String()}
		if err := decodeStale(b, &x); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(x)
	})
}

// StaleByID reads an item that waits; ok is false when it does not.
func (sn *Snapshot) StaleByID(itemID string) (x StaleItem, ok bool, err error) {
	v, valid := parseID(itemID)
	if !valid {
		return x, false, nil
	}
	ok, err = sn.get(sn.key(spaceStale).id(v), func(b []byte) error { return decodeStale(b, &x) })
	x.ID = itemID
	return x, ok, err
}
