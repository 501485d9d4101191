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

// IDLen is the length of an ID.
const IDLen = idLen

// ID is a UUID in 16 bytes; it sorts as its text does.
type ID = id

// ParseID reads the text form of a UUID.
func ParseID(s string) (ID, bool) { return parseID(s) }
