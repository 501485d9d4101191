package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const guild = `
name: guild
entities: {Person: {}, Organization: {}}
relations: {WORKS_FOR: {patterns: ["Person->Organization"]}}
review: {stale: review}
rules:
  entities:
    Person: {names: [Lin, Mo]}
    Organization: {names: [Guild, Orva]}
  relations:
    WORKS_FOR: {phrases: ["works for"]}
`

// stale are the items that wait, by "document text".
func (c *cluster) stale(graph string) map[string]api.Group {
	c.t.Helper()
	out := map[string]api.Group{}
	for _, g := range ask[api.ReviewListReply](c, graph, "review.list", map[string]any{"kinds": []string{"stale"}}).Groups {
		out[g.Sample.Document+" "+g.Text] = g
	}
	return out
}

func (c *cluster) worksFor(graph string) map[string]int {
	c.t.Helper()
	out := map[string]int{}
	for _, r := range ask[api.RelationListReply](c, graph, "query.relations", api.RelationList{Type: "WORKS_FOR"}).Relations {
		out[r.SourceName+" "+r.TargetName] = r.EvidenceTotal
	}
	return out
}

// What was shown is what is executed: a fact that a new version drops waits; a decision on what moved meanwhile is refused with the new
// plan; a withdrawal takes that document's support only.
func TestStaleFactsOverNATS(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema("g", guild)
	f.run("g", map[string]any{"documents": []any{doc("doc-1", "Lin works for Guild. Mo works for Orva.")}})
	s := f.run("g", map[string]any{"documents": []any{doc("doc-1", "Mo works for Orva.")}})
	require.Equal(t, []int{1, 1, 0}, []int{s.Stages.Storage.StaleKept, s.Stages.Storage.StaleAsked, s.Stages.Storage.RelationsRemoved})
	const lin = "doc-1 Lin WORKS_FOR Guild"
	require.Equal(t, 1, f.stale("g")[lin].Count)
	require.Equal(t, 1, ask[api.ReviewStatsReply](f.cluster, "g", "review.stats", nil).Stale)
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{ID: f.stale("g")[lin].IDs[0]})
	require.Equal(t, []any{0, "Lin works for Guild."}, []any{*shown.Others, shown.Evidence[0].Quote})

	f.run("g", map[string]any{"documents": []any{doc("doc-2", "They say that Lin works for Guild.")}})
	seen := api.ReviewDecide{Keys: []string{shown.Item.Key}, Fingerprint: shown.Fingerprint, Actor: "eva"}
	no := refused(f.cluster, "g", "review.approve", seen)
	require.Equal(t, []any{409, "stale_plan"}, []any{no.Status, no.Code})
	require.Equal(t, map[string]int{"Lin Guild": 2, "Mo Orva": 1}, f.worksFor("g"), "nothing was written")
	now := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: shown.Item.Key})
	require.Equal(t, no.Details["fingerprint"], now.Fingerprint)
	require.Equal(t, 1, *now.Others)
	require.Equal(t, []string{"- Lin WORKS_FOR Guild  (doc-1)  1 left", "    “Lin works for Guild.”"}, now.Plan.Lines())

	seen.Fingerprint, seen.RequestID = now.Fingerprint, "once"
	d := ask[api.DecideReply](f.cluster, "g", "review.approve", seen)
	require.Equal(t, d, ask[api.DecideReply](f.cluster, "g", "review.approve", seen))
	require.Equal(t, map[string]int{"Lin Guild": 1, "Mo Orva": 1}, f.worksFor("g"))
	require.Empty(t, f.stale("g"))
	f.sound("g")

	// Taken back, it waits again; kept, it stays when nobody says it any more.
	ask[api.DecideReply](f.cluster, "g", "review.undo", api.ReviewUndo{Decision: d.Records[shown.Item.Key], Actor: "bo"})
	require.Contains(t, f.stale("g"), lin)
	now = ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: shown.Item.Key})
	require.Len(t, now.History, 2)
	ask[api.DecideReply](f.cluster, "g", "review.reject", api.ReviewDecide{IDs: now.Item.IDs, Fingerprint: now.Fingerprint, Actor: "eva"})
	f.remove("g", "doc-2")
	require.Equal(t, map[string]int{"Lin Guild": 1, "Mo Orva": 1}, f.worksFor("g"))
	for _, r := range ask[api.RelationListReply](f.cluster, "g", "query.relations", api.RelationList{Type: "WORKS_FOR"}).Relations {
		require.Equal(t, r.SourceName == "Lin", r.Evidence[0].Kept)
	}
	f.sound("g")

	// The text comes back, and goes with its document.
	f.run("g", map[string]any{"documents": []any{doc("doc-1", "Lin works for Guild. Mo works for Orva.")}})
	f.remove("g", "doc-1")
	require.Empty(t, f.worksFor("g"))
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Item: shown.Item.Key, Verify: true})
	require.Len(t, log.Records, 3)
	require.Empty(t, log.Problems)
	f.sound("g")
}

// A fact that a person made is never withdrawn in silence, whatever the policy says of others.
func TestConvertedFactsAreAskedAbout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"documents": []any{doc("a", "Perhaps Bob will work for Orva. Alice works at Acme.")}})
	r := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Keys: []string{bobAtOrva}, Actor: "eva"})
	require.Equal(t, 1, ask[api.ConvertReport](f.cluster, "g", "review.convert", map[string]any{"patch": r.Patch}).CreatedRelations)
	s := f.run("g", map[string]any{"documents": []any{doc("a", "Nobody works anywhere.")}})
	require.Equal(t, []int{1, 1, 1}, []int{s.Stages.Storage.StaleKept, s.Stages.Storage.StaleAsked, s.Stages.Storage.RelationsRemoved}, "Alice's goes")
	require.Contains(t, f.stale("g"), "a Bob WORKS_FOR Orva")
	require.Equal(t, map[string]int{"Bob Orva": 1}, f.worksFor("g"))
	f.sound("g")
}
