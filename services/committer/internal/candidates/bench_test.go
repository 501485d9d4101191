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
