package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// fusionK of reciprocal rank fusion: a hit scores 1/(fusionK + rank) in each list that has it. 60 is the value of Cormack, Clarke and Büttcher,
	// "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods", SIGIR 2009.
	fusionK = 60
	// maxFused is how much of each list is fused.
	maxFused = 1000
)

// method is a way to find hits: run leaves them in s.hits, best first.
type method struct {
	name string
	run  func() error
}

// hybrid searches by words and by vectors. Relations have no vectors: where nothing else is asked for, there is no second method.
func (s *search) hybrid(src Vectors) error {
	methods := []method{{modeLexical, s.run}}
	if s.kinds[hitEntity] || s.kinds[hitChunk] {
		methods = append(methods, method{modeVector, func() error { return s.near(src, s.want, s.nearEntity) }})
	}
	return s.together(methods...)
}

// together fuses what methods find. One that fails is named in the reply and left out; when all fail, so does the search.
func (s *search) together(methods ...method) error {
	var lists [][]hit
	var errs []error
	for _, m := range methods {
		s.hits = nil
		err := m.run()
		switch {
		case err == nil:
			lists = append(lists, s.hits)
		case s.v.ctx.Err() != nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrBroken):
			return err
		default:
			errs = append(errs, err)
			s.failed = append(s.failed, failed(m.name, err))
		}
	}
	s.hits = nil
	if len(lists) == 0 {
		return allFailed(errs)
	}
	var err error
	s.hits, err = s.fuse(lists...)
	return err
}

// allFailed is the error of several methods: a refusal only where each refused.
func allFailed(errs []error) error {
	var e *api.Error
	i := max(0, slices.IndexFunc(errs, func(err error) bool { return !errors.As(err, &e) }))
	err := errs[i]
	for j, other := range errs {
		if j != i {
			err = fmt.Errorf("%w; %v", err, other)
		}
	}
	return err
}

// failed names a method that failed as a reply does.
func failed(method string, err error) api.FailedMethod {
	var e *api.Error
	if !errors.As(err, &e) {
		e = api.Errorf(500, "internal", "%v", err)
	}
	return api.FailedMethod{Method: method, Code: e.Code, Message: e.Message}
}

// ballot is what votes count for: one thing, however many of its entities a method finds.
type ballot struct{ kind, id string }

// ballot is false of an entity that no admitted document names: another one of its cluster may stand for that.
func (s *search) ballot(h hit) (ballot, bool, error) {
	if h.kind == hitEntity {
		if ok, err := s.v.mentioned(h.id); err != nil || !ok {
			return ballot{}, false, err
		}
	}
	c, err := s.clusterOf(h)
	if err == nil && c != nil {
		return ballot{h.kind, c.members[0].ID}, true, nil
	}
	return ballot{h.kind, h.id}, true, err
}

// fuse makes one list of several, each best first. A list votes once for what it has, at its best rank, which counts different things.
func (s *search) fuse(lists ...[]hit) ([]hit, error) {
	type counted struct {
		hit
		rank int // the best
	}
	at := map[ballot]int{}
	var all []counted
	for _, l := range lists {
		rank, voted := 0, map[ballot]bool{}
		for _, h := range l {
			if err := s.v.tick(); err != nil {
				return nil, err
			}
			b, ok, err := s.ballot(h)
			if err != nil {
				return nil, err
			}
			if !ok || voted[b] {
				continue
			}
			voted[b] = true
			if rank++; rank > maxFused {
				break
			}
			h.score = 1 / float64(fusionK+rank)
			i, ok := at[b]
			if !ok {
				at[b] = len(all)
				all = append(all, counted{h, rank})
				continue
			}
			h.score += all[i].score
			h.snippet = cmp.Or(h.snippet, all[i].snippet)
			if rank < all[i].rank {
				all[i] = counted{h, rank}
				continue
			}
			all[i].score, all[i].snippet = h.score, h.snippet
		}
	}
	out := make([]hit, len(all))
	for i := range all {
		out[i] = all[i].hit
		out[i].score = graph.Round6(out[i].score)
	}
	slices.SortFunc(out, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.id, b.id))
	})
	return out, nil
}
