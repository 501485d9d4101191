package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestBadEventsAreRefusedAtTheDoor: each event's job ends rolled back at once, its reason says what to do, and nothing is lost: the
// next event is read, the graph is as it was, and no event stays in the stream.
func TestBadEventsAreRefusedAtTheDoor(t *testing.T) {
	c := allInOne(t, "--loader.roots", t.TempDir())
	before := c.add("default", doc("kept", "Ada Lovelace works for Acme Ltd."))
	for _, x := range []struct{ name, body, code, says string }{
		{"bad JSON", `{"text":"a",}`, "bad_json", "the document event is not valid JSON: invalid character '}'"},
		{"cut JSON", `{"text":"a`, "bad_json", "the document event is not valid JSON: unexpected EOF"},
		{"two objects", `{"text":"a"}{"text":"b"}`, "bad_json", "something after its closing brace"},
		{"unknown field", `{"text":"a","titel":"b"}`, "unknown_field", `unknown field "titel"`},
		{"unknown field of a document", `{"documents":[{"text":"a","kee":"b"}]}`, "unknown_field", `unknown field "kee"`},
		{"a wrong type", `{"text":7}`, "bad_json", "text"},
		{"many inputs", `{"text":"a","sources":["b"]}`, "many_inputs", "text and sources: give one kind of input"},
		{"three inputs", `{"text":"a","documents":[{"text":"b"}],"sources":["c"]}`, "many_inputs", "text and documents and sources"},
		{"no input", `{"key":"a"}`, "no_input", "neither text, documents nor sources"},
		{"an empty list", `{"documents":[]}`, "no_input", "list of documents is empty"},
		{"a document without text", `{"documents":[{"key":"a"}]}`, "no_input", "documents[0] has no text"},
		{"an unknown op", `{"op":"replace","text":"a"}`, "bad_value", `op is "replace": it must be add, update or delete`},
		{"an unknown policy", `{"error_policy":"ignore","text":"a"}`, "bad_value", "it must be raise, skip or quarantine"},
		{"an unknown atomic", `{"atomic":"chunk","text":"a"}`, "bad_value", "it must be job or document"},
		{"a bad deadline", `{"deadline":"soon","text":"a"}`, "bad_value", `deadline is "soon"`},
		{"a bad job id", `{"job":"a b","text":"a"}`, "bad_name", "a b"},
		{"a numbered job id", `{"job":"j7","text":"a"}`, "bad_name", "j7"},
		{"a bad date", `{"published_at":"yesterday","text":"a"}`, "bad_value", `published_at is "yesterday"`},
		{"a key with control characters", `{"key":"a\u0007b","text":"a"}`, "bad_name", `"a\ab" has control or broken characters`},
		{"a key with a line end", `{"key":"a\nb","text":"a"}`, "bad_name", `"a\nb"`},
		{"a long key", `{"key":"` + strings.Repeat("k", 1025) + `","text":"a"}`, "bad_name", "1025 bytes: at most 1024"},
		{"one key twice", `{"documents":[{"key":"a","text":"x"},{"key":"a","text":"y"}]}`, "duplicate_key", `documents[1]: the key "a" stands twice`},
		{"one text twice", `{"documents":[{"text":"x"},{"text":"x"}]}`, "duplicate_key", "documents[1]"},
		{"update without a key", `{"op":"update","text":"a"}`, "no_key", "update needs the key"},
		{"update of two", `{"op":"update","documents":[{"key":"a","text":"x"},{"key":"b","text":"y"}]}`, "update_one", "exactly one document, not 2"},
		{"delete with text", `{"op":"delete","key":"a","text":"x"}`, "many_inputs", "delete takes key or documents with keys"},
		{"delete of nothing", `{"op":"delete"}`, "no_input", "delete needs"},
		{"a path outside the roots", `{"sources":["/etc/passwd"]}`, "path_outside_roots", "/etc/passwd"},
		{"a path that climbs out", `{"sources":["../../../../../../etc/passwd"]}`, "path_outside_roots", "passwd"},
		{"a file that is not there", `{"sources":["missing.txt"]}`, "source_not_found", "missing.txt"},
		{"a bucket that is not there", `{"sources":["object:nowhere/x.txt"]}`, "source_not_found", "object:nowhere/x.txt"},
		{"the bucket of bodies", `{"sources":["object:FACTMILL_BODIES/x"]}`, "path_outside_roots", "is internal"},
		{"an unknown format", `{"text":"a","format":"docy"}`, "unsupported_format", `format "docy" is not read; these are: `},
	} {
		t.Run(x.name, func(t *testing.T) {
			seq, err := c.conn.Ingest(t.Context(), "default", []byte(x.body), nil)
			require.NoError(t, err)
			s := c.await("default", fmt.Sprintf("j%d", seq), api.JobRolledBack)
			require.True(t, strings.HasPrefix(s.Reason, x.code+": "), s.Reason)
			require.Contains(t, s.Reason, x.says)
			require.Equal(t, 1, s.Stages.Ingestion.Total)
			require.Equal(t, x.code, s.Stages.Ingestion.List[0].Code)
			require.NotEmpty(t, s.Stages.Ingestion.List[0].TraceID)
			require.Zero(t, s.CommitSeq)
		})
	}
	require.Equal(t, before.CommitSeq, ask[api.StatsReply](c, "default", "query.stats", nil).Seq)
	after := c.add("default", doc("next", "Bob Miller works for Acme Ltd."))
	require.Equal(t, before.CommitSeq+1, after.CommitSeq)
	testkit.Await(t, "no event stays", func() bool {
		s, err := c.conn.JS.Stream(t.Context(), "FACTMILL_INGEST")
		require.NoError(t, err)
		return s.CachedInfo().State.Msgs == 0
	})
	c.sound("default")
}

// TestBadRequestsAreRefusedByName over request-reply: graph names, fields, values.
func TestBadRequestsAreRefusedByName(t *testing.T) {
	c := allInOne(t)
	for _, x := range []struct {
		graph, verb, body string
		status            int
		code, says        string
	}{
		{"Bad", "query.stats", ``, 400, "bad_name", `"Bad"`},
		{"-x", "query.stats", ``, 400, "bad_name", `"-x"`},
		{strings.Repeat("g", 65), "query.stats", ``, 400, "bad_name", "ggg"},
		{"default", "query.entity", `{"nmae":"x"}`, 400, "unknown_field", `unknown field "nmae"`},
		{"default", "query.entity", `{"name":`, 400, "bad_json", "not valid JSON"},
		{"default", "query.search", `{"q":"x","limit":-1}`, 400, "bad_value", "limit is -1"},
		{"default", "query.neighbors", `{"name":"x","depth":99}`, 400, "bad_value", "depth is 99"},
		{"default", "query.export", `{"cursor":"nonsense"}`, 400, "bad_value", "cursor"},
		{"default", "query.entity", `{"name":"x"}`, 404, "entity_not_found", "the graph is empty"},
		{"default", "query.entity", `{"name":"x","as_of":99}`, 404, "sequence_unknown", "has not reached that sequence"},
		{"default", "jobs.get", `{"job":"../x"}`, 400, "bad_name", `"../x"`},
		{"default", "jobs.cancel", `{"job":"j1"}`, 404, "job_not_found", "j1"},
		{"default", "settings.put", `{"settings":{"chunker.size":"7"}}`, 400, "settings_invalid", "chunker.size is 7: it must be between 16 and 8192"},
		{"default", "settings.put", `{"settings":{"chunker.sise":"600"}}`, 400, "settings_invalid", "chunker.sise"},
		{"default", "schema.put", `{"schema":"entities: {Person: {parents: [Prson]}}"}`, 400, "schema_invalid", ""},
		{"default", "review.list", `{"kinds":["thing"]}`, 400, "bad_value", `kind is "thing"`},
		{"default", "query.nothing", ``, 404, "unknown_verb", `"nothing"`},
	} {
		var body any
		if x.body != "" {
			body = json.RawMessage(x.body)
		}
		m, err := c.conn.NC.Request("factmill."+x.graph+"."+x.verb, []byte(x.body), requestWait)
		require.NoError(t, err, "%s %v", x.verb, body)
		require.Equal(t, fmt.Sprint(x.status), m.Header.Get("Nats-Service-Error-Code"), "%s %s: %s", x.verb, x.body, m.Data)
		e := api.Unwrap(m.Data)
		require.NotNil(t, e)
		require.Equal(t, x.code, e.Code, e.Message)
		require.Contains(t, e.Message, x.says)
		require.Contains(t, api.Codes, e.Code, "the one table of codes")
	}
	e := refused(c, "default", "schema.put", map[string]any{"schema": fiveMistakes})
	require.Len(t, e.Details["problems"], 5)
}

// fiveMistakes is a schema with exactly five.
const fiveMistakes = `
entities:
  Person:
    parents: [Prson]
  Chunk: A reserved label.
  Organization:
    properties:
      founded: {type: integr}
relations:
  WORKS_FOR: "Person->Organisation"
  OWNS: {patterns: ["Person=>Organization"]}
`

// TestASchemaWithFiveMistakes: all five are reported at once with their places, for people and as JSON, and nothing is changed.
func TestASchemaWithFiveMistakes(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "s.yaml", fiveMistakes)
	want := map[string]string{
		"entities.Person.parents[0]":               `unknown type "Prson", did you mean "Person"?`,
		"entities.Chunk":                           `reserved`,
		"entities.Organization.properties.founded": `"integr"`,
		"relations.WORKS_FOR":                      `"Organisation"`,
		"relations.OWNS.patterns[0]":               `Person=>Organization`,
	}
	check := func(text string) {
		t.Helper()
		for path, says := range want {
			found := false
			for line := range strings.Lines(text) {
				found = found || strings.Contains(line, path) && strings.Contains(line, says)
			}
			require.True(t, found, "%s: %s is not in\n%s", path, says, text)
		}
	}
	r := run(t, "", "schema", "validate", file)
	require.Equal(t, 2, r.code)
	check(r.stdout + r.stderr)

	r = run(t, "", "schema", "validate", file, "--json")
	require.Equal(t, 2, r.code, r.stderr)
	var v struct {
		Name     string `json:"name"`
		Problems []struct {
			Path    string `json:"path"`
			Message string `json:"message"`
		} `json:"problems"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &v))
	require.Len(t, v.Problems, 5)
	lines := ""
	for _, p := range v.Problems {
		lines += p.Path + ": " + p.Message + "\n"
	}
	check(lines)

	// Nothing is started or ingested with such a schema.
	write(t, dir, "a.txt", "Ada Lovelace works for Acme Ltd.")
	data := t.TempDir()
	for _, args := range [][]string{{"run", "a.txt", "--schema", "s.yaml"}, {"schema", "put", "s.yaml"}} {
		r = runIn(t, dir, "", append(args, "--data", data)...)
		require.Equal(t, 2, r.code, "%v", args)
		check(r.stderr)
	}
	r = run(t, "", "stats", "--data", data, "--json")
	require.Zero(t, r.code, r.stderr)
	require.Zero(t, loose[api.StatsReply](t, r.stdout).Documents)
}

// TestWrongUsage ends with 2 and one clear message, before anything is started.
func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "Ada Lovelace works for Acme Ltd.")
	write(t, dir, "b.txt", "Bob Miller works for Acme Ltd.")
	write(t, dir, "bad.yaml", "chunker: {sise: 7}")
	data := t.TempDir()
	for _, x := range []struct {
		says string
		args []string
	}{
		{`unknown command "ingset" for "factmill", did you mean "ingest"?`, []string{"ingset", "a.txt"}},
		{"unknown flag: --nope", []string{"ingest", "a.txt", "--nope"}},
		{"requires at least 1 arg", []string{"ingest"}},
		{`"Bad"`, []string{"ingest", "a.txt", "--graph", "Bad"}},
		{`"Bad"`, []string{"stats", "--graph", "Bad"}},
		{"missing.txt: no such file or directory", []string{"ingest", "missing.txt"}},
		{"*.pdf matches no file", []string{"ingest", "*.pdf"}},
		{"--key and --title name one document", []string{"ingest", "a.txt", "b.txt", "--key", "k"}},
		{`error_policy is "ignore"`, []string{"ingest", "a.txt", "--error-policy", "ignore"}},
		{`deadline is "soon"`, []string{"ingest", "a.txt", "--deadline", "soon"}},
		{`j7`, []string{"ingest", "a.txt", "--job", "j7"}},
		{"control or broken characters", []string{"ingest", "a.txt", "--key", "a\tb"}},
		{"chunker.size is 7: it must be between 16 and 8192", []string{"ingest", "a.txt", "--chunker.size", "7"}},
		{`unknown key "chunker.sise"`, []string{"ingest", "a.txt", "--config", "bad.yaml"}},
		{"no such file or directory", []string{"ingest", "a.txt", "--config", "missing.yaml"}},
		{"no such file or directory", []string{"ingest", "a.txt", "--schema", "missing.yaml"}},
		{"--nats and --data name two places", []string{"stats", "--nats", "nats://127.0.0.1:1", "--data", "x"}},
		{"--listen is \"nonsense\"", []string{"up", "--listen", "nonsense"}},
		{`there is no service "loder"`, []string{"serve", "loder", "--nats", "nats://127.0.0.1:1"}},
		{"serve needs a NATS server", []string{"serve", "loader"}},
		{"the key is empty", []string{"update", "", "a.txt"}},
	} {
		r := runIn(t, dir, "", withData(x.args, data)...)
		require.Equal(t, 2, r.code, "%v: %s", x.args, r.stderr)
		require.Contains(t, r.stderr, x.says, "%v", x.args)
		require.True(t, strings.HasPrefix(r.stderr, "factmill: "), r.stderr)
		require.Empty(t, r.stdout)
		require.NotContains(t, r.stderr, "goroutine")
	}
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, left, "nothing was started")
}

// withData gives a command a data directory of its own unless it says where it works.
func withData(args []string, data string) []string {
	for _, a := range args {
		if a == "--nats" || a == "--data" {
			return args
		}
	}
	return append(append([]string{}, args...), "--data", data)
}

// TestATakenPort is a clear error, for NATS and for the health server, and the data directory is free again.
func TestATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken, data := l.Addr().String(), t.TempDir()
	r := run(t, "", "up", "--listen", taken, "--data", data)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, taken)
	require.Contains(t, r.stderr, "--listen")
	r = run(t, "", "up", "--listen", "127.0.0.1:0", "--http", taken, "--data", data)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, taken)
	require.Contains(t, r.stderr, "http.listen")
	require.Zero(t, run(t, "", "stats", "--data", data).code)
}

// TestADataDirectoryInUse names the process that holds it, and the way to talk to it.
func TestADataDirectoryInUse(t *testing.T) {
	c := allInOne(t)
	pid := c.procs["factmill"][0].cmd.Process.Pid
	require.Equal(t, pid, c.holder().PID)
	file := write(t, t.TempDir(), "a.txt", "Ada Lovelace works for Acme Ltd.")
	for _, args := range [][]string{{"stats"}, {"run", file}, {"verify"}, {"up", "--listen", "127.0.0.1:0"}} {
		m := measure(t, 30*time.Second, "", "", append(args, "--data", c.dir)...)
		require.Equal(t, 3, m.code, "%v", args)
		require.Contains(t, m.stderr, fmt.Sprintf("is in use by process %d (factmill up): talk to it with --nats %s, or stop it", pid, c.url))
	}
	// A committer of its own on that directory is refused as well.
	p := spawn(t, nil, "committer", "--nats.url", c.url, "--bus.ack_wait", ackWait, "--data", c.dir)
	testkit.Await(t, "the second committer ends", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	require.NotZero(t, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.output(), "in use")
	c.add("default", doc("a", "Ada Lovelace works for Acme Ltd."))
}

// TestNoNATSAtTheURL ends with 3 within ten seconds, names the URL, and shows no password.
func TestNoNATSAtTheURL(t *testing.T) {
	url := "nats://" + freeAddress(t)
	file := write(t, t.TempDir(), "a.txt", "x")
	for _, args := range [][]string{{"stats"}, {"ingest", file}, {"jobs", "list"}, {"serve", "loader"}, {"export", "--canonical"}} {
		m := measure(t, 30*time.Second, "", "", append(args, "--nats", url)...)
		require.Equal(t, 3, m.code, "%v: %s", args, m.stderr)
		require.Less(t, m.took, 10*time.Second)
		require.Contains(t, m.stderr, url)
		require.Empty(t, m.stdout)
	}
	secret := "nats://me:hunter2@" + strings.TrimPrefix(url, "nats://")
	m := measure(t, 30*time.Second, "", "", "stats", "--nats", secret)
	require.Equal(t, 3, m.code)
	require.NotContains(t, m.stdout+m.stderr, "hunter2")

	p := spawn(t, nil, "loader", "--nats.url", url)
	testkit.Await(t, "the service gives up", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	require.Equal(t, 3, p.cmd.ProcessState.ExitCode(), p.output())

	// A server without Factmill's streams, and one with them but without services, lacks what is needed as well.
	empty := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"}).ClientURL()
	m = measure(t, 60*time.Second, "", "", "ingest", file, "--nats", empty)
	require.Equal(t, 3, m.code, m.stderr)
	require.Contains(t, m.stderr, "factmill provision --apply")
	require.Zero(t, run(t, "", "provision", "--apply", "--nats", empty).code)
	m = measure(t, 60*time.Second, "", "", "stats", "--nats", empty)
	require.Equal(t, 3, m.code, m.stderr)
	require.Contains(t, m.stderr, "no service answers factmill.default.query.stats")
}

// TestExitCodes of commands that run a job.
func TestExitCodes(t *testing.T) {
	c := allInOne(t)
	dir := t.TempDir()
	write(t, dir, "docs/a.txt", "Ada Lovelace works for Acme Ltd.")
	write(t, dir, "docs/b.txt", "Bob Miller works for Acme Ltd.")
	write(t, dir, "docs/c.txt", "broken \xff\xfe\xfd bytes")
	write(t, dir, "empty.txt", "")
	do := func(code int, args ...string) (api.JobStatus, result) {
		t.Helper()
		r := runIn(t, dir, "", append(args, "--nats", c.url, "--json")...)
		require.Equal(t, code, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
		return loose[api.JobStatus](t, r.stdout), r
	}
	s, r := do(1, "ingest", "docs")
	require.Equal(t, api.JobRolledBack, s.State)
	require.Contains(t, s.Reason, "bad_encoding")
	require.Contains(t, r.stderr, "docs/c.txt")
	require.Zero(t, ask[api.StatsReply](c, "default", "query.stats", nil).Documents, "nothing was committed")

	s, _ = do(4, "ingest", "docs", "--error-policy", "skip")
	require.Equal(t, api.DocumentCounts{Total: 3, Added: 2, Skipped: 1}, s.Documents)
	s, _ = do(4, "ingest", "docs", "--error-policy", "quarantine", "--force")
	require.Equal(t, api.DocumentCounts{Total: 3, Updated: 2, Quarantined: 1}, s.Documents)

	s, _ = do(0, "ingest", "empty.txt")
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)
	require.Zero(t, s.Stages.Chunking.Chunks)
	s, _ = do(0, "ingest", "docs/a.txt")
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, s.Documents)
	s, _ = do(0, "ingest", "docs/b.txt", "--hold", "--force")
	require.Equal(t, api.JobHeld, s.State)

	s, _ = do(0, "delete", "docs/a.txt")
	require.Equal(t, api.DocumentCounts{Total: 1, Deleted: 1}, s.Documents)
	s, _ = do(0, "delete", "docs/a.txt", "never-there")
	require.Equal(t, api.DocumentCounts{Total: 2, Unchanged: 2}, s.Documents)
	require.Equal(t, "unknown_key", s.Stages.Ingestion.List[0].Code)
	plain := runIn(t, dir, "", "delete", "never-there", "--nats", c.url)
	require.Zero(t, plain.code)
	require.Contains(t, plain.stdout+plain.stderr, "never-there")
	require.Contains(t, plain.stdout+plain.stderr, "nothing was deleted")
	c.sound("default")
}

// TestAJobIDIsOneEvent: the same event again changes nothing; another event under the id of a job is refused, and the caller is told.
func TestAJobIDIsOneEvent(t *testing.T) {
	c := allInOne(t)
	text := map[string]any{"job": "nightly", "key": "a", "text": "Ada Lovelace works for Acme Ltd."}
	c.publish("default", text)
	first := c.await("default", "nightly", api.JobCommitted)
	c.publish("default", text)
	c.add("default", doc("b", "Bob Miller works for Acme Ltd.")) // behind it in the stream
	require.Equal(t, first, c.status("default", "nightly"))
	require.Equal(t, first.CommitSeq+1, ask[api.StatsReply](c, "default", "query.stats", nil).Seq)

	c.publish("default", map[string]any{"job": "nightly", "key": "a", "text": "Something else."})
	c.add("default", doc("b", "Bob Miller works for Acme Ltd."))
	require.Equal(t, first, c.status("default", "nightly"))
	require.Equal(t, "Ada Lovelace works for Acme Ltd.", c.document("default", "a", "").Text)

	r := run(t, "Something else.", "ingest", "-", "--key", "a", "--job", "nightly", "--nats", c.url)
	require.Equal(t, 1, r.code, r.stdout)
	require.Contains(t, r.stderr, "job_id_taken")
	r = run(t, "Ada Lovelace works for Acme Ltd.", "ingest", "-", "--key", "a", "--job", "weekly", "--nats", c.url)
	require.Zero(t, r.code, r.stderr)
}

// TestADeadlineRollsBack a job that has not ended.
func TestADeadlineRollsBack(t *testing.T) {
	c := sixProcesses(t, 1)
	c.the("resolver").signal(t, syscall.SIGSTOP)
	resolver := c.the("resolver").cmd.Process
	file := write(t, t.TempDir(), "a.txt", "Ada Lovelace works for Acme Ltd.")
	r := run(t, "", "ingest", file, "--deadline", "1s", "--nats", c.url, "--json")
	require.NoError(t, resolver.Signal(syscall.SIGCONT))
	require.Equal(t, 1, r.code, r.stderr)
	require.Contains(t, loose[api.JobStatus](t, r.stdout).Reason, "deadline")
	require.Zero(t, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	c.add("default", doc("a", "Ada Lovelace works for Acme Ltd."))
}

// TestWhatCannotBeRead inside a directory: named and refused, or passed over where the policy allows it; the rest is read.
func TestWhatCannotBeRead(t *testing.T) {
	c := allInOne(t)
	dir := t.TempDir()
	write(t, dir, "docs/a.txt", "Ada Lovelace works for Acme Ltd.")
	write(t, dir, "docs/locked/b.txt", "Bob Miller works for Acme Ltd.")
	require.NoError(t, os.Symlink("loop.txt", filepath.Join(dir, "docs", "loop.txt"))) // unreadable for everybody
	do := func(code int, args ...string) result {
		t.Helper()
		r := runIn(t, dir, "", append(args, "--nats", c.url)...)
		require.Equal(t, code, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
		return r
	}
	r := do(1, "ingest", "docs")
	require.Contains(t, r.stderr, "docs/loop.txt: too many levels of symbolic links")
	require.Zero(t, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	r = do(4, "ingest", "docs", "--error-policy", "skip")
	require.Contains(t, r.stderr, "docs/loop.txt")
	require.Equal(t, 2, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)

	require.NoError(t, os.Remove(filepath.Join(dir, "docs", "loop.txt")))
	locked := filepath.Join(dir, "docs", "locked")
	require.NoError(t, os.Chmod(locked, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(locked, 0o755)) })
	as := unprivileged(t, dir)
	for _, args := range [][]string{{"ingest", "docs"}, {"ingest", "docs/locked"}} {
		code, stderr := as(append(args, "--nats", c.url)...)
		require.Contains(t, []int{1, 2}, code, stderr)
		require.Contains(t, stderr, "docs/locked: permission denied")
	}
	code, stderr := as("ingest", "docs", "--error-policy", "skip", "--nats", c.url)
	require.Equal(t, 4, code, stderr)
	require.Contains(t, stderr, "docs/locked: permission denied")
}

// unprivileged returns a function that runs the factmill command as somebody whom permissions bind. Root is bound by none: then the
// command runs as another user, for whom the binary and the working directory are opened.
func unprivileged(t *testing.T, dir string) func(args ...string) (code int, stderr string) {
	t.Helper()
	bin := binary(t, "factmill")
	if os.Geteuid() == 0 {
		t.Log("THE TESTS RUN AS ROOT, whom no permission binds: the command runs as the user nobody (65534) instead")
		for _, d := range []string{filepath.Dir(bin), dir, filepath.Dir(dir)} {
			require.NoError(t, os.Chmod(d, 0o755))
		}
	}
	return func(args ...string) (int, string) {
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, cleanEnv(t), nobody()
		out, err := cmd.CombinedOutput()
		require.NotNil(t, cmd.ProcessState, "%v", err)
		return cmd.ProcessState.ExitCode(), string(out)
	}
}

// nobody makes a process run as the user nobody where this one is root; else as it is.
func nobody() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// TestALoaderThatMayNotRead: what the loader's own user may not read is named; under skip the rest of the directory is read.
func TestALoaderThatMayNotRead(t *testing.T) {
	c := sixProcesses(t, 1)
	c.procs["loader"][0].stop(t)
	dir := t.TempDir()
	write(t, dir, "docs/a.txt", "Ada Lovelace works for Acme Ltd.")
	write(t, dir, "docs/locked/b.txt", "Bob Miller works for Acme Ltd.")
	locked := filepath.Join(dir, "docs", "locked")
	require.NoError(t, os.Chmod(locked, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(locked, 0o755)) })
	unprivileged(t, dir)
	cmd := exec.Command(binary(t, "loader"), "--nats.url", c.url, "--bus.ack_wait", ackWait, "--loader.roots", dir)
	cmd.Env, cmd.SysProcAttr = cleanEnv(t), nobody()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
	})
	c.ready("loader")

	s := c.await("default", c.publish("default", map[string]any{"sources": []string{"docs"}}), api.JobRolledBack)
	require.Equal(t, `unreadable: "docs/locked" cannot be read: permission denied`, s.Reason)
	s = c.await("default", c.publish("default", map[string]any{"sources": []string{"docs"}, "error_policy": "skip"}), api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Skipped: 1}, s.Documents)
	require.Equal(t, "docs/locked", s.Stages.Ingestion.List[0].Item)
	s = c.await("default", c.publish("default", map[string]any{"sources": []string{"docs/locked"}}), api.JobRolledBack)
	require.True(t, strings.HasPrefix(s.Reason, "unreadable: "), s.Reason)
	c.sound("default")
}

// TestOneKeyTwice fails the job whenever it is found, whatever its error policy: in the event, inside one source, or between two.
func TestOneKeyTwice(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "r.jsonl", `{"id":"x","text":"Ada Lovelace works for Acme Ltd."}`+"\n"+`{"id":"x","text":"Bob Miller works for Acme Ltd."}`+"\n")
	c := allInOne(t, "--loader.roots", dir)
	bucket, err := c.conn.JS.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "mine"})
	require.NoError(t, err)
	for _, name := range []string{"one.tar", "two.tar"} {
		var b bytes.Buffer
		w := bundle.NewWriter(&b)
		require.NoError(t, w.Add("a.txt", events.InputDocument{}, []byte("Ada Lovelace works for Acme Ltd.")))
		require.NoError(t, w.Close())
		_, err := bucket.PutBytes(t.Context(), name, b.Bytes())
		require.NoError(t, err)
	}
	for _, sources := range [][]string{{"r.jsonl"}, {"object:mine/one.tar", "object:mine/two.tar"}} {
		for _, policy := range []string{"raise", "skip", "quarantine"} {
			s := c.await("default", c.publish("default", map[string]any{"sources": sources, "error_policy": policy}), api.JobRolledBack)
			require.True(t, strings.HasPrefix(s.Reason, "duplicate_key: "), "%v %s: %s", sources, policy, s.Reason)
		}
	}
	require.Zero(t, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	c.await("default", c.publish("default", map[string]any{"sources": []string{"object:mine/one.tar"}}), api.JobCommitted)
	c.sound("default")
}

// TestControlCharactersInNames: names of files come from strangers; what is printed of them cannot move the terminal's cursor.
func TestControlCharactersInNames(t *testing.T) {
	c := allInOne(t)
	dir := t.TempDir()
	const evil = "docs/\x1b[31mred\x07\n.txt"
	write(t, dir, evil, "Ada Lovelace works for Acme Ltd.")
	write(t, dir, "docs/b.txt", "Bob Miller works for Acme Ltd.")
	for _, args := range [][]string{{"ingest", "docs"}, {"ingest", "docs", "--error-policy", "skip"}, {"ingest", evil}} {
		r := runIn(t, dir, "", append(args, "--nats", c.url)...)
		require.Contains(t, []int{1, 2, 4}, r.code, "%q", r.stderr)
		require.Contains(t, r.stderr, "control")
		require.NotContains(t, r.stdout+r.stderr, "\x1b")
		require.NotContains(t, r.stdout+r.stderr, "\x07")
	}
	require.Equal(t, 1, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	// In a text they are text, and what is shown of it is harmless.
	c.add("default", doc("\u202eevil", "Zoe\x1b[2J Miller works for Acme\x07 Ltd. Carl Benson works for Acme Ltd."))
	for _, args := range [][]string{{"entity", "Acme Ltd"}, {"search", "Carl Benson"}, {"document", "\u202eevil", "--text"}, {"evidence", c.rows("default").relations[0].ID}} {
		r := c.cli(0, args...)
		require.NotContains(t, r.stdout+r.stderr, "\x1b", "%v", args)
		require.NotContains(t, r.stdout+r.stderr, "\x07", "%v", args)
	}
	c.sound("default")
}
