package store

import (
	"bytes"
	"strings"
)

// left checks what is kept of a document that is not open.
func (v *verifier) left(k key, doc id, val []byte) error {
	st, err := decodeStated(val)
	if err != nil {
		return err
	}
	d, ok, err := v.doc(doc)
	if err != nil {
		return err
	}
	if !ok || d.Open || len(st.Kept) == 0 || len(st.Chunks) > 0 || len(st.Entities) > 0 {
		v.problem(k, "it is of a document that is not deleted, or keeps nothing, or states more (open: %t, %d kept)", d.Open, len(st.Kept))
		return nil
	}
	for _, x := range st.Kept {
		if x.Version < 1 {
			v.problem(k, "what is kept is of version %d", x.Version)
			return nil
		}
	}
	f, err := factsOfStated(st)
	if err != nil {
		v.problem(k, "%v", err)
		return nil
	}
	if err := v.kept(k, doc, d, st); err != nil {
		return err
	}
	return v.supported(doc, d, side{0, "", f, st})
}

// kept checks what is kept of a document's earlier versions: its quotes slice from their texts, and what waits has an item.
func (v *verifier) kept(k key, doc id, d Doc, st Stated) error {
	if d.Revision < st.Revision {
		v.problem(v.sn.key(spaceDoc).id(doc), "it is at revision %d, a decision made it %d", d.Revision, st.Revision)
	}
	for i := range st.Kept {
		x := &st.Kept[i]
		fact, err := x.FactID()
		if err != nil {
			v.problem(k, "%v", err)
			continue
		}
		for _, s := range x.Spans {
			if err := v.keptSpan(k, doc, d, x.Version, s.Chunk, s.Start, s.End); err != nil {
				return err
			}
		}
		for _, e := range x.Ends {
			for _, m := range e.Spans {
				if err := v.keptSpan(k, doc, d, e.Version, m.Chunk, m.Start, m.End); err != nil {
					return err
				}
			}
		}
		if !x.Asked {
			continue
		}
		sk, err := staleKey(v.sn.g.id, d.Meta.ID, fact)
		if err != nil {
			return err
		}
		ok, err := v.has(sk)
		if err != nil {
			return err
		}
		if !ok { // either may be the wrong one
			v.problem(sk, "missing: %s asks about fact %s", d.Meta.Key, fact)
			v.problem(k, "it asks about fact %s, which does not wait", fact)
		}
		v.asked++
	}
	return nil
}

func (v *verifier) keptSpan(k key, doc id, d Doc, version, chunk, start, end int) error {
	var old Version
	ok, err := v.get(versionKey(v.sn.g.id, doc, version), func(b []byte) error { return decodeJSON(b, &old) })
	if err != nil {
		return err
	}
	var text string
	if ok {
		ok, err = v.get(v.sn.key(spaceText).id(doc).u32(uint32(version)), func(b []byte) error { text = string(b[1:]); return nil })
	}
	if err != nil {
		return err
	}
	if !ok || version > d.Version {
		v.problem(k, "what is kept is of version %d, which is not there", version)
		return nil
	}
	if err := checkSpan(d.Meta.Key, text, old.Chunks, chunk, start, end); err != nil {
		v.problem(k, "kept of version %d: %v", version, err)
	}
	return nil
}

// stale checks that each item that waits is asked about by its document.
func (v *verifier) stale() error {
	n := 0
	err := v.each(v.sn.key(spaceStale), func(k key, r *keyReader, val []byte) error {
		n++
		var x StaleItem
		if err := decodeStale(val, &x); err != nil {
			return err
		}
		if item := r.id(); StaleID(x.Doc, x.Fact) != item.String() {
			v.problem(k, "its document and fact give another id")
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.found.Stale = n
	if err := v.staleIDs(); err != nil {
		return err
	}
	if n == v.asked {
		return nil
	}
	return v.each(v.sn.key(spaceStale), func(k key, _ *keyReader, val []byte) error {
		var x StaleItem
		if err := decodeStale(val, &x); err != nil {
			return err
		}
		asked, err := v.asks(x)
		if err == nil && !asked {
			v.problem(k, "document %s does not ask about fact %s", x.Doc, x.Fact)
		}
		return err
	})
}

// staleIDs checks that the ids of stale facts that were decided lead to their decisions, and that each decision is led to.
func (v *verifier) staleIDs() error {
	err := v.each(v.sn.key(spaceStaleID), func(k key, _ *keyReader, val []byte) error {
		doc, fact, _ := strings.Cut(string(val), "|")
		if own, err := staleIDKey(v.sn.g.id, doc, fact); err != nil || !bytes.Equal(own, k) {
			v.problem(k, "it leads to fact %.80s of document %.80s, whose item has another id", fact, doc)
			return nil
		}
		return v.need(v.sn.key(spaceDecision).str(StaleKey(doc, fact)), "an item's id leads to it")
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceDecision).part("stale|"), func(k key, r *keyReader, _ []byte) error {
		name := r.str()
		doc, fact, _ := strings.Cut(strings.TrimPrefix(name, "stale|"), "|")
		ik, err := staleIDKey(v.sn.g.id, doc, fact)
		if err != nil {
			return err
		}
		return v.need(ik, "%.200s was decided", name)
	})
}

// supporting is the row by which a document supports facts now.
func (v *verifier) supporting(doc id, d Doc) key {
	if !d.Open {
		return leftKey(v.sn.g.id, doc)
	}
	return v.sn.key(spaceAssert).id(doc).u32(uint32(d.Version))
}

// asks says whether a document asks about a fact.
func (v *verifier) asks(x StaleItem) (yes bool, err error) {
	doc, ok := parseID(x.Doc)
	if !ok {
		return false, nil
	}
	d, ok, err := v.doc(doc)
	if err != nil || !ok {
		return false, err
	}
	_, err = v.get(v.supporting(doc, d), func(b []byte) error {
		st, err := decodeStated(b)
		for i := range st.Kept {
			fact, e := st.Kept[i].FactID()
			yes = yes || e == nil && fact == x.Fact && st.Kept[i].Asked
		}
		return err
	})
	return yes, err
}
