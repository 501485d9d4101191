package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
)

// The same relation that the schema has no pair for, in three documents: approve, patch, apply, diff, put. The file keeps its comments.
func TestTheSchemaGrows(t *testing.T) {
	p := newPlace(t)
	file := "# who works where\nname: tiny\nversion: 7\nentities: {Person: A human being., Organization: A firm., Agency: A bureau.}\nrelations:\n  WORKS_FOR: [\"Person->Agency\"] # employment\n"
	p.file("schema.yaml", file)
	for i := range 3 {
		p.file(fmt.Sprintf("docs/%d.txt", i), "Ada Lovelace worked for Acme Ltd.\n")
	}
	st := reads[api.JobStatus](t, p.run("", "ingest", "docs", "--schema", "schema.yaml", "--data", "g", "--json"))
	require.Equal(t, 3, st.Documents.Added)
	key := "relation|works for|ada lovelace|acme ltd"
	list := reads[api.ReviewListReply](t, p.run("", "review", "list", "--kind", "relation", "--data", "g", "--json"))
	require.Len(t, list.Groups, 1)
	require.Equal(t, key, list.Groups[0].Key)
	require.Equal(t, 3, list.Groups[0].Documents)

	r := p.run("", "review", "patch", "--output", "patch.json", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "nothing is approved")
	require.NoFileExists(t, filepath.Join(p.home, "patch.json"))

	approve := []string{"review", "approve", "--key", key, "--actor", "eva", "--request-id", "r1", "--data", "g"}
	done := reads[api.DecideReply](t, p.run("", append(approve, "--json")...))
	require.Equal(t, []string{key}, done.Outcome.Changed)
	require.Equal(t, []patch.Relation{{Label: "WORKS_FOR", AddPatterns: []string{"Person->Organization"}}}, done.Patch.Additions.Relations)
	require.Equal(t, map[string]int{"relation:WORKS_FOR": 3}, done.Patch.Evidence)
	require.Len(t, done.Patch.CandidateIDs, 3)
	again := reads[api.DecideReply](t, p.run("", append(approve, "--json", "--output", "approved.json")...))
	require.Equal(t, done, again, "the same request: the same reply, the same patch")

	r = p.run("", "review", "patch", "--output", "patch.json", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "patch.json: patch "+done.Patch.PatchID+" of 3 candidates; the schema gets 1 relation's patterns\nnext: factmill schema apply-patch patch.json --schema FILE\n")
	one, err := os.ReadFile(filepath.Join(p.home, "patch.json"))
	require.NoError(t, err)
	two, err := os.ReadFile(filepath.Join(p.home, "approved.json"))
	require.NoError(t, err)
	require.Equal(t, string(one), string(two))
	r = p.run("", append(approve, "--output", "patch.json")...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "--output patch.json exists")

	r = p.run("", "schema", "apply-patch", "patch.json", "--schema", "schema.yaml", "--yes")
	require.Equal(t, exitDone, r.code, r.err)
	b, err := os.ReadFile(filepath.Join(p.home, "schema.yaml"))
	require.NoError(t, err)
	require.Equal(t, "# who works where\nname: tiny\nversion: 8\nentities: {Person: A human being., Organization: A firm., Agency: A bureau.}\nrelations:\n  WORKS_FOR: [\"Person->Agency\", \"Person->Organization\"] # employment\n", string(b))
	d := reads[schemaDiff](t, p.run("", "schema", "diff", "schema.yaml", "--data", "g", "--json"))
	require.Equal(t, &cost{Decision: "new_version", Documents: 3, Chunks: 3, Rechunk: 3, Reembed: 3, Reextract: 3}, d.Cost)
	require.True(t, reads[api.SchemaReply](t, p.run("", "schema", "put", "schema.yaml", "--data", "g", "--json")).Changed)
	grown := reads[patch.Patch](t, p.run("", "review", "patch", "--data", "g", "--json"))
	require.True(t, grown.Empty(), "the active schema has it all")
	require.Equal(t, done.Patch.CandidateIDs, grown.CandidateIDs)
	require.NotEqual(t, done.Patch.PatchID, grown.PatchID, "it is made on another schema")
}
