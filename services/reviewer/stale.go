package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// staleFacts is a page of facts that documents no longer state, which the committer knows. All of them are pending.
func (d *desk) staleFacts(ctx context.Context, graph string, f model.Filter, after *model.Place, limit int) (p page, err error) {
	if f.State != "" && f.State != api.StatePending {
		return page{groups: []api.Group{}}, nil
	}
	r, err := d.committer.Stale(ctx, graph, api.StaleList{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount, Limit: limit, After: after})
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

// staleFact shows one of them whole: what the document said, who else says it, and what a withdrawal would do.
func (d *desk) staleFact(ctx context.Context, graph string, req api.StaleGet) (any, error) {
	x, err := d.committer.StaleFact(ctx, graph, req)
	if err != nil {
		return nil, err
	}
	reply := api.ReviewShowReply{Seq: x.Seq, Item: x.Item, Records: []api.Record{}, Evidence: x.Evidence, OtherSources: []api.SourceQuote{},
		Revision: x.Item.Revision, Planned: x.Planned, History: x.History, Others: &x.Others}
	for _, e := range x.OtherQuotes {
		reply.OtherSources = append(reply.OtherSources, api.SourceQuote{Document: e.Document, Chunk: e.Chunk, Quote: e.Quote})
	}
	return reply, nil
}

// decideStale forwards a decision about one stale fact: an approval withdraws it, a rejection keeps it.
func (d *desk) decideStale(ctx context.Context, graphName string, req api.ReviewDecide, verb string) (any, error) {
	if n := len(req.IDs) + len(req.Keys); n != 1 {
		return nil, api.Errorf(400, "bad_value", "there are %d stale facts: a request decides about one, whose fingerprint it quotes", n)
	}
	means := map[string]string{api.DecideApprove: api.DecideWithdraw, api.DecideReject: api.DecideKeep}[verb]
	if req.Decision != "" && req.Decision != means {
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to %s a stale fact is to %s it", req.Decision, verb, means)
	}
	if len(req.Value) > 0 {
		return nil, api.Errorf(400, "bad_value", "value is of decisions about conflicts: leave it out")
	}
	out := api.StaleDecide{Decision: means, Fingerprint: req.Fingerprint, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID}
	if req.Revision != nil {
		out.Revision = *req.Revision
	}
	for _, id := range req.IDs {
		out.ID = id
	}
	for _, key := range req.Keys {
		out.Key = key
	}
	return d.committer.DecideStale(ctx, graphName, out)
}
