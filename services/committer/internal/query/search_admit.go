package query

import (
	"cmp"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// maxStated is how many documents' assertions a search keeps, and maxEvidenced how many relations of an entity it looks at for one that
// an admitted document states.
const (
	maxStated    = 500
	maxEvidenced = 1000
)

// setFilters takes labels and relation types as the schema spells them.
func (s *search) setFilters(f api.Filters) {
	for _, l := range f.Labels {
		s.labels = append(s.labels, l)
		if canon, ok := s.v.schema.Canon(schema.KindEntity, l); ok && canon != l {
			s.labels = append(s.labels, canon)
		}
		if canon, _, ok := s.v.schema.CanonRelation(l); ok && canon != l {
			s.labels = append(s.labels, canon)
		}
	}
	for _, l := range f.RelationTypes {
		if canon, _, ok := s.v.schema.CanonRelation(l); ok {
			l = canon
		}
		s.relTypes = append(s.relTypes, l)
	}
	s.relTypes = unique(s.relTypes)
}

// filtered says whether anything is left out.
func (s *search) filtered() bool {
	return s.v.filter != nil || len(s.labels)+len(s.relTypes) > 0
}

// admit resolves a chunk by its number: ok where it is open and, by the filters, may be a hit itself or holds a relation that may be.
func (s *search) admit(no uint32) (c chunkHit, ok bool, err error) {
	ref, ok, err := s.v.sn.ChunkAt(no)
	if err != nil || !ok || !ref.Open {
		return c, false, err
	}
	if ok, err := s.v.admits(ref.DocID); err != nil || !ok {
		return c, false, err
	}
	c = chunkHit{no: no, index: ref.Index, terms: ref.Terms}
	if c.doc, err = s.v.at(ref.DocID, ref.Version); err != nil || c.index >= len(c.doc.meta.Chunks) {
		return c, false, err
	}
	if s.kinds[hitChunk] {
		if c.shown, err = s.admitsChunk(c); err != nil || c.shown {
			return c, c.shown, err
		}
	}
	if !s.kinds[hitRelation] {
		return c, false, nil
	}
	st, said, err := s.said(c)
	if err != nil || said == nil {
		return c, false, err
	}
	return c, slices.ContainsFunc(said.Relations, func(r graph.RelationA) bool { return s.admitsRelation(st, r) }), nil
}

// admitsChunk says whether a chunk mentions an entity that the labels admit, and states a relation of the types.
func (s *search) admitsChunk(c chunkHit) (bool, error) {
	if len(s.labels)+len(s.relTypes) == 0 {
		return true, nil
	}
	st, said, err := s.said(c)
	if err != nil || said == nil {
		return false, err
	}
	if len(s.relTypes) > 0 && !slices.ContainsFunc(said.Relations, func(r graph.RelationA) bool { return slices.Contains(s.relTypes, r.Type) }) {
		return false, nil
	}
	return len(s.labels) == 0 || slices.ContainsFunc(said.Mentions, func(m graph.Mention) bool { return s.admitsEnd(st, m.Entity) }), nil
}

// admitsRelation says whether a stated relation is of the types, and of the labels or with an end of one.
func (s *search) admitsRelation(st store.Stated, r graph.RelationA) bool {
	if len(s.relTypes) > 0 && !slices.Contains(s.relTypes, r.Type) {
		return false
	}
	return len(s.labels) == 0 || slices.Contains(s.labels, r.Type) || s.admitsEnd(st, r.Source) || s.admitsEnd(st, r.Target)
}

func (s *search) admitsEnd(st store.Stated, entity int) bool {
	return entity >= 0 && entity < len(st.Entities) && s.admitsLabel(st.Entities[entity].Label)
}

// admitsLabel says whether an entity type passes the labels.
func (s *search) admitsLabel(label string) bool {
	if len(s.labels) == 0 || slices.Contains(s.labels, label) {
		return true
	}
	return slices.ContainsFunc(s.v.labels(label), func(l string) bool { return slices.Contains(s.labels, l) })
}

// standsIn says whether an entity stands in a relation of the types that an admitted document states.
func (s *search) standsIn(id string) (ok bool, err error) {
	if len(s.relTypes) == 0 {
		return true, nil
	}
	looked := 0
	err = s.v.edges(id, walk{types: s.relTypes, out: true, in: true}, func(e store.Edge) error {
		if ok = s.v.filter == nil; !ok {
			err := s.v.sn.Evidence(e.Relation, "", func(x store.EvidenceSupport) (err error) {
				if ok, err = s.v.admits(x.DocID); err == nil && ok {
					return store.ErrStop
				}
				return cmp.Or(err, s.v.tick())
			})
			if err != nil {
				return err
			}
		}
		if looked++; ok || looked == maxEvidenced {
			return store.ErrStop
		}
		return nil
	})
	return ok, err
}

// said is what a chunk states, and what its document does; nil where that is nothing.
func (s *search) said(c chunkHit) (store.Stated, *graph.ChunkAssertions, error) {
	st, err := s.stated(c.doc)
	if err != nil {
		return st, nil, err
	}
	for i := range st.Chunks {
		if st.Chunks[i].Index == c.index {
			return st, &st.Chunks[i], nil
		}
	}
	return st, nil, nil
}

func (s *search) stated(d *docView) (store.Stated, error) {
	k := docAt{d.id, d.meta.Version}
	if st, ok := s.read[k]; ok {
		return st, nil
	}
	st, _, err := s.v.sn.Assertions(d.id, d.meta.Version)
	if err == nil {
		if len(s.read) >= maxStated {
			clear(s.read)
		}
		s.read[k] = st
	}
	return st, err
}

// spans are the chunk numbers of the documents that the filters name; nil where they name none.
func (s *search) spans() ([]lexical.Span, error) {
	if s.v.filter == nil || s.v.filter.docs == nil {
		return nil, nil
	}
	out := []lexical.Span{}
	for id := range s.v.filter.docs {
		d, ok, err := s.v.sn.Doc(id)
		if err != nil {
			return nil, err
		}
		if !ok || !d.Open {
			continue
		}
		at, err := s.v.at(id, d.Version)
		if err != nil {
			return nil, err
		}
		out = append(out, lexical.Span{From: at.meta.FirstNo, To: at.meta.FirstNo + uint32(len(at.meta.Chunks))})
	}
	slices.SortFunc(out, func(a, b lexical.Span) int { return cmp.Compare(a.From, b.From) })
	return out, nil
}
