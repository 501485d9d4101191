package loader

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for n, text := range files {
		p := filepath.Join(dir, n)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
}

func names(sources []events.Source) (out []string) {
	for _, s := range sources {
		out = append(out, s.Name)
	}
	return out
}

func TestListOpensTheJob(t *testing.T) {
	b := newBench(t, Config{})
	body := `{"job":"mine","text":"x","error_policy":"skip","atomic":"document","force":true,"candidates":false,"hold":true,"supersede":true,"deadline":"5m"}`
	out, err := b.listed(body, nil)
	require.NoError(t, err)
	require.Equal(t, []api.JobOpen{{
		Job: "mine", Digest: fingerprint.SHA256Hex([]byte(body)), At: graph.Order{Time: 1700000000000000123, Seq: 7}, Op: "add", ErrorPolicy: "skip",
		Atomic: "document", Force: true, Hold: true, Supersede: true, Deadline: "5m",
	}}, b.committer.opened)
	require.Len(t, out, 2)

	_, err = b.listed(`{"text":"x"}`, nil)
	require.NoError(t, err)
	require.Equal(t, "j7", b.committer.opened[1].Job)
	require.True(t, b.committer.opened[1].Candidates)
}

func TestListInline(t *testing.T) {
	b := newBench(t, Config{})
	hash := fingerprint.ContentHash("Hi\n")[:16]
	for _, c := range []struct {
		name, body string
		headers    map[string]string
		want       []events.Source
	}{
		{"text", `{"text":"Hi\r\n","title":"T"}`, nil, []events.Source{{Name: "inline:" + hash, Document: &events.InputDocument{Key: "inline:" + hash, Text: "Hi\r\n", Title: "T"}}}},
		{"a body that is the text", "Hi\n", map[string]string{"Factmill-Key": "k", "Factmill-Scope": "b,a"},
			[]events.Source{{Name: "k", Document: &events.InputDocument{Key: "k", Text: "Hi\n", Scope: graph.Scope{"a", "b"}}}}},
		{"a body in utf-16", "\xff\xfeH\x00i\x00\n\x00", nil, []events.Source{{Name: "inline:" + hash, Document: &events.InputDocument{Key: "inline:" + hash, Text: "\uFEFFHi\n"}}}},
		{"a body that cannot be told", "Caf\xe9", nil, []events.Source{{Name: "inline:4e0b1b0c0d0c0e0f", Data: []byte("Caf\xe9")}}},
		{"documents", `{"documents":[{"key":"a","text":"1"},{"text":"Hi\n"}]}`, nil, []events.Source{
			{Name: "a", Document: &events.InputDocument{Key: "a", Text: "1"}}, {Name: "inline:" + hash, Document: &events.InputDocument{Key: "inline:" + hash, Text: "Hi\n"}}}},
		{"delete", `{"op":"delete","key":"a","source_updated_at":"2024"}`, nil, []events.Source{{Name: "a", Delete: "a", Meta: &events.InputDocument{SourceUpdatedAt: "2024"}}}},
		{"delete many", `{"op":"delete","documents":[{"key":"b"},{"key":"a"}]}`, nil, []events.Source{{Name: "b", Delete: "b"}, {Name: "a", Delete: "a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := b.listed(c.body, c.headers)
			require.NoError(t, err)
			sources, ended, seal := found(t, out)
			require.Empty(t, ended)
			require.Len(t, sources, len(c.want))
			var tokens []string
			for i := range sources {
				tokens = append(tokens, sources[i].Token)
				require.Regexp(t, "^[a-z2-7]{24}$", sources[i].Token)
				if c.want[i].Data != nil {
					c.want[i].Name = "inline:" + fingerprint.SHA256Hex(c.want[i].Data)[:16]
					c.want[i].Meta = &events.InputDocument{Key: c.want[i].Name, Format: "text"}
				}
				c.want[i].Token = sources[i].Token
				got, want := overTheWire(t, &events.Found{Job: testJob(), Source: sources[i]}), overTheWire(t, &events.Found{Job: testJob(), Source: c.want[i]})
				require.Equal(t, want, got)
			}
			sort.Strings(tokens)
			require.Equal(t, tokens, seal.Sources)
			require.Nil(t, seal.Refused)
			require.Equal(t, "j7", seal.Job.ID)
		})
	}
}

func TestListPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"docs/b.md": "b", "docs/a.txt": "a", "docs/x.dat": "x", "one.csv": "c", "docs/bad\x01name.txt": "n"})
	b := newBench(t, Config{Roots: []string{dir}})
	out, err := b.listed(`{"sources":["docs","one.csv","docs/*.txt","./one.csv"],"scope":"s","error_policy":"skip"}`, nil)
	require.NoError(t, err)
	sources, ended, seal := found(t, out)
	require.Equal(t, []string{"docs/a.txt", "docs/b.md", "docs/x.dat", "one.csv"}, names(sources), "the same file named twice is one source")
	for _, s := range sources {
		require.Equal(t, s.Name, s.Path)
		require.Equal(t, &events.InputDocument{Scope: graph.Scope{"s"}}, s.Meta)
	}
	require.Len(t, ended, 1)
	require.Equal(t, "skipped", ended[0].Outcome)
	require.Equal(t, &graph.Failure{Stage: "loader", Item: "docs/bad\x01name.txt", Code: "bad_name",
		Message: `the file name "docs/bad\x01name.txt" has control or broken characters`, TraceID: "trace"}, ended[0].Failure)
	require.Len(t, seal.Sources, 5)
	require.True(t, sort.StringsAreSorted(seal.Sources))

	out, err = b.listed(`{"sources":["one.csv"],"key":"k","title":"T"}`, nil)
	require.NoError(t, err)
	sources, _, _ = found(t, out)
	require.Equal(t, &events.InputDocument{Key: "k", Title: "T"}, sources[0].Meta)
}

func TestListRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"in/a.txt": "a", "in/b.txt": "b", "out/c.txt": "c"})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in", "empty"), 0o755))
	b := newBench(t, Config{Roots: []string{filepath.Join(dir, "in")}})
	for _, c := range []struct{ body, job, code, message string }{
		{`{"text":`, "j7", "bad_json", "the document event is not valid JSON: unexpected EOF"},
		{`{"job":"mine","txt":"a"}`, "mine", "unknown_field", `unknown field "txt" in the document event`},
		{`{"job":"j12","text":"a"}`, "j7", "bad_name", `bad job id "j12": j and digits are kept for events that name none`},
		{`{"text":"a","sources":["a.txt"]}`, "j7", "many_inputs", "the event has text and sources: give one kind of input"},
		{`{"sources":["nope.txt"]}`, "j7", "source_not_found", `"nope.txt" does not exist`},
		{`{"sources":["a.txt","../out/c.txt"]}`, "j7", "path_outside_roots", `"../out/c.txt" lies outside the loader's roots`},
		{`{"sources":["*.md"]}`, "j7", "source_not_found", `the pattern "*.md" matches no file`},
		{`{"sources":["object:up/nope"]}`, "j7", "source_not_found", "object:up/nope: there is no such object"},
		{`{"sources":["object:up"]}`, "j7", "bad_value", `the source "object:up" is not object:<bucket>/<name>`},
		{`{"sources":["object:FACTMILL_BODIES/g/j1/x"]}`, "j7", "path_outside_roots", "the bucket FACTMILL_BODIES is internal: no source can lie in it"},
		{`{"documents":[{"text":"a"},{"text":"a"}]}`, "j7", "duplicate_key", `documents[1]: the key "inline:ca978112ca1bbdca" stands twice in one job`},
	} {
		b.committer.opened, b.committer.reply.State = nil, api.JobRolledBack
		out, err := b.listed(c.body, nil)
		require.NoError(t, err, c.body)
		require.Empty(t, out, c.body)
		require.Len(t, b.committer.opened, 1)
		require.Equal(t, c.job, b.committer.opened[0].Job, c.body)
		require.Equal(t, &graph.Failure{Stage: "loader", Item: c.job, Code: c.code, Message: c.message, TraceID: "trace"}, b.committer.opened[0].Refused)

		// A job that an earlier delivery opened is ended by its seal.
		b.committer.reply.State = api.JobPending
		out, err = b.listed(c.body, nil)
		require.NoError(t, err)
		_, _, seal := found(t, out)
		require.Equal(t, c.code, seal.Refused.Code)
	}
	// What only the listing shows ends the job by its seal.
	b.committer.reply.State = api.JobPending
	for body, code := range map[string]string{
		`{"sources":["."],"key":"k"}`:        "bad_value",
		`{"op":"update","sources":["."]}`:    "update_one",
		`{"op":"update","sources":["emp*"]}`: "source_not_found",
	} {
		out, err := b.listed(body, nil)
		require.NoError(t, err)
		_, _, seal := found(t, out)
		require.Equal(t, code, seal.Refused.Code, body)
	}
	out, err := b.listed(`{"op":"update","sources":["empty"]}`, nil)
	require.NoError(t, err)
	_, _, seal := found(t, out)
	require.Equal(t, "update takes exactly one document: the source has 0 files", seal.Refused.Message)
	out, err = b.listed(`{"sources":["empty"]}`, nil)
	require.NoError(t, err)
	sources, _, seal := found(t, out)
	require.Empty(t, sources)
	require.Equal(t, []string{}, seal.Sources)
	require.Nil(t, seal.Refused)
}

func TestListAnswers(t *testing.T) {
	b := newBench(t, Config{})
	b.committer.err = api.Errorf(409, "job_id_taken", "taken")
	out, err := b.listed(`{"text":"x"}`, nil)
	require.NoError(t, err)
	require.Empty(t, out)

	for _, state := range []string{api.JobHeld, api.JobCommitted, api.JobRollingBack, api.JobRolledBack} {
		b.committer.err, b.committer.reply.State = nil, state
		out, err = b.listed(`{"text":"x"}`, nil)
		require.NoError(t, err)
		require.Empty(t, out, state)
	}
	for _, c := range []struct {
		err   error
		class fault.Class
		code  string
		pause bool
	}{
		{api.Errorf(503, "not_ready", "no"), fault.Transient, "jobs.open", true},
		{context.DeadlineExceeded, fault.Transient, "jobs.open", true},
		{api.Errorf(429, "busy", "no"), fault.Transient, "busy", false},
		{api.Errorf(500, "internal", "no"), fault.Transient, "internal", false},
		{api.Errorf(400, "bad_value", "no"), fault.Permanent, "bad_value", false},
	} {
		b.committer.err = c.err
		_, err = b.listed(`{"text":"x"}`, nil)
		got := fault.Of(err)
		require.Equal(t, c.class, got.Class, "%v", c.err)
		require.Equal(t, c.code, got.Code)
		require.Equal(t, c.pause, got.Pause)
	}
}

func TestListInBatches(t *testing.T) {
	dir := t.TempDir()
	for i := range 1203 {
		write(t, dir, map[string]string{fmt.Sprintf("f%05d.txt", i): "x"})
	}
	b := newBench(t, Config{Roots: []string{dir}})
	out, err := b.listed(`{"sources":["."]}`, nil)
	require.NoError(t, err)
	sources, _, seal := found(t, out)
	require.Len(t, sources, 1203)
	require.Len(t, seal.Sources, 1203)
	require.Greater(t, len(b.emitted), 1)
	for _, e := range b.emitted {
		require.LessOrEqual(t, len(e), maxBatch)
		size := 0
		for _, x := range e {
			raw, err := events.Encode(x)
			require.NoError(t, err)
			size += len(raw)
		}
		require.LessOrEqual(t, size, maxBatchBytes+1<<10)
	}
	again, err := b.listed(`{"sources":["."]}`, nil)
	require.NoError(t, err)
	require.Equal(t, out, again, "a redelivery lists the same")
}

func TestListEmitFails(t *testing.T) {
	dir := t.TempDir()
	for i := range 600 {
		write(t, dir, map[string]string{fmt.Sprintf("f%05d.txt", i): "x"})
	}
	b := newBench(t, Config{Roots: []string{dir}})
	in := b.delivery(document7(`{"sources":["."]}`, nil))
	in.Emit = func(context.Context, ...events.Event) error {
		return fault.Retry("publish", 0, errors.New("no answer"))
	}
	_, err := b.list.Handle(t.Context(), in)
	require.Equal(t, fault.Transient, fault.Of(err).Class)
	// Given up at last, the job is ended.
	out := b.list.lost(in.Event, graph.Failure{Code: "publish", Message: "no answer"})
	require.Equal(t, []events.Event{&events.Sealed{Job: testJob(), Sources: []string{}, Refused: &graph.Failure{Item: "j7", Code: "publish", Message: "no answer"}}}, out)
	require.Empty(t, b.list.opened)
	out = b.list.lost(document7(`{"job":"mine"`, map[string]string{"Factmill-Job": "other"}), graph.Failure{})
	require.Equal(t, "other", out[0].(*events.Sealed).Job.ID)
	require.Nil(t, b.list.lost(&events.Sealed{}, graph.Failure{}))
}

func upload(t testing.TB, add func(*bundle.Writer)) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := bundle.NewWriter(&buf)
	add(w)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func TestListBundle(t *testing.T) {
	b := newBench(t, Config{})
	b.store["up/x.tar"] = upload(t, func(w *bundle.Writer) {
		require.NoError(t, w.Add("docs/a.md", events.InputDocument{Title: "own", Metadata: map[string]any{"k": "v"}}, []byte("# A")))
		require.NoError(t, w.Add("../empty.txt", events.InputDocument{}, nil))
	})
	b.store["up/one.csv"] = []byte("a\n1\n")
	out, err := b.listed(`{"sources":["object:up/x.tar","object:up/one.csv"],"title":"all","scope":"s"}`, nil)
	require.NoError(t, err)
	sources, _, seal := found(t, out)
	require.Len(t, seal.Sources, 3)
	require.Equal(t, []string{"docs/a.md", "../empty.txt", "object:up/one.csv"}, names(sources))
	require.Equal(t, []byte("# A"), sources[0].Data)
	require.Empty(t, sources[0].Path, "an entry's name is never a path")
	require.Equal(t, &events.InputDocument{Title: "own", Metadata: map[string]any{"k": "v"}, Scope: graph.Scope{"s"}}, sources[0].Meta)
	require.Equal(t, &events.InputDocument{Title: "all", Scope: graph.Scope{"s"}}, sources[1].Meta)
	require.Equal(t, "up/one.csv", sources[2].Object)

	// An empty file stays a document on its way over the wire.
	made, err := b.fetched(testJob(), sources[1])
	require.NoError(t, err)
	require.Equal(t, "../empty.txt", made[0].(*events.Loaded).Meta.Key)
	require.Equal(t, "", made[0].(*events.Loaded).Text)

	out, err = b.listed(`{"op":"update","key":"k","sources":["object:up/one.tar"]}`, nil)
	require.NoError(t, err)
	_, _, seal = found(t, out)
	require.Equal(t, "source_not_found", seal.Refused.Code)
}

func TestListBundleFaults(t *testing.T) {
	b := newBench(t, Config{})
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "link.txt", Linkname: "/etc/passwd"}))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big.txt", Size: bundle.MaxEntry + 1}))
	_, err := w.Write(make([]byte, bundle.MaxEntry+1))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	b.store["up/odd.tar"] = raw.Bytes()
	out, err := b.listed(`{"sources":["object:up/odd.tar"],"error_policy":"quarantine"}`, nil)
	require.NoError(t, err)
	sources, ended, seal := found(t, out)
	require.Empty(t, sources)
	require.Len(t, seal.Sources, 2)
	require.Nil(t, seal.Refused)
	require.Equal(t, "quarantined", ended[0].Outcome)
	require.Equal(t, "not_a_file", ended[0].Failure.Code)
	require.Equal(t, "too_large", ended[1].Failure.Code)

	twice := upload(t, func(w *bundle.Writer) {
		require.NoError(t, w.Add("a.txt", events.InputDocument{}, nil))
		require.NoError(t, w.Add("./a.txt", events.InputDocument{}, nil))
	})
	for body, want := range map[string]string{string(twice): "duplicate_key", string(twice[:700]): "bad_bundle", strings.Repeat("no tar", 200): "bad_bundle"} {
		b.store["up/odd.tar"] = []byte(body)
		out, err := b.listed(`{"sources":["object:up/odd.tar"],"error_policy":"skip"}`, nil)
		require.NoError(t, err)
		_, _, seal := found(t, out)
		require.Equal(t, want, seal.Refused.Code)
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"text":"a"}`))
	f.Add([]byte(`{"documents":[{"text":"a","key":"k"}],"job":"x"}`))
	f.Add([]byte("\xff\xfeH\x00"))
	f.Add([]byte(`{"op":"delete","key":"\u0000"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBench(t, Config{})
		out, err := b.listed(string(body), nil)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if len(b.committer.opened) != 1 {
			t.Fatalf("%q opened %d jobs", body, len(b.committer.opened))
		}
		for _, e := range out {
			overTheWire(t, e)
		}
	})
}
