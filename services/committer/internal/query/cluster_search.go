package query

import "github.com/factmill/factmill/pkg/api"

// clusterOf is the cluster of a hit; nil where nothing is linked, and for a hit that is no entity.
func (s *search) clusterOf(h hit) (*cluster, error) {
	if s.raw || h.kind != hitEntity {
		return nil, nil
	}
	c, ok := s.part[h.id]
	if ok {
		return c, nil
	}
	e, ok, err := s.v.sn.Entity(h.id)
	if err != nil || !ok {
		return nil, err
	}
	if c, err = s.v.clusterOf(e); err != nil {
		return nil, err
	}
	if len(c.members) < 2 {
		s.part[h.id] = nil
		return nil, nil
	}
	for _, m := range c.members {
		if s.part[m.ID] == nil { // clusters that were cut may differ
			s.part[m.ID] = c
		}
	}
	return c, nil
}

// members are those of a cluster that the filters leave something of; nil when that is the hit alone.
func (s *search) members(c *cluster, b *budget) (*api.HitCluster, error) {
	out := &api.HitCluster{Cut: c.of.cut}
	for _, m := range c.members {
		ok, err := s.v.mentioned(m.ID)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		name := m.Display()
		if !b.take(80 + textCost(name)) {
			out.Cut = true
			break
		}
		out.Members = append(out.Members, api.Member{ID: m.ID, Name: name})
	}
	if len(out.Members) < 2 {
		return nil, nil
	}
	out.ID = out.Members[0].ID
	return out, nil
}
