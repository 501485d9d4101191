package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// The audit is exported in order, with a line that says that the chain is whole; the file is checked without any service, and whatever was
// changed in it is named.
func TestAuditIsExportedAndChecked(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", firmSchema)
	p.file("docs/a.txt", "Norrin Works was founded in 1901. Ada Vale works for Norrin Works. The Larch Workshop was full. The Wren Workshop was full.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	empty := p.run("", "review", "audit", "--export", "-", "--data", "g")
	require.Equal(t, []any{exitDone, `{"graph":"default","verified":0,"head":""}` + "\n"}, []any{empty.code, empty.out}, empty.err)
	for _, args := range [][]string{{"reject", "--kind", "entity,relation", "--reason", "“no”"}, {"prune", "--rejected", "--apply"}} {
		r = p.run("", append([]string{"review"}, append(args, "--actor", "eva", "--data", "g")...)...)
		require.Equal(t, exitDone, r.code, r.err)
	}
	log := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json"))
	require.GreaterOrEqual(t, log.Total, uint64(4))

	r = p.run("", "review", "audit", "--export", "audit.jsonl", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "the chain is whole up to record "+number(log.Total)+", "+log.Head)
	file := filepath.Join(p.home, "audit.jsonl")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	require.Len(t, lines, int(log.Total)+1)
	require.Equal(t, `{"graph":"default","verified":`+number(log.Total)+`,"head":"`+log.Head+`"}`, lines[len(lines)-1])
	for i, line := range lines[:log.Total] {
		want, err := json.Marshal(log.Records[int(log.Total)-1-i])
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", line)
	}
	require.Equal(t, string(b), p.run("", "review", "audit", "--export", "-", "--data", "g").out)
	check := func(content string) result {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return p.run("", "review", "audit", "--verify", "--file", "audit.jsonl")
	}
	r = check(string(b))
	require.Equal(t, []any{exitDone, ""}, []any{r.code, r.err})
	require.Contains(t, r.out, "checked "+number(log.Total)+" records of audit.jsonl: the chain is whole up to record "+number(log.Total)+", "+log.Head)
	for name, x := range map[string]struct{ content, want string }{
		"a text":      {strings.Replace(string(b), `"actor":"eva"`, `"actor":"bo"`, 1), "audit record 1: it is not what was decided then"},
		"a field":     {strings.Replace(string(b), `"actor":`, `"Actor":`, 1), "audit record 1: it is not what was decided then: its bytes"},
		"a lost line": {strings.Join(append(append([]string{}, lines[0]), lines[2:]...), ""), "audit record 2: it is missing\n"},
		"lost lines":  {strings.Join(append(append([]string{}, lines[0]), lines[3:]...), ""), "audit record 2: it and those up to 3 are missing\n"},
		"two turned":  {lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""), "audit record 2: it stands behind record 3"},
		"twice":       {lines[0] + lines[0] + strings.Join(lines[1:], ""), "audit record 1: it stands behind record 1"},
		"cut":         {strings.Join(lines[:2], ""), "audit record 2: the file ends behind it"},
		"cut inside":  {string(b[:len(b)-len(lines[len(lines)-1])-20]), "it cannot be read"},
		"shortened":   {lines[0] + lines[len(lines)-1], "audit record 1: it is the last one"},
		"more":        {string(b) + lines[0], "it stands behind the last line"},
		"none":        {"", "the file ends behind it"},
	} {
		r = check(x.content)
		require.Equal(t, exitFailed, r.code, name)
		require.Contains(t, r.err, x.want, name)
		require.LessOrEqual(t, strings.Count(r.err, "audit record "), 2, "%s: what is whole is not named: %s", name, r.err)
	}
	check(lines[0] + lines[len(lines)-1])
	found := reads[map[string]any](t, result{exitDone, p.run("", "review", "audit", "--verify", "--file", "audit.jsonl", "--json").out, ""})
	require.Equal(t, "audit.jsonl", found["file"])
	require.Len(t, found["problems"], 1)

	for _, args := range [][]string{{"--export", "audit.jsonl"}, {"--export", "x", "--actor", "eva"}, {"--file", "audit.jsonl"}, {"--verify", "--file", "nowhere"}, {"--export", "-", "--json"}} {
		r = p.run("", append([]string{"review", "audit", "--data", "g"}, args...)...)
		require.Equal(t, exitUsage, r.code, "%v: %s", args, r.err)
	}
	require.Equal(t, exitDone, p.run("", "review", "audit", "--export", "audit.jsonl", "--overwrite", "--data", "g").code)
	require.Equal(t, exitDone, p.run("", "review", "audit", "--verify", "--file", "audit.jsonl").code)
	left, err := filepath.Glob(filepath.Join(p.home, ".audit*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func number(n uint64) string {
	b, _ := json.Marshal(n)
	return string(b)
}
