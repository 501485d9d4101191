package store

// EntityNames calls fn for each entity under its merge key, by folded name, then id, behind the place after (zero: all).
func (sn *Snapshot) EntityNames(after NamedEntity, fn func(NamedEntity) error) error {
	prefix := sn.key(spaceName)
	var from key
	if v, ok := parseID(after.ID); ok {
		from = prefix.clone().str(after.Name).id(v).next()
	}
	return sn.names(prefix, from, func(n NamedEntity) error {
		if !n.Full {
			return nil
		}
		return fn(n)
	})
}
