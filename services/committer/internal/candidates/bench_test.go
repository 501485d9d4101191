package candidates

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// BenchmarkQuery rejects 10,000 candidates of 20 documents by one query.
func BenchmarkQuery(b *testing.B) {
	const docs, each = 20, 500
	for b.Loop() {
		b.StopTimer()
		r := newRoom(b)
		for d := range docs {
			items := make([]string, each)
			for i := range items {
				items[i] = fmt.Sprintf("relation OWNS Holder %d of %d > Thing %d", d, i, i)
			}
			r.read(fmt.Sprint("doc", d), items...)
		}
		b.StartTimer()
		reply := r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{States: []string{"pending"}}, Decision: "reject"})
		require.Equal(b, docs*each, reply.Outcome.ChangedTotal)
	}
}

// What converting an approved candidate takes, of 10,000 relations in 100 documents.
func BenchmarkConvert(b *testing.B) {
	const docs, each = 100, 100
	for b.Loop() {
		b.StopTimer()
		r := newRoom(b)
		for d := range docs {
			items := []string{"Person:Ada"}
			for i := range each {
				items = append(items, fmt.Sprintf("Organization:Firm%dx%d", d, i), fmt.Sprintf("relation WORKS_FOR Ada > Firm%dx%d", d, i))
			}
			r.read(fmt.Sprint("d", d), items...)
		}
		r.decide(api.CandidatesDecide{Query: &api.CandidateFilter{Kinds: []string{"relation"}}, Decision: "approve"})
		p, err := r.Patch(b.Context(), g, api.CandidatesPatch{})
		require.NoError(b, err)
		b.StartTimer()
		got, err := r.Convert(b.Context(), g, api.ReviewConvert{Patch: &p})
		require.NoError(b, err)
		require.Equal(b, docs*each, got.CreatedRelations)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*docs*each), "µs/candidate")
}
