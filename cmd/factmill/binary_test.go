package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

// binary is the program, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "factmill-test-")
		if err != nil {
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }() // best effort
		binary = filepath.Join(dir, "factmill")
		build := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3", "-o", binary, ".")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return 1
		}
		return m.Run()
	}())
}

// result of one run of the binary.
type result struct {
	code     int
	out, err string
}

// place is where a test's commands work: a home of its own, so that nothing outside is touched.
type place struct {
	t    *testing.T
	home string
}

func newPlace(t *testing.T) place { return place{t, t.TempDir()} }

func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), binary, args...)
	cmd.Dir = p.home
	cmd.Env = []string{"HOME=" + p.home, "TMPDIR=" + p.home, "PATH=" + os.Getenv("PATH"), "USER=tester"}
	return cmd
}

func (p place) run(stdin string, args ...string) result {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	err := cmd.Run()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		require.NoError(p.t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func (p place) file(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.home, name)
	require.NoError(p.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(p.t, os.WriteFile(name, []byte(text), 0o644))
}

func reads[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	require.Equal(t, exitDone, r.code, r.err)
	require.NoError(t, json.Unmarshal([]byte(r.out), &v), r.out)
	return v
}

// A whole life on one directory: run, ask, update, delete, each command in a process of its own.
func TestOneDirectory(t *testing.T) {
	p := newPlace(t)
	p.file("docs/ada.txt", "Ada Lovelace worked for Acme Ltd. She lived in London.\n")
	p.file("docs/sub/grace.md", "# Grace\n\nGrace Hopper works for Acme Ltd.\n")

	st := reads[api.JobStatus](t, p.run("", "run", "docs", "--data", "g", "--json"))
	require.Equal(t, api.JobCommitted, st.State)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 2}, st.Documents)

	e := reads[api.EntityReply](t, p.run("", "entity", "--type", "Person", "ada lovelace", "--data", "g", "--json"))
	require.Equal(t, "Ada Lovelace", e.Entity.Name)
	r := p.run("", "entity", "Ada Lovelace", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "Ada Lovelace  WORKS_FOR  Acme Ltd")
	require.Contains(t, r.out, "“Ada Lovelace worked for Acme Ltd.”  docs/ada.txt [0:")

	d := reads[api.DocumentReply](t, p.run("", "document", "docs/sub/grace.md", "--text", "--json", "--data", "g"))
	require.Equal(t, "# Grace\n\nGrace Hopper works for Acme Ltd.\n", d.Text)

	first := p.run("", "export", "--canonical", "--data", "g")
	require.Equal(t, exitDone, first.code, first.err)
	again := p.run("", "run", "docs", "--data", "g", "--json")
	require.Equal(t, 2, reads[api.JobStatus](t, again).Documents.Unchanged)
	require.Equal(t, first.out, p.run("", "export", "--canonical", "--data", "g").out)

	st = reads[api.JobStatus](t, p.run("Ada Lovelace worked for Initech Ltd.", "update", "docs/ada.txt", "-", "--data", "g", "--json"))
	require.Equal(t, 1, st.Documents.Updated)
	r = p.run("", "entity", "Ada Lovelace", "--data", "g")
	require.Contains(t, r.out, "Initech Ltd")
	require.NotContains(t, r.out, "Acme Ltd")

	require.Equal(t, 2, reads[api.JobStatus](t, p.run("", "delete", "docs/ada.txt", "docs/sub/grace.md", "--data", "g", "--json")).Documents.Deleted)
	r = p.run("", "entity", "Ada Lovelace", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "entity_not_found")
	require.Zero(t, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)
	require.Equal(t, exitDone, p.run("", "verify", "--data", "g").code)
}

func TestIngestFailures(t *testing.T) {
	p := newPlace(t)
	p.file("docs/good.txt", "Ada Lovelace worked for Acme Ltd.\n")
	p.file("docs/bad.json", "{not json")

	r := p.run("", "run", "docs", "--data", "g")
	require.Equal(t, exitFailed, r.code, r.out)
	require.Contains(t, r.err, "was rolled back, nothing of it is in the graph")
	require.Zero(t, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)

	r = p.run("", "run", "docs", "--data", "g", "--error-policy", "skip", "--json")
	require.Equal(t, exitPartial, r.code, r.err)
	var st api.JobStatus
	require.NoError(t, json.Unmarshal([]byte(r.out), &st))
	require.Equal(t, 1, st.Documents.Added)
	require.Equal(t, 1, st.Documents.Skipped)
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)
}

// Deleting what is not there is no error.
func TestDeleteUnknown(t *testing.T) {
	st := reads[api.JobStatus](t, newPlace(t).run("", "delete", "never", "--data", "g", "--json"))
	require.Equal(t, api.JobCommitted, st.State)
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, st.Documents)
}

func TestSettingsAndSchema(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", "name: tiny\nentities:\n  Person: A human being.\n  Organization: A firm.\nrelations:\n  WORKS_FOR:\n    patterns: [\"Person->Organization\"]\n    description: Employment.\n")
	r := p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--key", "ada", "--schema", "schema.yaml", "--chunker.size", "300", "--data", "g", "--json")
	reads[api.JobStatus](t, r)
	require.Contains(t, r.err, "schema tiny 1 is active now")
	require.Contains(t, r.err, "setting chunker.size: 600 -> 300")
	r = p.run("", "schema", "show", "--data", "g")
	require.Contains(t, r.out, "name: tiny\nentities:\n  Person: A human being.\n")
	require.Equal(t, "300", reads[api.SettingsReply](t, p.run("", "settings", "get", "--json", "--data", "g")).Settings["chunker.size"])

	p.file("next.yaml", "name: tiny\nversion: 2\nextends: schema.yaml\nentities: {Place: Somewhere.}\n")
	r = p.run("", "schema", "diff", "next.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "entities.Place")
	require.Contains(t, r.out, "cost: a new version of 1 document at the next ingest of each")
	d := reads[schemaDiff](t, p.run("", "schema", "diff", "next.yaml", "--data", "g", "--json"))
	require.Equal(t, &cost{Decision: "new_version", Documents: 1, Chunks: 1, Rechunk: 1, Reembed: 1, Reextract: 1}, d.Cost)
	require.NotEqual(t, d.Before.Schema, d.After.Schema)
	require.NotEqual(t, d.Before.Extraction, d.After.Extraction, "the new type has a description")
	p.file("words.yaml", "name: tiny\nextends: schema.yaml\nrelations: {WORKS_FOR: {override: true, description: Being employed.}}\n")
	d = reads[schemaDiff](t, p.run("", "schema", "diff", "words.yaml", "--data", "g", "--json"))
	require.Equal(t, &cost{Decision: "in_place", Documents: 1, Chunks: 1, Reextract: 1}, d.Cost)
	require.Equal(t, d.Before.Schema, d.After.Schema)
	require.True(t, reads[api.SchemaReply](t, p.run("", "schema", "put", "next.yaml", "--json", "--data", "g")).Changed)
	h := reads[api.SchemaHistoryReply](t, p.run("", "schema", "history", "--json", "--data", "g"))
	require.Equal(t, "2", h.Schemas[0].Version)
	require.Equal(t, "tester", h.Schemas[0].Actor)
}

// up starts the binary's up and returns where it listens.
func (p place) up(args ...string) (url string, cmd *exec.Cmd) {
	p.t.Helper()
	cmd = p.command(append([]string{"up", "--json", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	var said map[string]string
	require.NoError(p.t, json.NewDecoder(out).Decode(&said))
	require.NotEmpty(p.t, said["http"])
	return said["nats"], cmd
}

func TestUp(t *testing.T) {
	p := newPlace(t)
	url, cmd := p.up()
	dir := filepath.Join(p.home, ".local", "share", "factmill")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(filepath.Join(dir, "up.json"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	// Commands find it by themselves, or by its address.
	reads[api.JobStatus](t, p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--json"))
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json")).Documents)
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json", "--nats", url)).Documents)
	r := p.run("", "provision", "--nats", url)
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "nothing to do")

	// Its directory and its port are taken.
	r = p.run("", "stats", "--data", dir)
	require.Equal(t, exitUnreachable, r.code)
	require.Contains(t, r.err, "(factmill up): talk to it with --nats "+url+", or stop it")
	r = p.run("", "up", "--data", filepath.Join(p.home, "other"), "--listen", strings.TrimPrefix(url, "nats://"))
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "the address is taken")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "an interrupt is an orderly end")
	u, err := target.ReadUp(dir)
	require.NoError(t, err)
	require.Nil(t, u)
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json")).Documents, "embedded on the same directory")
}

// What a killed up had accepted is there for the next command.
func TestKilledUp(t *testing.T) {
	p := newPlace(t)
	_, cmd := p.up("--data", "g")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	reads[api.JobStatus](t, p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--json", "--data", "g"))
}

func TestDemo(t *testing.T) {
	p := newPlace(t)
	r := p.run("", "demo")
	require.Equal(t, exitDone, r.code, r.err)
	for _, want := range []string{"documents", "== Some facts", "Northpoint Observatory", "“", "== What the schema kept out", "factmill entity --type Observatory"} {
		require.Contains(t, r.out, want)
	}
	// The commands that it names work as they stand.
	_, next, found := strings.Cut(r.out, "== What to type next")
	require.True(t, found)
	tried := 0
	for _, line := range strings.Split(next, "\n") {
		args, ok := strings.CutPrefix(strings.TrimSpace(line), "factmill ")
		if !ok {
			continue
		}
		got := p.run("", split(args)...)
		require.Equal(t, exitDone, got.code, "%s: %s", line, got.err)
		tried++
	}
	require.Equal(t, 5, tried)
	require.FileExists(t, filepath.Join(p.home, "demo.graphml"))
}

// split takes a line apart at spaces outside single quotes.
func split(line string) (out []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func TestVersionOfBinary(t *testing.T) {
	r := newPlace(t).run("", "version", "--json")
	require.Equal(t, "1.2.3", reads[map[string]string](t, r)["version"])
}
