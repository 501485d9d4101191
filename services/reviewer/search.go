package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/reviewer/internal/model"
)

// search answers query.candidates: candidates, pending and approved, by words in their labels and texts. Nothing of it is a fact.
func (d *desk) search(ctx context.Context, graph string, body []byte) (any, error) {
	var req api.SearchCandidates
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	limit := api.DefaultCandidateHits
	if req.Limit != nil {
		limit = *req.Limit
	}
	if limit < 1 || limit > api.MaxCandidateHits {
		return nil, api.Errorf(400, "bad_value", "limit is %d: it must be between 1 and %d", limit, api.MaxCandidateHits)
	}
	if req.Kind != "" && !candidateKinds[req.Kind] {
		return nil, api.Errorf(400, "bad_value", "kind is %.40q: it must be entity, relation or property, or absent for all three", req.Kind)
	}
	if len(req.Q) > api.MaxCandidateQuery {
		return nil, api.Errorf(400, "bad_value", "q has %d bytes: it may have %d", len(req.Q), api.MaxCandidateQuery)
	}
	look := model.Words(req.Q)
	if len(look) == 0 {
		return nil, api.Errorf(400, "bad_value", "q is %.40q: it has no word of over two characters, and shorter ones are not looked for", req.Q)
	}
	reply := api.SearchCandidatesReply{Results: []api.CandidateHit{}, Note: api.CandidatesNote}
	if req.Within.Any() {
		return reply, nil
	}
	err := d.at(ctx, graph, func(m *model.Graph) {
		found, total := m.Search(look, req.Kind, limit)
		reply.Seq, reply.Total = m.Seq, total
		used := 0
		for _, f := range found {
			f.IDs, f.Sample = nil, api.Sample{}
			if used += groupSize(f.Group); used > replyBudget && len(reply.Results) > 0 {
				break
			}
			reply.Results = append(reply.Results, hit(f))
		}
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

func hit(f model.Found) api.CandidateHit {
	return api.CandidateHit{
		Key: f.Key, Kind: f.Kind, Label: f.Label, Text: f.Text, SourceText: f.SourceText, TargetText: f.TargetText, SourceLabel: f.SourceLabel,
		TargetLabel: f.TargetLabel, State: f.State, Count: f.Count, Confidence: f.Confidence, Reasons: f.Reasons, Documents: f.Documents, Matched: f.Matched,
		Unreviewed: f.State == api.StatePending,
	}
}
