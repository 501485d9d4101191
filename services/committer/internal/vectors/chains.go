package vectors

// chains tie the names of a group together, newest first.
type chains struct {
	known  map[uint64]uint32 // group → its place
	groups []chain
	group  []uint32 // of each slot
	next   []uint32 // slot of the same group before it; its own number at the end
}

type chain struct {
	group uint64
	last  uint32 // slot
	n     uint32
}

func (c *chains) add(group uint64, slot uint32) {
	if c.known == nil {
		c.known = map[uint64]uint32{}
	}
	i, ok := c.known[group]
	before := slot
	if !ok {
		i = uint32(len(c.groups))
		c.known[group] = i
		c.groups = append(c.groups, chain{group: group})
	} else {
		before = c.groups[i].last
	}
	c.groups[i].last = slot
	c.groups[i].n++
	c.group = append(c.group, i)
	c.next = append(c.next, before)
}

// of is the group of a slot, 0 for none.
func (c *chains) of(slot uint32) uint64 {
	if int(slot) >= len(c.group) {
		return 0
	}
	return c.groups[c.group[slot]].group
}

func (c *chains) bytes() int64 {
	return int64(len(c.known))*24 + int64(cap(c.groups))*16 + int64(cap(c.group)+cap(c.next))*4
}
