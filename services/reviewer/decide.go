package reviewer

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

func (d *desk) approve(ctx context.Context, graphName string, body []byte) (any, error) {
	return d.decide(ctx, graphName, body, "approve", events.DecisionSame)
}

func (d *desk) reject(ctx context.Context, graphName string, body []byte) (any, error) {
	return d.decide(ctx, graphName, body, "reject", events.DecisionDifferent)
}

// decide forwards a decision about matches to the committer, which takes it. The reply is given when it is stored.
func (d *desk) decide(ctx context.Context, graphName string, body []byte, verb, meaning string) (any, error) {
	var req api.ReviewDecide
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	ways := 0
	for _, given := range []bool{len(req.IDs) > 0, len(req.Keys) > 0, req.Query != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, api.Errorf(400, "bad_value", "say what to %s: exactly one of ids, keys and query", verb)
	}
	switch req.Decision {
	case "", meaning:
	case "choose":
		return nil, unsupported("choose decides between several entities of one name, which this version does not: %s a match as %s", verb, meaning)
	default:
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to %s a match is to say that it is %s", req.Decision, verb, meaning)
	}
	out := api.MatchDecide{IDs: req.IDs, Keys: req.Keys, Decision: meaning, Actor: req.Actor, Reason: req.Reason, Revision: req.Revision, RequestID: req.RequestID}
	if req.Query != nil {
		q, err := d.query(ctx, graphName, *req.Query)
		if err != nil {
			return nil, err
		}
		out.Query = &q
	}
	if err := d.areMatches(ctx, graphName, req); err != nil {
		return nil, err
	}
	return d.committer.Decide(ctx, graphName, out)
}

func unsupported(format string, args ...any) *api.Error {
	return api.Errorf(412, "not_supported", format, args...)
}

// whatCanBe says what is decided about in this version.
const whatCanBe = "this version decides about matches only; deciding about candidates and conflicts comes with their own verbs"

// areMatches refuses ids and keys of anything else, before anything is decided.
func (d *desk) areMatches(ctx context.Context, graphName string, req api.ReviewDecide) error {
	for _, k := range req.Keys {
		switch kind, _, _ := strings.Cut(k, "|"); kind {
		case graph.KindEntity, graph.KindRelation, graph.KindProperty, "stale", "conflict", "job":
			return unsupported("%.120s is of kind %s: %s", k, kind, whatCanBe)
		}
	}
	if len(req.IDs) == 0 {
		return nil
	}
	var kinds map[string]string
	if err := d.at(ctx, graphName, func(m *model.Graph) { kinds = m.Kinds(req.IDs) }); err != nil {
		return err
	}
	for _, id := range req.IDs {
		if kind := kinds[id]; kind != "" {
			return unsupported("%s is a candidate of kind %s: %s", id, kind, whatCanBe)
		}
	}
	return d.areNoConflicts(ctx, graphName, req.IDs)
}

// areNoConflicts refuses ids of conflicts.
func (d *desk) areNoConflicts(ctx context.Context, graphName string, ids []string) error {
	if len(ids) > api.MaxDecided {
		return nil // refused where it is decided
	}
	r, err := d.committer.Conflicts(ctx, graphName, api.ConflictsList{ConflictFilter: api.ConflictFilter{IDs: ids}, Limit: 1})
	if err != nil || len(r.Groups) == 0 {
		return err
	}
	return unsupported("%s is a conflict: %s", r.Groups[0].IDs[0], whatCanBe)
}

// query reads the filters of a list as a choice of matches.
func (d *desk) query(ctx context.Context, graphName string, q api.ReviewList) (out api.MatchFilter, err error) {
	if q.Limit != nil || q.Skip != 0 || q.Cursor != "" {
		return out, api.Errorf(400, "bad_value", "query decides about all that it chooses: it has no limit, skip or cursor")
	}
	if len(q.Schema) > 0 || q.IncludeCovered {
		return out, api.Errorf(400, "bad_value", "query: schema and include_covered choose candidates, not matches")
	}
	f, err := d.filter(ctx, graphName, q)
	if err != nil {
		return out, err
	}
	if asksFor(q.Kinds) != matches {
		return out, unsupported("query must say kinds [\"match\"] and no other: %s", whatCanBe)
	}
	out = api.MatchFilter{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount}
	if f.State != "" {
		out.States = []string{f.State}
	}
	return out, nil
}

// undo takes back the decision of an audit record.
func (d *desk) undo(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewUndo
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	if req.Decision == "" {
		return nil, api.Errorf(400, "bad_value", "decision is missing: the id of its audit record, as the decision's reply and show give it")
	}
	return d.committer.Decide(ctx, graphName, api.MatchDecide{
		Record: req.Decision, Decision: events.DecisionUndo, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID,
	})
}
