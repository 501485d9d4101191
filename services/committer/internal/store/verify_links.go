package store

import (
	"bytes"
	"slices"

	"github.com/factmill/factmill/pkg/linkage"
)

// matches compares every entity anew with those that share a blocking key, and checks that the rows say the same; that blocks list what
// is there and nothing else.
func (v *verifier) matches() error {
	err := v.each(v.sn.key(spaceEntity), func(_ key, r *keyReader, val []byte) error {
		e := r.id()
		var f EntityFold
		if err := decodeEntity(val, &f); err != nil {
			return nil // reported by entities
		}
		return v.matchesOf(e, shownAs(&f))
	})
	if err != nil {
		return err
	}
	err = v.each(v.sn.key(spaceBlock), func(k key, r *keyReader, val []byte) error {
		b := block(r.take(blockLen))
		row, err := decodeBlock(val)
		if err != nil {
			return err
		}
		for _, e := range row.ids {
			if err := v.hasBlock(k, e, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.each(v.sn.key(spaceMore), func(k key, r *keyReader, _ []byte) error {
		b := block(r.take(blockLen))
		return v.hasBlock(k, r.id(), b)
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceMatch), func(k key, r *keyReader, val []byte) error {
		a, b := r.id(), r.id()
		for _, e := range []id{a, b} {
			if err := v.need(v.sn.key(spaceEntity).id(e), "a match of it"); err != nil {
				return err
			}
		}
		other := []byte(nil)
		_, err := v.get(v.sn.key(spaceMatch).id(b).id(a), func(row []byte) error {
			other = bytes.Clone(row)
			return nil
		})
		if err != nil {
			return err
		}
		if !bytes.Equal(other, val) {
			v.problem(k, "its other side says something else")
		}
		var m Match
		if err := decodeMatch(val, &m); err != nil {
			return err
		}
		if m.State == MatchConfirmed || m.State == MatchRejected {
			p := ordered(a, b)
			return v.need(v.sn.key(spaceVerdict).id(p[0]).id(p[1]), "the match is %s", m.State)
		}
		return nil
	})
}

// hasBlock reports a row that files an entity under a key which its name does not have.
func (v *verifier) hasBlock(k key, e id, b block) error {
	as, err := v.shown(e)
	if err != nil {
		return err
	}
	n := as.prepare()
	if as == (shown{}) || !slices.Contains(blocksOf(as.label, linkage.Blocks(&n)), b) {
		v.problem(k, "entity %s does not have that blocking key", e)
	}
	return nil
}

// verdict is the state that was decided about a pair; empty when nothing was.
func (v *verifier) verdict(p [2]id) (string, error) {
	var d Verdict
	_, err := v.get(v.sn.key(spaceVerdict).id(p[0]).id(p[1]), func(b []byte) error { return decodeJSON(b, &d) })
	return d.State, err
}

func (v *verifier) shown(e id) (shown, error) {
	var f EntityFold
	ok, err := v.get(v.sn.key(spaceEntity).id(e), func(b []byte) error { return decodeEntity(b, &f) })
	if err != nil || !ok {
		return shown{}, err
	}
	return shownAs(&f), nil
}

func (v *verifier) matchesOf(e id, as shown) error {
	name := as.prepare()
	for _, b := range blocksOf(as.label, linkage.Blocks(&name)) {
		listed, err := v.listed(b, e)
		if err != nil {
			return err
		}
		if !listed {
			v.problem(blockKey(v.sn.g.id, b), "missing: entity %s has that blocking key", e)
		}
	}
	want := map[id][]byte{}
	for _, b := range blocksOf(as.label, linkage.Probes(&name)) {
		n := 0
		err := v.block(b, func(o id) error {
			if n++; o == e || want[o] != nil || n > v.sn.s.opt.maxBlock {
				return nil
			}
			other, err := v.shown(o)
			if err != nil || other.label != as.label {
				return err
			}
			x := other.prepare()
			d, err := v.verdict(ordered(e, o))
			if err != nil {
				return err
			}
			if row := matchRow(linkage.Compare(&name, &x, linkage.Options{}), d); row != nil {
				want[o] = row
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n > v.sn.s.opt.maxBlock {
			return nil // which pairs were compared depends on their order
		}
	}
	prefix := v.sn.key(spaceMatch).id(e)
	err := v.each(prefix, func(k key, _ *keyReader, val []byte) error {
		r := keyReader{b: k[len(prefix):]}
		o := r.id()
		if !bytes.Equal(want[o], val) {
			v.problem(k, "the names compare otherwise")
		}
		delete(want, o)
		return nil
	})
	for _, o := range inOrder(want) {
		v.problem(v.sn.key(spaceMatch).id(e).id(o), "missing: the names match")
	}
	return err
}

func (v *verifier) listed(b block, e id) (found bool, err error) {
	if found, err = v.has(moreKey(v.sn.g.id, b, e)); err != nil || found {
		return found, err
	}
	_, err = v.get(blockKey(v.sn.g.id, b), func(val []byte) error {
		row, err := decodeBlock(val)
		found = slices.Contains(row.ids, e)
		return err
	})
	return found, err
}

// block calls fn for each entity of a block.
func (v *verifier) block(b block, fn func(id) error) error {
	var row blockRow
	_, err := v.get(blockKey(v.sn.g.id, b), func(val []byte) (err error) {
		row, err = decodeBlock(val)
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range row.ids {
		if err := fn(o); err != nil {
			return err
		}
	}
	if !row.more {
		return nil
	}
	prefix := morePrefix(v.sn.g.id, b)
	return v.sn.scan(prefix, nil, func(k key, _ []byte) error {
		r := keyReader{b: k[len(prefix):]}
		return fn(r.id())
	})
}
