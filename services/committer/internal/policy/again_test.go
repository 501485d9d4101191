package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// blocked are the keys that are looked at again.
func (r *room) blocked() []string {
	out := []string{}
	require.NoError(r.t, r.st.Scan(g, space, waitingKey(""), nil, 0, func(k, _ []byte) error {
		out = append(out, string(k[1:]))
		return nil
	}))
	return out
}

// What could not be approved for an end is approved when the end is there: as an entity, or as an approved candidate, whoever approved it.
func TestAgain(t *testing.T) {
	r := newRoom(t)
	r.put("{auto_accept: [{kind: relation, min_confidence: 0.8}, {kind: property}, {kind: entity, label: Saw}]}")
	r.read("a", "Person:Ada", "0.9 relation OWNS Ada > s1", "0.9 relation OWNS Ada > m1", "0.9 relation LIKES Ada > Bob", "0.9 property Ship.born Heron = 1815", "0.9 entity Mast m1", "0.9 relation OWNS Ada > never")
	r.through()
	all := []string{"property|born|heron|1815", "relation|likes|ada|bob", "relation|owns|ada|m1", "relation|owns|ada|never", "relation|owns|ada|s1"}
	require.Equal(t, all, r.blocked())
	require.Zero(t, count(r.states(), "approved"))
	asked := len(r.asked)
	r.read("x", "Person:Cy")
	r.through()
	require.Len(t, r.asked, asked, "nothing is asked for in vain")

	r.read("b", "Person:Bob", "Ship:Heron") // entities
	r.through()
	require.Equal(t, []string{"approved", "approved"}, []string{r.state("relation|likes|ada|bob"), r.state("property|born|heron|1815")})
	r.read("c", "0.9 entity Saw s1") // a candidate that the policy approves
	r.through()
	require.Equal(t, "approved", r.state("relation|owns|ada|s1"))
	_, err := r.desk.Decide(t.Context(), g, api.CandidatesDecide{Keys: []string{"entity|mast|m1"}, Decision: "approve", Actor: "eva"})
	require.NoError(t, err)
	r.through()
	require.Equal(t, "approved", r.state("relation|owns|ada|m1"))
	require.Equal(t, []string{"relation|owns|ada|never"}, r.blocked())
	for _, a := range r.records() {
		require.Equal(t, a.Actor == "policy", a.Policy != nil)
	}

	// What went, what another policy is about, and what people have in hand is not looked at any more.
	r.read("a", "Person:Ada")
	r.through()
	require.Empty(t, r.blocked())
	r.read("a", "Person:Ada", "0.9 relation OWNS Ada > never")
	r.through()
	require.Len(t, r.blocked(), 1)
	r.put("{auto_accept: [{kind: entity, label: Other}]}")
	r.through()
	require.Empty(t, r.blocked())
	r.put("{auto_accept: [{kind: relation}]}")
	r.through()
	require.Len(t, r.blocked(), 1)
	_, err = r.desk.Edit(t.Context(), g, api.ReviewEdit{ID: r.record("a", "relation|owns|ada|never").ID, Set: map[string]any{"target_text": "Bob"}, Actor: "eva"})
	require.NoError(t, err)
	r.through()
	require.Empty(t, r.blocked())
	require.Equal(t, "pending", r.state("relation|owns|ada|never"))
}

// Of many that wait for an end a page is looked at behind each commit, in turns.
func TestAgainInTurns(t *testing.T) {
	r := newRoom(t)
	r.put("{auto_accept: [{kind: relation}]}")
	var items []string
	for i := range 8 {
		items = append(items, fmt.Sprintf("0.9 relation NEAR End%d > End%d", i, i))
	}
	r.read("a", items...)
	r.through()
	require.Len(t, r.blocked(), 8)
	r.read("b", "Person:End6", "Person:End7") // of the last page
	for i := range 3 {
		r.read("c", fmt.Sprintf("Person:Cy%d", i))
		r.through()
	}
	require.Equal(t, []string{"approved", "approved"}, []string{r.state("relation|near|end6|end6"), r.state("relation|near|end7|end7")})
	require.Len(t, r.blocked(), 6)
	var ends []string
	for i := range 8 {
		ends = append(ends, fmt.Sprintf("Person:End%d", i))
	}
	r.read("d", ends...)
	r.through()
	require.Equal(t, 8, count(r.states(), "approved"), "each page is a commit, behind which the next one's turn is")
	require.Empty(t, r.blocked())
	keys := []string{}
	for _, a := range r.records() {
		keys = append(keys, a.Key)
	}
	slices.Sort(keys)
	require.Len(t, slices.Compact(keys), 8)
}
