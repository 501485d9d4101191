package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Whatever comes and goes, a group is the sum of its records.
func TestGroupsAreTheSumOfTheirRecords(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	m := New(0, 0)
	type at struct{ key, doc string }
	there := map[at]events.CandidateItem{}
	for no := uint64(1); no <= 3000; no++ {
		x := at{fmt.Sprintf("entity|l|%d", rng.IntN(5)), fmt.Sprint(rng.IntN(8))}
		it := events.CandidateItem{ID: fmt.Sprint(no), Document: x.doc, DocumentID: x.doc, State: []string{api.StatePending, api.StateApproved}[rng.IntN(2)],
			Candidate: graph.Candidate{Key: x.key, Kind: graph.KindEntity, Count: rng.IntN(4) + 1, Confidence: float64(rng.IntN(10)) / 10}}
		verb := []string{"proposed", "approved", "withdrawn", "pruned"}[rng.IntN(4)]
		if verb == "withdrawn" || verb == "pruned" {
			delete(there, x)
		} else {
			there[x] = it
		}
		require.True(t, m.Apply(&events.CandidateEvent{Verb: verb, Seq: no, No: no, Items: []events.CandidateItem{it}}))
		if no%37 != 0 {
			continue
		}
		want := map[string][3]float64{}
		for _, it := range there {
			g := want[it.Key+it.State]
			want[it.Key+it.State] = [3]float64{g[0] + float64(it.Count), max(g[1], it.Confidence), g[2] + 1}
		}
		list, _, total := m.List(Filter{}, nil, 0, 100, func(api.Group) int { return 1 }, 1000)
		require.Equal(t, len(want), total)
		got := map[string][3]float64{}
		for _, g := range list {
			got[g.Key+g.State] = [3]float64{float64(g.Count), g.Confidence, float64(g.Documents)}
		}
		require.Equal(t, want, got, "seed %d event %d", seed, no)
		require.True(t, slices.IsSortedFunc(list, func(a, b api.Group) int {
			if a.Place().Before(b.Place()) {
				return -1
			}
			return 1
		}))
	}
}
