package reviewer

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
)

// deskOfMatches answers as the committer does, out of groups that are in order, at most page at once.
type deskOfMatches struct {
	patches []api.CandidatesPatch
	noPatch error
	groups  []api.Group
	page    int
	decided []api.MatchDecide
	passed  []any // what was forwarded about candidates
	said    []events.Audit
	clashes []api.Group // conflicts
	ruled   []api.ConflictDecide
	gone    []api.Group // stale facts
	jobs    []api.Group // that are held
}

func (c *deskOfMatches) Stale(_ context.Context, _ string, req api.StaleList) (api.StaleListReply, error) {
	r := api.StaleListReply{Seq: 9, Groups: []api.Group{}, Total: len(c.gone), Waiting: len(c.gone)}
	for _, g := range c.gone {
		if req.After == nil || req.After.Before(g.Place()) {
			if len(r.Groups) == req.Limit {
				r.More = true
				break
			}
			r.Groups = append(r.Groups, g)
		}
	}
	return r, nil
}

func (c *deskOfMatches) StaleFact(_ context.Context, _ string, req api.StaleGet) (api.StaleReply, error) {
	for _, g := range c.gone {
		if g.Key == req.Key || slices.Contains(g.IDs, req.ID) {
			return api.StaleReply{Seq: 9, Item: g, Others: 1, Evidence: []api.Surrounded{{Evidence: graph.Evidence{Quote: "said"}}},
				OtherQuotes: []api.Surrounded{{Evidence: graph.Evidence{Quote: "also"}}}, History: []events.Audit{{Actor: "eva"}}, Planned: api.Planned{Fingerprint: "f9"}}, nil
		}
	}
	return api.StaleReply{}, api.Errorf(404, "stale_not_found", "no")
}

func (c *deskOfMatches) DecideStale(_ context.Context, _ string, req api.StaleDecide) (api.DecideReply, error) {
	c.passed = append(c.passed, req)
	return api.DecideReply{Seq: 10, Outcome: api.Outcome{Changed: []string{req.Key}}}, nil
}

func (c *deskOfMatches) DecideConflict(_ context.Context, _ string, req api.ConflictDecide) (api.DecideReply, error) {
	c.ruled = append(c.ruled, req)
	return api.DecideReply{Seq: 10, Outcome: api.Outcome{Changed: []string{req.Key}}}, nil
}

func (c *deskOfMatches) Kinds(_ context.Context, _ string, req api.CandidatesKinds) (api.CandidatesKindsReply, error) {
	r := api.CandidatesKindsReply{Kinds: map[string]string{}}
	for _, id := range req.IDs {
		switch id[0] {
		case 'm':
			r.Kinds[id] = api.KindMatch
		case 'c':
			r.Kinds[id] = graph.KindEntity
		}
	}
	return r, nil
}

func (c *deskOfMatches) DecideCandidates(_ context.Context, _ string, req api.CandidatesDecide) (api.DecideReply, error) {
	c.passed = append(c.passed, req)
	return api.DecideReply{Seq: 10, Outcome: api.Outcome{Changed: req.Keys}}, nil
}

func (c *deskOfMatches) CandidatePlan(_ context.Context, _ string, req api.CandidatePlanGet) (api.CandidatePlan, error) {
	return api.CandidatePlan{Seq: 9, Key: req.Key, Planned: api.Planned{Plan: &plan.Plan{Item: req.Key}, Fingerprint: "plan of " + req.Key}}, nil
}

func (c *deskOfMatches) EditCandidate(_ context.Context, _ string, req api.ReviewEdit) (api.CandidateEdited, error) {
	c.passed = append(c.passed, req)
	return api.CandidateEdited{Seq: 9, ID: req.ID, Record: "rec"}, nil
}

func (c *deskOfMatches) Convert(_ context.Context, _ string, req api.ReviewConvert) (api.ConvertReport, error) {
	c.passed = append(c.passed, req)
	return api.ConvertReport{PatchID: req.PatchID}, nil
}

func (c *deskOfMatches) Prune(_ context.Context, _ string, req api.ReviewPrune) (api.ReviewPruneReply, error) {
	c.passed = append(c.passed, req)
	return api.ReviewPruneReply{Seq: 10, Matched: []string{}}, nil
}

func (c *deskOfMatches) Policy(_ context.Context, _ string, req api.ReviewPolicy) (api.ReviewPolicyReply, error) {
	c.passed = append(c.passed, req)
	return api.ReviewPolicyReply{Seq: 10}, nil
}

func (c *deskOfMatches) UndoCandidate(_ context.Context, _ string, req api.CandidatesUndo) (api.DecideReply, error) {
	c.passed = append(c.passed, req)
	return api.DecideReply{Seq: 10}, nil
}

func (c *deskOfMatches) Audit(_ context.Context, _ string, req api.ReviewAudit) (api.ReviewAuditReply, error) {
	r := api.ReviewAuditReply{Records: []events.Audit{}}
	for _, a := range c.said {
		if (req.Record == "" || a.Record == req.Record) && (req.Item == "" || a.Key == req.Item) {
			r.Records = append(r.Records, a)
		}
	}
	if req.Record != "" && len(r.Records) == 0 {
		return r, api.Errorf(404, "decision_not_found", "no")
	}
	return r, nil
}

func (c *deskOfMatches) Conflicts(ctx context.Context, _ string, req api.ConflictsList) (api.ConflictsReply, error) {
	groups := c.clashes
	if len(req.IDs) > 0 {
		groups = nil
		for _, g := range c.clashes {
			if slices.Contains(req.IDs, g.IDs[0]) {
				groups = append(groups, g)
			}
		}
	}
	other := deskOfMatches{groups: groups, page: c.page}
	r, err := other.Matches(ctx, "", api.MatchesList{MatchFilter: api.MatchFilter{States: req.States, MinScore: req.MinScore}, Limit: req.Limit, After: req.After})
	return api.ConflictsReply{Seq: 9, Groups: r.Groups, Total: r.Total, More: r.More, Reasons: map[string]int{api.ReasonHomonym: len(c.clashes)}}, err
}

func (c *deskOfMatches) Conflict(_ context.Context, _ string, req api.ConflictGet) (api.ConflictReply, error) {
	for _, g := range c.clashes {
		if g.Key == req.Key || g.IDs[0] == req.ID {
			value := func(v string) api.ConflictValue {
				return api.ConflictValue{Value: v, Evidence: []api.Surrounded{{Evidence: graph.Evidence{Document: v, Quote: "q" + v}}}}
			}
			return api.ConflictReply{Seq: 9, Item: g, Conflict: api.ConflictItem{Values: []api.ConflictValue{value("1950"), value("1962")}},
				History: []events.Audit{{Actor: "eva"}}, Planned: api.Planned{Fingerprint: "f1", Plan: &plan.Plan{Item: g.Key}}}, nil
		}
	}
	return api.ConflictReply{}, api.Errorf(404, "conflict_not_found", "no")
}

func (c *deskOfMatches) Matches(_ context.Context, _ string, req api.MatchesList) (api.MatchesReply, error) {
	r := api.MatchesReply{Seq: 9, Groups: []api.Group{}, States: map[string]int{"pending": len(c.groups)}}
	if req.Limit == 0 {
		return r, nil
	}
	limit := req.Limit
	if c.page > 0 {
		limit = min(limit, c.page)
	}
	for _, g := range c.groups {
		if len(req.States) > 0 && !slices.Contains(req.States, g.State) || g.Confidence < req.MinScore {
			continue
		}
		r.Total++
		if req.After != nil && !req.After.Before(g.Place()) {
			continue
		}
		if len(r.Groups) == limit {
			r.More = true
			continue
		}
		r.Groups = append(r.Groups, g)
	}
	return r, nil
}

func (c *deskOfMatches) Match(_ context.Context, _ string, req api.MatchGet) (api.MatchReply, error) {
	for _, g := range c.groups {
		if g.Key == req.Key || g.IDs[0] == req.ID {
			quote := func(doc string) []api.Surrounded {
				return []api.Surrounded{{Evidence: graph.Evidence{Document: doc, Quote: "q" + doc}}}
			}
			return api.MatchReply{Seq: 9, Item: g, Match: api.MatchItem{A: api.MatchSide{Evidence: quote("a")}, B: api.MatchSide{Evidence: quote("b")}},
				History: []events.Audit{{Actor: "eva"}}}, nil
		}
	}
	return api.MatchReply{}, api.Errorf(404, "match_not_found", "no")
}

func (c *deskOfMatches) Decide(_ context.Context, _ string, req api.MatchDecide) (api.DecideReply, error) {
	c.decided = append(c.decided, req)
	return api.DecideReply{Seq: 10, Outcome: api.Outcome{Changed: req.Keys}}, nil
}

// mixed is a desk over n candidates, n matches and n conflicts; everything is asked at sequence 9.
func mixed(t *testing.T, n int, seed uint64) (*desk, *storyteller, []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	c := &storyteller{seqs: make(chan api.SeqReply, 4096), asked: make(chan struct{}, 4096)}
	for range cap(c.seqs) {
		c.seqs <- api.SeqReply{Seq: 9, No: 1}
	}
	records := api.RecordsReply{Seq: 9, No: 1}
	for i := range n {
		key := fmt.Sprintf("entity|l|%d", i)
		records.Records = append(records.Records, api.Record{CandidateItem: events.CandidateItem{ID: fmt.Sprint("c", i), DocumentID: "d", Document: "d", State: api.StatePending,
			Candidate: graph.Candidate{Key: key, Kind: graph.KindEntity, Label: "L", Count: 1 + rng.IntN(4), Confidence: float64(rng.IntN(3)) / 4}}})
		c.groups = append(c.groups, api.Group{Kind: api.KindMatch, Key: fmt.Sprintf("match|%d", i), IDs: []string{fmt.Sprint("m", i)}, Label: "L",
			State: api.StatePending, Count: 1 + rng.IntN(4), Confidence: float64(rng.IntN(3)) / 4})
		c.clashes = append(c.clashes, api.Group{Kind: api.KindConflict, Key: fmt.Sprintf("conflict|%d|born", i), IDs: []string{fmt.Sprint("x", i)}, Label: "L",
			State: api.StatePending, Count: 1 + rng.IntN(4), Confidence: float64(rng.IntN(3)) / 4})
	}
	inOrder := func(a, b api.Group) int {
		if a.Place().Before(b.Place()) {
			return -1
		}
		return 1
	}
	slices.SortFunc(c.groups, inOrder)
	slices.SortFunc(c.clashes, inOrder)
	c.pages = []api.RecordsReply{records}
	all := slices.Concat(c.groups, c.clashes)
	for _, r := range records.Records {
		all = append(all, api.Group{Key: r.Key, Count: r.Count, Confidence: r.Confidence, State: r.State})
	}
	slices.SortFunc(all, inOrder)
	var want []string
	for _, g := range all {
		want = append(want, g.Key)
	}
	return newDesk(c), c, want
}

func listed(t *testing.T, d *desk, req map[string]any) api.ReviewListReply {
	t.Helper()
	body, err := json.Marshal(req)
	require.NoError(t, err)
	r, err := d.list(t.Context(), "g", body)
	require.NoError(t, err)
	return r.(api.ReviewListReply)
}

func keysOf(gs []api.Group) []string {
	out := []string{}
	for _, g := range gs {
		out = append(out, g.Key)
	}
	return out
}

// Candidates, matches and conflicts in one list are in one order, whatever the pages and wherever it begins.
func TestCandidatesAndMatchesInOneList(t *testing.T) {
	for seed := range uint64(8) {
		d, c, want := mixed(t, 25, seed)
		c.page = int(seed) * 3 // the committer's pages may be shorter than what is asked for
		kinds := []string{"match", "entity", "conflict"}
		for _, limit := range []int{1, 7, 100} {
			req := map[string]any{"kinds": kinds, "limit": limit}
			var got []string
			for {
				r := listed(t, d, req)
				require.Equal(t, 75, r.Total)
				require.LessOrEqual(t, len(r.Groups), limit)
				got = append(got, keysOf(r.Groups)...)
				if r.Next == "" {
					break
				}
				req["cursor"] = r.Next
			}
			require.Equal(t, want, got, "seed %d limit %d", seed, limit)
		}
		for _, skip := range []int{1, 24, 49, 50, 74, 75, 80} {
			r := listed(t, d, map[string]any{"kinds": kinds, "limit": 1, "skip": skip})
			require.Equal(t, want[min(skip, 75):min(skip+1, 75)], keysOf(r.Groups), "seed %d skip %d", seed, skip)
		}
	}
	d, _, want := mixed(t, 5, 1)
	require.Len(t, listed(t, d, map[string]any{}).Groups, 5, "no kinds are the candidates")
	matches := listed(t, d, map[string]any{"kinds": []string{"match"}})
	require.Len(t, matches.Groups, 5)
	require.Equal(t, uint64(9), matches.Seq)
	conflicts := listed(t, d, map[string]any{"kinds": []string{"conflict"}})
	require.Len(t, conflicts.Groups, 5)
	require.Equal(t, api.KindConflict, conflicts.Groups[0].Kind)
	require.Len(t, listed(t, d, map[string]any{"kinds": []string{"conflict", "match"}, "state": "approved"}).Groups, 0)
	none := listed(t, d, map[string]any{"kinds": []string{"match", "entity"}, "limit": 0})
	require.Equal(t, []any{0, 10, ""}, []any{len(none.Groups), none.Total, none.Next})
	likely := listed(t, d, map[string]any{"kinds": []string{"match", "entity"}, "min_score": 0.5})
	for _, g := range likely.Groups {
		require.GreaterOrEqual(t, g.Confidence, 0.5)
	}
	require.Less(t, len(likely.Groups), len(want))
	for _, bad := range []string{`{"state":"active"}`, `{"kinds":["match"],"skip":10001}`, `{"kinds":["match"],"min_score":7}`, `{"kinds":["match"],"state":"unclear"}`} {
		_, err := d.list(t.Context(), "g", []byte(bad))
		var e *api.Error
		require.ErrorAs(t, err, &e, bad)
		require.Equal(t, "bad_value", e.Code, bad)
	}
}

// A match is shown by id or key, with the evidence of either side apart; what is neither is said so.
func TestShowMatch(t *testing.T) {
	d, _, _ := mixed(t, 3, 1)
	for _, body := range []string{`{"id":"m1"}`, `{"key":"match|1"}`} {
		v, err := d.show(t.Context(), "g", []byte(body))
		require.NoError(t, err)
		r := v.(api.ReviewShowReply)
		require.Equal(t, "match|1", r.Item.Key)
		require.Equal(t, []string{"qa", "qb"}, []string{r.Match.A.Evidence[0].Quote, r.Match.B.Evidence[0].Quote})
		require.Equal(t, []string{"qa", "qb", "eva"}, []string{r.Evidence[0].Quote, r.OtherSources[0].Quote, r.History[0].Actor})
	}
	for body, code := range map[string]string{`{"id":"x"}`: "candidate_not_found", `{"key":"match|x"}`: "match_not_found", `{"key":"entity|l|x"}`: "candidate_not_found"} {
		_, err := d.show(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, code, e.Code, body)
	}
	v, err := d.stats(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"pending": 3}, v.(api.ReviewStatsReply).Matches)
	require.Equal(t, 3, v.(api.ReviewStatsReply).Records)
}

// A conflict is shown by id or key, with the plan of its approval and what was decided.
func TestShowConflict(t *testing.T) {
	d, _, _ := mixed(t, 3, 1)
	for _, body := range []string{`{"id":"x1"}`, `{"key":"conflict|1|born"}`} {
		v, err := d.show(t.Context(), "g", []byte(body))
		require.NoError(t, err)
		r := v.(api.ReviewShowReply)
		require.Equal(t, []any{"conflict|1|born", uint64(9)}, []any{r.Item.Key, r.Seq})
		require.Len(t, r.Conflict.Values, 2)
		require.Equal(t, []string{"q1950", "q1962"}, []string{r.Evidence[0].Quote, r.OtherSources[0].Quote})
		require.Equal(t, []string{"f1", "conflict|1|born", "eva"}, []string{r.Fingerprint, r.Plan.Item, r.History[0].Actor})
	}
	_, err := d.show(t.Context(), "g", []byte(`{"key":"conflict|x|born"}`))
	var none *api.Error
	require.ErrorAs(t, err, &none)
	require.Equal(t, "conflict_not_found", none.Code)
	v, err := d.stats(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"homonym": 3}, v.(api.ReviewStatsReply).Conflicts)
}

// Decisions about a conflict go to the committer as they are, one at a time; the verb says what they can be.
func TestConflictDecisionsAreForwarded(t *testing.T) {
	d, c, _ := mixed(t, 3, 1)
	c.said = []events.Audit{{Record: "rec", Kind: api.KindConflict, Key: "conflict|1|born"}}
	do := func(verb func(context.Context, string, []byte) (any, error), body string) {
		t.Helper()
		v, err := verb(t.Context(), "g", []byte(body))
		require.NoError(t, err, body)
		require.Equal(t, uint64(10), v.(api.DecideReply).Seq)
	}
	do(d.approve, `{"keys":["conflict|1|born"],"value":"1950","fingerprint":"f1","actor":"eva","reason":"r","request_id":"x","revision":4}`)
	do(d.approve, `{"ids":["x1"],"decision":"keep_all","fingerprint":"f1","actor":"eva"}`)
	do(d.reject, `{"ids":["x2"],"value":1950,"fingerprint":"f2","actor":"eva"}`)
	do(d.reject, `{"ids":["x2"],"decision":"different","fingerprint":"f2","actor":"eva"}`)
	do(d.undo, `{"decision":"rec","actor":"bo","reason":"slip"}`)
	require.Equal(t, []api.ConflictDecide{
		{Key: "conflict|1|born", Decision: "choose", Value: json.RawMessage(`"1950"`), Fingerprint: "f1", Actor: "eva", Reason: "r", RequestID: "x", Revision: new(uint64(4))},
		{ID: "x1", Decision: "keep_all", Fingerprint: "f1", Actor: "eva"},
		{ID: "x2", Decision: "reject", Value: json.RawMessage(`1950`), Fingerprint: "f2", Actor: "eva"},
		{ID: "x2", Decision: "different", Fingerprint: "f2", Actor: "eva"},
		{Record: "rec", Decision: "undo", Actor: "bo", Reason: "slip"},
	}, c.ruled)
	c.ruled = nil
	for body, want := range map[string]string{
		`{"ids":["m1","x1"],"actor":"eva"}`:                                              "412 not_supported",
		`{"keys":["conflict|1|born","entity|l|1"],"actor":"eva"}`:                        "412 not_supported",
		`{"query":{"kinds":["conflict"]},"actor":"eva"}`:                                 "412 not_supported",
		`{"query":{"kinds":["conflict","match"]},"actor":"eva"}`:                         "412 not_supported",
		`{"keys":["conflict|1|born","conflict|2|born"],"fingerprint":"f","actor":"eva"}`: "400 bad_value",
		`{"ids":["x1"],"decision":"reject","fingerprint":"f","actor":"eva"}`:             "400 bad_value",
		`{"ids":["x1"],"decision":"same","fingerprint":"f","actor":"eva"}`:               "400 bad_value",
		`{"ids":["m1"],"value":"x","actor":"eva"}`:                                       "400 bad_value",
		`{"ids":["c1"],"value":"x","actor":"eva"}`:                                       "400 bad_value",
	} {
		_, err := d.approve(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, want, fmt.Sprintf("%d %s", e.Status, e.Code), body)
	}
	_, err := d.reject(t.Context(), "g", []byte(`{"ids":["x1"],"decision":"choose","fingerprint":"f","actor":"eva"}`))
	require.ErrorContains(t, err, "reject the value given, or to say that its values are of different things")
	require.Empty(t, c.ruled)
	require.Empty(t, c.decided)
	require.Empty(t, c.passed)
}

// Decisions about matches go to the committer as they are; those about anything else are refused before anything is decided.
func TestDecisionsAreForwarded(t *testing.T) {
	d, c, _ := mixed(t, 3, 1)
	c.said = []events.Audit{{Record: "rec", Kind: api.KindMatch, Key: "match|1"}}
	v, err := d.approve(t.Context(), "g", []byte(`{"keys":["match|1"],"actor":"eva","reason":"r","request_id":"x","revision":4}`))
	require.NoError(t, err)
	require.Equal(t, []string{"match|1"}, v.(api.DecideReply).Outcome.Changed)
	_, err = d.reject(t.Context(), "g", []byte(`{"ids":["m1"],"decision":"different","actor":"eva"}`))
	require.NoError(t, err)
	_, err = d.reject(t.Context(), "g", []byte(`{"query":{"kinds":["match"],"label":"l","min_score":0.5,"min_count":2},"actor":"eva"}`))
	require.NoError(t, err)
	_, err = d.approve(t.Context(), "g", []byte(`{"query":{"kinds":["match"],"state":null},"actor":"eva"}`))
	require.NoError(t, err)
	_, err = d.undo(t.Context(), "g", []byte(`{"decision":"rec","actor":"bo","reason":"slip"}`))
	require.NoError(t, err)
	_, err = d.approve(t.Context(), "g", []byte(`{"ids":["m1"],"entity":"e","fingerprint":"f","actor":"eva"}`))
	require.NoError(t, err)
	require.Equal(t, []api.MatchDecide{
		{Keys: []string{"match|1"}, Decision: "same", Actor: "eva", Reason: "r", RequestID: "x", Revision: new(uint64(4))},
		{IDs: []string{"m1"}, Decision: "different", Actor: "eva"},
		{Query: &api.MatchFilter{States: []string{"pending"}, Label: "l", MinScore: 0.5, MinCount: 2}, Decision: "different", Actor: "eva"},
		{Query: &api.MatchFilter{}, Decision: "same", Actor: "eva"},
		{Record: "rec", Decision: "undo", Actor: "bo", Reason: "slip"},
		{IDs: []string{"m1"}, Decision: "choose", Entity: "e", Fingerprint: "f", Actor: "eva"},
	}, c.decided)
	c.decided = nil
	for body, want := range map[string]string{
		`{"actor":"eva"}`: "400 bad_value",
		`{"ids":["m1"],"keys":["match|1"],"actor":"eva"}`:                "400 bad_value",
		`{"ids":["m1"],"decision":"different","actor":"eva"}`:            "400 bad_value",
		`{"ids":["m1"],"decision":"choose","actor":"eva"}`:               "400 bad_value",
		`{"ids":["c1"],"entity":"e","actor":"eva"}`:                      "400 bad_value",
		`{"ids":["m1"],"value":"v","actor":"eva"}`:                       "400 bad_value",
		`{"ids":["m1","c2"],"actor":"eva"}`:                              "412 not_supported",
		`{"keys":["match|1","relation|l|a|b"],"actor":"eva"}`:            "412 not_supported",
		`{"query":{"kinds":["stale"]},"actor":"eva"}`:                    "412 not_supported",
		`{"keys":["entiti|e|p"],"actor":"eva"}`:                          "400 bad_value",
		`{"query":{"kinds":["match","entity"]},"actor":"eva"}`:           "412 not_supported",
		`{"query":{"kinds":["match"],"limit":3},"actor":"eva"}`:          "400 bad_value",
		`{"query":{"kinds":["match"],"schema":"current"},"actor":"eva"}`: "400 bad_value",
		`{"query":{"kinds":["match"],"state":"so-so"},"actor":"eva"}`:    "400 bad_value",
		`{"ids":["x1"],"entity":"e","fingerprint":"f","actor":"eva"}`:    "400 bad_value",
	} {
		_, err := d.approve(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, want, fmt.Sprintf("%d %s", e.Status, e.Code), body)
	}
	_, err = d.undo(t.Context(), "g", []byte(`{"actor":"eva"}`))
	require.ErrorContains(t, err, "decision is missing")
	_, err = d.undo(t.Context(), "g", []byte(`{"decision":"none","actor":"eva"}`))
	require.ErrorContains(t, err, "no")
	require.Empty(t, c.decided)
	require.Empty(t, c.passed)
}

// Decisions about candidates go to the committer as they are; their filters are those of the list.
func TestCandidateDecisionsAreForwarded(t *testing.T) {
	d, c, _ := mixed(t, 3, 1)
	c.pages = append(c.pages, api.RecordsReply{Seq: 9, No: 1}) // for the item that was edited
	c.said = []events.Audit{{Record: "rec", Kind: graph.KindEntity, Key: "entity|l|1", Actor: "eva"}}
	do := func(verb func(context.Context, string, []byte) (any, error), body string) any {
		t.Helper()
		v, err := verb(t.Context(), "g", []byte(body))
		require.NoError(t, err, body)
		return v
	}
	v := do(d.approve, `{"keys":["entity|l|1"],"actor":"eva","reason":"r","request_id":"x","revision":4}`)
	require.Equal(t, []string{"entity|l|1"}, v.(api.DecideReply).Outcome.Changed)
	do(d.reject, `{"ids":["c1","gone"],"decision":"reject","actor":"eva"}`)
	do(d.approve, `{"query":{},"actor":"eva"}`)
	do(d.reject, `{"query":{"kinds":["entity","relation"],"label":"L","state":null,"min_score":0.5,"min_count":2,"schema":"current"},"actor":"eva"}`)
	do(d.reject, `{"query":{"state":"approved","schema":"current","include_covered":true},"actor":"eva"}`)
	do(d.undo, `{"decision":"rec","actor":"bo","reason":"slip"}`)
	do(d.prune, `{"rejected":true,"pending_below_count":3,"apply":true}`)
	require.Equal(t, uint64(10), do(d.policy, `{"schema":"name: x","limit":2}`).(api.ReviewPolicyReply).Seq)
	_, err := d.policy(t.Context(), "g", []byte(`{"try":"x"}`))
	require.ErrorContains(t, err, "try")
	do(d.approve, `{"ids":["c1"],"fingerprint":"seen","actor":"eva"}`)
	require.Equal(t, "seen", c.passed[len(c.passed)-1].(api.CandidatesDecide).Fingerprint)
	c.passed = c.passed[:len(c.passed)-1]
	edited := do(d.edit, `{"id":"c1","set":{"label":"M"},"actor":"eva"}`).(api.ReviewEditReply)
	require.Equal(t, []any{"entity|l|1", "rec", "eva"}, []any{edited.Item.Key, edited.Record, edited.History[0].Actor})
	two, three := 2, 3
	require.Equal(t, []any{
		api.CandidatesDecide{Keys: []string{"entity|l|1"}, Decision: "approve", Actor: "eva", Reason: "r", RequestID: "x", Revision: 4},
		api.CandidatesDecide{IDs: []string{"c1", "gone"}, Decision: "reject", Actor: "eva"},
		api.CandidatesDecide{Query: &api.CandidateFilter{States: []string{"pending"}}, Decision: "approve", Actor: "eva"},
		api.CandidatesDecide{Query: &api.CandidateFilter{Kinds: []string{"entity", "relation"}, Label: "L", MinScore: 0.5, MinCount: 2, Hide: json.RawMessage(`"current"`)}, Decision: "reject", Actor: "eva"},
		api.CandidatesDecide{Query: &api.CandidateFilter{States: []string{"approved"}}, Decision: "reject", Actor: "eva"},
		api.CandidatesUndo{Record: "rec", Actor: "bo", Reason: "slip"},
		api.ReviewPrune{Rejected: true, PendingBelowCount: &three, Apply: true},
		api.ReviewPolicy{Schema: json.RawMessage(`"name: x"`), Limit: &two},
		api.ReviewEdit{ID: "c1", Set: map[string]any{"label": "M"}, Actor: "eva"},
	}, c.passed)
	require.Empty(t, c.decided)
	c.passed = nil
	for body, want := range map[string]string{
		`{"ids":["c1","m1"],"actor":"eva"}`:                       "412 not_supported",
		`{"ids":["c1"],"decision":"same","actor":"eva"}`:          "400 bad_value",
		`{"ids":["gone"],"actor":"eva"}`:                          "404 match_not_found",
		`{"query":{"limit":3},"actor":"eva"}`:                     "400 bad_value",
		`{"query":{"min_count":-1},"actor":"eva"}`:                "400 bad_value",
		`{"query":{"state":"active"},"actor":"eva"}`:              "400 bad_value",
		`{"query":{"schema":{"entities":["Job"]}},"actor":"eva"}`: "400 schema_invalid",
		`{"keys":["entity|l|1"],"keys_of":"x","actor":"eva"}`:     "400 unknown_field",
	} {
		_, err := d.approve(t.Context(), "g", []byte(body))
		var e *api.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, want, fmt.Sprintf("%d %s", e.Status, e.Code), body)
	}
	require.Empty(t, c.passed)
}
