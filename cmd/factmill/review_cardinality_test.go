package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const employerSchema = `
entities: {Person: {}, Organization: {}}
relations: {WORKS_FOR: {patterns: ["Person->Organization"], cardinality: {max_per_source: 1}}}
rules:
  entities: {Person: {names: [Ada Linde]}, Organization: {names: [Norrin Works, Halden Ferries]}}
  relations: {WORKS_FOR: {phrases: ["works for"]}}
`

// Someone with two employers, where the schema allows one: the relations stand side by side, and the one that is chosen is followed.
func TestExcessRelationsAreDecided(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", employerSchema)
	p.file("docs/a.txt", "Ada Linde works for Norrin Works.\n")
	p.file("docs/b.txt", "Ada Linde works for Halden Ferries.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	groups := reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups
	require.Len(t, groups, 1)
	require.Equal(t, []string{"cardinality"}, groups[0].Reasons)
	page := p.run("", "review", "show", groups[0].Key, "--data", "g")
	require.Contains(t, page.out, "Ada Linde WORKS_FOR Norrin Works  1 document")
	print := reads[api.ReviewShowReply](t, p.run("", "review", "show", groups[0].Key, "--data", "g", "--json")).Fingerprint
	r = p.run("", "review", "approve", "--key", groups[0].Key, "--value", "Halden Ferries", "--fingerprint", print, "--actor", "eva", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, p.run("", "entity", "Ada Linde", "--data", "g").out, "WORKS_FOR  Norrin Works  (not chosen)")
	require.Len(t, reads[api.Subgraph](t, p.run("", "neighbors", "Ada Linde", "--data", "g", "--json")).Edges, 1)
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)
	record := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json")).Records[0].Record
	require.Equal(t, exitDone, p.run("", "review", "undo", record, "--data", "g").code)
	require.Len(t, reads[api.Subgraph](t, p.run("", "neighbors", "Ada Linde", "--data", "g", "--json")).Edges, 2)
}
