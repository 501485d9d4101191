package store

import "fmt"

// Matches calls fn for each match of an entity, by the other's id.
func (sn *Snapshot) Matches(entity string, fn func(Match) error) error {
	v, ok := parseID(entity)
	if !ok {
		return nil
	}
	return sn.matches(sn.key(spaceMatch).id(v), nil, func(a, b id, m Match) error { return fn(m) })
}

// MatchesAll calls fn for each match once, in the order of its ends, behind the pair after (zero: all).
func (sn *Snapshot) MatchesAll(after Match, fn func(Match) error) error {
	var from key
	if a, ok := parseID(after.A); ok {
		b, _ := parseID(after.B)
		from = sn.key(spaceMatch).id(a).id(b).next()
	}
	return sn.matches(sn.key(spaceMatch), from, func(a, b id, m Match) error {
		if a != ordered(a, b)[0] {
			return nil
		}
		return fn(m)
	})
}

func (sn *Snapshot) matches(prefix, from key, fn func(a, b id, m Match) error) error {
	return sn.scan(prefix, from, func(k key, v []byte) error {
		r := readKey(k)
		a, b := r.id(), r.id()
		p := ordered(a, b)
		m := Match{A: p[0].String(), B: p[1].String()}
		if err := decodeMatch(v, &m); err != nil {
			return fmt.Errorf("%w: %s", err, describe(k.with(sn.seq)))
		}
		return fn(a, b, m)
	})
}

// Match is the match of a pair; ok is false when there is none.
func (sn *Snapshot) Match(a, b string) (m Match, ok bool, err error) {
	x, ok1 := parseID(a)
	y, ok2 := parseID(b)
	if !ok1 || !ok2 {
		return m, false, nil
	}
	p := ordered(x, y)
	m = Match{A: p[0].String(), B: p[1].String()}
	ok, err = sn.get(sn.key(spaceMatch).id(p[0]).id(p[1]), func(v []byte) error { return decodeMatch(v, &m) })
	return m, ok, err
}

// MatchByID is the match with an id; ok is false when there is none.
func (sn *Snapshot) MatchByID(matchID string) (m Match, ok bool, err error) {
	v, valid := parseID(matchID)
	if !valid {
		return m, false, nil
	}
	var p [2]id
	ok, err = sn.get(sn.key(spaceMatchID).id(v), func(b []byte) error {
		r := reader{b: b}
		p[0], p[1] = r.id(), r.id()
		return r.err("match id")
	})
	if err != nil || !ok {
		return m, false, err
	}
	return sn.Match(p[0].String(), p[1].String())
}

// Verdict is what was decided about a pair; ok is false when nothing was.
func (sn *Snapshot) Verdict(a, b string) (d Verdict, ok bool, err error) {
	x, ok1 := parseID(a)
	y, ok2 := parseID(b)
	if !ok1 || !ok2 {
		return d, false, nil
	}
	p := ordered(x, y)
	ok, err = sn.get(sn.key(spaceVerdict).id(p[0]).id(p[1]), func(v []byte) error { return decodeJSON(v, &d) })
	return d, ok, err
}

// Verdicts calls fn for each decision about a pair, whether its entities are there or not, in the order of its ends, behind the pair
// after (zero: all).
func (sn *Snapshot) Verdicts(after Verdict, fn func(Verdict) error) error {
	var from key
	if a, ok := parseID(after.A); ok {
		b, _ := parseID(after.B)
		from = sn.key(spaceVerdict).id(a).id(b).next()
	}
	return sn.scan(sn.key(spaceVerdict), from, func(k key, v []byte) error {
		var d Verdict
		if err := decodeJSON(v, &d); err != nil {
			return fmt.Errorf("%s: %w", describe(k.with(sn.seq)), err)
		}
		return fn(d)
	})
}
