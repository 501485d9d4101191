package store

import "fmt"

// Entity reads an entity's fold; ok is false when no open document mentions it.
func (sn *Snapshot) Entity(entityID string) (f EntityFold, ok bool, err error) {
	v, valid := parseID(entityID)
	if !valid {
		return f, false, nil
	}
	ok, err = sn.get(sn.key(spaceEntity).id(v), func(b []byte) error { return decodeEntity(b, &f) })
	f.ID = entityID
	return f, ok, err
}

// EntitiesNamed lists the entities that have a folded name: those whose merge key it is first, then by id.
func (sn *Snapshot) EntitiesNamed(folded string) ([]NamedEntity, error) {
	var full, alias []NamedEntity
	err := sn.names(sn.key(spaceName).str(folded), nil, func(n NamedEntity) error {
		if n.Full {
			full = append(full, n)
		} else {
			alias = append(alias, n)
		}
		return nil
	})
	return append(full, alias...), err
}

// EntityNamePrefix lists at most limit (0: all) names that begin with a folded text, in order.
func (sn *Snapshot) EntityNamePrefix(folded string, limit int) ([]NamedEntity, error) {
	var out []NamedEntity
	err := sn.names(sn.key(spaceName).part(folded), nil, func(n NamedEntity) error {
		out = append(out, n)
		if len(out) == limit {
			return ErrStop
		}
		return nil
	})
	return out, err
}

func (sn *Snapshot) names(prefix, from key, fn func(NamedEntity) error) error {
	return sn.scan(prefix, from, func(k key, v []byte) error {
		kr := readKey(k)
		n := NamedEntity{Name: kr.str(), ID: kr.id().String()}
		r := reader{b: v}
		n.Label, n.Full = r.str(), r.bool()
		if err := r.err("name"); err != nil || !kr.done() {
			return fmt.Errorf("%w: %s", ErrCorrupt, describe(k.with(sn.seq)))
		}
		return fn(n)
	})
}

// behind is the key from which a scan goes on after the row of id after; nil begins at the first.
func behind(prefix key, after string) key {
	v, ok := parseID(after)
	if !ok {
		return nil
	}
	return prefix.clone().id(v).next()
}

// Mentions calls fn for each open document that mentions an entity, by document id, behind document afterDoc ("": all).
func (sn *Snapshot) Mentions(entityID, afterDoc string, fn func(MentionSupport) error) error {
	v, ok := parseID(entityID)
	if !ok {
		return nil
	}
	prefix := sn.key(spaceMention).id(v)
	return sn.scan(prefix, behind(prefix, afterDoc), func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		m := MentionSupport{DocID: r.id().String()}
		if err := decodeMentions(b, &m); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(m)
	})
}

// PropertyFolds lists the values of every property of an entity or relation, by name, then value key.
func (sn *Snapshot) PropertyFolds(owner string) ([]PropertyFold, error) {
	v, ok := parseID(owner)
	if !ok {
		return nil, nil
	}
	var out []PropertyFold
	prefix := sn.key(spacePropFold).id(v)
	err := sn.scan(prefix, nil, func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		f := PropertyFold{Owner: owner, Name: r.str()}
		if err := decodePropFold(b, &f); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		out = append(out, f)
		return nil
	})
	return out, err
}

// PropertySupports calls fn for each open document that states a value, by document id.
func (sn *Snapshot) PropertySupports(owner, name string, value any, fn func(EvidenceSupport) error) error {
	v, ok := parseID(owner)
	vk, err := valueKey(value)
	if !ok || err != nil {
		return err
	}
	return sn.supports(sn.key(spaceProp).id(v).str(name).str(vk), nil, fn)
}

func (sn *Snapshot) supports(prefix, from key, fn func(EvidenceSupport) error) error {
	return sn.scan(prefix, from, func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		e := EvidenceSupport{DocID: r.id().String()}
		if err := decodeEvidence(b, &e); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(e)
	})
}

// Relation reads a relation's fold; ok is false when no open document states it.
func (sn *Snapshot) Relation(relationID string) (f RelationFold, ok bool, err error) {
	v, valid := parseID(relationID)
	if !valid {
		return f, false, nil
	}
	ok, err = sn.get(sn.key(spaceRelation).id(v), func(b []byte) error { return decodeRelation(b, &f) })
	f.ID = relationID
	return f, ok, err
}

// Evidence calls fn for each open document that states a relation, by document id, behind document afterDoc ("": all).
func (sn *Snapshot) Evidence(relationID, afterDoc string, fn func(EvidenceSupport) error) error {
	v, ok := parseID(relationID)
	if !ok {
		return nil
	}
	prefix := sn.key(spaceEvidence).id(v)
	return sn.supports(prefix, behind(prefix, afterDoc), fn)
}

// Out calls fn for each relation that begins at an entity, of one type ("": all), by type and target.
func (sn *Snapshot) Out(source, relType string, fn func(Edge) error) error {
	return sn.edges(spaceOut, source, relType, fn)
}

// In calls fn for each relation that ends at an entity, of one type ("": all), by type and source.
func (sn *Snapshot) In(target, relType string, fn func(Edge) error) error {
	return sn.edges(spaceIn, target, relType, fn)
}

func (sn *Snapshot) edges(space byte, at, relType string, fn func(Edge) error) error {
	v, ok := parseID(at)
	if !ok {
		return nil
	}
	head := sn.key(space).id(v)
	prefix := head
	if relType != "" {
		prefix = head.clone().str(relType)
	}
	return sn.scan(prefix, nil, func(k key, b []byte) error {
		kr := keyReader{b: k[len(head):]}
		r := reader{b: b}
		e := Edge{Type: kr.str(), Other: kr.id().String(), Relation: r.id().String()}
		if err := r.err("edge"); err != nil || !kr.done() {
			return fmt.Errorf("%w: %s", ErrCorrupt, describe(k.with(sn.seq)))
		}
		return fn(e)
	})
}

// EntitiesAll calls fn for each entity in the order of ids, behind id after ("": all).
func (sn *Snapshot) EntitiesAll(after string, fn func(EntityFold) error) error {
	prefix := sn.key(spaceEntity)
	return sn.scan(prefix, behind(prefix, after), func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		f := EntityFold{ID: r.id().String()}
		if err := decodeEntity(b, &f); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(f)
	})
}

// RelationsAll calls fn for each relation in the order of ids, behind id after ("": all).
func (sn *Snapshot) RelationsAll(after string, fn func(RelationFold) error) error {
	prefix := sn.key(spaceRelation)
	return sn.scan(prefix, behind(prefix, after), func(k key, b []byte) error {
		r := keyReader{b: k[len(prefix):]}
		f := RelationFold{ID: r.id().String()}
		if err := decodeRelation(b, &f); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(f)
	})
}
