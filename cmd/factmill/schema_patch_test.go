package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/patch"
)

// patchFiles are a schema file and a patch onto it.
func patchFiles(t *testing.T) (dir, file, from string) {
	t.Helper()
	dir = t.TempDir()
	file, from = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "patch.json")
	require.NoError(t, os.WriteFile(file, []byte("# ours\nname: tiny\nversion: 1 # so far\nentities:\n  Person: A human being.\nrelations:\n"), 0o640))
	p := &patch.Patch{Format: patch.Format, PatchID: "0123456789abcdef", Additions: patch.Additions{
		Entities: []patch.Entity{{Label: "Ship", Description: "A vessel."}}, Relations: []patch.Relation{{Label: "SAILED", Patterns: []string{"Person->Ship"}}}}}
	b, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(from, b, 0o644))
	return dir, file, from
}

func TestApplyPatch(t *testing.T) {
	dir, file, from := patchFiles(t)
	before, err := os.ReadFile(file)
	require.NoError(t, err)

	code, out, errOut := call(t, nil, "schema", "apply-patch", from, "--schema", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "-version: 1 # so far\n+version: 2 # so far\n", "the change is shown")
	require.Contains(t, errOut, "nobody is here to agree: look at the change and say --yes; nothing was written")
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(now))

	code, out, errOut = call(t, nil, "schema", "apply-patch", from, "--schema", file, "--yes")
	require.Equal(t, exitDone, code, errOut)
	require.Contains(t, out, "version 1 -> 2\nnext: factmill schema diff ")
	require.NotContains(t, out, "\x1b", "no colours but on a terminal")
	require.Contains(t, errOut, "warning: relations.SAILED: SAILED has no description")
	require.NotContains(t, errOut, "Ship has no description")
	now, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "# ours\nname: tiny\nversion: 2 # so far\nentities:\n  Person: A human being.\n  Ship:\n    description: \"A vessel.\"\nrelations:\n  SAILED:\n    patterns: [\"Person->Ship\"]\n", string(now))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm(), "the file keeps its mode")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing is left beside it")

	code, out, errOut = call(t, nil, "schema", "apply-patch", from, "--schema", file)
	require.Equal(t, exitDone, code, errOut)
	require.Contains(t, out, "nothing to do: ")

	code, out, _ = call(t, nil, "schema", "apply-patch", from, "--schema", file, "--json")
	require.Equal(t, exitDone, code)
	var done applied
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	require.False(t, done.Changed)
	require.Equal(t, "2", done.Version)
}

// A link stays a link, and what it leads to is what changes.
func TestApplyPatchThroughALink(t *testing.T) {
	dir, file, from := patchFiles(t)
	link := filepath.Join(dir, "link.yaml")
	require.NoError(t, os.Symlink(file, link))
	code, _, errOut := call(t, nil, "schema", "apply-patch", from, "--schema", link, "--yes")
	require.Equal(t, exitDone, code, errOut)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(b), "SAILED")
}

func TestApplyPatchRefuses(t *testing.T) {
	dir, file, from := patchFiles(t)
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return name
	}
	shared := write("shared.yaml", "entities: {Person: &p {parents: []}, Ship: *p}\nrelations: {SAILED: &x [\"Person->Person\"], MET: *x}\n")
	bad := write("bad.json", `{"patch_format":1,"additions":{"entities":[{"label":"Job"}],"relations":[{"label":"SAILED","add_patterns":["Person->Shop"]}]}}`)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{from}, exitUsage, "say which file to change: --schema FILE"},
		{[]string{filepath.Join(dir, "none"), "--schema", file}, exitUsage, "patch: open"},
		{[]string{from, "--schema", filepath.Join(dir, "none")}, exitUsage, "schema: open"},
		{[]string{file, "--schema", file}, exitUsage, "factmill review patch writes one"},
		{[]string{from, "--schema", from}, exitUsage, "unknown field"},
		{[]string{bad, "--schema", file}, exitUsage, "additions.entities[0].label: \"Job\" is reserved\n  additions.relations[0].label: unknown relation \"SAILED\"\n  additions.relations[0].add_patterns[0]: unknown type \"Shop\""},
		{[]string{from, "--schema", shared, "--yes"}, exitFailed, "cannot be edited in place"},
	} {
		code, _, errOut := call(t, nil, append([]string{"schema", "apply-patch"}, c.args...)...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errOut)
		require.Contains(t, errOut, c.want)
	}
	code, _, errOut := call(t, nil, "schema", "apply-patch", bad, "--schema", file, "--json")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, `"problems"`)
}

func TestAgreed(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yep\n": false} {
		var out strings.Builder
		err := agreed(t.Context(), strings.NewReader(answer), &out, "s.yaml")
		require.Equal(t, yes, err == nil, "%q: %v", answer, err)
		require.Equal(t, "write s.yaml? [y/N] ", out.String())
	}
	in, held, err := os.Pipe() // nobody answers
	require.NoError(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	require.ErrorIs(t, agreed(ctx, in, io.Discard, "s.yaml"), context.Canceled)
	require.NoError(t, held.Close())
}

// An output that is there is refused before any service is looked for.
func TestReviewPatchRefusesItsOutputFirst(t *testing.T) {
	dir, file, _ := patchFiles(t)
	for output, want := range map[string]string{file: "exists: name another file, or say --overwrite", dir: "is a directory", filepath.Join(dir, "no", "x.json"): "there is no directory"} {
		code, _, errOut := call(t, nil, "review", "patch", "--output", output, "--nats", "nats://127.0.0.1:1")
		require.Equal(t, exitUsage, code)
		require.Contains(t, errOut, want)
	}
	code, _, errOut := call(t, nil, "review", "patch", "--output", file, "--overwrite", "--nats", "nats://127.0.0.1:1")
	require.Equal(t, exitUnreachable, code, errOut)
}

func TestWriteOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patch.json")
	require.NoError(t, writeOutput(file, []byte("one"), false))
	require.ErrorContains(t, writeOutput(file, []byte("two"), false), "exists")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "one", string(b))
	require.NoError(t, writeOutput(file, []byte("two"), true))
	b, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "two", string(b))
}

func TestPatchIsCounted(t *testing.T) {
	require.Equal(t, "nothing", added(&patch.Patch{}))
	require.Equal(t, "1 entity type, 2 relations, 1 relation's patterns, 1 property", added(&patch.Patch{
		Additions:     patch.Additions{Entities: []patch.Entity{{Label: "A"}}, Relations: []patch.Relation{{Label: "R", Patterns: []string{"A->A"}}, {Label: "S", Patterns: []string{"A->A"}}, {Label: "T", AddPatterns: []string{"A->A"}}}},
		AddProperties: []patch.AddProperty{{Entity: "A", Name: "p"}}}))
}

func TestCostFollowsTheDecisionTable(t *testing.T) {
	for _, c := range []struct {
		before, after prints
		want          cost
		line          string
	}{
		{prints{Schema: "a", Extraction: "x"}, prints{Schema: "b", Extraction: "y"}, cost{"new_version", 3, 12, 3, 12, 12}, "cost: a new version of 3 documents at the next ingest of each: chunked and embedded again, and extracted (12 chunks now)"},
		{prints{Schema: "a", Extraction: "x"}, prints{Schema: "a", Extraction: "y"}, cost{"in_place", 3, 12, 0, 0, 12}, "cost: 3 documents extracted again in place at the next ingest of each (12 chunks); none is chunked or embedded again"},
		{prints{Schema: "a", Extraction: "x", Version: "1"}, prints{Schema: "a", Extraction: "x", Version: "2"}, cost{"no_op", 3, 12, 0, 0, 0}, "cost: none, no document is read again (3 documents)"},
	} {
		k := schemaDiff{Before: c.before, After: c.after}.costs(3, 12)
		require.Equal(t, c.want, *k)
		require.Equal(t, c.line, k.line())
	}
	require.Equal(t, "cost: none, the graph has no documents", schemaDiff{After: prints{Schema: "b"}}.costs(0, 0).line())
}
