package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// spelled is a number as a word.
func spelled(n int) string {
	const letters = "bcdfghjklm"
	out := "Qu"
	for _, d := range fmt.Sprintf("%05d", n) {
		out += string(letters[d-'0']) + "a"
	}
	return out
}

// Ten thousand candidates: pages fit into messages and leave none out, one request approves them all and says how many, and what is asked
// after it has them approved.
func TestTenThousandCandidates(t *testing.T) {
	const docs, each = 50, 200
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	var list []map[string]any
	for i := range docs {
		var text strings.Builder
		for j := range each {
			fmt.Fprintf(&text, "The %s Workshop took place in Vell Harbour. ", spelled(i*each+j))
		}
		list = append(list, doc(fmt.Sprintf("d%02d", i), text.String()))
	}
	began := time.Now()
	f.run("g", map[string]any{"documents": list})
	t.Logf("read in %s", time.Since(began))
	pages := func(state string) (keys map[string]bool, total int) {
		keys, req := map[string]bool{}, map[string]any{"state": state, "limit": 1000}
		for {
			raw := ask[json.RawMessage](f.cluster, "g", "review.list", req)
			require.Less(t, len(raw), 1<<20)
			var page api.ReviewListReply
			require.NoError(t, json.Unmarshal(raw, &page))
			for _, g := range page.Groups {
				require.False(t, keys[g.Key], "%s is listed twice", g.Key)
				keys[g.Key] = true
			}
			if req["cursor"], total = page.Next, page.Total; page.Next == "" {
				return keys, total
			}
		}
	}
	open, total := pages("pending")
	require.Len(t, open, total)
	require.GreaterOrEqual(t, total, docs*each)
	began = time.Now()
	r := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{}, Actor: "eva", RequestID: "all"})
	t.Logf("%d candidates approved in %s, %d skipped", r.Outcome.ChangedTotal, time.Since(began), r.Outcome.SkippedTotal)
	require.Equal(t, total, max(r.Outcome.ChangedTotal, len(r.Outcome.Changed)))
	approved, n := pages("approved")
	require.Equal(t, total, n)
	require.Equal(t, open, approved)
	h := ask[api.SearchCandidatesReply](f.cluster, "g", "query.candidates", map[string]any{"q": spelled(4711) + " workshop"})
	require.Equal(t, []any{2, api.StateApproved, false}, []any{h.Results[0].Matched, h.Results[0].State, h.Results[0].Unreviewed})
	require.GreaterOrEqual(t, h.Total, docs*each)
	require.Equal(t, r, ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Query: &api.ReviewList{}, Actor: "eva", RequestID: "all"}))
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: "all"})
	require.Equal(t, []any{uint64(total), events.DecisionApprove}, []any{log.Total, log.Records[0].Decision})
}
