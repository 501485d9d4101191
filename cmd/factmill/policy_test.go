package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// A policy is checked, tried, put, and found in the decisions that it takes by itself.
func TestReviewPolicy(t *testing.T) {
	p := newPlace(t)
	file := "name: tiny\nentities: {Person: A human being., Organization: A firm.}\n"
	p.file("schema.yaml", file)
	for i := range 2 {
		p.file(fmt.Sprintf("docs/%d.txt", i), "Ada Lovelace worked for Acme Ltd.\n")
	}
	p.file("bad.yaml", file+"review: {auto_reject: [{kind: entity, min_confidence: 0.9, max_confidence: 0.1}]}\n")
	const policy = "review:\n  version: \"2\"\n  auto_reject: [{kind: relation, label: WORKS_FOR}, {kind: entity, label: Comet}]\n  auto_accept: [{kind: relation, label: works for}]\n"
	p.file("policy.yaml", file+policy)
	reads[api.JobStatus](t, p.run("", "ingest", "docs", "--schema", "schema.yaml", "--data", "g", "--json"))

	r := p.run("", "schema", "validate", "bad.yaml")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "review.auto_reject[0]: min_confidence is above max_confidence")
	r = p.run("", "review", "policy", "--try", "bad.yaml", "--data", "g")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "min_confidence is above max_confidence")
	r = p.run("", "schema", "validate", "policy.yaml")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.err, "warning: review.auto_accept[0]: decides nothing: review.auto_reject[0] fits all that it fits, and comes first")

	r = p.run("", "review", "policy", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "it has no conditions: all wait for people")
	try := []string{"review", "policy", "--try", "policy.yaml", "--data", "g"}
	r = p.run("", try...)
	require.Equal(t, exitDone, r.code, r.err)
	for _, want := range []string{
		"tried, not active\n1 candidate waits in 2 records: 1 would be decided\n",
		"\nauto_reject[0]  {kind: relation, label: WORKS_FOR}\n  rejects 1 candidate, in 2 records\n    relation|works for|ada lovelace|acme ltd\n",
		"\nauto_accept[0]  {kind: relation, label: works for}\n  approves 0 candidates, in 0 records\n",
		"\nfits nothing that waits\n  auto_reject[1]  {kind: entity, label: Comet}\n",
	} {
		require.Contains(t, r.out, want)
	}
	tried := reads[api.ReviewPolicyReply](t, p.run("", append(try, "--json", "--samples", "0")...))
	require.Equal(t, []any{1, 2, 1, false, 0}, []any{tried.Keys, tried.Records, tried.Decided, tried.Active, len(tried.Conditions[0].Samples)})

	r = p.run("", "schema", "put", "policy.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	p.file("docs/2.txt", "Ada Lovelace worked for Acme Ltd. So it was.\n")
	reads[api.JobStatus](t, p.run("", "ingest", "docs", "--data", "g", "--json")) // which waits for the policy, too
	log := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--verify", "--data", "g", "--json"))
	require.Len(t, log.Records, 1)
	require.Equal(t, []any{"policy", "auto_reject[0] of policy 2 (" + tried.Fingerprint + ")"}, []any{log.Records[0].Actor, log.Records[0].Reason})
	r = p.run("", "review", "audit", "--data", "g")
	require.Contains(t, r.out, "auto_reject[0] of policy 2")
	r = p.run("", "review", "policy", "--data", "g")
	require.True(t, strings.Contains(r.out, ": active\n0 candidates wait in 0 records: 0 would be decided\n"), r.out)
}
