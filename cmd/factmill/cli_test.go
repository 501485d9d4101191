package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
)

// call runs the program in this process with an environment of its own.
func call(t *testing.T, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e strings.Builder
	env = append([]string{"HOME=" + t.TempDir()}, env...)
	code = run(args, strings.NewReader(""), &o, &e, env)
	return code, o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{failf("job rolled back"), 1},
		{usagef("bad"), 2},
		{&schema.Error{Name: "s"}, 2},
		{&events.Refusal{Code: "no_input", Message: "m"}, 2},
		{api.Errorf(400, "bad_value", "m"), 2},
		{api.Errorf(413, "too_large", "m"), 2},
		{api.Errorf(404, "entity_not_found", "m"), 1},
		{api.Errorf(412, "job_ended", "m"), 1},
		{api.Errorf(503, "not_ready", "m"), 3},
		{api.Errorf(429, "busy", "m"), 3},
		{fmt.Errorf("at x: %w", api.Errorf(503, "not_ready", "m")), 3},
		{fmt.Errorf("x: %w", bus.ErrUnreachable), 3},
		{bus.ErrRefused, 3},
		{nats.ErrNoResponders, 3},
		{context.DeadlineExceeded, 3},
		{&target.InUse{Dir: "d"}, 3},
		{&coded{code: exitPartial}, 4},
	} {
		require.Equal(t, c.want, exitCode(c.err), "%v", c.err)
	}
}

func TestJobResults(t *testing.T) {
	c := &cli{err: &strings.Builder{}}
	for _, x := range []struct {
		state string
		d     api.DocumentCounts
		want  int
	}{
		{api.JobCommitted, api.DocumentCounts{Added: 1}, 0},
		{api.JobCommitted, api.DocumentCounts{Unchanged: 1}, 0},
		{api.JobCommitted, api.DocumentCounts{Added: 1, Skipped: 1}, 4},
		{api.JobCommitted, api.DocumentCounts{Quarantined: 1}, 4},
		{api.JobCommitted, api.DocumentCounts{Failed: 1}, 4},
		{api.JobHeld, api.DocumentCounts{}, 0},
		{api.JobRolledBack, api.DocumentCounts{Failed: 1}, 1},
	} {
		require.Equal(t, x.want, exitCode(jobResult(c, api.JobStatus{Job: "j1", State: x.state, Documents: x.d})), "%+v", x)
	}
}

func TestMessage(t *testing.T) {
	e := api.Errorf(400, "schema_invalid", "the schema has problems")
	e.Details = map[string]any{"problems": []any{map[string]any{"path": "entities[0]", "message": "bad"}, "other"}}
	require.Equal(t, "put: the schema has problems (schema_invalid)\n  entities[0]: bad\n  other", message(fmt.Errorf("put: %w", e)))
}

func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("sesame"), 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `unknown command "nonsense" for "factmill"`},
		{[]string{"stat"}, `did you mean "stats"?`},
		{[]string{"stats", "extra"}, `factmill stats accepts no arguments, but got "extra"`},
		{[]string{"jobs", "list", "extra"}, `factmill jobs list accepts no arguments, but got "extra"`},
		{[]string{"help", "bogus"}, `unknown command "bogus" for "factmill"`},
		{[]string{"help", "jobs", "lsit"}, `unknown command "lsit" for "factmill jobs", did you mean "list"?`},
		{[]string{"stast"}, `did you mean "stats"?`},
		{[]string{"add", "docs"}, `did you mean "ingest"?`},
		{[]string{"docs"}, `did you mean "documents"?`},
		{[]string{"jobs", "lsit"}, `did you mean "list"?`},
		{[]string{"stats", "--nope"}, "unknown flag: --nope"},
		{[]string{"ingest"}, "requires at least 1 arg(s)"},
		{[]string{"path", "a"}, "accepts 2 arg(s), received 1"},
		{[]string{"review"}, "factmill review needs one of: list, show, next, approve, reject, send-back, edit, prune, undo, patch, convert, search, policy, audit, stats"},
		{[]string{"review", "lst"}, `unknown command "lst" for "factmill review"`},
		{[]string{"stats", "--graph", "Bad Name"}, `bad graph name "Bad Name"`},
		{[]string{"stats", "--nats", "nats://127.0.0.1:1", "--data", dir}, "--nats and --data name two places"},
		{[]string{"stats", "--nats", "a", "--nats.url", "b"}, "say different things"},
		{[]string{"config", "--chunker.size", "3"}, "chunker.size is 3: it must be between 16 and 8192"},
		{[]string{"config", "--log.level", "loud"}, `log.level is "loud"`},
		{[]string{"config", "--config", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{[]string{"up", "--nats", "nats://x"}, "up brings its own NATS"},
		{[]string{"up", "--nkey", "x"}, "--nkey: up brings its own NATS"},
		{[]string{"up", "--user", "x", "--password", "y"}, "--user: up brings its own NATS"},
		{[]string{"up", "--tls-cert", "c.pem"}, "--tls-cert c.pem: a certificate needs its key"},
		{[]string{"up", "--tls-cert", filepath.Join(dir, "c"), "--tls-key", filepath.Join(dir, "k")}, "--tls-cert " + filepath.Join(dir, "c") + ": no such file"},
		{[]string{"up", "--replica"}, "--replica: factmill up asks the committer"},
		{[]string{"settings", "put", "chunker.size=300", "--replica", "--nats", "nats://x"}, "--replica: factmill settings put asks the committer"},
		{[]string{"stats", "--replica", "--data", dir}, "--replica reads at running services"},
		{[]string{"stats", "--replica"}, "--replica reads at running services"},
		{[]string{"stats", "--timeout", "-3s"}, "--timeout is -3s"},
		{[]string{"stats", "--data", dir, "--nkey", "x"}, "--nkey: --data works embedded"},
		{[]string{"stats", "--data", dir, "--token-file", token}, "--token-file: --data works embedded"},
		{[]string{"stats", "--nkey", "x"}, "--nkey: it is for the server of --nats URL"},
		{[]string{"doctor", "--nats", "nats://x", "--data", dir}, "--nats and --data name two places"},
		{[]string{"restore", dir, "--data", "x", "--nats", "nats://x"}, "--nats: restore makes a directory here"},
		{[]string{"review", "undo", "--key", "x"}, "undo takes the record of a decision"},
		{[]string{"review", "prune", "--key", "x"}, "prune takes criteria"},
		{[]string{"review", "show", "--key", "a|b", "c"}, "show takes one item"},
		{[]string{"run", "x", "--nats", "nats://x"}, "run works embedded"},
		{[]string{"serve", "loader"}, "serve needs a NATS server"},
		{[]string{"serve", "loadr", "--nats", "nats://x"}, `there is no service "loadr"`},
		{[]string{"ingest", filepath.Join(dir, "missing")}, "no such file or directory"},
		{[]string{"ingest", "-", "x"}, "it does not go with other paths"},
		{[]string{"ingest", "-", "--error-policy", "hope"}, `error_policy is "hope"`},
		{[]string{"ingest", "-", "--deadline", "soon"}, `deadline is "soon"`},
		{[]string{"ingest", "-", "--metadata", "x"}, `"x" is not name=value`},
		{[]string{"ingest", "-", "--job", "j12"}, "j and digits are kept"},
		{[]string{"ingest", "-", "--schema", filepath.Join(dir, "none")}, "schema: open"},
		{[]string{"settings", "put", "chunker.sise=1"}, "unknown setting"},
		{[]string{"settings", "put", "chunker.size"}, "is not name=value"},
		{[]string{"jobs", "list", "--state", "done"}, `--state is "done"`},
		{[]string{"dead-letters"}, "factmill dead-letters needs one of: list, show, replay, drop"},
		{[]string{"dead-letters", "list", "--kind", "live"}, `--kind is "live"`},
		{[]string{"dead-letters", "drop"}, "name ids, or --all"},
		{[]string{"dead-letters", "drop", "3", "--all"}, "--all does not go with ids"},
		{[]string{"dead-letters", "replay", "3", "--stage", "loader"}, "filters choose among --all"},
		{[]string{"review", "list", "--state", "open"}, `--state is "open"`},
		{[]string{"review", "search"}, "requires at least 1 arg"},
		{[]string{"review", "search", "larch", "--limit", "0"}, "--limit is 0: it must be between 1 and 100"},
		{[]string{"review", "search", "larch", "--kind", "match"}, `--kind is "match": it must be entity, relation or property`},
		{[]string{"review", "approve"}, "say what to approve: --id or --key"},
		{[]string{"review", "reject", "--id", "x", "--key", "y"}, "say what to reject: --id or --key"},
		{[]string{"review", "approve", "--kind", "entity", "--schema", "x.yaml"}, `--schema is "x.yaml"`},
		{[]string{"review", "prune", "--apply"}, "say what to prune: --rejected"},
		{[]string{"review", "edit", "x"}, "say what to change: --set name=value"},
		{[]string{"review", "edit", "x", "--set", "label"}, `"label" is not name=value`},
		{[]string{"review", "edit", "x", "--set", "start=x"}, `start is "x"`},
		{[]string{"review", "next", "--json"}, "review next is for people"},
		{[]string{"review", "reject", "--kind", "match", "--state", "unclear"}, `--state is "unclear"`},
		{[]string{"review", "undo"}, "accepts 1 arg"},
		{[]string{"export", "--format", "xml"}, `unknown format "xml"`},
		{[]string{"export", "--format", "csv"}, "csv needs --output"},
		{[]string{"export", "--format", "csv", "--canonical"}, "--canonical is JSON lines"},
		{[]string{"provision", "--replicas", "9"}, "--replicas is 9"},
	} {
		code, out, errOut := call(t, nil, c.args...)
		require.Equal(t, exitUsage, code, "%v: %s", c.args, errOut)
		require.Contains(t, errOut, c.want, "%v", c.args)
		require.Empty(t, out, "%v", c.args)
	}
}

func TestUnreachable(t *testing.T) {
	began := time.Now()
	code, out, errOut := call(t, nil, "stats", "--nats", "nats://user:secret@127.0.0.1:1")
	require.Equal(t, exitUnreachable, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "NATS cannot be reached at nats://user:xxxxx@127.0.0.1:1: is it running")
	require.NotContains(t, errOut, "secret")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestConfigLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "factmill.yaml")
	require.NoError(t, os.WriteFile(file, []byte("chunker: {size: 100}\nextractor: {mode: llm}\nlog.format: json\n"), 0o600))
	env := []string{"FACTMILL_CONFIG=" + file, "FACTMILL_CHUNKER_SIZE=200", "FACTMILL_EXTRACTOR_MODE=hybrid", "FACTMILL_NATS_TOKEN=sesame"}
	code, out, errOut := call(t, env, "config", "--json", "--chunker.size", "300", "--creds", "me.creds")
	require.Equal(t, exitDone, code, errOut)
	var got map[string]map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	for name, want := range map[string][2]string{
		"chunker.size":   {"300", "flag"},
		"extractor.mode": {"hybrid", "environment"},
		"log.format":     {"json", "file"},
		"resolver.top_k": {"50", "default"},
		"nats.creds":     {"me.creds", "flag"},
		"nats.token":     {"(hidden)", "environment"},
	} {
		require.Equal(t, map[string]string{"value": want[0], "source": want[1]}, got[name], name)
	}
	_, text, _ := call(t, env, "config")
	require.Contains(t, text, "extractor.mode: \"hybrid\" # environment\n")
	require.NotContains(t, text, "sesame")

	require.NoError(t, os.WriteFile(file, []byte("chunker: {sise: 100}\n"), 0o600))
	code, _, errOut = call(t, env, "config")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, `unknown key "chunker.sise", did you mean "chunker.size"?`)
}

func TestSchemaValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	write("base.yaml", "entities:\n  Person: A human being.\n")
	good := write("good.yaml", "name: good\nversion: 2.10\nextends: base.yaml\nentities: {Company: {description: A firm., properties: {founded: integer}}}\nrelations: {WORKS_AT: {patterns: ['Person->Company'], description: Employment.}}\n")
	code, out, errOut := call(t, nil, "schema", "validate", good, "--json")
	require.Equal(t, exitDone, code, errOut)
	var r checked
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, map[string]int{"entities": 2, "relations": 1, "properties": 1, "patterns": 1}, r.Counts)
	require.Equal(t, []string{"good", "2.10"}, []string{r.Name, r.Version})
	require.Len(t, r.Fingerprint, 16)
	require.Empty(t, r.Problems)

	bad := write("bad.yaml", "entities: {Person: x, Document: y, '1x': z}\nrelations: {KNOWS: 'Person->Prson', OWNS: 'Nobody->Person'}\n")
	code, out, errOut = call(t, nil, "schema", "validate", bad, "--json")
	require.Equal(t, exitUsage, code)
	require.Empty(t, errOut, "the reply says it all")
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.GreaterOrEqual(t, len(r.Problems), 4)
	code, out, errOut = call(t, nil, "schema", "validate", bad)
	require.Equal(t, exitUsage, code)
	require.Empty(t, out)
	require.Equal(t, len(r.Problems)+1, strings.Count(errOut, "\n"), "one line a problem, and how many there are")
	require.Contains(t, errOut, `did you mean "Person"?`)

	code, _, errOut = call(t, nil, "ingest", good, "--schema", bad)
	require.Equal(t, exitUsage, code, "nothing is started for a bad schema")
	require.Contains(t, errOut, `did you mean "Person"?`)
}

func TestVersion(t *testing.T) {
	code, out, _ := call(t, nil, "version")
	require.Equal(t, exitDone, code)
	require.Regexp(t, `^factmill dev go1\.\d+.* \w+/\w+\n$`, out)
}

// Every command says what it is for, in full, with an example.
func TestHelp(t *testing.T) {
	c := &cli{keys: map[string]string{}}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.NotEmpty(t, cmd.Long, cmd.CommandPath())
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				visit(sub)
			}
		} else {
			require.Contains(t, cmd.Example, "factmill "+cmd.Name(), cmd.CommandPath())
		}
	}
	for _, cmd := range c.root().Commands() {
		if cmd.Name() == "review" || cmd.Name() == "schema" || cmd.Name() == "settings" || cmd.Name() == "jobs" ||
			cmd.Name() == "dead-letters" || cmd.Name() == "registry" {
			for _, sub := range cmd.Commands() {
				require.NotEmpty(t, sub.Long, sub.CommandPath())
				require.Contains(t, sub.Example, sub.CommandPath(), sub.CommandPath())
			}
			continue
		}
		visit(cmd)
	}
	code, out, _ := call(t, nil, "--help")
	require.Equal(t, exitDone, code)
	for _, name := range []string{"up", "demo", "run", "serve", "ingest", "update", "delete", "jobs", "schema", "settings", "registry", "stats", "entity",
		"neighbors", "path", "evidence", "document", "search", "review", "export", "provision", "verify", "config", "version"} {
		require.Contains(t, out, "\n  "+name+" ")
	}
}

func TestPairs(t *testing.T) {
	m, err := pairs([]string{"year=2024", "ok=true", "text=hello=x", `quoted="2024"`, "list=[1]", "empty=", "big=12345678901234567890"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"year": json.Number("2024"), "ok": true, "text": "hello=x", "quoted": "2024", "list": "[1]", "empty": "",
		"big": json.Number("12345678901234567890")}, m)
	_, err = pairs([]string{"a=1", "a=2"})
	require.EqualError(t, err, `"a" stands twice`)
}

func TestEncodeEvent(t *testing.T) {
	b, err := encodeEvent(events.Ingest{})
	require.NoError(t, err)
	require.Equal(t, `{"text":""}`, string(b))
	b, err = encodeEvent(events.Ingest{InputDocument: events.InputDocument{Key: "a"}})
	require.NoError(t, err)
	in, err := events.ParseIngest(b, nil)
	require.NoError(t, err)
	require.True(t, in.HasText(), "an empty text is a text: %s", b)
	b, err = encodeEvent(events.Ingest{Op: events.OpDelete, InputDocument: events.InputDocument{Key: "a"}})
	require.NoError(t, err)
	require.Equal(t, `{"op":"delete","key":"a"}`, string(b))
}

func TestStdinInput(t *testing.T) {
	f := &feed{}
	in, err := stdinInput(f, []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, "hello", *in.text)

	in, err = stdinInput(f, []byte(strings.Repeat("long ", 100_000)))
	require.NoError(t, err)
	require.Nil(t, in.text)
	require.Regexp(t, `^inline:[0-9a-f]{16}$`, f.event.Key, "the key that the loader would give")

	_, err = stdinInput(&feed{}, []byte("\xff\xfeh\x00"))
	require.Equal(t, exitUsage, exitCode(err))
	f = &feed{event: events.Ingest{InputDocument: events.InputDocument{Key: "k"}}}
	in, err = stdinInput(f, []byte("\xff\xfeh\x00"))
	require.NoError(t, err)
	require.Len(t, in.files, 1)
}

func TestReviewListState(t *testing.T) {
	for state, want := range map[string]string{"": `{}`, "pending": `{}`, "all": `{"state":null}`, "rejected": `{"state":"rejected"}`} {
		m, err := listRequest(api.ReviewList{}, state)
		require.NoError(t, err)
		b, err := json.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}

func TestOneEntity(t *testing.T) {
	const id = "5f1c0c0e-0000-5000-8000-00000000000a"
	for _, c := range []struct{ typ, arg, id, name string }{
		{"", id, id, ""}, {"Person", id, "", id}, {"", "Ada", "", "Ada"}, {"", "5f1c0c0e_0000-5000-8000-00000000000a", "", "5f1c0c0e_0000-5000-8000-00000000000a"},
	} {
		gotID, name, err := oneEntity(c.typ, []string{c.arg})
		require.NoError(t, err)
		require.Equal(t, []string{c.id, c.name}, []string{gotID, name})
	}
}
