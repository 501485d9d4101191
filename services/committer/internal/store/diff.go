package store

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// effect is what one document's change did to facts.
type effect struct {
	res *DocResult
	// shown are display names before the change, for what is reported as removed.
	shown map[id]string
}

func (e *effect) removed(format string, args ...any) {
	e.res.RemovedTotal++
	if len(e.res.Removed) < MaxRemoved {
		e.res.Removed = append(e.res.Removed, fmt.Sprintf(format, args...))
	}
}

// side is one half of a change: what a version of a document states.
type side struct {
	version int
	date    string
	facts   *docFacts
	stated  Stated // what the facts are of
}

// diff moves every fold and support row from what the document stated to what it states, with the things that people told apart.
func (t *Txn) diff(doc id, was, now side, res *DocResult) (err error) {
	if was.facts, err = t.fold(was); err != nil {
		return err
	}
	if now.facts, err = t.fold(now); err != nil {
		return err
	}
	return t.diffFolded(doc, was, now, res)
}

func (t *Txn) diffFolded(doc id, was, now side, res *DocResult) error {
	e := &effect{res: res, shown: map[id]string{}}
	if err := t.diffEntities(doc, was, now, e); err != nil {
		return err
	}
	if err := t.diffRelations(doc, was, now, e); err != nil {
		return err
	}
	if err := t.diffProps(doc, was, now, e); err != nil {
		return err
	}
	slices.Sort(res.Removed)
	return nil
}

// inOrder lists facts in the order of their rows: reading them so, each look-up goes on where the last one ended.
func inOrder[F any](facts map[id]F) []id {
	return slices.SortedFunc(maps.Keys(facts), func(a, b id) int { return bytes.Compare(a[:], b[:]) })
}

func propsInOrder[F any](props map[propID]F) []propID {
	return slices.SortedFunc(maps.Keys(props), func(a, b propID) int {
		return cmp.Or(bytes.Compare(a.owner[:], b.owner[:]), strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
}

func (t *Txn) diffEntities(doc id, was, now side, e *effect) error {
	for _, v := range inOrder(now.facts.ents) {
		f := now.facts.ents[v]
		a, err := t.entity(v)
		if err != nil {
			return err
		}
		old := was.facts.ents[v]
		if old != nil {
			e.shown[v] = a.fold.Display()
		}
		switch {
		case a.fold.Documents == 0:
			a.fold.Label, a.fold.Key = f.ref.Label, f.ref.Key
			e.res.EntitiesCreated++
			addCount(t.counts.Entities, a.fold.Label, 1)
		case old == nil:
			e.res.EntitiesUpdated++
		}
		row := encodeMentions(&MentionSupport{Version: now.at(f.version), Spans: f.spans})
		if old == nil {
			a.fold.Documents++
		} else {
			for _, m := range old.spans {
				a.fold.addName(m.Name, -1)
			}
			t.counts.Mentions -= len(old.spans)
			if bytes.Equal(row, encodeMentions(&MentionSupport{Version: was.at(old.version), Spans: old.spans})) {
				row = nil
			}
		}
		for _, m := range f.spans {
			a.fold.addName(m.Name, 1)
		}
		t.counts.Mentions += len(f.spans)
		if row != nil {
			t.put(newKey(t.g.id, spaceMention).id(v).id(doc), row)
		}
	}
	for _, v := range inOrder(was.facts.ents) {
		old := was.facts.ents[v]
		if now.facts.ents[v] != nil {
			continue
		}
		a, err := t.entity(v)
		if err != nil {
			return err
		}
		e.shown[v] = a.fold.Display()
		for _, m := range old.spans {
			a.fold.addName(m.Name, -1)
		}
		t.counts.Mentions -= len(old.spans)
		if a.fold.Documents--; a.fold.Documents == 0 {
			e.res.EntitiesRemoved++
			addCount(t.counts.Entities, a.fold.Label, -1)
			e.removed("%s %q", a.fold.Label, e.shown[v])
		}
		t.put(newKey(t.g.id, spaceMention).id(v).id(doc), nil)
	}
	return nil
}

func (t *Txn) diffRelations(doc id, was, now side, e *effect) error {
	for _, v := range inOrder(now.facts.rels) {
		f := now.facts.rels[v]
		a, err := t.relation(v)
		if err != nil {
			return err
		}
		old := was.facts.rels[v]
		switch {
		case a.fold.Documents == 0:
			a.fold.Type, a.src, a.dst = f.typ, f.src, f.dst
			a.fold.Source, a.fold.Target = f.src.String(), f.dst.String()
			e.res.RelationsCreated++
			addCount(t.counts.Relations, f.typ, 1)
		case old == nil:
			e.res.RelationsJoined++
		}
		row, err := encodeEvidence(&EvidenceSupport{Version: now.at(f.version), Spans: f.spans})
		if err != nil {
			return err
		}
		if old == nil {
			a.fold.Documents++
		} else {
			a.fold.Evidence -= len(old.spans)
			before, err := encodeEvidence(&EvidenceSupport{Version: was.at(old.version), Spans: old.spans})
			if err != nil {
				return err
			}
			if bytes.Equal(row, before) {
				row = nil
			}
		}
		a.fold.Evidence += len(f.spans)
		if row != nil {
			t.put(newKey(t.g.id, spaceEvidence).id(v).id(doc), row)
		}
	}
	for _, v := range inOrder(was.facts.rels) {
		old := was.facts.rels[v]
		if now.facts.rels[v] != nil {
			continue
		}
		a, err := t.relation(v)
		if err != nil {
			return err
		}
		a.fold.Evidence -= len(old.spans)
		if a.fold.Documents--; a.fold.Documents == 0 {
			e.res.RelationsRemoved++
			addCount(t.counts.Relations, a.fold.Type, -1)
			e.removed("%q %s %q", e.shown[old.src], a.fold.Type, e.shown[old.dst])
		}
		t.put(newKey(t.g.id, spaceEvidence).id(v).id(doc), nil)
	}
	return nil
}

func (t *Txn) diffProps(doc id, was, now side, e *effect) error {
	for _, k := range propsInOrder(now.facts.props) {
		f := now.facts.props[k]
		a, err := t.prop(k)
		if err != nil {
			return err
		}
		if a.fold.Documents == 0 {
			a.fold.Value = f.value
			other, err := t.otherValue(k, a)
			if err != nil {
				return err
			}
			if other {
				e.res.Conflicts++
			}
		}
		row, err := encodeEvidence(&EvidenceSupport{Version: now.at(f.version), Date: now.dateOf(f), Spans: f.spans})
		if err != nil {
			return err
		}
		if old := was.facts.props[k]; old != nil {
			before, err := encodeEvidence(&EvidenceSupport{Version: was.at(old.version), Date: was.dateOf(old), Spans: old.spans})
			if err != nil {
				return err
			}
			if bytes.Equal(row, before) {
				continue
			}
			a.drop(doc, said{old.confidence(), was.dateOf(old)})
		}
		s := said{f.confidence(), now.dateOf(f)}
		if a.fold.Documents == 0 {
			a.rescan = false
		}
		a.fold.add(s)
		a.changed[doc] = &s
		t.size += 64
		t.put(newKey(t.g.id, spaceProp).id(k.owner).str(k.name).str(k.value).id(doc), row)
	}
	for _, k := range propsInOrder(was.facts.props) {
		old := was.facts.props[k]
		if now.facts.props[k] != nil {
			continue
		}
		a, err := t.prop(k)
		if err != nil {
			return err
		}
		a.drop(doc, said{old.confidence(), was.dateOf(old)})
		if a.fold.Documents == 0 {
			if name, ok := e.shown[k.owner]; ok {
				e.removed("%s of %q = %v", k.name, name, a.fold.Value)
			}
		}
		t.size += 64
		t.put(newKey(t.g.id, spaceProp).id(k.owner).str(k.name).str(k.value).id(doc), nil)
	}
	return nil
}

func (a *propAgg) drop(doc id, s said) {
	if a.fold.remove(s) {
		a.rescan = true
	}
	a.changed[doc] = nil
}
