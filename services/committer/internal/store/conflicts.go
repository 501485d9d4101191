package store

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// Conflict is a property with two or more different living values. Whether it may have several is the schema's to say.
type Conflict struct {
	ID       string
	Owner    string // entity or relation
	Property string
	Values   int
}

func (c Conflict) row(owner id) []byte {
	return make(writer, 0, 48).id(owner).str(c.Property).uint(c.Values)
}

func decodeConflict(b []byte, c *Conflict) error {
	r := reader{b: b}
	c.Owner, c.Property, c.Values = r.id().String(), r.str(), r.uint()
	return r.err("conflict")
}

// conflictKey is that of the row of a property's conflict.
func conflictKey(g uint32, owner id, property string) (key, error) {
	v, err := mustID(fingerprint.ConflictID(owner.String(), property))
	return newKey(g, spaceConflict).id(v), err
}

// Kinds of ConflictClass.
const (
	ConflictOfEntity   = "entity"
	ConflictOfRelation = "relation"
)

// ConflictClass is under what conflicts are counted: the kind and the label of their owner, and the property.
func ConflictClass(kind, label, property string) string { return kind + "|" + label + "|" + property }

// ParseConflictClass takes a class apart.
func ParseConflictClass(class string) (kind, label, property string) {
	kind, rest, _ := strings.Cut(class, "|")
	label, property, _ = strings.Cut(rest, "|")
	return kind, label, property
}

// emitConflicts brings the rows of conflicts up to date. values says of properties by how many values they have more or fewer than before
// this batch; s is told which have any. A property that has one value, and is said to have another, costs one look-up of its values; more only where it is in
// conflict.
func (t *Txn) emitConflicts(values map[ownerProp]int, s *shapes) error {
	ops := slices.SortedFunc(maps.Keys(values), func(a, b ownerProp) int {
		return cmp.Or(bytes.Compare(a.owner[:], b.owner[:]), strings.Compare(a.name, b.name))
	})
	for _, op := range ops {
		if by := values[op]; by != 0 {
			if err := t.emitConflict(op, by, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Txn) emitConflict(op ownerProp, by int, s *shapes) error {
	before, known := 0, map[string]bool{}
	for _, a := range t.byProp[op] {
		known[a.key.value] = true
		if a.was != nil {
			before++
		}
	}
	if before < 2 {
		n, err := t.stored(op, known, 2-before)
		if err != nil {
			return err
		}
		before += n
	}
	if before < 2 {
		t.present(op, before, before+by, s)
		if before+by < 2 {
			return nil
		}
	}
	k, err := conflictKey(t.g.id, op.owner, op.name)
	if err != nil {
		return err
	}
	counted := false
	if before >= 2 {
		if before, counted, err = t.valuesBefore(op, k, known); err != nil {
			return err
		}
	}
	now := before + by
	if before >= 2 {
		t.present(op, before, now, s)
	}
	var row []byte
	if now >= 2 {
		row = Conflict{Property: op.name, Values: now}.row(op.owner)
	}
	t.put(k, row)
	if counted == (row != nil) {
		return nil
	}
	class, err := t.conflictClass(op)
	if err != nil {
		return err
	}
	if t.counts.Conflicts == nil {
		t.counts.Conflicts = map[string]int{}
	}
	if counted {
		addCount(t.counts.Conflicts, class, -1)
	} else {
		addCount(t.counts.Conflicts, class, 1)
	}
	return nil
}

// present notes where an entity's property has its first value, or lost its last.
func (t *Txn) present(op ownerProp, before, now int, s *shapes) {
	if (before > 0) != (now > 0) && t.rels[op.owner] == nil {
		s.gained(op, now > 0)
	}
}

// valuesBefore is how many values a property in conflict had before this batch. Where an older version wrote no row, they are counted.
func (t *Txn) valuesBefore(op ownerProp, k key, known map[string]bool) (n int, counted bool, err error) {
	row, ok, err := t.load(k)
	if err != nil {
		return 0, false, err
	}
	if ok {
		var c Conflict
		if err := decodeConflict(row, &c); err != nil {
			return 0, false, fmt.Errorf("%s: %w", describe(k.with(t.seq)), err)
		}
		return c.Values, true, nil
	}
	for _, a := range t.byProp[op] {
		if a.was != nil {
			n++
		}
	}
	more, err := t.stored(op, known, 0)
	return n + more, false, err
}

func (t *Txn) conflictClass(op ownerProp) (string, error) {
	if r := t.rels[op.owner]; r != nil {
		return ConflictClass(ConflictOfRelation, r.fold.Type, op.name), nil
	}
	a, err := t.entity(op.owner)
	if err != nil {
		return "", err
	}
	return ConflictClass(ConflictOfEntity, a.fold.Label, op.name), nil
}

// Conflicts calls fn for each property with several values, in the order of conflict ids.
func (sn *Snapshot) Conflicts(fn func(Conflict) error) error {
	return sn.scan(sn.key(spaceConflict), nil, func(k key, b []byte) error {
		r := readKey(k)
		c := Conflict{ID: r.id().String()}
		if err := decodeConflict(b, &c); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(c)
	})
}

// Conflict is the conflict with an id; ok is false when there is none.
func (sn *Snapshot) Conflict(conflictID string) (c Conflict, ok bool, err error) {
	v, valid := parseID(conflictID)
	if !valid {
		return c, false, nil
	}
	c.ID = conflictID
	ok, err = sn.get(sn.key(spaceConflict).id(v), func(b []byte) error { return decodeConflict(b, &c) })
	return c, ok, err
}

// PropertyValues calls fn for each value of one property of an entity or relation, by value key.
func (sn *Snapshot) PropertyValues(owner, name string, fn func(PropertyFold) error) error {
	v, ok := parseID(owner)
	if !ok {
		return nil
	}
	return sn.scan(sn.key(spacePropFold).id(v).str(name), nil, func(k key, b []byte) error {
		f := PropertyFold{Owner: owner, Name: name}
		if err := decodePropFold(b, &f); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(f)
	})
}

// conflicts counts the values of every property and checks that those with several, and no others, are in conflict.
func (v *verifier) conflicts() error {
	v.found.Conflicts = map[string]int{}
	var at ownerProp
	n := 0
	done := func() error {
		if n < 2 {
			return nil
		}
		k, err := conflictKey(v.sn.g.id, at.owner, at.name)
		if err != nil {
			return err
		}
		var c Conflict
		ok, err := v.get(k, func(b []byte) error { return decodeConflict(b, &c) })
		switch {
		case err != nil:
			return err
		case !ok:
			v.problem(k, "missing: %s of %s has %d values", at.name, at.owner, n)
		case c.Owner != at.owner.String() || c.Property != at.name || c.Values != n:
			v.problem(k, "it counts %d values of %s of %s, there are %d of %s of %s", c.Values, c.Property, c.Owner, n, at.name, at.owner)
		}
		class, err := v.conflictClass(at)
		if class != "" {
			v.found.Conflicts[class]++
		}
		return err
	}
	err := v.each(v.sn.key(spacePropFold), func(k key, r *keyReader, _ []byte) error {
		if op := (ownerProp{r.id(), r.str()}); op != at {
			if err := done(); err != nil {
				return err
			}
			at, n = op, 0
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	if err := done(); err != nil {
		return err
	}
	return v.each(v.sn.key(spaceConflict), func(k key, _ *keyReader, val []byte) error {
		var c Conflict
		if err := decodeConflict(val, &c); err != nil {
			return err
		}
		owner, _ := parseID(c.Owner)
		own, err := conflictKey(v.sn.g.id, owner, c.Property)
		if err != nil {
			return err
		}
		if !bytes.Equal(own, k) {
			v.problem(k, "it leads to %s of %s, whose id it is not", c.Property, c.Owner)
			return nil
		}
		values := 0
		err = v.each(v.sn.key(spacePropFold).id(owner).str(c.Property), func(key, *keyReader, []byte) error {
			if values++; values == 2 {
				return ErrStop
			}
			return nil
		})
		if err == nil && values < 2 {
			v.problem(k, "%s of %s has %d values", c.Property, c.Owner, values)
		}
		return err
	})
}

// conflictClass is "" where the owner is missing: the pass over properties said so.
func (v *verifier) conflictClass(op ownerProp) (string, error) {
	var e EntityFold
	ok, err := v.get(v.sn.key(spaceEntity).id(op.owner), func(b []byte) error { return decodeEntity(b, &e) })
	if err != nil {
		return "", err
	}
	if ok {
		return ConflictClass(ConflictOfEntity, e.Label, op.name), nil
	}
	var r RelationFold
	ok, err = v.get(v.sn.key(spaceRelation).id(op.owner), func(b []byte) error { return decodeRelation(b, &r) })
	if err != nil || !ok {
		return "", err
	}
	return ConflictClass(ConflictOfRelation, r.Type, op.name), nil
}
