package store

import (
	"bytes"
	"slices"
)

// shapes checks that each entity is found by the properties that it has values of, and by no others, and that each shape counts its entities.
func (v *verifier) shapes() error {
	for _, pass := range []func() error{v.shapeOfEntities, v.shapeMembers, v.shapeRows} {
		if err := pass(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) shapeOfEntities() error {
	err := v.each(v.sn.key(spaceEntity), func(_ key, kr *keyReader, val []byte) error {
		e := kr.id()
		var f EntityFold
		if err := decodeEntity(val, &f); err != nil {
			return nil // entities said so
		}
		var names []string
		err := v.each(v.sn.key(spacePropFold).id(e), func(_ key, pr *keyReader, _ []byte) error {
			pr.id()
			if name := pr.str(); len(names) == 0 || names[len(names)-1] != name {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		k := shapeOfKey(v.sn.g.id, e)
		ok, err := v.get(k, func(b []byte) error {
			label, has, err := decodeShapeOf(b)
			if err == nil && (label != f.Label || !slices.Equal(has, names)) {
				v.problem(k, "it says that %s %s has values of %q, it has of %q", label, e, has, names)
			}
			return err
		})
		if err == nil && !ok {
			v.problem(k, "missing: there is %s %q", f.Label, f.Display())
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceShapeOf), func(k key, kr *keyReader, val []byte) error {
		e := kr.id()
		label, names, err := decodeShapeOf(val)
		if err != nil {
			return err
		}
		there, err := v.has(v.sn.key(spaceEntity).id(e))
		if err != nil {
			return err
		}
		if !there {
			v.problem(k, "its entity is missing")
		}
		return v.need(shapeAt(label, names).member(v.sn.g.id, e), "%s %s has values of %q", label, e, names)
	})
}

func (v *verifier) shapeMembers() error {
	var at shape
	n := 0
	done := func() error {
		if n == 0 {
			return nil
		}
		k := at.key(v.sn.g.id)
		ok, err := v.get(k, func(b []byte) error {
			var s Shape
			err := decodeShape(b, &s)
			if err == nil && s.Entities != n {
				v.problem(k, "it counts %d entities, there are %d", s.Entities, n)
			}
			return err
		})
		if err == nil && !ok {
			v.problem(k, "missing: %d entities %s have these properties", n, at.label)
		}
		return err
	}
	err := v.each(v.sn.key(spaceShaped), func(k key, kr *keyReader, _ []byte) error {
		s := shape{kr.str(), kr.id()}
		if s != at {
			if err := done(); err != nil {
				return err
			}
			at, n = s, 0
		}
		n++
		own := false
		_, err := v.get(shapeOfKey(v.sn.g.id, kr.id()), func(b []byte) error {
			label, names, err := decodeShapeOf(b)
			own = err == nil && shapeAt(label, names) == s
			return err
		})
		if err == nil && !own {
			v.problem(k, "its entity has other properties")
		}
		return err
	})
	if err == nil {
		err = done()
	}
	return err
}

func (v *verifier) shapeRows() error {
	return v.each(v.sn.key(spaceShape), func(k key, kr *keyReader, val []byte) error {
		at := shape{kr.str(), kr.id()}
		var s Shape
		if err := decodeShape(val, &s); err != nil {
			return err
		}
		if own := shapeAt(at.label, s.Names).key(v.sn.g.id); !bytes.Equal(own, k) {
			v.problem(k, "it is of the properties %q, whose place is another", s.Names)
			return nil
		}
		some := false
		err := v.each(v.sn.key(spaceShaped).str(at.label).id(at.at), func(key, *keyReader, []byte) error {
			some = true
			return ErrStop
		})
		if err == nil && !some {
			v.problem(k, "it counts %d entities, there are none", s.Entities)
		}
		return err
	})
}

// missed checks a ruling that accepts that a value is missing: none may be there.
func (v *verifier) missed(k key, owner id, property string) error {
	name, ok := ParseMissing(property)
	if !ok {
		return nil
	}
	some := false
	err := v.each(v.sn.key(spacePropFold).id(owner).str(name), func(key, *keyReader, []byte) error {
		some = true
		return ErrStop
	})
	if err == nil && some {
		v.problem(k, "it accepts that a value of %s is missing, and there is one", name)
	}
	return err
}
