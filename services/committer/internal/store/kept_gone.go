package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// leftKey is the row of what is kept of a document that is not open: a Stated with nothing but Kept and Decided, in the place of version
// 0, which no document has. Without such facts there is no row.
func leftKey(g uint32, doc id) key { return newKey(g, spaceAssert).id(doc).u32(0) }

// left is what is kept of a document that is not open.
func (t *Txn) left(doc id) (st Stated, err error) {
	row, ok, err := t.load(leftKey(t.g.id, doc))
	if err == nil && ok {
		st, err = decodeStated(row)
	}
	if err != nil {
		return st, fmt.Errorf("what is kept of a deleted document: %w", err)
	}
	return st, nil
}

func (t *Txn) putLeft(doc id, st Stated) error {
	if len(st.Kept) > 0 {
		return t.putJSON(leftKey(t.g.id, doc), st)
	}
	_, ok, err := t.load(leftKey(t.g.id, doc))
	if err == nil && ok {
		t.put(leftKey(t.g.id, doc), nil)
	}
	return err
}

// goes decides what is kept of a document that is deleted: the policy is asked about everything that it states, and that was kept of it
// before.
func (a *application) goes(st Stated, was *docFacts) (left Stated, now *docFacts, err error) {
	decided := map[string]bool{}
	for _, f := range st.Decided {
		decided[f] = true
	}
	for i := range st.Kept {
		fact, err := st.Kept[i].FactID()
		if err == nil {
			err = a.t.endStale(&a.d, fact, st.Kept[i].Asked) // it is asked about anew, or not any more
		}
		if err != nil {
			return left, nil, err
		}
	}
	look := func(k Kept, fact string) (err error) {
		left.Kept, err = a.keep(left.Kept, k, fact, decided[fact], true)
		return err
	}
	for _, v := range inOrder(was.rels) {
		if err := look(was.keptRelation(v, a.d.Version), v.String()); err != nil {
			return left, nil, err
		}
	}
	for _, p := range propsInOrder(was.props) {
		if was.ents[p.owner] == nil { // values of a relation go with it
			continue
		}
		k := was.keptValue(p, a.d.Version, a.d.Date())
		fact, err := k.FactID()
		if err == nil {
			err = look(k, fact)
		}
		if err != nil {
			return left, nil, err
		}
	}
	if err := sortKept(left.Kept); err != nil {
		return left, nil, err
	}
	for i := range left.Kept {
		fact, err := left.Kept[i].FactID()
		if err != nil {
			return left, nil, err
		}
		if decided[fact] {
			left.Decided = append(left.Decided, fact)
		}
	}
	slices.Sort(left.Decided)
	now, err = factsOfStated(left)
	return left, now, err
}

// comesBack takes what was kept of a document that was deleted and is added again.
func (a *application) comesBack() (was *docFacts, left Stated, err error) {
	if left, err = a.t.left(a.doc); err != nil || len(left.Kept) == 0 {
		return noFacts, left, err
	}
	if was, err = factsOfStated(left); err != nil {
		return nil, left, err
	}
	return was, left, a.t.putLeft(a.doc, Stated{})
}

// keptRelation and keptValue are facts as they are kept; open is the version that states what has none of its own.
func (f *docFacts) keptRelation(v id, open int) Kept {
	r := f.rels[v]
	return Kept{Version: f.versionOf(r.version, open), Type: r.typ, Ends: []KeptEnd{f.end(r.src, open), f.end(r.dst, open)}, Spans: r.spans}
}

func (f *docFacts) keptValue(p propID, open int, date string) Kept {
	x := f.props[p]
	return Kept{Version: f.versionOf(x.version, open), Date: side{date: date}.dateOf(x), Name: p.name, Value: x.value, Ends: []KeptEnd{f.end(p.owner, open)}, Spans: x.spans}
}

// lose notes that support for a fact goes which a person had decided: a job names those, whoever else states the fact.
func (a *application) lose(k *Kept, decided bool) {
	if !decided {
		return
	}
	a.res.WithdrawnDecidedTotal++
	if len(a.res.WithdrawnDecided) >= MaxRemoved {
		return
	}
	said := fmt.Sprintf("%s of %q = %s", k.Name, k.Ends[0].shown(), schema.ValueText(k.Value))
	if k.Type != "" {
		said = fmt.Sprintf("%q %s %q", k.Ends[0].shown(), k.Type, k.Ends[1].shown())
	}
	a.res.WithdrawnDecided = append(a.res.WithdrawnDecided, said)
}

// ruledFor says whether a person decided for a fact: kept it when the document had dropped it before, or chose the value.
func (t *Txn) ruledFor(doc, fact string, k *Kept) (bool, error) {
	if d, ok, err := t.decision(StaleKey(doc, fact)); err != nil || ok && d.State == api.StateRejected {
		return err == nil, err
	}
	if k.Type != "" {
		return false, nil
	}
	owner, err := mustID(k.Ends[0].ID)
	if err != nil {
		return false, err
	}
	row, ok, err := t.load(rulingKey(t.g.id, owner, k.Name))
	if err != nil || !ok {
		return false, err
	}
	var r Ruling
	if err := decodeJSON(row, &r); err != nil {
		return false, err
	}
	vk, err := valueKey(k.Value)
	return err == nil && r.Chosen == vk, err
}

// shown is the name that the document has for an end most often, then the smallest; else the merge key.
func (e *KeptEnd) shown() string {
	n := map[string]int{}
	for _, s := range e.Spans {
		n[s.Name]++
	}
	best := e.Key
	for i, name := range slices.Sorted(maps.Keys(n)) {
		if i == 0 || n[name] > n[best] {
			best = name
		}
	}
	return best
}
