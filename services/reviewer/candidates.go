package reviewer

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

var candidateKinds = map[string]bool{graph.KindEntity: true, graph.KindRelation: true, graph.KindProperty: true}

// What a decision is about.
const (
	aboutCandidates = iota
	aboutMatches
	aboutConflicts
	aboutStale
	aboutJob
)

// about says what a decision is about, before anything is decided: candidates, matches, a conflict, a stale fact or a job, of one kind in a request.
func (d *desk) about(ctx context.Context, graphName string, req api.ReviewDecide) (int, error) {
	kinds := map[string]string{} // kind → an item of it
	switch {
	case req.Query != nil && len(req.Query.Kinds) == 0:
		return aboutCandidates, nil
	case req.Query != nil:
		for _, k := range req.Query.Kinds {
			kinds[k] = "query"
		}
	case len(req.Keys) > 0:
		for _, k := range req.Keys {
			kind, _, _ := strings.Cut(k, "|")
			kinds[kind] = k
		}
	default:
		r, err := d.committer.Kinds(ctx, graphName, api.CandidatesKinds{IDs: req.IDs})
		if err != nil {
			return 0, err
		}
		for id, kind := range r.Kinds {
			kinds[kind] = id
		}
		if len(r.Kinds) < len(req.IDs) {
			id, err := d.areConflicts(ctx, graphName, req.IDs)
			if err != nil {
				return 0, err
			}
			if id != "" {
				kinds[api.KindConflict] = id
			}
			if id, err = d.isHeld(ctx, graphName, req.IDs); err != nil {
				return 0, err
			}
			if id != "" {
				kinds[api.KindJob] = id
			}
		}
		if len(kinds) == 0 {
			return 0, api.Errorf(404, "match_not_found", "graph %s has no candidate and no match %.120s, or not any more", graphName, strings.Join(req.IDs, " "))
		}
	}
	about := map[int]bool{}
	for kind, item := range kinds {
		switch {
		case candidateKinds[kind]:
			about[aboutCandidates] = true
		case kind == api.KindMatch:
			about[aboutMatches] = true
		case (kind == api.KindConflict || kind == api.KindStale || kind == api.KindJob) && req.Query != nil:
			return 0, unsupported("of kind %s nothing is decided by a query: name one item by its id or key, with the fingerprint that show gives", kind)
		case kind == api.KindConflict:
			about[aboutConflicts] = true
		case kind == api.KindStale:
			about[aboutStale] = true
		case kind == api.KindJob:
			about[aboutJob] = true
		default:
			return 0, api.Errorf(400, "bad_value", "%.120s is of no kind of review items: a key begins with entity|, relation|, property|, match|, conflict|, stale| or job|", item)
		}
	}
	if len(about) > 1 {
		return 0, unsupported("one request decides about candidates, about matches, about a conflict, a stale fact or a job, not about several of them: ask apart")
	}
	for one := range about {
		return one, nil
	}
	return aboutCandidates, nil
}

// decideCandidates forwards a decision about candidates.
func (d *desk) decideCandidates(ctx context.Context, graphName string, req api.ReviewDecide, verb string) (any, error) {
	if req.Decision != "" && req.Decision != verb {
		return nil, api.Errorf(400, "bad_value", "decision is %.40q: a candidate is approved or rejected, which the verb says", req.Decision)
	}
	out := api.CandidatesDecide{IDs: req.IDs, Keys: req.Keys, Decision: verb, Actor: req.Actor, Reason: req.Reason, RequestID: req.RequestID}
	if req.Revision != nil {
		out.Revision = *req.Revision
	}
	if req.Query != nil {
		q, err := d.candidateQuery(ctx, graphName, *req.Query)
		if err != nil {
			return nil, err
		}
		out.Query = &q
	}
	reply, err := d.committer.DecideCandidates(ctx, graphName, out)
	if err == nil && verb == api.DecideApprove {
		d.addPatch(ctx, graphName, req.RequestID, &reply)
	}
	return reply, err
}

// candidateQuery reads the filters of a list as a choice of candidates.
func (d *desk) candidateQuery(ctx context.Context, graphName string, q api.ReviewList) (out api.CandidateFilter, err error) {
	if q.Limit != nil || q.Skip != 0 || q.Cursor != "" {
		return out, api.Errorf(400, "bad_value", "query decides about all that it chooses: it has no limit, skip or cursor")
	}
	if q.MinCount < 0 {
		return out, api.Errorf(400, "bad_value", "query: min_count must not be negative")
	}
	f, err := d.filter(ctx, graphName, q)
	if err != nil {
		return out, err
	}
	out = api.CandidateFilter{Kinds: q.Kinds, Label: q.Label, MinScore: q.MinScore, MinCount: q.MinCount}
	if f.State != "" {
		out.States = []string{f.State}
	}
	if !q.IncludeCovered {
		out.Hide = q.Schema
	}
	return out, nil
}

// edit changes a pending candidate and shows it as it is then.
func (d *desk) edit(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewEdit
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	done, err := d.committer.EditCandidate(ctx, graphName, req)
	if err != nil {
		return nil, err
	}
	item, err := d.candidate(ctx, graphName, done.ID, "")
	if err != nil {
		return nil, err
	}
	return api.ReviewEditReply{ReviewShowReply: item, Record: done.Record}, nil
}

func (d *desk) prune(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewPrune
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	return d.committer.Prune(ctx, graphName, req)
}

func (d *desk) audit(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewAudit
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	return d.committer.Audit(ctx, graphName, req)
}
