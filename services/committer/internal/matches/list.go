package matches

import (
	"context"
	"math"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// filter is a request's, ready to be used.
type filter struct {
	states map[string]bool // in the store's words; empty: all
	label  string          // folded
	req    api.MatchFilter
}

func newFilter(req api.MatchFilter) (filter, error) {
	f := filter{states: map[string]bool{}, label: schema.FoldLabel(req.Label), req: req}
	for _, w := range req.States {
		known := false
		for state, word := range words {
			if word == w {
				f.states[state], known = true, true
			}
		}
		if !known {
			return f, api.Errorf(400, "bad_value", "state is %.40q: a match is active, pending, approved or rejected", w)
		}
	}
	switch {
	case math.IsNaN(req.MinScore) || req.MinScore < 0 || req.MinScore > 1:
		return f, api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", req.MinScore)
	case req.MinCount < 0:
		return f, api.Errorf(400, "bad_value", "min_count is %d: it must not be negative", req.MinCount)
	}
	return f, nil
}

// each calls fn for the matches that the filter chooses, in the order of their keys.
func (r *reader) each(f filter, fn func(m store.Match, count int) error) error {
	return r.sn.MatchesAll(store.Match{}, func(m store.Match) error {
		if err := r.tick(); err != nil {
			return err
		}
		if len(f.states) > 0 && !f.states[m.State()] || graph.Round6(m.Score) < f.req.MinScore {
			return nil
		}
		a, err := r.entity(m.A)
		if err != nil {
			return err
		}
		if f.label != "" && schema.FoldLabel(a.label) != f.label {
			return nil
		}
		b, err := r.entity(m.B)
		if err != nil {
			return err
		}
		count := a.documents + b.documents
		if count < f.req.MinCount {
			return nil
		}
		return fn(m, count)
	})
}

// List answers matches.list: the matches that a filter chooses, behind a place, as groups in the order of the review list. What is
// held at once is a page, however many there are.
func (d *Desk) List(ctx context.Context, graphName string, req api.MatchesList) (api.MatchesReply, error) {
	reply := api.MatchesReply{Groups: []api.Group{}, States: map[string]int{}}
	if req.Limit < 0 || req.Limit > desk.MaxLimit {
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", req.Limit, desk.MaxLimit)
	}
	f, err := newFilter(req.MatchFilter)
	if err != nil {
		return reply, err
	}
	err = d.with(graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		reply.Seq = sn.Seq()
		c, err := sn.Counts()
		if err != nil {
			return err
		}
		for state, n := range c.Matches {
			reply.States[words[state]] = n
		}
		if req.Limit == 0 {
			return nil
		}
		r := reader{ctx: ctx, sn: sn}
		page := desk.NewTop[store.Match](req.Limit + 1)
		err = r.each(f, func(m store.Match, count int) error {
			reply.Total++
			p := api.Place{Count: count, Confidence: graph.Round6(m.Score), Key: keyOf(m), State: words[m.State()]}
			if req.After == nil || req.After.Before(p) {
				page.Add(m, p)
			}
			return nil
		})
		if err != nil {
			return err
		}
		reply.Groups, reply.More, err = desk.Fill(page.List(), req.Limit, r.group)
		return err
	})
	return reply, err
}
