package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// The committer tells of every kind how long its oldest item has waited, from the commit that made it, after a
// restart, too; once it is decided the next one counts.
func TestAgeOfWhatWaits(t *testing.T) {
	const name = "factmill_committer_review_oldest_seconds"
	f := newFleet(t, fleetOptions{Replicas: 1})
	age := func(kind string) float64 {
		v, there := f.value("committer", name, "kind="+kind)
		require.True(t, there, kind)
		return v
	}
	for _, k := range []string{"match", "stale", "conflict", "job"} {
		require.Zero(t, age(k), k)
	}
	begin := time.Now()
	f.putSchema("stale", guild)
	f.run("stale", map[string]any{"documents": []any{doc("doc-1", "Lin works for Guild. Mo works for Orva.")}})
	f.run("stale", map[string]any{"documents": []any{doc("doc-1", "Mo works for Orva.")}})
	f.putSchema("conflict", homonymSchema)
	f.cluster.add("conflict", homonyms...)
	f.cluster.add("match", matchable()...)
	require.NotEmpty(t, f.pairs("match", "pending"))
	f.await("job", f.publish("job", map[string]any{"key": "held", "text": "Ada Lovelace worked for Orva.", "hold": true}), api.JobHeld)
	made := time.Now()
	aged := func() map[string]float64 {
		out := map[string]float64{}
		testkit.AwaitFor(t, time.Minute, "the age of each kind", func() bool {
			for _, k := range []string{"match", "stale", "conflict", "job"} {
				out[k] = age(k)
			}
			return out["match"] > 0 && out["stale"] > 0 && out["conflict"] > 0 && out["job"] > 0
		})
		return out
	}
	for k, v := range aged() {
		require.Less(t, v, time.Since(begin).Seconds(), k)
	}

	// Another match is younger, and the older ones are decided; a committer that begins anew tells the ages as they are.
	old := f.pairs("match", "pending")
	f.cluster.add("match", doc("d", "Peter Olm works for Halden Institute. Peter J. Olm works for Skyloom."))
	require.Greater(t, len(f.pairs("match", "pending")), len(old))
	decide := api.ReviewDecide{Actor: "eva"}
	for _, g := range old {
		decide.IDs = append(decide.IDs, g.IDs...)
	}
	ask[api.DecideReply](f.cluster, "match", "review.reject", decide)
	restarted := time.Now()
	f.restart("committer")
	ages := aged()
	require.Less(t, ages["match"], time.Since(made).Seconds())
	for _, k := range []string{"stale", "conflict", "job"} {
		require.Greater(t, ages[k], restarted.Sub(made).Seconds(), k)
	}
}
