package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// conflicts is a page of conflicts, which the committer finds in its current facts.
func (d *desk) conflicts(ctx context.Context, graph string, f model.Filter, after *model.Place, limit int) (p page, err error) {
	req := api.ConflictsList{ConflictFilter: api.ConflictFilter{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount}, Limit: limit, After: after}
	if f.State != "" {
		req.States = []string{f.State}
	}
	r, err := d.committer.Conflicts(ctx, graph, req)
	if err != nil {
		return p, err
	}
	p = page{groups: r.Groups, total: r.Total, seq: r.Seq}
	if r.More && len(r.Groups) > 0 {
		last := r.Groups[len(r.Groups)-1].Place()
		p.next = &last
	}
	return p, nil
}

// conflict shows one conflict whole. Evidence is that of the value which is shown, other sources are the other values'; apart they are in
// the conflict.
func (d *desk) conflict(ctx context.Context, graph string, req api.ConflictGet) (any, error) {
	c, err := d.committer.Conflict(ctx, graph, req)
	if err != nil {
		return nil, err
	}
	reply := api.ReviewShowReply{Seq: c.Seq, Item: c.Item, Records: []api.Record{}, Evidence: []api.Surrounded{}, OtherSources: []api.SourceQuote{},
		Revision: c.Item.Revision, Conflict: &c.Conflict, Planned: c.Planned, History: c.History}
	if c.Conflict.Reason == api.ReasonMissing { // where the entity is named: the value may stand there
		reply.Evidence = c.Conflict.Undecided
	}
	for i, v := range c.Conflict.Values {
		if i == 0 {
			reply.Evidence = v.Evidence
			continue
		}
		for _, e := range v.Evidence {
			reply.OtherSources = append(reply.OtherSources, api.SourceQuote{Document: e.Document, Chunk: e.Chunk, Quote: e.Quote})
		}
	}
	return reply, nil
}

// decideConflict forwards a decision about one conflict: an approval chooses a value or keeps all (and accepts that one is missing), a rejection
// rejects the value given, or without one tells homonyms apart.
func (d *desk) decideConflict(ctx context.Context, graphName string, req api.ReviewDecide, verb string) (any, error) {
	if n := len(req.IDs) + len(req.Keys); n != 1 {
		return nil, api.Errorf(400, "bad_value", "there are %d conflicts: a request decides about one, whose fingerprint it quotes", n)
	}
	out := api.ConflictDecide{Decision: req.Decision, Value: req.Value, Actor: req.Actor, Reason: req.Reason, Fingerprint: req.Fingerprint, Revision: req.Revision, RequestID: req.RequestID}
	for _, id := range req.IDs {
		out.ID = id
	}
	for _, key := range req.Keys {
		out.Key = key
	}
	approves := out.Decision == events.DecisionChoose || out.Decision == events.DecisionKeepAll
	rejects := out.Decision == events.DecisionReject || out.Decision == events.DecisionDifferent
	switch {
	case out.Decision == "" && verb == api.DecideApprove:
		out.Decision = events.DecisionChoose
	case out.Decision == "" && len(req.Value) == 0:
		out.Decision = events.DecisionDifferent
	case out.Decision == "":
		out.Decision = events.DecisionReject
	case verb == api.DecideApprove && !approves:
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to approve a conflict is to choose a value or to keep_all", req.Decision)
	case verb != api.DecideApprove && !rejects:
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to reject of a conflict is to reject the value given, or to say that its values are of different things", req.Decision)
	}
	return d.committer.DecideConflict(ctx, graphName, out)
}
