package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// What waits for review, whatever was done to it, is among facts for no reader. The words stand in the documents, which are shown; that they
// are candidates shows in ids, keys, types, and in a name that nothing but an edit has.
func TestCandidatesAreNoFacts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	f.settled("g", f.publish("g", map[string]any{"documents": append(undeclared(), doc("c", "The Maple Fair took place in Vell Harbour. Dan lives in Vell Harbour."))}))
	s := subject{keys: []string{"a", "b", "c"}, entities: []string{"Person:Bob", "Organization:Orva", "Event:Larch Workshop", "Event:Qzedited Fair"},
		words: []string{"Larch Workshop", "does Bob work for Orva?", "Qzedited Fair", "qzeditd", "Event", "perhaps"}}
	marks := []string{"qzedited", `"type":"event"`, `"label":"event"`}
	mark := func() {
		for _, g := range f.candidateGroups("g", "") {
			marks = append(marks, g.IDs...)
			marks = append(marks, g.Key)
			if g.Kind == "relation" {
				continue
			}
			id := fingerprint.EntityID(g.Label, fingerprint.Fold(g.Text))
			marks, s.ids = append(marks, id), append(s.ids, id)
		}
		for _, typ := range []string{"WORKS_FOR", "works for"} {
			id := fingerprint.RelationID(typ, fingerprint.EntityID("Person", "bob"), fingerprint.EntityID("Organization", "orva"), false)
			marks, s.ids = append(marks, id), append(s.ids, id)
		}
		s.ids = unlike(s.ids)
	}
	mark()
	larch, fair := "", ""
	for k, g := range f.candidateGroups("g", "pending") {
		switch {
		case strings.Contains(strings.ToLower(k), "larch workshop"):
			larch = g.Key
		case strings.Contains(strings.ToLower(k), "maple fair"):
			fair = g.Key
		}
	}
	require.NotEmpty(t, larch)
	require.NotEmpty(t, fair)
	check := func(when string) {
		t.Helper()
		mark()
		silent(t, f.told("g", s), marks, when)
		path := f.told("g", s)[`query.path {"from":"Person:Bob","max_depth":8,"to":"Organization:Orva"}`]
		require.NotContains(t, path, `"type":"WORKS_FOR"`, when)
	}
	check("pending")
	seen := ask[api.SearchCandidatesReply](f.cluster, "g", "query.candidates", map[string]any{"q": "larch workshop bob"})
	require.NotEmpty(t, seen.Results, "they are where they belong")

	// With items, and in an export of candidates, they are by contract.
	items := f.documentAt("g", map[string]any{"key": "a", "items": true}).Items.Items
	n := 0
	for _, i := range items {
		if i.Outcome == "candidate" {
			require.Equal(t, "pending", i.State)
			n++
		}
	}
	require.Positive(t, n)
	require.Contains(t, f.exported("g", 0), larch)

	ask[api.ReviewEditReply](f.cluster, "g", "review.edit", api.ReviewEdit{ID: f.candidateGroups("g", "pending")[fair+" pending"].IDs[0],
		Set: map[string]any{"name": "Qzedited Fair"}, Actor: "eva"})
	check("edited")
	ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Keys: []string{fair, larch}, Actor: "eva"})
	require.Contains(t, f.candidateGroups("g", "approved"), fair+" approved")
	check("approved")
	ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{Keys: []string{bobAtOrva, larch}, Actor: "eva"})
	check("rejected")
	for _, h := range ask[api.SearchCandidatesReply](f.cluster, "g", "query.candidates", map[string]any{"q": "larch workshop bob orva"}).Results {
		require.NotContains(t, []string{bobAtOrva, larch}, h.Key, "nor are rejected ones found as candidates")
	}
	f.run("g", map[string]any{"documents": undeclared(), "force": true})
	check("read again")
	f.sound("g")
}

// unlike drops repeats.
func unlike(list []string) []string {
	seen, out := map[string]bool{}, list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
