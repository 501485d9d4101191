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

// Sides of Degree: relations that begin at an entity, and those that end there.
const (
	SideOut = ":source"
	SideIn  = ":target"
)

// Degree is an entity with two or more relations of a type on one side. Whether it may have several is the schema's to say.
type Degree struct {
	Entity    string
	Type      string
	Side      string // SideOut or SideIn
	Relations int
}

// DegreeProperty stands for the property of conflicts of relations: the type and the side.
func DegreeProperty(relType, side string) string { return relType + side }

// ParseDegreeProperty takes it apart; ok is false for the name of a property.
func ParseDegreeProperty(property string) (relType, side string, ok bool) {
	for _, side := range []string{SideOut, SideIn} {
		if relType, ok := strings.CutSuffix(property, side); ok {
			return relType, side, true
		}
	}
	return "", "", false
}

// degreeAt names the relations of one type on one side of an entity.
type degreeAt struct {
	typ, side string
	entity    id
}

func (d degreeAt) key(g uint32) key { return newKey(g, spaceDegree).str(d.typ + d.side).id(d.entity) }

func (d degreeAt) edges(g uint32) key {
	space := byte(spaceOut)
	if d.side == SideIn {
		space = spaceIn
	}
	return newKey(g, space).id(d.entity).str(d.typ)
}

// idKey is that of the row by which the id of their conflict leads to them.
func (d degreeAt) idKey(g uint32) (key, error) {
	v, err := mustID(fingerprint.ConflictID(d.entity.String(), DegreeProperty(d.typ, d.side)))
	return newKey(g, spaceDegreeID).id(v), err
}

// lead is the value of that row.
func (d degreeAt) lead() []byte { return make(writer, 0, 48).id(d.entity).str(d.typ).str(d.side) }

func degreeRow(relations int) []byte { return make(writer, 0, 8).uint(relations) }

// emitDegrees brings the rows of degrees up to date. by says how many relations of each this batch brings or takes. An entity without a
// row costs a look at its relations, of which there is one at most; where an older version wrote no row, they are counted.
func (t *Txn) emitDegrees(by map[degreeAt]int) error {
	order := slices.SortedFunc(maps.Keys(by), func(a, b degreeAt) int {
		return cmp.Or(strings.Compare(a.typ+a.side, b.typ+b.side), bytes.Compare(a.entity[:], b.entity[:]))
	})
	for _, d := range order {
		if by[d] == 0 {
			continue
		}
		k := d.key(t.g.id)
		before, was, err := t.degree(d, k)
		if err != nil {
			return err
		}
		now := before + by[d]
		if !was && now < 2 {
			continue
		}
		var row, lead []byte
		if now >= 2 {
			row, lead = degreeRow(now), d.lead()
		}
		t.put(k, row)
		if was == (now >= 2) {
			continue
		}
		ik, err := d.idKey(t.g.id)
		if err != nil {
			return err
		}
		t.put(ik, lead)
	}
	return nil
}

// degree is how many relations there were before this batch; was says that a row counts them.
func (t *Txn) degree(d degreeAt, k key) (n int, was bool, err error) {
	if e := t.ents[d.entity]; e != nil && e.was == nil {
		return 0, false, nil // it was not there
	}
	row, ok, err := t.load(k)
	if err != nil {
		return 0, false, err
	}
	if ok {
		r := reader{b: row}
		n = r.uint()
		return n, true, r.err("degree")
	}
	it, err := t.iter(false)
	if err != nil {
		return 0, false, err
	}
	err = scanRows(it, d.edges(t.g.id), nil, t.seq, false, func(key, []byte) error { n++; return nil })
	return n, false, err
}

// Degrees calls fn for each entity with two or more relations of a type on a side, by id.
func (sn *Snapshot) Degrees(relType, side string, fn func(Degree) error) error {
	prefix := sn.key(spaceDegree).str(relType + side)
	return sn.scan(prefix, nil, func(k key, b []byte) error {
		kr := keyReader{b: k[len(prefix):]}
		r := reader{b: b}
		d := Degree{Entity: kr.id().String(), Type: relType, Side: side, Relations: r.uint()}
		if err := r.err("degree"); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(d)
	})
}

// DegreeByID is that of a conflict's id; ok is false where there are fewer than two relations.
func (sn *Snapshot) DegreeByID(conflictID string) (d Degree, ok bool, err error) {
	v, valid := parseID(conflictID)
	if !valid {
		return d, false, nil
	}
	var entity id
	ok, err = sn.get(sn.key(spaceDegreeID).id(v), func(b []byte) error {
		r := reader{b: b}
		entity, d.Type, d.Side = r.id(), r.str(), r.str()
		return r.err("degree id")
	})
	if err != nil || !ok {
		return d, false, err
	}
	d.Entity = entity.String()
	ok, err = sn.get(degreeAt{d.Type, d.Side, entity}.key(sn.g.id), func(b []byte) error {
		r := reader{b: b}
		d.Relations = r.uint()
		return r.err("degree")
	})
	return d, ok, err
}

// degrees counts the relations of every entity and checks that those with several, and no others, have a row, and are found by an id.
func (v *verifier) degrees() error {
	for _, side := range []string{SideOut, SideIn} {
		space := byte(spaceOut)
		if side == SideIn {
			space = spaceIn
		}
		var at degreeAt
		n := 0
		done := func() error {
			if n < 2 {
				return nil
			}
			k := at.key(v.sn.g.id)
			got := 0
			ok, err := v.get(k, func(b []byte) error { r := reader{b: b}; got = r.uint(); return r.err("degree") })
			switch {
			case err != nil:
				return err
			case !ok:
				v.problem(k, "missing: %s has %d relations %s%s", at.entity, n, at.typ, side)
			case got != n:
				v.problem(k, "it counts %d relations, there are %d", got, n)
			}
			return nil
		}
		err := v.each(v.sn.key(space), func(_ key, r *keyReader, _ []byte) error {
			e, typ := r.id(), r.str()
			if d := (degreeAt{typ, side, e}); d != at {
				if err := done(); err != nil {
					return err
				}
				at, n = d, 0
			}
			n++
			return nil
		})
		if err == nil {
			err = done()
		}
		if err != nil {
			return err
		}
	}
	return v.degreeRows()
}

func (v *verifier) degreeRows() error {
	err := v.each(v.sn.key(spaceDegree), func(k key, kr *keyReader, val []byte) error {
		typ, side, ok := ParseDegreeProperty(kr.str())
		d := degreeAt{typ, side, kr.id()}
		r := reader{b: val}
		n := r.uint()
		if err := r.err("degree"); err != nil {
			return err
		}
		found := 0
		if ok {
			err := v.each(d.edges(v.sn.g.id), func(key, *keyReader, []byte) error {
				if found++; found == 2 {
					return ErrStop
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		if found < 2 || n < 2 {
			v.problem(k, "it counts %d relations, there are fewer than two", n)
			return nil
		}
		ik, err := d.idKey(v.sn.g.id)
		if err != nil {
			return err
		}
		return v.need(ik, "%s has %d relations %s%s", d.entity, n, typ, side)
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceDegreeID), func(k key, _ *keyReader, val []byte) error {
		r := reader{b: val}
		d := degreeAt{entity: r.id(), typ: r.str(), side: r.str()}
		if err := r.err("degree id"); err != nil {
			return err
		}
		own, err := d.idKey(v.sn.g.id)
		if err != nil {
			return err
		}
		if !bytes.Equal(own, k) {
			v.problem(k, "it leads to relations %s%s of %s, whose id it is not", d.typ, d.side, d.entity)
			return nil
		}
		return v.need(d.key(v.sn.g.id), "its id leads to it")
	})
}
