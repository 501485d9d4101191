package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// held is a page of jobs that wait before their commit, which the committer knows. All of them are pending.
func (d *desk) held(ctx context.Context, graph string, f model.Filter, after *model.Place, limit int) (p page, err error) {
	if f.State != "" && f.State != api.StatePending {
		return page{groups: []api.Group{}}, nil
	}
	r, err := d.committer.Held(ctx, graph, api.HeldList{Label: f.Label, MinScore: f.MinScore, MinCount: f.MinCount, Limit: limit, After: after})
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

// isHeld says which of some ids is that of a job which is held, or was decided about; "" where none is.
func (d *desk) isHeld(ctx context.Context, graph string, ids []string) (string, error) {
	if len(ids) > api.MaxDecided {
		return "", nil // refused where it is decided
	}
	r, err := d.committer.Held(ctx, graph, api.HeldList{IDs: ids, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(r.Groups) > 0 {
		return r.Groups[0].Text, nil
	}
	if len(ids) != 1 || !events.ValidJob(ids[0]) {
		return "", nil
	}
	// One that was decided: the same request again is answered the same.
	said, err := d.committer.Audit(ctx, graph, api.ReviewAudit{Item: api.JobKey(ids[0]), Limit: &one})
	if err != nil || len(said.Records) == 0 {
		return "", err
	}
	return ids[0], nil
}

// one is a limit.
var one = 1

// heldJob shows one of them whole: what it would do, and what was read out of its documents.
func (d *desk) heldJob(ctx context.Context, graph string, req api.HeldGet) (any, error) {
	x, err := d.committer.HeldJob(ctx, graph, req)
	if err != nil {
		return nil, err
	}
	return api.ReviewShowReply{Seq: x.Seq, Item: x.Item, Records: []api.Record{}, Evidence: []api.Surrounded{}, OtherSources: []api.SourceQuote{},
		Revision: x.Item.Revision, Job: &x.Job, Planned: x.Planned, History: x.History}, nil
}

// decideJob forwards a decision about one held job: an approval accepts it, a rejection rolls it back; sent back, by either verb, it stays held.
func (d *desk) decideJob(ctx context.Context, graph string, req api.ReviewDecide, verb string) (any, error) {
	if n := len(req.IDs) + len(req.Keys); n != 1 {
		return nil, api.Errorf(400, "bad_value", "there are %d jobs: a request decides about one, whose fingerprint it quotes", n)
	}
	if len(req.Value) > 0 {
		return nil, api.Errorf(400, "bad_value", "value is of decisions about conflicts: leave it out")
	}
	means := map[string]string{api.DecideApprove: api.DecideAccept, api.DecideReject: api.DecideReject}[verb]
	switch req.Decision {
	case "", means:
	case api.DecideSendBack:
		means = api.DecideSendBack
	default:
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: to %s a held job is to %s it, or to send_back", req.Decision, verb, means)
	}
	out := api.HeldDecide{Decision: means, Fingerprint: req.Fingerprint, Edits: req.Edits, Revision: req.Revision, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID}
	for _, id := range req.IDs {
		out.ID = id
	}
	for _, key := range req.Keys {
		out.Key = key
	}
	return d.committer.DecideHeld(ctx, graph, out)
}

// final says why a decision about a job cannot be taken back.
func final(r events.Audit) error {
	switch r.Decision {
	case api.DecideAccept:
		return unsupported("job %s was accepted and is in the graph: a commit is not taken back; give its documents an earlier text again, or delete them", r.ItemID)
	case api.DecideSendBack:
		return unsupported("job %s was sent back with edits: send it back with other ones while it is held, or reject it; record %s has what was there", r.ItemID, r.Record)
	}
	return unsupported("job %s was rejected and is rolled back: ingest its documents again", r.ItemID)
}
