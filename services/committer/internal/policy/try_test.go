package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
)

// The dry run says of each condition what it would do, and of the rest why it waits.
func TestTry(t *testing.T) {
	r := newRoom(t)
	r.read("a", "Person:Ada", "0.2 entity Mast m1", "0.2 entity Mast m2", "0.9 entity Saw s1", "0.9 relation OWNS Ada > s1", "0.9 relation OWNS Ada > nowhere", "0.9 property Person.born Ada = 1815",
		"0.9/policy relation LIKES Ada > s1", "0.5 entity Bolt b", "0.9 entity Document d", "0.2 entity Mast m3")
	r.read("b", "0.1 entity Mast m1", "0.9 entity Mast m3")
	_, err := r.desk.Edit(t.Context(), g, api.ReviewEdit{ID: r.record("a", "entity|mast|m2").ID, Set: map[string]any{"label": "Spar"}, Actor: "eva"})
	require.NoError(t, err)
	const review = `{version: "9", auto_reject: [{kind: entity, max_confidence: 0.3}, {label: NONE}], manual: [{sensitive: true}], auto_accept: [{min_confidence: 0.8}, {deletes: true}]}`
	file := strings.Replace(types, "name: t", "name: tried", 1) + "review: " + review
	raw, err := json.Marshal(file)
	require.NoError(t, err)
	one := 1
	got := r.try(api.ReviewPolicy{Schema: raw, Limit: &one})
	tried, err := schema.Parse([]byte(file), "", nil)
	require.NoError(t, err)
	low, high, yes := 0.3, 0.8, true
	rule := func(list string, i int) api.PolicyRule { return api.PolicyRule{List: list, Index: i} }
	require.Equal(t, api.ReviewPolicyReply{
		Seq: r.seq(), Schema: "tried", SchemaVersion: "7", SchemaFingerprint: tried.Fingerprint(), Version: "9", Fingerprint: tried.ReviewFingerprint(), Active: false,
		Keys: 10, Records: 12, Decided: 3,
		Conditions: []api.PolicyCondition{
			{PolicyRule: rule("auto_reject", 0), Condition: schema.Condition{Kind: "entity", MaxConfidence: &low}, Fits: 4, Keys: 1, Records: 2, Samples: []string{"entity|mast|m1"}},
			{PolicyRule: rule("auto_reject", 1), Condition: schema.Condition{Label: "NONE"}, Samples: []string{}},
			{PolicyRule: rule("manual", 0), Condition: schema.Condition{Sensitive: &yes}, Fits: 1, Keys: 1, Records: 1, Samples: []string{"property|born|ada|1815"}},
			{PolicyRule: rule("auto_accept", 0), Condition: schema.Condition{MinConfidence: &high}, Fits: 7, Keys: 2, Records: 2, Blocked: 2, Samples: []string{"entity|saw|s1"}},
			{PolicyRule: rule("auto_accept", 1), Condition: schema.Condition{Deletes: &yes}, Samples: []string{}},
		},
		ConditionsTotal: 5,
		People:          map[string]int{"manual": 2, "no_condition": 1, "edited": 1, "differ": 1},
		Blocked:         map[string]int{"label_refused": 1, "endpoint_unresolved": 1},
		Unused:          []api.PolicyRule{rule("auto_reject", 1)}, UnusedTotal: 1,
	}, got)

	for _, current := range []string{"", `"current"`, "null"} {
		got = r.try(api.ReviewPolicy{Schema: json.RawMessage(current)})
		require.Equal(t, []any{true, "t", 0, 10, map[string]int{"no_condition": 9, "edited": 1}}, []any{got.Active, got.Schema, got.Decided, got.Keys, got.People})
		require.Empty(t, got.Conditions)
	}
	r.put(review)
	r.through()
	got = r.try(api.ReviewPolicy{})
	require.Equal(t, []any{true, 0, 7}, []any{got.Active, got.Decided, got.Keys}, "what it would do is done")

	none, err := r.Try(t.Context(), "elsewhere", api.ReviewPolicy{})
	require.NoError(t, err)
	require.Equal(t, []any{uint64(0), 0, 5}, []any{none.Seq, none.Keys, len(none.Conditions)})
	require.Len(t, r.graphs, 1, "nothing is kept of a graph that is not there")
	many := api.MaxPolicySamples + 1
	for _, bad := range []api.ReviewPolicy{{Limit: &many}, {Schema: json.RawMessage(`"entities: 3"`)}} {
		_, err := r.Try(t.Context(), g, bad)
		var e *api.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 400, e.Status)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Try(gone, g, api.ReviewPolicy{})
	require.ErrorIs(t, err, context.Canceled)
}

// A reply stays small, however many conditions there are.
func TestTryIsBounded(t *testing.T) {
	r := newRoom(t)
	r.read("a", "0.9 entity Mast "+strings.Repeat("x", 150))
	var list []string
	for i := range 3000 {
		list = append(list, fmt.Sprintf("{label: L%d}", i))
	}
	r.put("{auto_reject: [" + strings.Join(list, ", ") + "]}")
	got := r.try(api.ReviewPolicy{})
	require.Equal(t, []int{1000, 3000, 1000, 3000}, []int{len(got.Conditions), got.ConditionsTotal, len(got.Unused), got.UnusedTotal})
	b, err := json.Marshal(got)
	require.NoError(t, err)
	require.Less(t, len(b), 700<<10)
}

// Whatever waits, and whatever the policy: the follower does what the dry run said.
func TestTryIsWhatIsDone(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
		r := newRoom(t)
		for d := range 1 + rnd.IntN(6) {
			items := []string{}
			if rnd.IntN(2) == 0 {
				items = append(items, "Person:Ada")
			}
			seen := map[string]bool{}
			for range rnd.IntN(12) {
				confidence := fmt.Sprintf("0.%d%s", 1+rnd.IntN(9), pick("", "", "/policy", "/limit"))
				name := func() string { return pick("Ada", "s1", "s2", "s3", "nowhere") }
				it := pick("entity Saw "+name(), "entity Mast "+name(), "entity Document "+name(), "relation OWNS "+name()+" > "+name(),
					"property "+pick("Person", "Ship", "")+"."+pick("born", "hobby")+" "+name()+" = "+pick("1", "2"))
				if c := candidate(confidence + " " + it); !seen[c.Key] {
					seen[c.Key] = true
					items = append(items, confidence+" "+it)
				}
			}
			doc := fmt.Sprint(d)
			r.reads(graph.Meta{Key: doc, ID: fingerprint.DocumentID(doc), Scope: []string{pick("x", "y"), "z"}}, items...)
		}
		for _, key := range r.states() {
			if k, _, _ := cut(key); rnd.IntN(6) == 0 {
				_, err := r.desk.Decide(t.Context(), g, api.CandidatesDecide{Keys: []string{k}, Decision: pick("approve", "reject"), Actor: "eva"})
				require.NoError(t, err)
			}
		}
		conditions := func() string {
			var list []string
			for range rnd.IntN(4) {
				list = append(list, "{"+pick("kind: entity", "kind: relation", "kind: property", "label: Saw", "label: born", "scope: x")+", "+
					pick("min_confidence: 0.5", "max_confidence: 0.4", "assertion: explicit", "reason: limit", "sensitive: false", "extractor: rules")+"}")
			}
			return "[" + strings.Join(list, ", ") + "]"
		}
		review := fmt.Sprintf("{auto_reject: %s, manual: %s, auto_accept: %s}", conditions(), conditions(), conditions())
		s, err := json.Marshal(types + "review: " + review)
		require.NoError(t, err)
		limit := api.MaxPolicySamples
		said := r.try(api.ReviewPolicy{Schema: s, Limit: &limit})
		before := len(r.records())
		r.put(review)
		r.through()
		done := map[api.PolicyRule][]string{}
		for _, a := range r.records()[before:] {
			at := api.PolicyRule{List: a.Policy.Rules[0].List, Index: a.Policy.Rules[0].Index}
			done[at] = append(done[at], a.Key)
		}
		want, decided := map[api.PolicyRule][]string{}, 0
		for _, c := range said.Conditions {
			if c.List != "manual" && c.Keys > 0 {
				want[c.PolicyRule] = c.Samples
				require.Len(t, c.Samples, c.Keys)
				decided += c.Keys
			}
		}
		for _, keys := range done {
			slices.Sort(keys)
		}
		require.Equal(t, want, done, "seed %d: %s\n%v", seed, review, r.states())
		require.Equal(t, decided, said.Decided)
		after := r.try(api.ReviewPolicy{})
		require.Equal(t, []any{true, 0}, []any{after.Active, after.Decided}, "seed %d: %s", seed, review)
		rest := 0
		for _, n := range said.People {
			rest += n
		}
		for _, n := range said.Blocked {
			rest += n
		}
		require.Equal(t, said.Keys, rest+said.Decided, "each key is counted once")
	}
}
