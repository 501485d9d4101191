package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// Every replica finds candidates by words with each decision in it; the committer, which has the other verbs of query, leaves this one to
// them.
func TestCandidateSearch(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 3})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"documents": undeclared()})
	search := func(q string) api.SearchCandidatesReply {
		t.Helper()
		r := ask[api.SearchCandidatesReply](f.cluster, "g", "query.candidates", map[string]any{"q": q})
		require.Equal(t, api.CandidatesNote, r.Note)
		return r
	}
	open := f.candidateGroups("g", "pending")[bobAtOrva+" pending"]
	for range 6 {
		r := search("does Bob work FOR órva?")
		require.NotEmpty(t, r.Results)
		h := r.Results[0]
		require.Equal(t, []any{bobAtOrva, open.Count, open.Documents, 4, true}, []any{h.Key, h.Count, h.Documents, h.Matched, h.Unreviewed})
	}
	ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"entity"}}, Actor: "eva"})
	ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{Keys: []string{bobAtOrva}, Actor: "eva"})
	for range 6 {
		for _, h := range search("bob orva larch workshop").Results {
			require.NotEqual(t, bobAtOrva, h.Key)
			require.Equal(t, h.State == api.StatePending, h.Unreviewed)
		}
	}
	require.Equal(t, "bad_value", refused(f.cluster, "g", "query.candidates", map[string]any{"q": "is it"}).Code)
	require.Equal(t, "unknown_verb", refused(f.cluster, "g", "query.candidate", nil).Code)
	require.Empty(t, ask[api.SearchCandidatesReply](f.cluster, "elsewhere", "query.candidates", map[string]any{"q": "larch"}).Results)
}
