package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

func (d *desk) approve(ctx context.Context, graphName string, body []byte) (any, error) {
	return d.decide(ctx, graphName, body, "approve", events.DecisionSame)
}

func (d *desk) reject(ctx context.Context, graphName string, body []byte) (any, error) {
	return d.decide(ctx, graphName, body, "reject", events.DecisionDifferent)
}

// decide forwards a decision to the committer, which takes it. The reply is given when it is stored.
func (d *desk) decide(ctx context.Context, graphName string, body []byte, verb, meaning string) (any, error) {
	var req api.ReviewDecide
	if e := bus.ReadSigned(ctx, body, &req); e != nil {
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
	about, err := d.about(ctx, graphName, req)
	if err != nil {
		return nil, err
	}
	if req.Entity != "" && about != aboutMatches {
		return nil, api.Errorf(400, "bad_value", "entity is of decisions about matches: leave it out")
	}
	switch about {
	case aboutConflicts:
		return d.decideConflict(ctx, graphName, req, verb)
	case aboutStale:
		return d.decideStale(ctx, graphName, req, verb)
	case aboutJob:
		return d.decideJob(ctx, graphName, req, verb)
	}
	if len(req.Edits) > 0 {
		return nil, api.Errorf(400, "bad_value", "edits are of held jobs that are sent back: leave them out")
	}
	if len(req.Value) > 0 {
		return nil, api.Errorf(400, "bad_value", "value is of decisions about conflicts: leave it out")
	}
	if about == aboutCandidates {
		return d.decideCandidates(ctx, graphName, req, verb)
	}
	chooses := verb == api.DecideApprove && (req.Decision == events.DecisionChoose || req.Decision == "" && req.Entity != "")
	switch {
	case chooses && req.Entity == "":
		return nil, api.Errorf(400, "bad_value", "entity is missing: to choose is to say which entity the name stands for; show lists those that fit")
	case chooses:
		meaning = events.DecisionChoose
	case req.Decision != "" && req.Decision != meaning:
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to %s a match is to say that it is %s", req.Decision, verb, meaning)
	}
	out := api.MatchDecide{IDs: req.IDs, Keys: req.Keys, Decision: meaning, Entity: req.Entity, Actor: req.Actor, Reason: req.Reason, Fingerprint: req.Fingerprint,
		Revision: req.Revision, RequestID: req.RequestID}
	if req.Query != nil {
		q, err := d.query(ctx, graphName, *req.Query)
		if err != nil {
			return nil, err
		}
		out.Query = &q
	}
	return d.committer.Decide(ctx, graphName, out)
}

func unsupported(format string, args ...any) *api.Error {
	return api.Errorf(412, "not_supported", format, args...)
}

// areConflicts says which of some ids is a conflict; "" where none is.
func (d *desk) areConflicts(ctx context.Context, graphName string, ids []string) (string, error) {
	if len(ids) > api.MaxDecided {
		return "", nil // refused where it is decided
	}
	r, err := d.committer.Conflicts(ctx, graphName, api.ConflictsList{ConflictFilter: api.ConflictFilter{IDs: ids}, Limit: 1})
	if err != nil || len(r.Groups) == 0 {
		return "", err
	}
	return r.Groups[0].IDs[0], nil
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
	out = api.MatchFilter{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount}
	if f.State != "" {
		out.States = []string{f.State}
	}
	return out, nil
}

// undo takes back the decision of an audit record.
func (d *desk) undo(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewUndo
	if e := bus.ReadSigned(ctx, body, &req); e != nil {
		return nil, e
	}
	if req.Decision == "" {
		return nil, api.Errorf(400, "bad_value", "decision is missing: the id of its audit record, as the decision's reply and show give it")
	}
	said, err := d.committer.Audit(ctx, graphName, api.ReviewAudit{Record: req.Decision})
	if err != nil {
		return nil, err
	}
	if len(said.Records) == 1 && candidateKinds[said.Records[0].Kind] {
		return d.committer.UndoCandidate(ctx, graphName, api.CandidatesUndo{Record: req.Decision, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID})
	}
	if len(said.Records) == 1 && said.Records[0].Kind == api.KindJob {
		return nil, final(said.Records[0])
	}
	if len(said.Records) == 1 && said.Records[0].Kind == api.KindStale {
		return d.committer.DecideStale(ctx, graphName, api.StaleDecide{Undo: req.Decision, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID})
	}
	if len(said.Records) == 1 && said.Records[0].Kind == api.KindConflict {
		return d.committer.DecideConflict(ctx, graphName, api.ConflictDecide{
			Record: req.Decision, Decision: events.DecisionUndo, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID,
		})
	}
	return d.committer.Decide(ctx, graphName, api.MatchDecide{
		Record: req.Decision, Decision: events.DecisionUndo, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID,
	})
}
