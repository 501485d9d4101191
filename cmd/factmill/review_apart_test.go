package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const homonymSchema = `
entities: {Organization: {properties: {founded: {type: integer, identifies: true}}}}
rules: {entities: {Organization: {names: [Norrin Works]}}}
`

// Two firms of one name are told apart with the command that show prints: each is an entity of its own, in reads, the export and for what is
// read later; an undo brings the same export back.
func TestHomonymsAreToldApart(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", homonymSchema)
	p.file("docs/a.txt", "Norrin Works was founded in 1901.\n")
	p.file("docs/b.txt", "Norrin Works was founded in 1950.\n")
	p.file("docs/c.txt", "Norrin Works builds ferries.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	export := func() string {
		r := p.run("", "export", "--canonical", "--data", "g")
		require.Equal(t, exitDone, r.code, r.err)
		require.Contains(t, r.out, `"kind":"entity"`)
		return r.out
	}
	before := export()
	groups := reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups
	require.Len(t, groups, 1)
	id := groups[0].IDs[0]
	page := p.run("", "review", "show", id, "--data", "g")
	require.Contains(t, page.out, "factmill review reject --id "+id+" --decision different --fingerprint ")
	print := reads[api.ReviewShowReply](t, p.run("", "review", "show", id, "--data", "g", "--json")).Fingerprint
	r = p.run("", "review", "reject", "--id", id, "--fingerprint", print, "--actor", "eva", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, p.run("", "review", "show", id, "--data", "g").out, "told apart: each value is of an entity of its own")
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)

	r = p.run("", "entity", "Norrin Works", "--type", "Organization", "--data", "g")
	require.Equal(t, exitUsage, r.code, r.out)
	require.Contains(t, r.err, "3 entities are named")
	require.Contains(t, r.err, "founded 1950")
	apart := reads[api.ReviewShowReply](t, p.run("", "review", "show", id, "--data", "g", "--json")).Conflict
	require.Len(t, apart.Values, 2)
	one := p.run("", "entity", apart.Values[0].Entity, "--data", "g")
	require.Equal(t, exitDone, one.code, one.err)
	require.Contains(t, one.out, "homonym   the one of founded 1901; others have the name")
	require.Contains(t, one.out, "mentions  1 in 1 document")
	require.Contains(t, p.run("", "entity", apart.Owner, "--data", "g").out, "homonym   undecided")

	r = p.run("Norrin Works was founded in 1950.", "ingest", "-", "--key", "d", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, p.run("", "entity", apart.Values[1].Entity, "--data", "g").out, "mentions  2 in 2 documents")
	require.Equal(t, exitDone, p.run("", "delete", "d", "--data", "g").code)
	require.Equal(t, 3, strings.Count(export(), `"homonym":`))
	r = p.run("", "verify", "--data", "g")
	require.Equal(t, exitDone, r.code, r.out+r.err)
	require.Empty(t, reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "match", "--state", "all", "--data", "g", "--json")).Groups, "they are no matches of each other")

	record := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json")).Records[0].Record
	r = p.run("", "review", "undo", record, "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Equal(t, before, export())
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)
}
