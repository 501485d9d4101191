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
		Revision: c.Item.Revision, Conflict: &c.Conflict, History: []events.Audit{}}
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
