package store

import "bytes"

// matches checks that both ends of a match are there, that its two rows say the same, and that what a person decided about it does.
// Whether names match is the linker's to check.
func (v *verifier) matches() error {
	v.found.Matches = map[string]int{}
	if err := v.matchIDs(); err != nil {
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
		there, err := v.get(matchKey(v.sn.g.id, b, a), func(row []byte) error {
			other = bytes.Clone(row)
			return nil
		})
		if err != nil {
			return err
		}
		if !there {
			v.problem(matchKey(v.sn.g.id, b, a), "missing: its other side is there")
		} else if !bytes.Equal(other, val) {
			v.problem(k, "its other side says something else")
		}
		var m Match
		if err := decodeMatch(val, &m); err != nil {
			return err
		}
		p := ordered(a, b)
		if a == p[0] {
			v.found.Matches[m.State()]++
			k, err := matchIDKey(v.sn.g.id, p)
			if err != nil {
				return err
			}
			if err := v.need(k, "the match is there"); err != nil {
				return err
			}
		}
		var d Verdict
		there, err = v.get(verdictKey(v.sn.g.id, p), func(b []byte) error { return decodeJSON(b, &d) })
		if err != nil {
			return err
		}
		switch {
		case !there && m.Decided != "":
			v.problem(verdictKey(v.sn.g.id, p), "missing: the match is %s", m.Decided)
		case d.State != m.Decided:
			v.problem(k, "it is decided %q, the decision says %q", m.Decided, d.State)
		}
		return nil
	})
}

// matchIDs checks that an id leads to a match that is there, and is its.
func (v *verifier) matchIDs() error {
	return v.each(v.sn.key(spaceMatchID), func(k key, _ *keyReader, val []byte) error {
		r := reader{b: val}
		p := [2]id{r.id(), r.id()}
		if err := r.err("match id"); err != nil {
			return err
		}
		own, err := matchIDKey(v.sn.g.id, p)
		if err != nil {
			return err
		}
		if !bytes.Equal(own, k) {
			v.problem(k, "it leads to %s/%s, whose id it is not", p[0], p[1])
			return nil
		}
		there, err := v.has(matchKey(v.sn.g.id, p[0], p[1]))
		if err == nil && !there {
			v.problem(k, "it leads to a match that is not there")
		}
		return err
	})
}
