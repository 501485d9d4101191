package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const nordSchema = `
entities: {Organization: {}}
rules: {entities: {Organization: {names: [Norrin, Norrin Ltd, Norrin GmbH]}}}
`

// Of several firms that fit one name one is chosen, by the command that show prints; one undo takes all of it back.
func TestOneOfSeveralFitsIsChosen(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", nordSchema)
	p.file("docs/a.txt", "Norrin builds ferries.\n")
	p.file("docs/b.txt", "Norrin Ltd builds boats.\n")
	p.file("docs/c.txt", "Norrin GmbH builds rails.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	states := func() map[string]string {
		out := map[string]string{}
		for _, g := range reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "match", "--state", "all", "--data", "g", "--json")).Groups {
			out[g.Text] = g.State
		}
		return out
	}
	before := states()
	groups := reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "match", "--state", "all", "--data", "g", "--json")).Groups
	i := slices.IndexFunc(groups, func(g api.Group) bool { return g.SourceText == "Norrin" || g.TargetText == "Norrin" })
	require.GreaterOrEqual(t, i, 0, "%v", groups)
	require.Equal(t, 2, groups[i].Fits)
	page := p.run("", "review", "show", groups[i].IDs[0], "--data", "g")
	require.Contains(t, page.out, "2 entities fit Norrin\n")
	require.Contains(t, page.out, "what approve does  fingerprint ")
	show := reads[api.ReviewShowReply](t, p.run("", "review", "show", groups[i].IDs[0], "--data", "g", "--json"))
	j := slices.IndexFunc(show.Match.Fits, func(f api.MatchFits) bool { return f.Name == "Norrin" })
	one := show.Match.Fits[j].Fits[0]
	for _, line := range []string{"approve --id " + groups[i].IDs[0], "reject --id " + groups[i].IDs[0]} {
		require.Contains(t, page.out, "\n  factmill review "+line+" --fingerprint "+show.Fingerprint+" --data g    they are ")
	}
	require.Contains(t, page.out, " --fingerprint "+show.Fingerprint+" --data g    of all that fit Norrin, this one\n")

	r = p.run("", "review", "approve", "--id", one.ID, "--entity", one.Entity, "--fingerprint", "nothing", "--actor", "eva", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "(stale_plan)")
	require.Equal(t, before, states())
	r = p.run("", "review", "approve", "--id", groups[i].IDs[0], "--entity", one.Entity, "--actor", "eva", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "2 matches decided\n")
	after := states()
	require.Equal(t, map[string]int{"approved": 1, "rejected": 1}, func() map[string]int {
		n := map[string]int{}
		for text, s := range after {
			if s != before[text] {
				n[s]++
			}
		}
		return n
	}())
	records := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json")).Records
	require.Len(t, records, 1)
	r = p.run("", "review", "undo", records[0].Record, "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Equal(t, before, states())
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)
}
