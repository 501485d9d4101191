package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const seatSchema = `
entities: {Organization: {properties: {seat: {type: string, required: true}}}}
rules:
  entities: {Organization: {names: [Norrin Works, Halden Ferries]}}
`

// A required value that is missing waits with the places where its entity is named; it is accepted by the command that show prints, and
// that is taken back.
func TestMissingValuesAreDecided(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", seatSchema)
	p.file("docs/a.txt", "Norrin Works builds ships in Halden.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	page := p.run("", "review", "list", "--kind", "conflict", "--data", "g")
	require.Regexp(t, `Organization +Norrin Works +seat +missing_required +pending +1`, page.out)
	require.Contains(t, p.run("", "review", "list", "--kind", "conflict,entity", "--data", "g").out, "Norrin Works  (Organization)  seat is missing")
	groups := reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups
	require.Len(t, groups, 1)
	require.Regexp(t, `missing_required +1`, p.run("", "review", "stats", "--data", "g").out)
	require.Contains(t, p.run("", "verify", "--schema", "--data", "g").out, `Organization "Norrin Works" has no seat, which is required`)

	id := groups[0].IDs[0]
	shown := p.run("", "review", "show", id, "--data", "g")
	require.Equal(t, exitDone, shown.code, shown.err)
	for _, want := range []string{"missing_required pending  no value, named in 1 document", "»Norrin Works« builds ships in Halden.", "what approve does", "accepts that it is missing"} {
		require.Contains(t, shown.out, want)
	}
	print := reads[api.ReviewShowReply](t, p.run("", "review", "show", groups[0].Key, "--data", "g", "--json")).Fingerprint
	r = p.run("", "review", "approve", "--id", id, "--value", "Halden", "--fingerprint", print, "--actor", "eva", "--data", "g")
	require.NotEqual(t, exitDone, r.code)
	require.Contains(t, r.err, "a value needs its evidence")
	r = p.run("", "review", "reject", "--id", id, "--fingerprint", print, "--actor", "eva", "--data", "g")
	require.NotEqual(t, exitDone, r.code)
	require.Contains(t, r.err, "keep_all accepts that it is missing")

	// The line that show prints is what to type.
	i := strings.Index(shown.out, "factmill review approve --id ")
	require.Positive(t, i)
	line, _, _ := strings.Cut(shown.out[i:], "    ")
	r = p.run("", append(strings.Fields(line)[1:], "--actor", "eva")...)
	require.Equal(t, exitDone, r.code, r.err)
	require.Empty(t, reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups)
	require.Contains(t, p.run("", "export", "--canonical", "--data", "g").out, `{"key":"`+groups[0].Key+`","kind":"decision","state":"approved"}`)
	require.Contains(t, p.run("", "review", "list", "--kind", "conflict", "--state", "approved", "--data", "g").out, "missing_required")
	record := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json")).Records[0].Record
	require.Equal(t, exitDone, p.run("", "review", "undo", record, "--data", "g").code)
	require.Len(t, reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups, 1)
	require.Equal(t, exitDone, p.run("", "review", "audit", "--verify", "--data", "g").code)
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)
}
