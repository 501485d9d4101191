package store

import (
	"fmt"
	"strings"
)

// pass goes over the rows of one space. Rows whose keys begin with the same parts are one group.
type pass struct {
	name  string
	space byte
	parts func(r *keyReader)
	// group is told, of each group, what its keys begin with, its first key, how many rows it has, and the value of the first.
	group func(m *migration, group, first key, n int, val []byte) error
}

func idPart(r *keyReader)      { r.id() }
func idAndStr(r *keyReader)    { r.id(); r.str() }
func strAndID(r *keyReader)    { r.str(); r.id() }
func idAndNameOf(r *keyReader) { r.id(); r.id() }

// passes from format 1 to 2, in their order: the shapes are counted over what the entities' pass writes.
var passes = []pass{
	gone("old conflicts", spaceConflict), gone("old degrees", spaceDegree), gone("old degree ids", spaceDegreeID), gone("old shapes", spaceShape),
	gone("old members", spaceShaped), gone("old entities", spaceShapeOf), gone("old match ids", spaceMatchID),
	{"conflicts", spacePropFold, idAndStr, (*migration).conflict},
	{"relations out", spaceOut, idAndStr, degreePass(SideOut)},
	{"relations in", spaceIn, idAndStr, degreePass(SideIn)},
	{"entities", spaceEntity, idPart, (*migration).shapeOf},
	{"shapes", spaceShaped, strAndID, (*migration).shape},
	{"candidates", spaceCand, idAndStr, (*migration).candidate},
	{"matches", spaceMatch, idAndNameOf, (*migration).match},
	{"decisions", spaceDecision, func(r *keyReader) { r.str() }, (*migration).decision},
}

// gone takes away the rows of a space.
func gone(name string, space byte) pass {
	return pass{name, space, func(r *keyReader) { r.b = nil }, func(m *migration, group, _ key, _ int, _ []byte) error { return m.put(group, nil) }}
}

func (m *migration) conflict(_, first key, n int, _ []byte) error {
	if n < 2 {
		return nil
	}
	r := readKey(first)
	owner, name := r.id(), r.str()
	k, err := conflictKey(m.sn.g.id, owner, name)
	if err != nil {
		return err
	}
	class, err := m.classOf(owner, name)
	if err != nil {
		return err
	}
	if m.at.Conflicts == nil {
		m.at.Conflicts = map[string]int{}
	}
	m.at.Conflicts[class]++
	return m.put(k, Conflict{Property: name, Values: n}.row(owner))
}

func (m *migration) classOf(owner id, name string) (class string, err error) {
	ok, err := m.sn.get(m.sn.key(spaceEntity).id(owner), func(b []byte) error {
		var f EntityFold
		err := decodeEntity(b, &f)
		class = ConflictClass(ConflictOfEntity, f.Label, name)
		return err
	})
	if err != nil || ok {
		return class, err
	}
	ok, err = m.sn.get(m.sn.key(spaceRelation).id(owner), func(b []byte) error {
		var f RelationFold
		err := decodeRelation(b, &f)
		class = ConflictClass(ConflictOfRelation, f.Type, name)
		return err
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s has values and is not there", ErrCorrupt, owner)
	}
	return class, err
}

func degreePass(side string) func(*migration, key, key, int, []byte) error {
	return func(m *migration, _, first key, n int, _ []byte) error {
		if n < 2 {
			return nil
		}
		r := readKey(first)
		d := degreeAt{entity: r.id(), typ: r.str(), side: side}
		ik, err := d.idKey(m.sn.g.id)
		if err != nil {
			return err
		}
		return errorsJoin(m.put(d.key(m.sn.g.id), degreeRow(n)), m.put(ik, d.lead()))
	}
}

func (m *migration) shapeOf(_, first key, _ int, val []byte) error {
	r := readKey(first)
	v := r.id()
	var f EntityFold
	if err := decodeEntity(val, &f); err != nil {
		return fmt.Errorf("%s: %w", describe(first), err)
	}
	var names []string
	prefix := m.sn.key(spacePropFold).id(v)
	err := m.sn.scan(prefix, nil, func(k key, _ []byte) error {
		pr := keyReader{b: k[len(prefix):]}
		if name := pr.str(); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errorsJoin(m.put(shapeAt(f.Label, names).member(m.sn.g.id, v), isMember), m.put(shapeOfKey(m.sn.g.id, v), encodeShapeOf(f.Label, names)))
}

func (m *migration) shape(_, first key, n int, _ []byte) error {
	r := readKey(first)
	at := shape{label: r.str(), at: r.id()}
	member := r.id()
	var names []string
	ok, err := m.sn.get(shapeOfKey(m.sn.g.id, member), func(b []byte) (err error) {
		_, names, err = decodeShapeOf(b)
		return err
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s is not there", ErrCorrupt, describe(shapeOfKey(m.sn.g.id, member)))
	}
	if err != nil {
		return err
	}
	return m.put(at.key(m.sn.g.id), encodeShape(names, n))
}

func (m *migration) candidate(_, first key, _ int, val []byte) error {
	r := readKey(first)
	doc := r.id()
	var rec CandidateRecord
	if err := decodeJSON(val, &rec); err != nil {
		return fmt.Errorf("%s: %w", describe(first), err)
	}
	k, err := candIDKey(m.sn.g.id, rec.ID)
	if err != nil {
		return err
	}
	return m.put(k, candLead(doc, rec.Key))
}

func (m *migration) match(_, first key, _ int, _ []byte) error {
	r := readKey(first)
	a, b := r.id(), r.id()
	p := ordered(a, b)
	if a != p[0] {
		return nil // its other side says the same
	}
	k, err := matchIDKey(m.sn.g.id, p)
	if err != nil {
		return err
	}
	return m.put(k, matchLead(p))
}

func (m *migration) decision(_, _ key, _ int, val []byte) error {
	var d Decision
	if err := decodeJSON(val, &d); err != nil {
		return err
	}
	if strings.HasPrefix(d.Key, "stale|") {
		return nil
	}
	if m.at.Decided == nil {
		m.at.Decided = map[string]int{}
	}
	m.at.Decided[d.State]++
	return nil
}

// counts puts what the passes counted into the graph's counts.
func (m *migration) counts() error {
	c, err := m.sn.Counts()
	if err != nil || m.sn.seq == 0 {
		return err
	}
	c = c.clone()
	c.Conflicts, c.Decided = m.at.Conflicts, m.at.Decided
	row, err := encodeJSON(c)
	if err != nil {
		return err
	}
	return m.put(m.sn.key(spaceCounts), row)
}
