package query

import (
	"context"
	"errors"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/lexical"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Modes of a search.
const (
	modeLexical = "lexical"
	modeVector  = "vector"
	modeHybrid  = "hybrid"
)

// maxNear is how many of the nearest vectors are looked at for those that the filters admit.
const maxNear = 5000

// Vectors finds entities by their names' vectors, and chunks by their texts'; vectors.Hub does. Labels are those of entities, never empty for them.
type Vectors interface {
	Search(ctx context.Context, graph string, k vectors.Kind, labels []string, text string, top int) ([]vectors.Hit, error)
}

// WithVectors lets search have the modes vector and hybrid. It is called before the first query.
func (q *Queries) WithVectors(v Vectors) *Queries {
	q.vectors = v
	return q
}

// near adds the hits by vector to s.hits, at least want of each kind where the filters leave so many, best first; the score is the cosine to the query.
func (s *search) near(src Vectors, want int, entity func(vectors.Hit) (hit, bool, error)) error {
	if src == nil {
		return api.Errorf(503, "no_vectors", "this service keeps no vectors: search with mode lexical")
	}
	var labels []string
	if s.kinds[hitEntity] {
		counts, err := s.v.sn.Counts()
		if err != nil {
			return err
		}
		for l, n := range counts.Entities {
			if n > 0 && s.admitsLabel(l) {
				labels = append(labels, l)
			}
		}
		slices.Sort(labels)
	}
	if len(labels) > 0 {
		if err := s.nearest(src, vectors.Entity, labels, want, entity); err != nil {
			return err
		}
	}
	if s.kinds[hitChunk] {
		if err := s.nearest(src, vectors.Chunk, nil, want, s.nearChunk); err != nil {
			return err
		}
	}
	return s.order()
}

// nearest asks for more and more of the nearest until want are admitted, there are no more, or maxNear were looked at.
func (s *search) nearest(src Vectors, k vectors.Kind, labels []string, want int, admit func(vectors.Hit) (hit, bool, error)) error {
	seen, admitted := 0, 0
	for top := min(4*want, maxNear); ; top = min(4*top, maxNear) {
		found, err := src.Search(s.v.ctx, s.v.sn.Graph(), k, labels, s.q, top)
		if err != nil {
			return noVectors(s.v.sn.Graph(), err)
		}
		for _, f := range found[min(seen, len(found)):] {
			if err := s.v.tick(); err != nil {
				return err
			}
			h, ok, err := admit(f)
			if err != nil {
				return err
			}
			if ok {
				s.hits, admitted = append(s.hits, h), admitted+1
			}
			if admitted == want {
				return nil
			}
		}
		if len(found) < top {
			return nil
		}
		if top == maxNear {
			s.cut = true
			return nil
		}
		seen = len(found)
	}
}

// nearEntity admits an entity that is in the snapshot and that a mention of an admitted document names.
func (s *search) nearEntity(f vectors.Hit) (hit, bool, error) {
	e, ok, err := s.v.sn.Entity(f.ID)
	if err != nil || !ok || !s.admitsLabel(e.Label) {
		return hit{}, false, err
	}
	if ok, err := s.v.mentioned(e.ID); err != nil || !ok {
		return hit{}, false, err
	}
	if ok, err := s.standsIn(e.ID); err != nil || !ok {
		return hit{}, false, err
	}
	return hit{kind: hitEntity, id: e.ID, score: f.Score}, true, nil
}

// mentioned says whether an admitted document names an entity.
func (v *view) mentioned(id string) (ok bool, err error) {
	if v.filter == nil {
		return true, nil
	}
	err = v.sn.Mentions(id, "", func(m store.MentionSupport) (err error) {
		if ok, err = v.admits(m.DocID); ok && err == nil {
			return store.ErrStop
		}
		return errors.Join(err, v.tick())
	})
	return ok, err
}

// nearCluster admits an entity whose cluster has none that was admitted: the nearest of its members.
func (s *search) nearCluster(f vectors.Hit) (hit, bool, error) {
	if s.part[f.ID] != nil {
		return hit{}, false, nil
	}
	h, ok, err := s.nearEntity(f)
	if err != nil || !ok {
		return h, false, err
	}
	_, err = s.clusterOf(h)
	return h, true, err
}

// nearChunk admits an open chunk of an admitted document.
func (s *search) nearChunk(f vectors.Hit) (hit, bool, error) {
	ref, ok, err := s.v.sn.ChunkRef(f.ID)
	if err != nil || !ok || !ref.Open {
		return hit{}, false, err
	}
	if ok, err := s.v.admits(ref.DocID); err != nil || !ok {
		return hit{}, false, err
	}
	d, err := s.v.at(ref.DocID, ref.Version)
	if err != nil || ref.Index >= len(d.meta.Chunks) {
		return hit{}, false, err
	}
	ok, err = s.admitsChunk(chunkHit{doc: d, index: ref.Index})
	return hit{kind: hitChunk, score: f.Score, doc: d, index: ref.Index}, ok, err
}

// weigh gives the terms their weights, for snippets.
func (s *search) weigh() error {
	s.terms = lexical.Content(lexical.QueryTerms(s.q, maxQueryTerms))
	_, err := s.postings()
	return err
}

// noVectors makes a refusal of what went wrong with the vectors; what is wrong with the store or the caller stays.
func noVectors(name string, err error) error {
	switch {
	case errors.Is(err, vectors.ErrEmbedder):
		return api.Errorf(412, "embedder_mismatch", "%v; mode lexical needs no vectors", err)
	case errors.Is(err, vectors.ErrAway), errors.Is(err, vectors.ErrHubClosed):
		return api.Errorf(503, "no_vectors", "graph %s cannot be searched by vector now: %v; mode lexical needs none", clip(name), err)
	}
	return err
}
