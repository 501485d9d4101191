package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

func errorsJoin(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}

// entityAgg is an entity's fold in the write-back cache. was is its row before (nil: none).
type entityAgg struct {
	fold EntityFold
	was  []byte
}

type relationAgg struct {
	fold     RelationFold
	src, dst id
	was      []byte
}

type propAgg struct {
	key  propID
	fold PropertyFold
	was  []byte
	now  []byte // what emitFolds made of it
	// changed is what documents of this batch say now (nil: nothing any more); a scan of the rows on disk needs it.
	changed map[id]*said
	// rescan: the last holder of the best confidence or the newest date went.
	rescan bool
}

// said is what a property fold counts of one document.
type said struct {
	confidence float64
	date       string
}

type ownerProp struct {
	owner id
	name  string
}

func (t *Txn) entity(v id) (*entityAgg, error) {
	if a := t.ents[v]; a != nil {
		return a, nil
	}
	a := &entityAgg{}
	row, ok, err := t.load(newKey(t.g.id, spaceEntity).id(v))
	if err != nil {
		return nil, err
	}
	if ok {
		if err := decodeEntity(row, &a.fold); err != nil {
			return nil, fmt.Errorf("entity %s: %w", v, err)
		}
		a.was = bytes.Clone(row)
	}
	a.fold.ID = v.String()
	t.ents[v] = a
	t.size += 400 + 2*len(row)
	return a, nil
}

func (t *Txn) relation(v id) (*relationAgg, error) {
	if a := t.rels[v]; a != nil {
		return a, nil
	}
	a := &relationAgg{}
	row, ok, err := t.load(newKey(t.g.id, spaceRelation).id(v))
	if err != nil {
		return nil, err
	}
	if ok {
		if err := decodeRelation(row, &a.fold); err != nil {
			return nil, fmt.Errorf("relation %s: %w", v, err)
		}
		a.src, _ = parseID(a.fold.Source)
		a.dst, _ = parseID(a.fold.Target)
		a.was = bytes.Clone(row)
	}
	a.fold.ID = v.String()
	t.rels[v] = a
	t.size += 400 + 2*len(row)
	return a, nil
}

func (t *Txn) prop(k propID) (*propAgg, error) {
	if a := t.props[k]; a != nil {
		return a, nil
	}
	a := &propAgg{key: k, changed: map[id]*said{}}
	row, ok, err := t.load(newKey(t.g.id, spacePropFold).id(k.owner).str(k.name).str(k.value))
	if err != nil {
		return nil, err
	}
	if ok {
		if err := decodePropFold(row, &a.fold); err != nil {
			return nil, fmt.Errorf("property %s of %s: %w", k.name, k.owner, err)
		}
		a.was = bytes.Clone(row)
	}
	a.fold.Owner, a.fold.Name = k.owner.String(), k.name
	t.props[k] = a
	op := ownerProp{k.owner, k.name}
	t.byProp[op] = append(t.byProp[op], a)
	t.size += 500 + 2*len(row)
	return a, nil
}

// addName counts mentions of a surface up or down.
func (f *EntityFold) addName(name string, by int) {
	f.Mentions += by
	i, ok := slices.BinarySearchFunc(f.Names, name, func(n NameCount, s string) int { return strings.Compare(n.Name, s) })
	if !ok {
		f.Names = slices.Insert(f.Names, i, NameCount{Name: name, Full: fingerprint.Fold(name) == f.Key})
	}
	if f.Names[i].Count += by; f.Names[i].Count == 0 {
		f.Names = slices.Delete(f.Names, i, i+1)
	}
}

// add counts a document that says the value.
func (f *PropertyFold) add(s said) {
	f.Documents++
	switch {
	case f.BestDocs == 0 || s.confidence > f.Best:
		f.Best, f.BestDocs = s.confidence, 1
	case s.confidence == f.Best:
		f.BestDocs++
	}
	switch {
	case f.NewestDocs == 0 || s.date > f.Newest:
		f.Newest, f.NewestDocs = s.date, 1
	case s.date == f.Newest:
		f.NewestDocs++
	}
}

// remove is the inverse of add; rescan says that the fold no longer knows the best or the newest.
func (f *PropertyFold) remove(s said) (rescan bool) {
	if f.Documents--; f.Documents == 0 {
		f.Best, f.BestDocs, f.Newest, f.NewestDocs = 0, 0, "", 0
		return false
	}
	if s.confidence == f.Best {
		f.BestDocs--
	}
	if s.date == f.Newest {
		f.NewestDocs--
	}
	return f.BestDocs == 0 || f.NewestDocs == 0
}

// rescanProp counts a value's fold anew from its rows on disk and what this batch changes.
func (t *Txn) rescanProp(k propID, a *propAgg) error {
	a.fold.Documents, a.fold.BestDocs, a.fold.NewestDocs = 0, 0, 0
	it, err := t.iter(false)
	if err != nil {
		return err
	}
	prefix := newKey(t.g.id, spaceProp).id(k.owner).str(k.name).str(k.value)
	err = scanRows(it, prefix, nil, t.seq, false, func(rk key, v []byte) error {
		r := keyReader{b: rk[len(prefix):]}
		doc := r.id()
		if _, ok := a.changed[doc]; ok {
			return nil
		}
		var s EvidenceSupport
		if err := decodeEvidence(v, &s); err != nil {
			return fmt.Errorf("%s: %w", describe(rk), err)
		}
		a.fold.add(saidOf(&s))
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range a.changed {
		if s != nil {
			a.fold.add(*s)
		}
	}
	a.rescan = false
	return nil
}

func saidOf(s *EvidenceSupport) said {
	out := said{date: s.Date}
	for _, e := range s.Spans {
		out.confidence = max(out.confidence, e.Confidence)
	}
	return out
}

// otherValue says whether the property has a living value besides the one of a.
func (t *Txn) otherValue(k propID, a *propAgg) (bool, error) {
	known := map[string]bool{k.value: true}
	for _, o := range t.byProp[ownerProp{k.owner, k.name}] {
		if o == a {
			continue
		}
		if o.fold.Documents > 0 {
			return true, nil
		}
		known[o.key.value] = true
	}
	n, err := t.stored(ownerProp{k.owner, k.name}, known, 1)
	return n > 0, err
}

// stored counts, up to a limit, the values of a property that are flushed and not known.
func (t *Txn) stored(op ownerProp, known map[string]bool, limit int) (n int, err error) {
	// What was not there has no values.
	if e, r := t.ents[op.owner], t.rels[op.owner]; e != nil && e.was == nil || r != nil && r.was == nil {
		return 0, nil
	}
	it, err := t.iter(false)
	if err != nil {
		return 0, err
	}
	prefix := newKey(t.g.id, spacePropFold).id(op.owner).str(op.name)
	err = scanRows(it, prefix, nil, t.seq, false, func(rk key, _ []byte) error {
		r := keyReader{b: rk[len(prefix):]}
		if !known[r.str()] {
			if n++; n == limit {
				return ErrStop
			}
		}
		return nil
	})
	return n, err
}

// emitFolds turns the folds in the cache into rows.
func (t *Txn) emitFolds() error {
	values := map[ownerProp]int{} // properties that have more or fewer values
	for k, a := range t.props {
		if a.rescan && a.fold.Documents > 0 {
			if err := t.rescanProp(k, a); err != nil {
				return err
			}
		}
		var v []byte
		if a.fold.Documents > 0 {
			var err error
			if v, err = encodePropFold(&a.fold); err != nil {
				return err
			}
		}
		if !bytes.Equal(v, a.was) {
			t.put(newKey(t.g.id, spacePropFold).id(k.owner).str(k.name).str(k.value), v)
			t.touch(k.owner)
		}
		if v != nil && a.was == nil {
			values[ownerProp{k.owner, k.name}]++
		} else if v == nil && a.was != nil {
			values[ownerProp{k.owner, k.name}]--
		}
		a.now = v
	}
	shapes := &shapes{has: map[id]map[string]bool{}, by: map[shape]int{}, names: map[shape][]string{}}
	if err := t.emitConflicts(values, shapes); err != nil {
		return err
	}
	for _, a := range t.props {
		a.was, a.now = a.now, nil
	}
	degrees := map[degreeAt]int{}
	for v, a := range t.rels {
		t.emitRelation(v, a, degrees)
	}
	if err := t.emitDegrees(degrees); err != nil { // before entities, which are asked whether they were there
		return err
	}
	if err := t.emitShapes(shapes); err != nil {
		return err
	}
	for v, a := range t.ents {
		if err := t.emitEntity(v, a); err != nil {
			return err
		}
	}
	return nil
}

// touch notes a change of a fact that its own row may not show.
func (t *Txn) touch(v id) {
	if _, ok := t.touched[v]; !ok {
		t.touched[v] = true
	}
}

func (t *Txn) emitRelation(v id, a *relationAgg, degrees map[degreeAt]int) {
	var row []byte
	if a.fold.Documents > 0 {
		row = encodeRelation(&a.fold, a.src, a.dst)
	}
	if bytes.Equal(row, a.was) {
		return
	}
	t.put(newKey(t.g.id, spaceRelation).id(v), row)
	if (row == nil) != (a.was == nil) {
		var end []byte
		by := -1
		if row != nil {
			end, by = v[:], 1
		}
		degrees[degreeAt{a.fold.Type, SideOut, a.src}] += by
		degrees[degreeAt{a.fold.Type, SideIn, a.dst}] += by
		t.put(newKey(t.g.id, spaceOut).id(a.src).str(a.fold.Type).id(a.dst), end)
		t.put(newKey(t.g.id, spaceIn).id(a.dst).str(a.fold.Type).id(a.src), end)
	}
	t.touched[v] = row != nil
	a.was = row
}

func (t *Txn) emitEntity(v id, a *entityAgg) error {
	var row []byte
	if a.fold.Documents > 0 {
		row = encodeEntity(&a.fold)
	}
	if bytes.Equal(row, a.was) {
		return nil
	}
	var was EntityFold
	if a.was != nil {
		if err := decodeEntity(a.was, &was); err != nil {
			return err
		}
	}
	t.put(newKey(t.g.id, spaceEntity).id(v), row)
	t.touched[v] = row != nil
	a.was = row
	if shownAs(&was) != shownAs(&a.fold) {
		t.feed(TouchedEntity, v)
	}
	if row == nil {
		if err := t.unlink(v); err != nil {
			return err
		}
	}
	before, now := indexNames(&was), indexNames(&a.fold)
	for name := range before {
		if _, ok := now[name]; !ok {
			t.put(newKey(t.g.id, spaceName).str(name).id(v), nil)
		}
	}
	for name, full := range now {
		if f, ok := before[name]; ok && f == full {
			continue
		}
		t.put(newKey(t.g.id, spaceName).str(name).id(v), writer(nil).str(a.fold.Label).bool(full))
		if _, ok := before[name]; ok {
			continue
		}
		seen := map[string]bool{}
		lexical.Terms(name, func(term string) {
			if seen[term] {
				return
			}
			term = strings.Clone(term)
			seen[term] = true
			t.size += idLen
			if len(t.names[term]) == 0 {
				t.size += len(term) + 64
			}
			t.names[term] = append(t.names[term], v[:]...)
		})
	}
	return nil
}

// shown is how an entity is compared and embedded: by its label and its display name. The zero value is an entity that is not there.
type shown struct{ label, name string }

func shownAs(f *EntityFold) shown {
	if f.Documents == 0 {
		return shown{}
	}
	return shown{f.Label, f.Display()}
}

// indexNames are the folded names under which an entity is found; true for its merge key.
func indexNames(f *EntityFold) map[string]bool {
	if f.Documents == 0 {
		return nil
	}
	out := map[string]bool{f.Key: true}
	for _, n := range f.Names {
		if !n.Full {
			out[fingerprint.Fold(n.Name)] = false
		}
	}
	return out
}
