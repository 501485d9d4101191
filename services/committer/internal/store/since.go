package store

// sinceOf is the commit that wrote a row as it is; 0 where there is none.
func (sn *Snapshot) sinceOf(k key) (seq uint64, err error) {
	it, err := sn.borrow()
	if err != nil {
		return 0, err
	}
	defer sn.giveBack(it)
	_, ok, err := seekRow(it, k, sn.seq)
	if err != nil || !ok {
		return 0, err
	}
	_, seq, _ = splitRow(it.Key())
	return seq, nil
}

// MatchSince is the commit since which a match is as it is; 0 where there is none.
func (sn *Snapshot) MatchSince(m Match) (uint64, error) {
	p, err := pairOf(m.A, m.B)
	if err != nil {
		return 0, err
	}
	return sn.sinceOf(matchKey(sn.g.id, p[0], p[1]))
}

// ConflictSince is the commit since which a property has as many values, or an entity as many relations of a type, as it has; 0 where there is
// no row of it, as of values that are missing.
func (sn *Snapshot) ConflictSince(c Conflict) (uint64, error) {
	owner, ok := parseID(c.Owner)
	if !ok {
		return 0, nil
	}
	if relType, side, is := ParseDegreeProperty(c.Property); is {
		return sn.sinceOf(degreeAt{entity: owner, typ: relType, side: side}.key(sn.g.id))
	}
	k, err := conflictKey(sn.g.id, owner, c.Property)
	if err != nil {
		return 0, err
	}
	return sn.sinceOf(k)
}
