package matches

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func (r *room) get(id string) api.MatchReply {
	r.t.Helper()
	reply, err := r.Get(r.t.Context(), g, api.MatchGet{ID: id})
	require.NoError(r.t, err)
	return reply
}

// Of several entities that fit one name one is chosen: one commit, one record, one undo.
func TestOneOfSeveralIsChosen(t *testing.T) {
	r := newRoom(t)
	ltd, corp := id("Organization:Acme", "Organization:Acme Ltd"), id("Organization:Acme", "Organization:ACME Corporation")
	third := id("Organization:Acme Ltd", "Organization:ACME Corporation")
	r.commit("d5", "Organization:Acme Inc")
	r.found("Organization:Acme", "Organization:Acme Inc", "legal_suffix", 0.95, store.MatchActive)
	inc := id("Organization:Acme", "Organization:Acme Inc")
	r.decide(api.MatchDecide{IDs: []string{inc}, Decision: "same", Actor: "bo"})

	// All that fit the name stand together.
	show := r.get(ltd)
	require.Equal(t, 3, show.Item.Fits)
	require.Len(t, show.Match.Fits, 2, "of Acme and of Acme Ltd")
	byName := map[string][]string{}
	for _, f := range show.Match.Fits {
		for _, x := range f.Fits {
			byName[f.Name] = append(byName[f.Name], x.Name+" "+x.State)
		}
		require.Equal(t, len(f.Fits), f.Total)
	}
	require.Equal(t, map[string][]string{"Acme": {"Acme Ltd active", "Acme Inc approved", "ACME Corporation pending"}, "Acme Ltd": {"Acme active", "ACME Corporation pending"}}, byName)
	require.Contains(t, show.Plan.Lines()[0], "also fit Acme")
	before := r.states()
	revision := r.get(inc).Item.Revision

	for want, req := range map[string]api.MatchDecide{
		"400 bad_value":       {IDs: []string{ltd}, Decision: "choose", Actor: "eva"},
		"409 stale_plan":      {IDs: []string{ltd}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Fingerprint: "x", Actor: "eva"},
		"404 match_not_found": {IDs: []string{entityID("Person:Nobody")}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"},
		"409 stale_revision":  {IDs: []string{ltd}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Revision: new(uint64(3)), Actor: "eva"},
	} {
		require.Equal(t, want, r.refused(req))
	}
	for _, req := range []api.MatchDecide{
		{IDs: []string{ltd}, Decision: "choose", Entity: entityID("Person:Ada"), Actor: "eva"},                    // does not fit
		{IDs: []string{ltd}, Decision: "choose", Entity: entityID("Organization:ACME Corporation"), Actor: "eva"}, // fits both names
		{IDs: []string{inc, third}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"},  // no name in common
		{IDs: []string{ltd}, Decision: "same", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"},           // not of same
		{IDs: []string{ltd, inc}, Decision: "same", Fingerprint: show.Fingerprint, Actor: "eva"},                  // whose plan
		{Query: &api.MatchFilter{}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"},  // of which name
	} {
		require.Equal(t, "400 bad_value", r.refused(req), "%+v", req)
	}
	require.Equal(t, before, r.states())

	req := api.MatchDecide{IDs: []string{ltd}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Fingerprint: show.Fingerprint, Actor: "eva", Reason: "letterhead", RequestID: "c1"}
	d := r.decide(req)
	require.ElementsMatch(t, []string{show.Item.Key, r.get(corp).Item.Key, r.get(inc).Item.Key}, d.Outcome.Changed)
	record := d.Records[show.Item.Key]
	require.Equal(t, record, d.Records[r.get(corp).Item.Key])
	states := r.states()
	require.Equal(t, []string{"approved", "rejected", "rejected", "pending"}, []string{states[ltd], states[corp], states[inc], states[third]})
	require.Equal(t, d, r.decide(req), "once")
	log := r.audited()
	require.Len(t, log, 2)
	last := log[len(log)-1]
	require.Equal(t, []string{"choose", "active", "approved", show.Fingerprint}, []string{last.Decision, last.Before, last.After, last.Plan})
	for _, x := range []string{ltd, corp, inc} {
		require.Equal(t, record, r.get(x).History[0].Record)
	}
	require.Equal(t, map[string]string{ltd: api.SkippedApproved}, r.decide(api.MatchDecide{IDs: []string{ltd}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"}).Outcome.Skipped)
	r.verified()

	// It outlives what it is about.
	r.found("Organization:Acme", "Organization:ACME Corporation", "cosine", 0.93, store.MatchActive)
	require.Equal(t, api.StateRejected, r.states()[corp])

	// One undo brings all of it back, the decision that stood before too.
	u := r.decide(api.MatchDecide{Record: record, Decision: events.DecisionUndo, Actor: "eva", RequestID: "u1"})
	require.Len(t, u.Outcome.Changed, 3)
	r.found("Organization:Acme", "Organization:ACME Corporation", "cosine", 0.9, store.MatchUnclear)
	require.Equal(t, before, r.states())
	require.Equal(t, revision, r.get(inc).Item.Revision)
	require.Equal(t, "412 decision_not_current", r.refused(api.MatchDecide{Record: record, Decision: events.DecisionUndo, Actor: "eva"}))
	r.verified()

	// A choice of which a part was decided again is not taken back.
	record = r.decide(api.MatchDecide{IDs: []string{corp, inc}, Decision: "choose", Entity: entityID("Organization:Acme Ltd"), Actor: "eva"}).Records[show.Item.Key]
	r.decide(api.MatchDecide{IDs: []string{corp}, Decision: "same", Actor: "bo"})
	require.Equal(t, "412 decision_not_current", r.refused(api.MatchDecide{Record: record, Decision: events.DecisionUndo, Actor: "eva"}))
}

// What was looked at is what is decided about: a document, a decision or another fit that comes between is seen.
func TestMatchPlans(t *testing.T) {
	r := newRoom(t)
	ada := id("Person:Ada", "Person:Ada L")
	seen := r.get(ada).Fingerprint
	require.Equal(t, seen, r.get(ada).Fingerprint)
	for name, change := range map[string]func(){
		"document": func() { r.commit("d1", "Organization:Acme", "Person:Ada L", "Person:Bo") },
		"fit": func() {
			r.commit("d6", "Person:Ada M")
			r.found("Person:Ada", "Person:Ada M", "initials", 0.7, store.MatchUnclear)
		},
		"score":    func() { r.found("Person:Ada", "Person:Ada L", "initials", 0.81, store.MatchUnclear) },
		"decision": func() { r.decide(api.MatchDecide{IDs: []string{ada}, Decision: "different", Actor: "bo"}) },
	} {
		seen := r.get(ada).Fingerprint
		change()
		require.NotEqual(t, seen, r.get(ada).Fingerprint, name)
		require.Equal(t, "409 stale_plan", r.refused(api.MatchDecide{IDs: []string{ada}, Decision: "same", Fingerprint: seen, Actor: "eva"}), name)
	}
	d := r.decide(api.MatchDecide{IDs: []string{ada}, Decision: "same", Fingerprint: r.get(ada).Fingerprint, Actor: "eva"})
	require.Len(t, d.Outcome.Changed, 1)
}
