package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// What a newcomer's first hours ask of the program: that it says what happened, what to do next, and never waits without a word.

// failure is the one line that --json puts on stderr.
func failure(t *testing.T, r result) api.Error {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	var w struct {
		Error api.Error `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &w), r.err)
	return w.Error
}

func TestAJobIDIsOneEvents(t *testing.T) {
	p := newPlace(t)
	const first, second = "Ada Lovelace worked for Acme Ltd.", "Grace Hopper works for Acme Ltd."
	for range 2 { // the same event again is the same job
		st := reads[api.JobStatus](t, p.run(first, "ingest", "-", "--key", "a", "--job", "nightly", "--data", "g", "--json"))
		require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, st.Documents)
	}
	const said = "job id nightly was another document event; choose another --job"
	r := p.run(second, "ingest", "-", "--key", "a", "--job", "nightly", "--data", "g")
	require.Equal(t, result{exitFailed, "", "factmill: " + said + " (job_id_taken)\n"}, r)

	r = p.run(second, "ingest", "-", "--key", "a", "--job", "nightly", "--data", "g", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, api.Error{Code: "job_id_taken", Message: said}, failure(t, r))
	var st api.JobStatus
	require.NoError(t, json.Unmarshal([]byte(r.out), &st), "the refused event's own job says why")
	require.Equal(t, api.JobRolledBack, st.State)
	require.Regexp(t, `^j\d+$`, st.Job)
	require.Contains(t, st.Reason, "job_id_taken")

	r = p.run(second, "ingest", "-", "--key", "a", "--job", "nightly", "--data", "g", "--no-wait")
	require.Equal(t, result{exitFailed, "", "factmill: " + said + " (job_id_taken)\n"}, r)
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)
}

func TestHoldAndAccept(t *testing.T) {
	p := newPlace(t)
	r := p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--hold", "--job", "look", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "job look held (graph default)\n")
	require.Equal(t, "job look is held: factmill review show 'job|look' --data g shows what it would do, factmill jobs accept look --data g commits it, factmill jobs cancel look --data g rolls it back\n", r.err)
	require.Zero(t, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)

	st := reads[api.JobStatus](t, p.run("", "jobs", "accept", "look", "--data", "g", "--json"))
	require.Equal(t, api.JobCommitted, st.State)
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, st.Documents)
	require.Positive(t, st.Stages.Storage.RowsWritten)
	require.Positive(t, st.Stages.Storage.Bytes)
	require.Equal(t, 1, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)

	r = p.run("", "jobs", "accept", "look", "--data", "g", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, api.Error{Code: "job_not_held", Message: "job look is committed, not held"}, failure(t, r))
	r = p.run("", "jobs", "accept", "none", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "(job_not_found)")

	p.run("Grace Hopper works for Acme Ltd.", "ingest", "-", "--hold", "--job", "no", "--data", "g")
	st = reads[api.JobStatus](t, p.run("", "jobs", "cancel", "no", "--data", "g", "--json"))
	require.Equal(t, api.JobRolledBack, st.State)
}

// What committed on its own stays when the job rolls back, and is said with its sequence. The file that fails comes last; that none
// of many is quicker than it would be odd, with more of them odder.
func TestAtomicDocumentRolledBack(t *testing.T) {
	p := newPlace(t)
	p.file("docs/zz.json", "{not json")
	var st api.JobStatus
	var r result
	kept, n := 0, 0
	for more := 100; kept == 0 && more <= 1600; more *= 2 {
		for ; n < more; n++ {
			p.file(fmt.Sprintf("docs/d%04d.txt", n), fmt.Sprintf("Ada Lovelace worked for Acme%d Ltd.\n", n))
		}
		r = p.run("", "run", "docs", "--atomic", "document", "--data", "g", "--json")
		require.Equal(t, exitFailed, r.code, r.out)
		require.NoError(t, json.Unmarshal([]byte(r.out), &st))
		require.Equal(t, api.JobRolledBack, st.State)
		kept = st.Documents.Added
	}
	require.Positive(t, kept)
	require.Regexp(t, fmt.Sprintf(`^job %s was rolled back: bad_json: .*; %d documents? .* stays? \(sequence %d\), nothing else of it is in the graph$`, st.Job, kept, st.CommitSeq),
		failure(t, r).Message)
	require.Equal(t, kept, reads[api.StatsReply](t, p.run("", "stats", "--json", "--data", "g")).Documents)
	require.Regexp(t, fmt.Sprintf(`(?m)^%s +rolled_back +add +%d +%d `, st.Job, st.Documents.Total, st.CommitSeq), strings.ReplaceAll(p.run("", "jobs", "list", "--data", "g").out, ",", ""))
}

func TestKeptDocumentsAreSaid(t *testing.T) {
	c := &cli{err: &strings.Builder{}}
	st := api.JobStatus{Job: "j1", State: api.JobRolledBack, Reason: "bad_json: no", CommitSeq: 7}
	st.Documents = api.DocumentCounts{Total: 60, Added: 50, Updated: 2, Deleted: 1, Failed: 1}
	require.EqualError(t, jobResult(c, st), "job j1 was rolled back: bad_json: no; 53 documents were committed and stay (sequence 7), nothing else of it is in the graph")
	st.Documents = api.DocumentCounts{Total: 60, Added: 1}
	require.EqualError(t, jobResult(c, st), "job j1 was rolled back: bad_json: no; 1 document was committed and stays (sequence 7), nothing else of it is in the graph")
	st.Documents, st.CommitSeq = api.DocumentCounts{Total: 60}, 0
	require.EqualError(t, jobResult(c, st), "job j1 was rolled back, nothing of it is in the graph: bad_json: no")
}

// A mode that asks a model needs one named, wherever the mode comes from.
func TestAModeNeedsItsModel(t *testing.T) {
	for _, mode := range []string{"llm", "hybrid"} {
		for _, args := range [][]string{
			{"settings", "put", "extractor.mode=" + mode}, {"run", "docs", "--extractor.mode", mode}, {"ingest", "docs", "--extractor.mode", mode},
			{"update", "k", "docs/a.txt", "--extractor.mode", mode},
		} {
			p := newPlace(t)
			p.file("docs/a.txt", "x")
			r := p.run("", args...)
			require.Equal(t, exitUsage, r.code, "%v: %s", args, r.err)
			require.Contains(t, r.err, "extractor.mode is "+mode+" and ollama.model is empty: name the model", "%v", args)
		}
	}
}

func TestServeCommitterNeedsADirectory(t *testing.T) {
	p := newPlace(t)
	for _, service := range []string{"committer", "all"} {
		r := p.run("", "serve", service, "--nats", "nats://127.0.0.1:1")
		require.Equal(t, result{exitUsage, "", "factmill: serve committer needs a data directory: give --data DIR, FACTMILL_DATA, or data in the configuration file\n"}, r)
	}
	require.NoDirExists(t, filepath.Join(p.home, ".local"))
	p.file("factmill.yaml", "data: g\n")
	r := p.run("", "serve", "committer", "--nats", "nats://127.0.0.1:1", "--config", "factmill.yaml")
	require.Equal(t, exitUnreachable, r.code, r.err)
}

// A whole graph can be seen without knowing a name.
func TestLists(t *testing.T) {
	p := newPlace(t)
	p.file("docs/ada.txt", "Ada Lovelace worked for Acme Ltd. She lived in London.\n")
	p.file("docs/sub/grace.md", "# Grace\n\nGrace Hopper works for Acme Ltd.\n")
	r := p.run("", "run", "docs", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "\n  keys        docs/ada.txt … docs/sub/grace.md: factmill documents lists them\n")

	docs := reads[api.DocumentListReply](t, p.run("", "documents", "--data", "g", "--json"))
	require.Equal(t, 2, docs.Total)
	require.Equal(t, []string{"docs/ada.txt", "docs/sub/grace.md"}, []string{docs.Documents[0].Key, docs.Documents[1].Key})
	r = p.run("", "documents", "--prefix", "docs/sub/", "--data", "g")
	require.Regexp(t, `^KEY +VERSION +CHUNKS +SINCE +TITLE\ndocs/sub/grace.md +1 +1 +\S+ \S+ +Grace\n$`, r.out)
	r = p.run("", "documents", "--limit", "1", "--data", "g")
	require.Contains(t, r.out, "docs/ada.txt")
	cursor, found := strings.CutPrefix(strings.TrimSpace(r.err), "more: --cursor ")
	require.True(t, found, r.err)
	require.Contains(t, p.run("", "documents", "--cursor", cursor, "--data", "g").out, "docs/sub/grace.md")

	ents := reads[api.EntityListReply](t, p.run("", "entities", "--type", "person", "--data", "g", "--json"))
	require.Equal(t, []string{"Ada Lovelace", "Grace Hopper"}, []string{ents.Entities[0].Name, ents.Entities[1].Name})
	require.Equal(t, 2, ents.Total)
	facts := reads[api.RelationListReply](t, p.run("", "facts", "--type", "WORKS_FOR", "--data", "g", "--json"))
	require.Equal(t, 2, facts.Total)
	r = p.run("", "facts", "--type", "WORKS_FOR", "--data", "g")
	require.Contains(t, r.out, "Ada Lovelace  WORKS_FOR  Acme Ltd\n  “Ada Lovelace worked for Acme Ltd.”  docs/ada.txt [0:33]")

	r = p.run("A text with no key.", "ingest", "-", "--data", "g", "--json")
	var made struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(r.out), &made))
	require.Regexp(t, `^inline:[0-9a-f]{16}$`, made.Key)
	require.Equal(t, made.Key, reads[api.DocumentReply](t, p.run("", "document", made.Key, "--data", "g", "--json")).Document.Key)
	r = p.run("A text with no key.", "ingest", "-", "--data", "g")
	require.Contains(t, r.out, "\n  key         "+made.Key+"\n")
	r = p.run("x", "ingest", "-", "--data", "g", "--key", "mine")
	require.NotContains(t, r.out, "  key ")
	p.file("rows.csv", "id,text\n7,Ada.\n8,Grace.\n")
	r = p.run("", "ingest", "rows.csv", "--data", "g")
	require.Contains(t, r.out, "\n  key         rows.csv#…\n")
	p.file("one.json", `{"text":"Ada."}`)
	r = p.run("", "ingest", "one.json", "--data", "g")
	require.Contains(t, r.out, "\n  key         one.json\n")
}

// A type that the schema does not have is said, where it is why nothing was found.
func TestUnknownTypes(t *testing.T) {
	p := newPlace(t)
	reads[api.JobStatus](t, p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--key", "a", "--data", "g", "--json"))
	const relation, entity = "the schema has no relation type \"WORK_FOR\", did you mean \"WORKS_FOR\"?\n", "the schema has no entity type \"Persn\", did you mean \"Person\"?"
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"facts", "--type", "WORK_FOR"}, exitDone, relation},
		{[]string{"neighbors", "Ada Lovelace", "--relation", "WORK_FOR"}, exitDone, relation},
		{[]string{"path", "Ada Lovelace", "Acme Ltd", "--relation", "WORK_FOR"}, exitDone, relation},
		{[]string{"entities", "--type", "Persn"}, exitDone, entity + "\n"},
		{[]string{"search", "ada", "--label", "Persn"}, exitDone, "the schema has no entity type or relation type \"Persn\", did you mean \"Person\"?\n"},
		{[]string{"entity", "--type", "Persn", "Ada Lovelace"}, exitFailed, "factmill: no Persn is named \"Ada Lovelace\", but there is one of type Person: " + entity + " (entity_not_found)\n"},
		{[]string{"neighbors", "--type", "Persn", "Nobody"}, exitFailed, "factmill: no Persn is named \"Nobody\": " + entity + " (entity_not_found)\n"},
		{[]string{"path", "Persn:Nobody", "Acme Ltd"}, exitFailed, "factmill: no Persn is named \"Nobody\": " + entity + " (entity_not_found)\n"},
		{[]string{"facts", "--type", "works for"}, exitDone, ""},
		{[]string{"neighbors", "Acme Ltd", "--relation", "LOCATED_IN"}, exitDone, ""},
		{[]string{"entity", "--type", "Person", "Nobody"}, exitFailed, "factmill: no Person is named \"Nobody\" (entity_not_found)\n"},
	} {
		r := p.run("", append(c.args, "--data", "g")...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.err)
		require.Equal(t, c.err, r.err, "%v", c.args)
	}
}

// What stays here is counted and named; under the policy raise all of it is named, and nothing is sent.
func TestNotSent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("FIFOs and links are Unix's; the rest is tested elsewhere")
		return
	}
	p := newPlace(t)
	p.file("docs/a.txt", "Ada Lovelace worked for Acme Ltd.\n")
	p.file("docs/bell\a.txt", "x")
	in := func(name string) string { return filepath.Join(p.home, "docs", name) }
	require.NoError(t, syscall.Mkfifo(in("fifo"), 0o600))
	require.NoError(t, os.Symlink("loop2", in("loop1")))
	require.NoError(t, os.Symlink("loop1", in("loop2")))
	require.NoError(t, os.Symlink(".", in("self")))
	require.NoError(t, os.Symlink("nowhere", in("gone")))

	r := p.run("", "ingest", "docs", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, `factmill: 5 files cannot be read: nothing was ingested; --error-policy skip goes on without such files
  docs/fifo: it is neither a file nor a directory
  docs/gone: no such file or directory
  docs/loop1: too many levels of symbolic links
  docs/loop2: too many levels of symbolic links
  docs/bell\x07.txt: the name "docs/bell\a.txt" has control or broken characters
`, r.err)
	r = p.run("", "ingest", "docs", "--data", "g", "--json")
	require.Equal(t, "failed", failure(t, r).Code)
	require.Len(t, failure(t, r).Details["not_sent"], 5)

	r = p.run("", "ingest", "docs", "--data", "g", "--error-policy", "skip", "--json")
	require.Equal(t, exitPartial, r.code, r.err)
	var got struct {
		Documents api.DocumentCounts `json:"documents"`
		Key       string             `json:"key"`
		NotSent   []notSent          `json:"not_sent"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, got.Documents)
	require.Equal(t, "docs/a.txt", got.Key)
	require.Equal(t, notSent{"docs/self", "it is a link to a directory; such links are not followed"}, got.NotSent[4])
	require.Len(t, got.NotSent, 6)
	require.Equal(t, api.Error{Code: "partial", Message: "job j1 is done, but 5 files could not be read here"}, failure(t, r))

	r = p.run("", "ingest", "docs", "--data", "g", "--error-policy", "skip")
	require.Contains(t, r.out, "\n  not sent    6 files\n    docs/fifo: it is neither a file nor a directory\n")
	// A link to a directory alone is no failure: it is passed over on purpose, and said.
	for _, name := range []string{"fifo", "loop1", "loop2", "gone", "bell\a.txt"} {
		require.NoError(t, os.Remove(in(name)))
	}
	r = p.run("", "ingest", "docs", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	require.Equal(t, "passed over docs/self: it is a link to a directory; such links are not followed\n", r.err)
	require.Contains(t, r.out, "\n  not sent    1 file\n")
}

// At most twenty bad files are named.
func TestManyBadFilesAreCounted(t *testing.T) {
	p := newPlace(t)
	for i := range 25 {
		p.file(fmt.Sprintf("docs/f%02d\a", i), "x")
	}
	r := p.run("", "ingest", "docs", "--data", "g")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "factmill: 25 files cannot be read: nothing was ingested")
	require.Equal(t, 22, strings.Count(r.err, "\n"))
	require.True(t, strings.HasSuffix(r.err, "  docs/f19\\x07: the name \"docs/f19\\a\" has control or broken characters\n  … and 5 more\n"), r.err)
	require.NoDirExists(t, filepath.Join(p.home, "g"), "nothing was started")
}

// Without something that works on the directory, an accepted job waits; the command says so.
func TestNoWaitEmbedded(t *testing.T) {
	p := newPlace(t)
	r := p.run("Ada Lovelace worked for Acme Ltd.", "ingest", "-", "--key", "a", "--no-wait", "--data", "g")
	require.Equal(t, result{exitDone, "job j1 is accepted and kept in " + filepath.Join(p.home, "g") + ", but nothing works on it when this command has ended: " +
		"factmill jobs watch j1 --data g goes on with it, and so does factmill up --data g\n", ""}, r)
	got := reads[map[string]any](t, p.run("Grace Hopper works for Acme Ltd.", "ingest", "-", "--key", "b", "--no-wait", "--data", "g", "--json"))
	require.Equal(t, map[string]any{"job": "j2", "graph": "default", "state": "pending", "running": false}, got)
	for _, j := range []string{"j1", "j2"} {
		require.Equal(t, api.JobCommitted, reads[api.JobStatus](t, p.run("", "jobs", "watch", j, "--data", "g", "--json")).State)
	}
}

// Every refusal is one line of JSON with --json, with the same exit code.
func TestJSONErrors(t *testing.T) {
	p := newPlace(t)
	p.file("bad.yaml", "entities: {Person: x}\nrelations: {KNOWS: 'Person->Prson'}\n")
	for _, c := range []struct {
		args   []string
		exit   int
		code   string
		detail string
	}{
		{[]string{"stast", "--json"}, exitUsage, "usage", "help"},
		{[]string{"--json", "stats", "--nope"}, exitUsage, "usage", "help"},
		{[]string{"stats", "--json", "--graph", "Bad Name"}, exitUsage, "usage", ""},
		{[]string{"stats", "--json", "--nats", "nats://127.0.0.1:1"}, exitUnreachable, "unreachable", ""},
		{[]string{"entity", "Nobody", "--json", "--data", "g"}, exitFailed, "entity_not_found", ""},
		{[]string{"jobs", "list", "--limit", "9999", "--json", "--data", "g"}, exitUsage, "bad_value", ""},
		{[]string{"ingest", "missing", "--json"}, exitUsage, "usage", ""},
		{[]string{"verify", "--data", "missing", "--json"}, exitUsage, "usage", ""},
		{[]string{"backup", "b", "--data", "missing", "--json"}, exitUsage, "usage", ""},
		{[]string{"ingest", "-", "--schema", "bad.yaml", "--json"}, exitUsage, "schema_invalid", "problems"},
	} {
		r := p.run("x", c.args...)
		require.Equal(t, c.exit, r.code, "%v: %s", c.args, r.err)
		require.Empty(t, r.out, "%v", c.args)
		require.Equal(t, 1, strings.Count(r.err, "\n"), "%v: %s", c.args, r.err)
		e := failure(t, r)
		require.Equal(t, c.code, e.Code, "%v", c.args)
		require.NotEmpty(t, e.Message, "%v", c.args)
		if c.detail != "" {
			require.Contains(t, e.Details, c.detail, "%v", c.args)
		}
	}
}

func TestSmallThings(t *testing.T) {
	p := newPlace(t)
	p.file("docs/a.txt", "x")
	p.file("docs/b.txt", "y")
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"update", "k", "docs"}, "update takes one file, and docs is a directory: factmill ingest docs puts all of its files in"},
		{[]string{"update", "k", "docs/*.txt"}, "update takes one file, but docs/*.txt names 2"},
		{[]string{"search", ""}, "give at least one word to search for"},
		{[]string{"search", "  "}, "give at least one word to search for"},
		{[]string{"export", "-o", "docs"}, "--output docs is a directory: name a file in it"},
		{[]string{"export", "-o", "new/", "--format", "csv"}, "--output new/ is a directory: name a file in it"},
		{[]string{"ingest", "docs", "--format", "bogus"}, `--format: format "bogus" is not read; these are: `},
	} {
		r := p.run("", c.args...)
		require.Equal(t, exitUsage, r.code, "%v", c.args)
		require.Contains(t, r.err, "factmill: "+c.err, "%v", c.args)
		require.Empty(t, r.out)
	}
	require.NoDirExists(t, filepath.Join(p.home, ".local"), "nothing was started")
	r := p.run("", "help", "bogus")
	require.Equal(t, result{exitUsage, "", "factmill: unknown command \"bogus\" for \"factmill\"\nsee: factmill --help\n"}, r)
	require.Equal(t, p.run("", "jobs", "list", "--help").out, p.run("", "help", "jobs", "list").out)
	require.Equal(t, p.run("", "version").out, p.run("", "--version").out)

	cmd := p.command("config")
	cmd.Env = append(cmd.Env, "FACTMILL_CHUNKER_SISE=300")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	require.NoError(t, cmd.Run())
	require.Equal(t, "warning: the environment variable FACTMILL_CHUNKER_SISE is unknown and not used, did you mean FACTMILL_CHUNKER_SIZE?\n", errOut.String())
}

// The effective schema is shown as people write it, and putting it again is no change.
func TestSchemaShownAndPutAgain(t *testing.T) {
	p := newPlace(t)
	r := p.run("", "schema", "show", "--data", "g")
	require.Contains(t, r.out, "Person->Organization")
	require.NotContains(t, r.out, `\u003e`)
	p.file("default.json", r.out)
	require.False(t, reads[api.SchemaReply](t, p.run("", "schema", "put", "default.json", "--data", "g", "--json")).Changed)
	p.file("s.yaml", "name: s\nentities: {Person: A human., Firm: A firm.}\nrelations: {WORKS_FOR: {patterns: ['Person->Firm'], description: Work.}}\n")
	for i, changed := range []bool{true, false, false} {
		s := reads[api.SchemaReply](t, p.run("", "schema", "put", "s.yaml", "--data", "g", "--json"))
		require.Equal(t, changed, s.Changed, i)
		require.Equal(t, uint64(2), s.Revision, i)
	}
}

// An old version says that it is closed.
func TestClosedVersionOfBinary(t *testing.T) {
	p := newPlace(t)
	for _, text := range []string{"Ada Lovelace worked for Acme Ltd.", "Ada Lovelace worked for Initech Ltd."} {
		reads[api.JobStatus](t, p.run(text, "ingest", "-", "--key", "a", "--data", "g", "--json"))
	}
	require.Regexp(t, `^a  \(version 1, closed \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\)\n`, p.run("", "document", "a", "--version", "1", "--data", "g").out)
	require.Regexp(t, `^a  \(open\)\n`, p.run("", "document", "a", "--data", "g").out)
}

// Whether nothing waits, or nothing of what was asked for.
func TestReviewListOfNothing(t *testing.T) {
	p := newPlace(t)
	list := func(args ...string) string {
		r := p.run("", append([]string{"review", "list", "--data", "g"}, args...)...)
		require.Equal(t, exitDone, r.code, r.err)
		return r.out
	}
	require.Equal(t, "no candidate waits for review here; factmill review stats counts matches, conflicts, stale facts and held jobs\n", list())
	require.Equal(t, "no group matches\n", list("--kind", "entity"))
	require.Equal(t, "no group matches\n", list("--limit", "5"))
	require.Equal(t, "no jobs\n", p.run("", "jobs", "list", "--data", "g").out)
	require.Equal(t, "no job is held\n", p.run("", "jobs", "list", "--state", "held", "--data", "g").out)
	require.Equal(t, "nothing matches\n", p.run("", "dead-letters", "list", "--kind", "dead", "--data", "g").out)
}
