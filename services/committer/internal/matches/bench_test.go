package matches

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// crowded has n entities, each matching those of the next k numbers.
func crowded(t testing.TB, n, k int) *room {
	r := open(t, vfs.NewMem())
	r.st.Graph(g, true)
	name := func(i int) string { return fmt.Sprintf("Organization:Firm number %d of the list", i%n) }
	for at := 0; at < n; at += 500 {
		var all []string
		for i := at; i < min(n, at+500); i++ {
			all = append(all, name(i))
		}
		r.commit(fmt.Sprint("d", at), all...)
	}
	r.txn(func(txn *store.Txn) error {
		for i := range n {
			for j := 1; j <= k; j++ {
				state := store.MatchActive
				if j == 1 {
					state = store.MatchUnclear
				}
				if _, err := txn.PutMatch(store.Match{A: entityID(name(i)), B: entityID(name(i + j)), Method: "typo", Score: 0.85, Found: state}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return r
}

// The largest decision fits into a reply and one commit.
func TestTheLargestDecision(t *testing.T) {
	r := crowded(t, api.MaxDecided+1, 1)
	all := api.MatchFilter{States: []string{"pending"}}
	require.Equal(t, "413 too_large", r.refused(api.MatchDecide{Query: &all, Decision: "same", Actor: "eva"}))
	var ids []string
	req := api.MatchesList{MatchFilter: all, Limit: 1000}
	for len(ids) < api.MaxDecided {
		page := r.list(req)
		for _, x := range page.Groups {
			ids = append(ids, x.IDs[0])
		}
		last := page.Groups[len(page.Groups)-1].Place()
		req.After = &last
	}
	d := r.decide(api.MatchDecide{IDs: ids[:api.MaxDecided], Decision: "same", Actor: "eva", RequestID: "big"})
	require.Len(t, d.Outcome.Changed, api.MaxDecided)
	b, err := json.Marshal(d)
	require.NoError(t, err)
	require.Less(t, len(b), 900<<10)
	require.Equal(t, map[string]int{"pending": 1, "approved": api.MaxDecided}, r.list(api.MatchesList{}).States)
	require.Len(t, r.decide(api.MatchDecide{Query: &all, Decision: "same", Actor: "eva"}).Outcome.Changed, 1)
	r.verified()
}

func BenchmarkList(b *testing.B) {
	r := crowded(b, 10_000, 5)
	for _, c := range []struct {
		name string
		f    api.MatchFilter
	}{{"all of 50000", api.MatchFilter{}}, {"pending 10000 of 50000", api.MatchFilter{States: []string{"pending"}}}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				reply, err := r.List(b.Context(), g, api.MatchesList{MatchFilter: c.f, Limit: 100})
				require.NoError(b, err)
				require.Len(b, reply.Groups, 100)
			}
		})
	}
}
