package candidates

import (
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/coverage"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// filter is a request's, ready to be used.
type filter struct {
	kinds, states []string // empty: all
	label         string   // folded
	minScore      float64
	minCount      int
	hide          *coverage.Schema // nil: nothing is hidden
}

func (d *Desk) newFilter(graph string, req api.CandidateFilter) (f filter, err error) {
	f = filter{kinds: req.Kinds, states: req.States, label: schema.FoldLabel(req.Label), minScore: req.MinScore, minCount: req.MinCount}
	for _, k := range req.Kinds {
		if !isKind(k) {
			return f, api.Errorf(400, "bad_value", "kind is %.40q: a candidate is an entity, relation or property", k)
		}
	}
	for _, s := range req.States {
		switch s {
		case api.StatePending, api.StateApproved, api.StateRejected:
		default:
			return f, api.Errorf(400, "bad_value", "state is %.40q: a candidate is pending, approved or rejected", s)
		}
	}
	switch {
	case math.IsNaN(req.MinScore) || req.MinScore < 0 || req.MinScore > 1:
		return f, api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", req.MinScore)
	case req.MinCount < 0:
		return f, api.Errorf(400, "bad_value", "min_count is %d: it must not be negative", req.MinCount)
	}
	active, err := d.deps.Schemas.Schema(graph, 0)
	if err != nil {
		return f, err
	}
	f.hide, err = coverage.Chosen(req.Hide, coverage.Of(active))
	return f, err
}

// group is the records of one key and state, as the look-up by key has them.
type group struct {
	key, state string
	count      int
	confidence float64
	docs       int
	first      string // document id of the first record
}

// groups calls fn for each key behind a key, in order, with its groups, until fn returns an error.
func (d *Desk) groups(sn *store.Snapshot, after string, fn func(key string, groups []group) error) error {
	var list []group
	key := ""
	end := func() error {
		if len(list) == 0 {
			return nil
		}
		err := fn(key, list)
		list = list[:0]
		return err
	}
	err := sn.CandidateRows("", after, func(r store.CandidateRow) error {
		if r.Key == after {
			return nil
		}
		if r.Key != key {
			if err := end(); err != nil {
				return err
			}
			key = r.Key
		}
		i := slices.IndexFunc(list, func(g group) bool { return g.state == r.State })
		if i < 0 {
			i = len(list)
			list = append(list, group{key: r.Key, state: r.State, first: r.DocID})
		}
		g := &list[i]
		g.count += r.Count
		g.confidence = max(g.confidence, r.Confidence)
		g.docs++
		return nil
	})
	if err != nil {
		return err
	}
	if err := end(); err != nil && err != store.ErrStop {
		return err
	}
	return nil
}

// chooses says whether the filter chooses a group. The record is read only when the rest fits.
func (f filter) chooses(sn *store.Snapshot, g group) (bool, error) {
	if len(f.kinds) > 0 && !slices.Contains(f.kinds, kindOf(g.key)) || len(f.states) > 0 && !slices.Contains(f.states, g.state) ||
		g.count < f.minCount || g.confidence < f.minScore {
		return false, nil
	}
	hides := f.hide != nil && g.state == api.StatePending
	if f.label == "" && !hides {
		return true, nil
	}
	var all api.Group
	reasons := map[string]bool{}
	err := sn.CandidatesByKey(g.key, func(r store.CandidateRecord) error {
		if r.State != g.state {
			return nil
		}
		if all.Key == "" {
			all = api.Group{Key: r.Key, Kind: r.Kind, Label: r.Label, SourceLabel: r.SourceLabel, TargetLabel: r.TargetLabel, State: r.State}
			if !hides {
				return store.ErrStop
			}
		}
		for _, x := range r.Reasons {
			if !reasons[x] {
				reasons[x] = true
				all.Reasons = append(all.Reasons, x)
			}
		}
		return nil
	})
	if err != nil || f.label != "" && schema.FoldLabel(all.Label) != f.label {
		return false, err
	}
	return !hides || !f.hide.Group(all), nil
}
