package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/testkit"
)

// hired is a model that sees in every letter that somebody was hired by a firm, by a relation that the schema desk does not have; in the
// first one a ship, too; in the last one a firm that the sentence does not say for sure.
func hired(c testkit.ModelCall) testkit.ModelReply {
	said := `{"entities":[{"type":"Person","name":"Ada Lovelace","confidence":0.9},{"type":"Organization","name":"Acme Ltd","confidence":0.9}%s],` +
		`"relations":[{"type":"HIRED_BY","source":{"type":"Person","name":"Ada Lovelace"},"target":{"type":"Organization","name":"Acme Ltd"},"quote":"Ada Lovelace was hired by Acme Ltd","confidence":0.8}]}`
	more := ""
	if strings.Contains(c.Messages[1].Content, "Larkspur") {
		more = `,{"type":"Ship","name":"Larkspur","confidence":0.7,"properties":{"built":"1839"}}`
	}
	if strings.Contains(c.Messages[1].Content, "Boxwood") {
		more = `,{"type":"Organization","name":"Boxwood","confidence":0.3}`
	}
	return testkit.ModelReply{Content: strings.Replace(said, "%s", more, 1)}
}

// What three documents say outside the schema becomes one fact with three evidences, once the schema has grown: over NATS, whichever
// replica answers, without a model call.
func TestConversion(t *testing.T) {
	t.Parallel()
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: hired})
	f := asking(t, fleetOptions{Replicas: 3}, m, "g")
	letters := []any{
		doc("a", "Ada Lovelace was hired by Acme Ltd. She sailed on the Larkspur, built in 1839."),
		doc("b", "Ada Lovelace was hired by Acme Ltd, they say."),
		doc("c", "In spring Ada Lovelace was hired by Acme Ltd; Boxwood is perhaps a firm."),
	}
	f.run("g", map[string]any{"documents": letters})
	asked := m.Count()
	const relation, ship, firm = "relation|hired by|ada lovelace|acme ltd", "entity|ship|larkspur", "entity|organization|boxwood"
	open := f.candidateGroups("g", "pending")
	require.Equal(t, []int{3, 3}, []int{open[relation+" pending"].Count, open[relation+" pending"].Documents}, "%v", keysOfGroups(open))
	require.Contains(t, open, ship+" pending", "%v", keysOfGroups(open))
	require.Contains(t, open, firm+" pending", "%v", keysOfGroups(open))

	r := ask[api.DecideReply](f.cluster, "g", "review.approve", api.ReviewDecide{Keys: []string{relation, ship, firm}, Actor: "eva"})
	require.Equal(t, 3, r.Outcome.ChangedTotal, "%v", r.Outcome.Skipped)
	p := ask[patch.Patch](f.cluster, "g", "review.patch", map[string]any{})
	require.Equal(t, r.Patch, &p)
	require.Len(t, p.CandidateIDs, 5)
	no := refused(f.cluster, "g", "review.convert", map[string]any{"patch": p})
	require.Equal(t, []any{409, "patch_not_applied", []any{"entity type Ship", "relation HIRED_BY"}}, []any{no.Status, no.Code, no.Details["missing"]})

	grown, err := patch.Apply([]byte(desk), "desk.yaml", nil, &p)
	require.NoError(t, err)
	f.putSchema("g", string(grown.Data))
	require.Len(t, f.candidateGroups("g", "approved"), 3, "no schema change touches a state")
	done := ask[api.ConvertReport](f.cluster, "g", "review.convert", map[string]any{"patch_id": p.PatchID, "request_id": "once"})
	require.Equal(t, []int{2, 0, 1, 5, 0}, []int{done.ConvertedEntities, done.Folded, done.CreatedRelations, done.Records, done.SkippedTotal}, "%v", done)
	require.Equal(t, done, ask[api.ConvertReport](f.cluster, "g", "review.convert", map[string]any{"patch_id": p.PatchID, "request_id": "once"}))
	for range 6 {
		require.Empty(t, f.candidateGroups("g", "approved"), "every replica knows")
	}
	again := ask[api.ConvertReport](f.cluster, "g", "review.convert", map[string]any{"patch": p})
	require.Equal(t, []int{0, 5}, []int{again.Records, again.SkippedTotal})
	for _, why := range again.Skipped {
		require.Equal(t, "not approved", why)
	}
	require.Equal(t, asked, m.Count(), "no model is called")
	require.Equal(t, 1.0, ask[api.ReviewStatsReply](f.cluster, "g", "review.stats", nil).AcceptanceRate, "three keys were approved")
	hiredBy := func() api.RelationListReply {
		return ask[api.RelationListReply](f.cluster, "g", "query.relations", api.RelationList{Type: "HIRED_BY"})
	}
	rel := hiredBy()
	require.Len(t, rel.Relations, 1)
	for _, e := range rel.Relations[0].Evidence {
		require.Contains(t, e.Quote, "Ada Lovelace was hired by Acme Ltd")
	}
	require.Equal(t, 3, rel.Relations[0].EvidenceTotal)
	f.sound("g")

	// Facts go with their documents; a reading under the grown schema states them by itself.
	f.remove("g", "a")
	rel = hiredBy()
	require.Equal(t, 2, rel.Relations[0].EvidenceTotal)
	f.run("g", map[string]any{"documents": letters})
	rel = hiredBy()
	require.Equal(t, 3, rel.Relations[0].EvidenceTotal)
	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Operation: "once", Verify: true})
	require.Len(t, log.Records, 3)
	require.Empty(t, log.Problems)
	f.sound("g")
}
