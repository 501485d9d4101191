package integration

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// TestRefusedEventsSayWhy: what is wrong with a document event is the reason of its job; nothing is retried, nothing is lost.
func TestRefusedEventsSayWhy(t *testing.T) {
	c := allInOne(t)
	outside := filepath.Join(t.TempDir(), "x.txt")
	require.NoError(t, os.WriteFile(outside, []byte("Ada Lovelace."), 0o600))
	for body, want := range map[string]string{
		`{"text":`:                              "bad_json",
		`{"text":"a","keey":"b"}`:               `unknown_field: unknown field "keey"`,
		`{"text":"a","sources":["x"]}`:          "many_inputs",
		`{"sources":[` + inJSON(outside) + `]}`: "path_",
		`{"documents":[{"key":"k","text":"a"},{"key":"k","text":"b"}]}`:               "duplicate_key",
		`{"op":"update","documents":[{"key":"a","text":"x"},{"key":"b","text":"y"}]}`: "update_one",
		`{"text":"a","key":"a\u0007b"}`:                                               "bad_name",
		`{"text":"a","job":"j9"}`:                                                     "bad_name",
		`{"text":"a","deadline":"tomorrow"}`:                                          "bad_value",
		`{}`:                                                                          "no_input",
	} {
		seq, err := c.conn.Ingest(t.Context(), "default", []byte(body), nil)
		require.NoError(t, err)
		job := "j" + jsonNumber(seq)
		s := c.await("default", job, api.JobRolledBack)
		require.True(t, strings.HasPrefix(s.Reason, want), "%s: %s", body, s.Reason)
	}
	require.Empty(t, c.export("default"))
	// A second event of a job's id with another body is refused, and says so under its own job.
	c.await("default", c.publish("default", map[string]any{"key": "a", "text": "Ada.", "job": "mine"}), api.JobCommitted)
	seq, err := c.conn.Ingest(t.Context(), "default", []byte(`{"key":"b","text":"Bob.","job":"mine"}`), nil)
	require.NoError(t, err)
	s := c.await("default", "j"+jsonNumber(seq), api.JobRolledBack)
	require.True(t, strings.HasPrefix(s.Reason, "job_id_taken"), s.Reason)
	require.Equal(t, 1, ask[api.StatsReply](c, "default", "query.stats", nil).Documents)
	// The same body again changes nothing.
	_, err = c.conn.Ingest(t.Context(), "default", []byte(`{"job":"mine","key":"a","text":"Ada."}`), nil)
	require.NoError(t, err)
	require.Equal(t, api.JobCommitted, c.await("default", "mine", api.JobCommitted).State)
}

func inJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func jsonNumber(n uint64) string {
	b, err := json.Marshal(n)
	if err != nil {
		return ""
	}
	return string(b)
}

// TestExitCodes of the command line, with errors that name the thing.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	good := file("good.txt", "Ada Lovelace worked for Acme Ltd.")
	bad := file("bad.dat", "\x00\x01\x02")
	want := func(code int, stderr string, args ...string) result {
		t.Helper()
		r := run(t, "", args...)
		require.Equal(t, code, r.code, "%v\n%s\n%s", args, r.stdout, r.stderr)
		require.Contains(t, r.stderr, stderr)
		return r
	}
	want(0, "", "run", good, "--data", data)
	want(1, "bad.dat", "run", good, bad, "--data", data)
	want(4, "", "run", good, bad, "--data", data, "--error-policy", "skip")
	want(2, "Bad", "stats", "--graph", "Bad", "--data", data)
	want(2, "nope", "stats", "--nope")
	want(3, "127.0.0.1", "stats", "--nats", "nats://"+freeAddress(t))
	r := run(t, "", "ingest", filepath.Join(dir, "absent.txt"), "--data", data)
	require.Contains(t, []int{1, 2}, r.code)
	require.Contains(t, r.stderr, "absent.txt")
	r = want(0, "", "delete", "never-there", "--data", data)
	require.Contains(t, r.stdout+r.stderr, "unchanged")

	mistakes := file("five.yaml", `
entities:
  Person: {parents: [Agnet], properties: {age: {type: intger}}}
  Agent: {}
  "9lives": {}
  Document: {}
relations:
  KNOWS: {patterns: ["Person->Persn"]}
`)
	r = want(2, "Agnet", "schema", "validate", mistakes)
	for _, m := range []string{"Agnet", "intger", "9lives", "Document", "Persn"} {
		require.Contains(t, r.stdout+r.stderr, m)
	}
	r = run(t, "", "schema", "validate", mistakes, "--json")
	require.Equal(t, 2, r.code)
	var v struct {
		Problems []struct{ Path, Message string } `json:"problems"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &v), r.stdout)
	require.GreaterOrEqual(t, len(v.Problems), 5)
}

// TestTakenPortAndDirectory: both are named, with the way out.
func TestTakenPortAndDirectory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	r := run(t, "", "up", "--data", t.TempDir(), "--listen", l.Addr().String())
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, l.Addr().String())
	require.Contains(t, r.stderr, "--listen")

	c := allInOne(t)
	r = run(t, "", "stats", "--data", c.dir)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.stderr, "factmill up")
	require.Contains(t, r.stderr, c.url)
}

// TestStopIsClean: SIGTERM after a job ends the process with exit code 0; the store says when an iterator was left open.
func TestStopIsClean(t *testing.T) {
	c := allInOne(t)
	c.await("default", c.publish("default", map[string]any{"key": "a", "text": "Ada Lovelace worked for Acme Ltd."}), api.JobCommitted)
	c.export("default")
	p := c.procs["factmill"][0]
	begin := time.Now()
	p.stop(t)
	require.Less(t, time.Since(begin), 10*time.Second)
	require.Equal(t, 0, p.cmd.ProcessState.ExitCode(), p.output())
	require.NotContains(t, p.output(), "leaked")
}
