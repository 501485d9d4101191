package store

// Usage is the room that a store takes and has. All of it is known without reading rows.
type Usage struct {
	// Bytes on disk: tables, write-ahead log and what is being deleted.
	Bytes uint64
	// Free bytes of the disk; Known is false where nobody can tell.
	Free  uint64
	Known bool
	// Reserve of free bytes that commits leave alone.
	Reserve uint64
}

// Usage looks at the store's room.
func (s *Store) Usage() (u Usage, err error) {
	if err := s.enter(); err != nil {
		return u, err
	}
	defer s.exit()
	u.Bytes, u.Reserve = s.db.Metrics().DiskSpaceUsage(), s.opt.ReserveBytes
	u.Free, u.Known = s.space.free()
	return u, nil
}

// Changed counts the batches that changed raw rows of a space, over all graphs, since the store was opened: what counts such rows need not count
// them again while it stands.
func (s *Store) Changed(space byte) uint64 { return s.changed[space].Load() }
