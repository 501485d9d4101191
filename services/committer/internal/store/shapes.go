package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sideMissing marks, in the place of a property's name, that the property has no value.
const sideMissing = ":missing"

// MissingProperty stands for the property of the item, and of the ruling, about a value that an entity lacks.
func MissingProperty(property string) string { return property + sideMissing }

// ParseMissing takes it apart; ok is false for the name of a property.
func ParseMissing(property string) (name string, ok bool) {
	return strings.CutSuffix(property, sideMissing)
}

// missingMask is what an entity's id and that of the item about its missing value differ by: the bits of a hash of the property, but for
// those that say which kind of id it is.
func missingMask(property string) (m id) {
	sum := sha256.Sum256([]byte("Missing:" + property))
	copy(m[:], sum[:])
	m[6] &= 0x0F
	m[8] &= 0x3F
	return m
}

// MissingID turns the id of an entity into that of the item about a value of a property that it lacks, and the other way round: such items
// have no rows, so their ids lead to the entity by themselves. "" when it is no id.
func MissingID(v, property string) string {
	x, ok := parseID(v)
	if !ok {
		return ""
	}
	for i, b := range missingMask(property) {
		x[i] ^= b
	}
	return x.String()
}

// Shape is a set of properties and the entities of a label that have values of these, and of no others. Which of the properties an entity
// should have is the schema's to say.
type Shape struct {
	Label    string
	Names    []string // sorted
	Entities int
	at       id
}

// shape is the place of a set of properties among those of a label.
type shape struct {
	label string
	at    id
}

// shapeAt is the place of a sorted set of names.
func shapeAt(label string, names []string) (s shape) {
	s.label = label
	h := sha256.New()
	var n [8]byte
	for _, name := range names {
		binary.BigEndian.PutUint64(n[:], uint64(len(name)))
		_, _ = h.Write(n[:]) // a hash takes everything
		_, _ = h.Write([]byte(name))
	}
	copy(s.at[:], h.Sum(nil))
	return s
}

func (s shape) key(g uint32) key          { return newKey(g, spaceShape).str(s.label).id(s.at) }
func (s shape) member(g uint32, e id) key { return newKey(g, spaceShaped).str(s.label).id(s.at).id(e) }
func shapeOfKey(g uint32, e id) key       { return newKey(g, spaceShapeOf).id(e) }

// isMember is the value of a row that says no more than its key.
var isMember = []byte{1}

func (w writer) names(list []string) writer {
	w = w.uint(len(list))
	for _, n := range list {
		w = w.str(n)
	}
	return w
}

func (r *reader) names() []string {
	out := make([]string, 0, r.count())
	for range cap(out) {
		out = append(out, r.str())
	}
	return out
}

func encodeShape(names []string, entities int) []byte {
	return make(writer, 0, 64).uint(entities).names(names)
}

func decodeShape(b []byte, s *Shape) error {
	r := reader{b: b}
	s.Entities, s.Names = r.uint(), r.names()
	return r.err("shape")
}

func encodeShapeOf(label string, names []string) []byte {
	return make(writer, 0, 64).str(label).names(names)
}

func decodeShapeOf(b []byte) (label string, names []string, err error) {
	r := reader{b: b}
	label, names = r.str(), r.names()
	return label, names, r.err("shape of an entity")
}

// shapes gathers what a batch changes of them.
type shapes struct {
	// has says of entities which properties have values since this batch, or have none any more.
	has map[id]map[string]bool
	// by says how many entities more or fewer a shape has.
	by    map[shape]int
	names map[shape][]string
}

// gained notes that a property has its first value, or none any more. Of relations it is not kept.
func (s *shapes) gained(op ownerProp, has bool) {
	if s.has[op.owner] == nil {
		s.has[op.owner] = map[string]bool{}
	}
	s.has[op.owner][op.name] = has
}

func (s *shapes) count(at shape, names []string, by int) {
	s.by[at] += by
	s.names[at] = names
}

// emitShapes brings the rows up to date by which entities that lack a property are found, before entities themselves are. An entity that
// went, or has a property more or fewer, costs one look-up; others cost none.
func (t *Txn) emitShapes(s *shapes) error {
	for v, a := range t.ents {
		if (a.was == nil) == (a.fold.Documents > 0) && s.has[v] == nil {
			s.has[v] = nil
		}
	}
	for _, v := range slices.SortedFunc(maps.Keys(s.has), func(a, b id) int { return bytes.Compare(a[:], b[:]) }) {
		if err := t.emitShape(v, s); err != nil {
			return err
		}
	}
	order := slices.SortedFunc(maps.Keys(s.by), func(a, b shape) int {
		return cmp.Or(strings.Compare(a.label, b.label), bytes.Compare(a.at[:], b.at[:]))
	})
	for _, at := range order {
		if s.by[at] == 0 {
			continue
		}
		k := at.key(t.g.id)
		row, ok, err := t.load(k)
		if err != nil {
			return err
		}
		var was Shape
		if ok {
			if err := decodeShape(row, &was); err != nil {
				return fmt.Errorf("%s: %w", describe(k.with(t.seq)), err)
			}
		}
		var now []byte
		if n := was.Entities + s.by[at]; n > 0 {
			now = encodeShape(s.names[at], n)
		}
		t.put(k, now)
	}
	return nil
}

func (t *Txn) emitShape(v id, s *shapes) error {
	a, err := t.entity(v)
	if err != nil {
		return err
	}
	k := shapeOfKey(t.g.id, v)
	var row []byte
	had := false
	if a.was != nil { // else it was not there, and has no row
		if row, had, err = t.load(k); err != nil {
			return err
		}
	}
	var label string
	var before []string
	switch {
	case had:
		if label, before, err = decodeShapeOf(row); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(t.seq)), err)
		}
	case a.was != nil: // an older version wrote no row
		if before, err = t.namesOf(v); err != nil {
			return err
		}
	}
	there := a.fold.Documents > 0
	now := slices.Clone(before)
	for name, has := range s.has[v] {
		i, is := slices.BinarySearch(now, name)
		switch {
		case has && !is:
			now = slices.Insert(now, i, name)
		case !has && is:
			now = slices.Delete(now, i, i+1)
		}
		if has {
			if err := t.missesNoMore(v, name); err != nil {
				return err
			}
		}
	}
	if had == there && (!there || slices.Equal(before, now)) {
		return nil
	}
	if had {
		at := shapeAt(label, before)
		t.put(at.member(t.g.id, v), nil)
		s.count(at, before, -1)
	}
	if !there {
		t.put(k, nil)
		return nil
	}
	at := shapeAt(a.fold.Label, now)
	t.put(at.member(t.g.id, v), isMember)
	s.count(at, now, 1)
	t.put(k, encodeShapeOf(a.fold.Label, now))
	return nil
}

// missesNoMore forgets that people accepted that a value is missing: one came. Should it go again, they are asked again.
func (t *Txn) missesNoMore(v id, name string) error {
	if t.counts.Rulings == 0 {
		return nil
	}
	property := MissingProperty(name)
	_, ok, err := t.load(rulingKey(t.g.id, v, property))
	if err != nil || !ok {
		return err
	}
	return t.putRuling(v.String(), property, nil)
}

// namesOf are the properties of which an entity has values on disk.
func (t *Txn) namesOf(v id) (out []string, err error) {
	it, err := t.iter(false)
	if err != nil {
		return nil, err
	}
	prefix := newKey(t.g.id, spacePropFold).id(v)
	err = scanRows(it, prefix, nil, t.seq, false, func(rk key, _ []byte) error {
		r := keyReader{b: rk[len(prefix):]}
		if name := r.str(); len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// Shapes calls fn for each set of properties that entities of a label have values of.
func (sn *Snapshot) Shapes(label string, fn func(Shape) error) error {
	prefix := sn.key(spaceShape).str(label)
	return sn.scan(prefix, nil, func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		s := Shape{Label: label, at: r.id()}
		if err := decodeShape(b, &s); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(s)
	})
}

// Shaped calls fn for the entities of a shape, by id, behind one ("": from the first).
func (sn *Snapshot) Shaped(s Shape, behind string, fn func(entity string) error) error {
	prefix := sn.key(spaceShaped).str(s.Label).id(s.at)
	var from key
	if v, ok := parseID(behind); ok {
		from = prefix.clone().id(v).next()
	}
	return sn.scan(prefix, from, func(k key, _ []byte) error {
		r := keyReader{b: k[len(prefix):]}
		return fn(r.id().String())
	})
}

// HasValue says whether an entity or relation has a value of a property.
func (sn *Snapshot) HasValue(owner, name string) (has bool, err error) {
	err = sn.PropertyValues(owner, name, func(PropertyFold) error {
		has = true
		return ErrStop
	})
	return has, err
}

// Same says whether two shapes are one.
func (s Shape) Same(o Shape) bool { return s.Label == o.Label && s.at == o.at }

// ShapeOf is the shape of an entity, without the number of entities that have it; ok is false where the entity is not there.
func (sn *Snapshot) ShapeOf(entity string) (s Shape, ok bool, err error) {
	v, valid := parseID(entity)
	if !valid {
		return s, false, nil
	}
	ok, err = sn.get(shapeOfKey(sn.g.id, v), func(b []byte) (err error) {
		s.Label, s.Names, err = decodeShapeOf(b)
		return err
	})
	s.at = shapeAt(s.Label, s.Names).at
	return s, ok, err
}
