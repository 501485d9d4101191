package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

const firmSchema = `
entities: {Organization: {properties: {founded: {type: integer}}}}
rules: {entities: {Organization: {names: [Norrin Works, Halden Ferries]}}}
`

// A conflict is decided with the commands that show prints; on a screen that is no more what it was, the new plan is shown instead.
func TestConflictsAreDecided(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", firmSchema)
	p.file("docs/a.txt", "Norrin Works was founded in 1901. Halden Ferries was founded in 1950.\n")
	p.file("docs/b.txt", "Norrin Works was founded in 1902. Halden Ferries was founded in 1951.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	keys := map[string]string{}
	for _, g := range reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "conflict", "--data", "g", "--json")).Groups {
		keys[g.Text] = g.Key
	}
	show := func() string {
		r := p.run("", "review", "show", keys["Norrin Works"], "--data", "g")
		require.Equal(t, exitDone, r.code, r.err)
		return r.out
	}
	founded := func() any {
		return reads[api.EntityReply](t, p.run("", "entity", "Norrin Works", "--data", "g", "--json")).Entity.Properties["founded"].Value
	}
	// typed runs a line of the page as a person types it.
	typed := func(page, which string) result {
		line := regexp.MustCompile(`(?m)^  factmill (.*` + which + `.*)$`).FindStringSubmatch(page)
		require.NotNil(t, line, page)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", binary+" "+line[1]+" --actor eva")
		cmd.Dir, cmd.Env = p.home, []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH")}
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // the code tells
		return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	}
	page := show()
	require.Contains(t, page, "what approve does  fingerprint ")
	require.Contains(t, page, "~ founded of Norrin Works: 1902 becomes 1901")
	require.Equal(t, float64(1901), founded())

	r = p.run("Norrin Works was founded in 1902.", "ingest", "-", "--key", "c", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	r = typed(page, "approve .*--value")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "(stale_plan)\n")
	require.Contains(t, r.err, "~ founded of Norrin Works: 1901 becomes 1902")
	require.Regexp(t, `fingerprint [0-9a-f]{64}\n`, r.err)

	page = show()
	r = typed(page, "reject --id .*--value 1902")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "1 conflict rejected\n")
	require.Equal(t, float64(1901), founded())
	require.Contains(t, p.run("", "entity", "Norrin Works", "--data", "g").out, "founded: 1901  (also stated: 1902 (rejected))")
	page = show()
	require.Contains(t, page, "reject 1902")
	require.Contains(t, page, "property_conflict rejected")
	require.Contains(t, p.run("", "review", "list", "--kind", "conflict", "--state", "rejected", "--data", "g").out, "Norrin Works")
	r = typed(page, "keep_all")
	require.Equal(t, exitDone, r.code, r.err)
	require.Equal(t, []any{float64(1901), float64(1902)}, founded())
	record := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json")).Records[0].Record
	r = p.run("", "review", "undo", record, "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Equal(t, float64(1901), founded())

	// In the walk a decision is about what was looked at.
	r = p.run("a\nr\nd\na\n", "review", "next", "--kind", "conflict", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	for _, want := range []string{"look first", "say which value", "~ founded of Halden Ferries: 1951 becomes 1950", "1 approved, 0 rejected, 0 skipped"} {
		require.Contains(t, r.out, want)
	}
	require.Contains(t, p.run("", "review", "list", "--kind", "conflict", "--data", "g").out, "no group matches")
	r = p.run("", "review", "approve", "--key", keys["Halden Ferries"], "--data", "g")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "show gives it")
}
