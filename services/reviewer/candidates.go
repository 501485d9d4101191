package reviewer

import (
	"context"
	"errors"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
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

// answered is what the committer's verbs that decide are about.
var answered = map[string]int{"candidates.decide": aboutCandidates, "matches.decide": aboutMatches, "conflicts.decide": aboutConflicts, "stale.decide": aboutStale,
	"held.decide": aboutJob}

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
		r, err := d.committer.Kinds(ctx, graphName, api.CandidatesKinds{IDs: req.IDs, RequestID: req.RequestID})
		if err != nil {
			return 0, err
		}
		if about, ok := answered[r.Decided]; ok {
			return about, nil // the same again is answered the same, also when its item is gone by now
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
	out := api.CandidatesDecide{IDs: req.IDs, Keys: req.Keys, Decision: verb, Actor: req.Actor, Reason: req.Reason, Fingerprint: req.Fingerprint, RequestID: req.RequestID}
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

// edit changes a pending candidate and shows it as it is then; revision, plan and fingerprint are those that the edit made.
func (d *desk) edit(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewEdit
	if e := bus.ReadSigned(ctx, body, &req); e != nil {
		return nil, e
	}
	done, err := d.committer.EditCandidate(ctx, graphName, req)
	if err != nil {
		return nil, d.notEdited(ctx, graphName, req, err)
	}
	item, err := d.candidate(ctx, graphName, done.ID, "")
	if none := (*api.Error)(nil); errors.As(err, &none) && none.Code == "candidate_not_found" {
		// The request was answered before, and the candidate has gone since.
		kind, _, _ := strings.Cut(done.Key, "|")
		item, err = api.ReviewShowReply{Seq: done.Seq, Records: []api.Record{}, Evidence: []api.Surrounded{}, OtherSources: []api.SourceQuote{}, History: []events.Audit{}}, nil
		item.Item = api.Group{Key: done.Key, Kind: kind, IDs: []string{done.ID}, Reasons: []string{}}
	}
	if err != nil {
		return nil, err
	}
	item.Revision, item.Planned = done.Revision, done.Planned
	return api.ReviewEditReply{ReviewShowReply: item, Record: done.Record}, nil
}

// What can be done about items that are no candidates.
var insteadOfEdit = map[string]string{
	api.KindMatch:    "say same or different of it (approve, reject)",
	api.KindStale:    "withdraw or keep it (approve, reject)",
	api.KindJob:      "send it back with edits (approve --decision send_back; review send-back)",
	api.KindConflict: "choose one of its values or keep all (approve), or reject one; a value that no document gives, or that is missing, is corrected in its document",
}

// notEdited is why an edit failed: an id that is no candidate's may be that of another item, of which only other things can be done.
func (d *desk) notEdited(ctx context.Context, graphName string, req api.ReviewEdit, failed error) error {
	if none := (*api.Error)(nil); !errors.As(failed, &none) || none.Code != "candidate_not_found" {
		return failed
	}
	r, err := d.committer.Kinds(ctx, graphName, api.CandidatesKinds{IDs: []string{req.ID}})
	if err != nil {
		return err
	}
	kind := r.Kinds[req.ID]
	if kind == "" {
		id, err := d.areConflicts(ctx, graphName, []string{req.ID})
		if err != nil {
			return err
		}
		if id != "" {
			kind = api.KindConflict
		}
	}
	if instead := insteadOfEdit[kind]; instead != "" {
		return api.Errorf(400, "bad_value", "%.80s is a %s, which is not edited: %s", req.ID, kind, instead)
	}
	return failed
}

func (d *desk) prune(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewPrune
	if e := bus.ReadSigned(ctx, body, &req); e != nil {
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
