package integration

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

func (h *history) match() {
	h.t.Helper()
	if groups := h.list("", "match"); len(groups) > 0 {
		does[api.DecideReply](h, []string{"review.approve", "review.reject"}[h.rng.IntN(2)],
			api.ReviewDecide{Keys: []string{groups[h.rng.IntN(len(groups))].Key}, Actor: "bo", RequestID: h.request()})
	}
}

func (h *history) conflict() {
	h.t.Helper()
	groups := h.list(h.pick([]string{"", "pending", "pending"}), "conflict")
	if len(groups) == 0 {
		return
	}
	shown, ok := asked[api.ReviewShowReply](h.cluster, h.g, "review.show", api.ReviewShow{Key: h.ofSome(groups).Key})
	if !ok || shown.Conflict == nil || len(shown.Conflict.Values) == 0 {
		return
	}
	value, err := json.Marshal(shown.Conflict.Values[h.rng.IntN(len(shown.Conflict.Values))].Value)
	require.NoError(h.t, err)
	req := api.ReviewDecide{Keys: []string{shown.Item.Key}, Fingerprint: shown.Fingerprint, Actor: "eva", RequestID: h.request()}
	verb := "review.approve"
	decisions := []string{events.DecisionKeepAll, events.DecisionChoose, events.DecisionReject}
	if shown.Conflict.Reason == api.ReasonHomonym {
		decisions = append(decisions, events.DecisionDifferent)
	}
	for i := range decisions {
		decisions[i] = "conflict " + shown.Conflict.Reason + " " + decisions[i]
	}
	switch decision := strings.Fields(h.rarest(decisions))[2]; decision {
	case events.DecisionKeepAll:
		req.Decision = decision
	case events.DecisionChoose:
		req.Decision, req.Value = decision, value
	case events.DecisionDifferent:
		verb = "review.reject" // its values are of different things
	default:
		verb, req.Value = "review.reject", value
	}
	if _, ok := does[api.DecideReply](h, verb, req); ok {
		h.then(takesBack)
	}
}

// rarest is what the fewest of the histories before took back of these, so that each is met in some.
func (h *history) rarest(kinds []string) string {
	h.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return slices.MinFunc(kinds, func(a, b string) int { return h.seen["undo of "+a] - h.seen["undo of "+b] })
}

// ofSome is one of some groups: of a reason that any of them has, so that what is rare has its turn.
func (h *history) ofSome(groups []api.Group) api.Group {
	var reasons []string
	for _, g := range groups {
		if !slices.Contains(reasons, g.Reasons[0]) {
			reasons = append(reasons, g.Reasons[0])
		}
	}
	reason := h.pick(reasons)
	groups = slices.DeleteFunc(groups, func(g api.Group) bool { return g.Reasons[0] != reason })
	return groups[h.rng.IntN(len(groups))]
}

// choose says which of several entities that fit a name it is.
func (h *history) choose() {
	h.t.Helper()
	groups := h.list("", "match")
	if len(groups) == 0 {
		return
	}
	shown, ok := asked[api.ReviewShowReply](h.cluster, h.g, "review.show", api.ReviewShow{Key: groups[h.rng.IntN(len(groups))].Key})
	if !ok || shown.Match == nil || len(shown.Match.Fits) == 0 {
		return
	}
	name := shown.Match.Fits[h.rng.IntN(len(shown.Match.Fits))]
	one := name.Fits[h.rng.IntN(len(name.Fits))]
	does[api.DecideReply](h, "review.approve", api.ReviewDecide{Keys: []string{one.Key}, Entity: one.Entity, Actor: "bo", RequestID: h.request()})
}

// hold ingests what waits for a person.
func (h *history) hold() {
	h.t.Helper()
	event := h.documents()
	if h.rng.IntN(5) == 0 {
		event = map[string]any{"op": "delete", "key": h.pick(histKeys)}
	}
	event["hold"] = true
	h.ingest(event)
}

// job decides about a held one.
func (h *history) job() {
	h.t.Helper()
	groups := h.list("pending", api.KindJob)
	if len(groups) == 0 {
		return
	}
	key := groups[h.rng.IntN(len(groups))].Key
	shown, ok := asked[api.ReviewShowReply](h.cluster, h.g, "review.show", api.ReviewShow{Key: key})
	if !ok {
		return
	}
	req := api.ReviewDecide{Keys: []string{key}, Fingerprint: shown.Fingerprint, Actor: "eva", Reason: "looked at", RequestID: h.request()}
	at := h.rng.IntN(10)
	if at < 5 {
		if req.Edits = h.edits(shown.Job); len(req.Edits) == 0 {
			at = 5
		}
	}
	switch {
	case at < 5:
		req.Decision = api.DecideSendBack
		does[api.DecideReply](h, "review.reject", req)
	case at == 5:
		does[api.DecideReply](h, "review.reject", req)
	case at == 6:
		does[api.DecideReply](h, "jobs.accept", api.JobAccept{Job: shown.Job.Job, Fingerprint: shown.Fingerprint, Actor: "eva", RequestID: h.request()})
	default:
		does[api.DecideReply](h, "review.approve", req)
	}
	if s := ask[api.JobStatus](h.cluster, h.g, "jobs.get", api.JobGet{Job: shown.Job.Job, Wait: "5s"}); s.State == api.JobCommitted {
		h.did(s)
	}
}

// edits of what a held job states.
func (h *history) edits(job *api.JobItem) (out []api.JobEdit) {
	if len(job.Documents) == 0 {
		return nil
	}
	d := job.Documents[h.rng.IntN(len(job.Documents))]
	if len(d.Items) == 0 {
		return nil
	}
	for range 1 + h.rng.IntN(2) {
		x := d.Items[h.rng.IntN(len(d.Items))]
		e := api.JobEdit{Document: d.Key, Item: x.Item}
		e.Set = map[string]map[string]any{
			"entity":   {"name": h.pick(slices.Concat(histPeople, histFirms))},
			"relation": {"source": h.pick(histPeople)},
			"property": {"start": x.Start + h.rng.IntN(2)},
			"mention":  {"end": x.End - h.rng.IntN(2)},
		}[x.Kind]
		if h.rng.IntN(2) == 0 || e.Set == nil {
			e.Drop, e.Set = true, nil
		}
		out = append(out, e)
	}
	return out
}

func (h *history) undo() {
	h.t.Helper()
	log := slices.DeleteFunc(h.trail(h.g), func(a events.Audit) bool {
		if a.Kind == api.KindJob {
			return h.rng.IntN(30) > 0
		}
		switch a.Decision {
		case events.DecisionApprove, events.DecisionEdit, events.DecisionPrune, events.DecisionConvert, events.DecisionUndo:
			return h.rng.IntN(10) > 0 // there is nothing to take back
		}
		return false
	})
	var kinds []string
	for _, a := range log {
		if k := what(a); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) > 0 {
		kind := h.pick(kinds)
		if h.rng.IntN(2) == 0 {
			kind = h.rarest(kinds)
		}
		log = slices.DeleteFunc(log, func(a events.Audit) bool { return what(a) != kind })
		a := log[len(log)-1-h.rng.IntN(min(3, len(log)))]
		does[api.DecideReply](h, "review.undo", api.ReviewUndo{Decision: a.Record, Actor: "eva", RequestID: h.request()})
	}
}

// takesBack undoes the last decision.
var takesBack = operation{"undo", 0, func(h *history) {
	if log := h.trail(h.g); len(log) > 0 {
		does[api.DecideReply](h, "review.undo", api.ReviewUndo{Decision: log[len(log)-1].Record, Actor: "eva", RequestID: h.request()})
	}
}}

// what a record is about, and what was decided.
func what(a events.Audit) string {
	kind := a.Kind
	switch kind {
	case "conflict":
		var item struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(a.Item, &item) == nil {
			kind += " " + item.Reason
		}
	case "stale":
		var item struct {
			Gone int `json:"gone"`
		}
		if json.Unmarshal(a.Item, &item) == nil && item.Gone > 0 {
			kind += " of a deletion"
		}
	}
	return kind + " " + a.Decision
}
