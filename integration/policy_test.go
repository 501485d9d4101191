package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// policed is the schema staff with a policy.
const policed = staff + `
review:
  version: "3"
  auto_reject: [{kind: relation, label: WORKS_FOR, reason: assertion_kind}, {label: Ghost}]
  auto_accept: [{kind: entity, label: Event, min_confidence: 0.8}, {kind: relation, label: LOCATED_IN}]
`

// What the dry run says is what is done behind the commit, once the policy is put, and what comes later is decided when its job's wait ends.
func TestPolicyDecides(t *testing.T) {
	f := newFleet(t, fleetOptions{Replicas: 2})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"documents": undeclared()})
	const event, place, at = "entity|event|larch workshop", "entity|location|vell harbour", "relation|located in|larch workshop|vell harbour"
	require.Len(t, f.candidateGroups("g", "pending"), 4)

	try := ask[api.ReviewPolicyReply](f.cluster, "g", "review.policy", map[string]any{"schema": policed})
	require.Equal(t, []any{false, "3", 4, 6, 2}, []any{try.Active, try.Version, try.Keys, try.Records, try.Decided})
	require.Equal(t, []any{[]string{bobAtOrva}, []string{event}}, []any{try.Conditions[0].Samples, try.Conditions[2].Samples})
	require.Equal(t, []any{map[string]int{"no_condition": 1}, map[string]int{"endpoint_unresolved": 1}}, []any{try.People, try.Blocked})
	require.Equal(t, []api.PolicyRule{{List: "auto_reject", Index: 1}}, try.Unused)
	require.Len(t, f.candidateGroups("g", "pending"), 4, "nothing was decided")

	f.putSchema("g", policed)
	testkit.Await(t, "the policy went over the queue", func() bool { return len(f.candidateGroups("g", "pending")) == 2 })
	all := f.candidateGroups("g", "")
	for _, key := range []string{bobAtOrva + " rejected", event + " approved", place + " pending", at + " pending"} {
		require.Contains(t, all, key)
	}

	// The job that brings it, and the job's wait, bring its decision.
	f.run("g", map[string]any{"documents": []map[string]any{doc("c", "Perhaps Alice will work for Orva.")}})
	const alice = "relation|works for|alice|orva"
	require.Contains(t, f.candidateGroups("g", "rejected"), alice+" rejected")

	log := ask[api.ReviewAuditReply](f.cluster, "g", "review.audit", api.ReviewAudit{Actor: "policy", Verify: true})
	require.Empty(t, log.Problems)
	require.Len(t, log.Records, 3)
	a := log.Records[0]
	require.Equal(t, []any{alice, "reject", "rejected", "auto_reject[0] of policy 3 (" + try.Fingerprint + ")"}, []any{a.Key, a.Decision, a.After, a.Reason})
	require.Equal(t, []any{"staff", try.SchemaFingerprint, try.Fingerprint, 1}, []any{a.Policy.Schema, a.Policy.SchemaFingerprint, a.Policy.Fingerprint, len(a.Policy.Extractions)})
	rule, err := json.Marshal(a.Policy.Rules)
	require.NoError(t, err)
	require.JSONEq(t, `[{"list":"auto_reject","index":0,"condition":{"kind":"relation","label":"WORKS_FOR","reason":"assertion_kind"}}]`, string(rule))
	require.Equal(t, a, f.audit("g", 3)[2], "it is published as it is stored")

	// A person takes it back: the policy leaves it alone from then on, restarts and other readings or not.
	ask[api.DecideReply](f.cluster, "g", "review.undo", api.ReviewUndo{Decision: a.Record, Actor: "eva"})
	f.run("g", map[string]any{"documents": []map[string]any{doc("c", "Perhaps Alice will work for Orva. So they say.")}})
	require.Contains(t, f.candidateGroups("g", "pending"), alice+" pending")
	require.Equal(t, 1, ask[api.ReviewPolicyReply](f.cluster, "g", "review.policy", nil).People[api.PeopleTakenBack])
	require.Contains(t, refused(f.cluster, "g", "review.reject", api.ReviewDecide{Keys: []string{alice}, Actor: "policy"}).Message, "say who you are")
	f.sound("g")
}
