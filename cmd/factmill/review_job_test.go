package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// A held job is looked at, sent back with an edit, and accepted by the fingerprint that was shown; an older one is refused with the plan of now.
func TestAHeldJobIsReviewed(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", firmSchema)
	r := p.run("", "schema", "put", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	r = p.run("Norrin Works was founded in 1901. Halden Ferries was founded in 1950.\n", "ingest", "-", "--key", "a", "--hold", "--job", "look", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, p.run("", "review", "list", "--kind", "job", "--data", "g").out, "job|look\n1 of 1 held job\n")
	require.Contains(t, p.run("", "review", "stats", "--data", "g").out, "1 job is held: factmill review list --kind job\n")
	r = p.run("", "review", "show", "job|look", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	for _, want := range []string{"job look  held  add of 1 document\n", "would  1 document added, 2 new entities\n", "+ founded of Norrin Works = 1901  (a)\n", "factmill review approve --id look --fingerprint "} {
		require.Contains(t, r.out, want)
	}
	first := regexp.MustCompile(`fingerprint ([0-9a-f]{64})`).FindStringSubmatch(r.out)[1]
	item := regexp.MustCompile(`(?m)^  (p[0-9a-f]{12}) +property +founded of Halden Ferries = 1950 `).FindStringSubmatch(r.out)[1]

	r = p.run("", "review", "approve", "--id", "look", "--decision", "accept", "--data", "g")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "show gives that of the plan")
	back := []string{"review", "send-back", "--id", "look", "--fingerprint", first, "--document", "a", "--item", item, "--data", "g"}
	r = p.run("", append(back, "--set", "value=1960")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "the value 1960 is not in the text")
	r = p.run("", back...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "say what to change")
	p.file("edits.json", `[{"document":"a","item":"`+item+`","drop":true}]`)
	r = p.run("", "review", "send-back", "--id", "look", "--fingerprint", first, "--edits", "edits.json", "--reason", "no founding", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "1 job sent back\n")
	require.NotContains(t, r.out, "1950")

	r = p.run("", "jobs", "accept", "look", "--fingerprint", first, "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "(stale_plan)\n")
	require.Contains(t, r.err, "+ founded of Norrin Works = 1901  (a)")
	r = p.run("", "jobs", "accept", "look", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.err, "job look would: 1 document added, 2 new entities\n")
	require.Regexp(t, `(?m)^fingerprint [0-9a-f]{64}$`, r.err)
	require.Contains(t, r.out, "job look committed")
	require.Equal(t, float64(1901), reads[api.EntityReply](t, p.run("", "entity", "Norrin Works", "--data", "g", "--json")).Entity.Properties["founded"].Value)
	require.Empty(t, reads[api.EntityReply](t, p.run("", "entity", "Halden Ferries", "--data", "g", "--json")).Entity.Properties)
	log := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--item", "job|look", "--data", "g", "--json")).Records
	require.Equal(t, []string{"accept", "send_back"}, []string{log[0].Decision, log[1].Decision})
	r = p.run("", "review", "undo", log[0].Record, "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "a commit is not taken back")
	require.Equal(t, 1, strings.Count(p.run("", "review", "list", "--kind", "job", "--data", "g").out, "no group matches"))
}
