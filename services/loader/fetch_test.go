package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

func inline(d events.InputDocument) events.Source {
	return events.Source{Token: "src", Name: d.Key, Document: &d}
}

func uploadedFile(name, text string, meta *events.InputDocument) events.Source {
	return events.Source{Token: "src", Name: name, Data: []byte(text), Meta: meta}
}

func TestFetchLoaded(t *testing.T) {
	b := newBench(t, Config{})
	out, err := b.fetched(testJob(), inline(events.InputDocument{
		Key: "ada", Text: "Ada\r\nﬁne", Title: "T", PublishedAt: "2024", ContentDate: "2023", SourceUpdatedAt: "2024-01-01", Metadata: map[string]any{"a": 1.5}, Scope: graph.Scope{"b", "a"},
	}))
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.Loaded{
		Job: testJob(),
		Doc: events.DocRef{Key: "ada", Token: fingerprint.Token("ada"), Source: "src", Sole: true, ContentHash: fingerprint.ContentHash("Ada\nfine")},
		Meta: graph.Meta{Key: "ada", ID: fingerprint.DocumentID("ada"), Title: "T", Format: "text", PublishedAt: "2024", ContentDate: "2023",
			SourceUpdatedAt: "2024-01-01", Metadata: map[string]any{"a": 1.5}, Scope: graph.Scope{"a", "b"}},
		Decision: graph.NewVersion, Text: "Ada\nfine", Markup: "plain",
	}}, out)
	require.Equal(t, [][]string{{"ada"}}, b.committer.asked)
}

func TestFetchDecides(t *testing.T) {
	b := newBench(t, Config{})
	src := inline(events.InputDocument{Key: "k", Text: "text", Title: "T"})
	stored := graph.Stored{
		Open: true, Revision: 9, ContentHash: fingerprint.ContentHash("text"), SchemaFP: "schema", ChunkerFP: "chunker", ExtractionFP: "extraction",
		MetaHash: graph.Meta{Title: "T"}.MetaHash(),
	}
	for _, c := range []struct {
		name   string
		change func(*graph.Stored, *events.Job)
		want   graph.Decision
	}{
		{"nothing", func(*graph.Stored, *events.Job) {}, graph.NoOp},
		{"new key", func(s *graph.Stored, _ *events.Job) { *s = graph.Stored{Revision: 9} }, graph.NewVersion},
		{"content", func(s *graph.Stored, _ *events.Job) { s.ContentHash = "x" }, graph.NewVersion},
		{"schema", func(_ *graph.Stored, j *events.Job) { j.SchemaFP = "x" }, graph.NewVersion},
		{"chunker", func(_ *graph.Stored, j *events.Job) { j.ChunkerFP = "x" }, graph.NewVersion},
		{"extraction", func(_ *graph.Stored, j *events.Job) { j.ExtractionFP = "x" }, graph.InPlace},
		{"no stamp", func(s *graph.Stored, _ *events.Job) { s.ExtractionFP = "" }, graph.InPlace},
		{"force", func(_ *graph.Stored, j *events.Job) { j.Force = true }, graph.InPlace},
		{"title", func(s *graph.Stored, _ *events.Job) { s.MetaHash = "x" }, graph.MetadataOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, job := stored, testJob()
			c.change(&have, &job)
			b.committer.stored["k"] = have
			out, err := b.fetched(job, src)
			require.NoError(t, err)
			require.Len(t, out, 1)
			switch e := out[0].(type) {
			case *events.Loaded:
				require.Equal(t, c.want, e.Decision)
				require.Equal(t, uint64(9), e.Base)
				require.True(t, e.Doc.Sole)
			case *events.Staged:
				require.Equal(t, graph.MetadataOnly, c.want)
				require.Equal(t, &events.Staged{Job: job, Doc: e.Doc, Meta: e.Meta, Decision: graph.MetadataOnly, Base: 9}, e)
				require.Equal(t, "T", e.Meta.Title)
				require.Equal(t, fingerprint.ContentHash("text"), e.Doc.ContentHash)
			case *events.Ended:
				require.Equal(t, graph.NoOp, c.want)
				require.Equal(t, &events.Ended{Job: job, Doc: e.Doc, Source: "src", Name: "k", Outcome: "unchanged", Base: 9}, e)
				require.True(t, e.Doc.Sole)
			default:
				t.Fatalf("%T", e)
			}
		})
	}
}

func TestFetchDelete(t *testing.T) {
	b := newBench(t, Config{})
	src := events.Source{Token: "src", Name: "k", Delete: "k", Meta: &events.InputDocument{SourceUpdatedAt: "2024"}}
	ref := events.DocRef{Key: "k", Token: fingerprint.Token("k"), Source: "src", Sole: true}
	unknown := ref
	unknown.SourceUpdatedAt = "2024" // the tombstone of a key that was never there has a place among its versions too
	out, err := b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.Ended{Job: testJob(), Doc: &unknown, Source: "src", Name: "k", Outcome: "unchanged",
		Failure: &graph.Failure{Stage: "loader", Item: "k", Code: "unknown_key", Message: "there is no such document: nothing was deleted", TraceID: "trace"}}}, out)
	b.committer.stored["k"] = graph.Stored{Open: true, Revision: 3}
	out, err = b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.Staged{Job: testJob(), Doc: ref, Meta: graph.Meta{Key: "k", ID: fingerprint.DocumentID("k"), SourceUpdatedAt: "2024"},
		Decision: graph.Delete, Base: 3}}, out)
	src.Only, src.Try = "k", 2
	out, err = b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Equal(t, 2, out[0].(*events.Staged).Doc.Try)
}

func TestFetchFormats(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct {
		name, text    string
		meta          *events.InputDocument
		key, title    string
		markup, wants string
	}{
		{"docs/a.txt", "# plain", nil, "docs/a.txt", "a", "plain", "# plain"},
		{"docs/a.md", "\uFEFFx\n\n# The title\n", nil, "docs/a.md", "The title", "markdown", "x\n\n# The title\n"},
		{"docs/a.md", "x", &events.InputDocument{Title: "given", Key: "own"}, "own", "given", "markdown", "x"},
		{"a.html", "<title>P</title><h1>H</h1><p>x", nil, "a.html", "P", "markdown", "# H\n\nx"},
		{"a.json", `{"text":"x","title":"own","id":"7"}`, nil, "a.json", "own", "plain", "x"},
		{"a.json", `{"text":"x","title":"own"}`, &events.InputDocument{Title: "given"}, "a.json", "given", "plain", "x"},
		{"README", "x", &events.InputDocument{Format: "md"}, "README", "README", "markdown", "x"},
	} {
		out, err := b.fetched(testJob(), uploadedFile(c.name, c.text, c.meta))
		require.NoError(t, err)
		require.Len(t, out, 1)
		e := out[0].(*events.Loaded)
		require.Equal(t, []string{c.key, c.title, c.markup, c.wants}, []string{e.Meta.Key, e.Meta.Title, e.Markup, e.Text})
		require.True(t, e.Doc.Sole)
	}
}

func TestFetchRecords(t *testing.T) {
	b := newBench(t, Config{})
	given := &events.InputDocument{PublishedAt: "2020", Scope: graph.Scope{"all"}, Metadata: map[string]any{"lang": "en", "from": "event"}}
	text := "id,text,published_at,scope,metadata.lang\nx,Hello.,2024,own,de\ny,World.,,,\n"
	b.committer.stored["d/p.csv#y"] = graph.Stored{
		Open: true, Revision: 4, ContentHash: fingerprint.ContentHash("World."), SchemaFP: "schema", ChunkerFP: "chunker", ExtractionFP: "extraction",
		MetaHash: graph.Meta{Title: "p", PublishedAt: "2020", Scope: graph.Scope{"all"}, Metadata: given.Metadata}.MetaHash(),
	}
	out, err := b.fetched(testJob(), uploadedFile("d/p.csv", text, given))
	require.NoError(t, err)
	require.Len(t, out, 3)
	first := out[0].(*events.Loaded)
	require.Equal(t, events.DocRef{Key: "d/p.csv#x", Token: fingerprint.Token("d/p.csv#x"), Source: "src", ContentHash: fingerprint.ContentHash("Hello.")}, first.Doc)
	require.Equal(t, graph.Meta{Key: "d/p.csv#x", ID: fingerprint.DocumentID("d/p.csv#x"), Title: "p", Format: "csv", PublishedAt: "2024", Scope: graph.Scope{"all", "own"},
		Metadata: map[string]any{"lang": "de", "from": "event"}}, first.Meta)
	second := out[1].(*events.Ended)
	require.Equal(t, []any{"d/p.csv#y", "unchanged", uint64(4)}, []any{second.Doc.Key, second.Outcome, second.Base})
	require.Equal(t, &events.Ended{Job: testJob(), Source: "src", Name: "d/p.csv", Outcome: "listed", Documents: 2,
		Digest: digestOf(fingerprint.Token("d/p.csv#x"), fingerprint.Token("d/p.csv#y"))}, out[2])
	require.Equal(t, [][]string{{"d/p.csv#x", "d/p.csv#y"}}, b.committer.asked)

	out, err = b.fetched(testJob(), uploadedFile("p.csv", "a,b\n", nil))
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.Ended{Job: testJob(), Source: "src", Name: "p.csv", Outcome: "listed", Digest: strings.Repeat("0", 64), Failure: &graph.Failure{
		Stage: "loader", Item: "p.csv", Code: "no_records", Message: "the table has a header (line 1, columns: 2) and no rows: none of its 4 bytes became a document", TraceID: "trace"}}}, out)
	for _, text := range []string{"", "\uFEFF\r\n \n"} {
		out, err = b.fetched(testJob(), uploadedFile("p.csv", text, nil))
		require.NoError(t, err)
		require.Equal(t, []events.Event{&events.Ended{Job: testJob(), Source: "src", Name: "p.csv", Outcome: "listed", Digest: strings.Repeat("0", 64)}}, out)
	}
}

func TestFetchManyRecords(t *testing.T) {
	b := newBench(t, Config{})
	var text strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&text, `{"id":"r%d","text":"%s %d"}`+"\n", i, strings.Repeat("word ", 200), i)
	}
	out, err := b.fetched(testJob(), uploadedFile("r.jsonl", text.String(), nil))
	require.NoError(t, err)
	require.Len(t, out, 1501)
	require.Greater(t, len(b.emitted), 2)
	for _, e := range b.emitted {
		require.LessOrEqual(t, len(e), maxBatch)
	}
	for _, k := range b.committer.asked {
		require.LessOrEqual(t, len(k), roundDocuments)
	}
	ids := map[string]bool{}
	for _, e := range out {
		ids[e.ID()] = true
	}
	require.Len(t, ids, 1501, "every event has an id of its own")
}

func TestFetchFaults(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big.txt"), make([]byte, 50<<20), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.txt"), 0o755))
	b := newBench(t, Config{Roots: []string{dir}})
	for _, c := range []struct {
		src           events.Source
		code, message string
	}{
		{events.Source{Token: "s", Name: "big.txt", Path: "big.txt"}, "too_large", `"big.txt" has 52428800 bytes: at most 33554432`},
		{events.Source{Token: "s", Name: "gone.txt", Path: "gone.txt"}, "source_not_found", `"gone.txt" does not exist`},
		{events.Source{Token: "s", Name: "d.txt", Path: "d.txt"}, "not_a_file", `"d.txt" is a directory`},
		{events.Source{Token: "s", Name: "../x", Path: "../x"}, "path_outside_roots", `"../x" lies outside the loader's roots`},
		{events.Source{Token: "s", Name: "object:b/n", Object: "b/n"}, "source_not_found", "object:b/n: there is no such object"},
		{events.Source{Token: "s", Name: "x.txt", Object: "FACTMILL_BODIES/n"}, "path_outside_roots", "the bucket FACTMILL_BODIES is internal: no source can lie in it"},
		{uploadedFile("a.txt", "Caf\xe9", nil), "bad_encoding", "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{uploadedFile("a.txt", "a\x00b", nil), "bad_encoding", "a NUL stands at byte 1: this is no text"},
		{inline(events.InputDocument{Key: "k", Text: "a\x00b"}), "bad_encoding", "a NUL stands at byte 1: this is no text"},
		{uploadedFile("a.csv", "a,b\n1\n", nil), "bad_record", "record 1 (line 2) has 1 of the header's 2 columns"},
		{uploadedFile("a.csv", "text,published_at\nx,soon\n", nil), "bad_record", `record 1 (line 2), a.csv#0: published_at is "soon": it must be a date (2024, 2024-05, 2024-05-31) or an RFC 3339 time`},
		{uploadedFile("a.json", "{", nil), "bad_json", "not valid JSON: unexpected end of JSON input at byte 1"},
		{uploadedFile("a.jsonl", `{"text":"a","id":"`+strings.Repeat("x", 1100)+`"}`, nil), "bad_record", "record 1 (line 1), a.jsonl#" + strings.Repeat("x", 192) + "…: the key has 1108 bytes: at most 1024"},
	} {
		out, err := b.fetched(testJob(), c.src)
		require.Empty(t, out)
		isFault(t, err, c.code, c.message)
	}
	_, err := b.fetched(testJob(), uploadedFile("a.csv", "a,b\n1,2\n3\n4,5\n", nil))
	require.Equal(t, 3, fault.Of(err).Items, "all records of the source are lost with the bad one")
	require.Empty(t, b.committer.asked, "nothing of a source at fault is decided")
	require.Empty(t, b.fetch.large)

	small := newBench(t, Config{MaxDocument: 1 << 10})
	_, err = small.fetched(testJob(), inline(events.InputDocument{Key: "k", Text: strings.Repeat("ﷺ", 300)}))
	isFault(t, err, "too_large", `"k" has 9900 bytes: at most 1024`)
	name := strings.Repeat("n", 500)
	_, err = small.fetched(testJob(), uploadedFile("a.csv", name+"\n"+strings.Repeat("1\n", 20), nil))
	isFault(t, err, "too_large", "a.csv: its documents have more than 8192 bytes of text together")
}

func TestFetchJobFaults(t *testing.T) {
	b := newBench(t, Config{})
	skip := func(j *events.Job) { j.ErrorPolicy = events.PolicySkip }
	update := func(j *events.Job) { j.Op = events.OpUpdate }
	for _, c := range []struct {
		job           events.Job
		src           events.Source
		code, message string
	}{
		{testJob(skip), uploadedFile("a.csv", "id,text\n1,a\n1,b\n", nil), "duplicate_key", `a.csv: the key "a.csv#1" stands twice: record 1 (line 2) and record 2 (line 3)`},
		{testJob(skip), uploadedFile("a.json", "[{\"text\":\"a\",\"id\":\"1\"},\n{\"text\":\"b\",\"id\":2},\n{\"text\":\"c\",\"id\":1}]", nil), "duplicate_key",
			`a.json: the key "a.json#1" stands twice: record 1 (line 1) and record 3 (line 3)`},
		{testJob(skip, update), uploadedFile("a.csv", "text\na\nb\n", nil), "update_one", "update takes exactly one document: a.csv has 2"},
		{testJob(update), uploadedFile("a.jsonl", "", nil), "update_one", "update takes exactly one document: a.jsonl has 0"},
	} {
		out, err := b.fetched(c.job, c.src)
		require.NoError(t, err)
		require.Equal(t, []events.Event{&events.Ended{Job: c.job, Source: "src", Name: c.src.Name, Outcome: "failed",
			Failure: &graph.Failure{Stage: "loader", Item: c.src.Name, Code: c.code, Message: c.message, TraceID: "trace"}}}, out)
		require.True(t, events.JobFault(c.code))
	}
	out, err := b.fetched(testJob(update), uploadedFile("a.csv", "text\na\n", &events.InputDocument{Key: "mine"}))
	require.NoError(t, err)
	require.Equal(t, "mine", out[0].(*events.Loaded).Meta.Key, "an update names its one document")
}

func TestFetchOnly(t *testing.T) {
	b := newBench(t, Config{})
	src := uploadedFile("a.csv", "text\na\nb\n", nil)
	src.Only, src.Try = "a.csv#1", 3
	out, err := b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Len(t, out, 1, "the source is listed already")
	e := out[0].(*events.Loaded)
	require.Equal(t, []any{"b", 3, false}, []any{e.Text, e.Doc.Try, e.Doc.Sole})
	require.Equal(t, [][]string{{"a.csv#1"}}, b.committer.asked)
	src.Only = "a.csv#2"
	_, err = b.fetched(testJob(), src)
	isFault(t, err, "source_changed", `a.csv no longer holds the document "a.csv#2"`)

	one := inline(events.InputDocument{Key: "k", Text: "x"})
	one.Only, one.Try = "k", 1
	out, err = b.fetched(testJob(), one)
	require.NoError(t, err)
	require.Equal(t, 1, out[0].(*events.Loaded).Doc.Try)
	one.Only = "other"
	_, err = b.fetched(testJob(), one)
	isFault(t, err, "source_changed", `k no longer holds the document "other"`)
}

func TestFetchCommitterAway(t *testing.T) {
	b := newBench(t, Config{})
	b.committer.err = api.Errorf(503, "not_ready", "no")
	for _, src := range []events.Source{inline(events.InputDocument{Key: "k", Text: "x"}), uploadedFile("a.csv", "a\n1\n", nil), {Token: "s", Name: "k", Delete: "k"}} {
		_, err := b.fetched(testJob(), src)
		require.True(t, fault.Of(err).Pause)
		require.Equal(t, fault.Transient, fault.Of(err).Class)
	}
	b.committer.err = errors.New("other")
	_, err := b.fetched(testJob(), inline(events.InputDocument{Key: "k", Text: "x"}))
	require.Equal(t, "query.stored", fault.Of(err).Code)
}

func TestFetchLimits(t *testing.T) {
	b := newBench(t, Config{})
	for name, text := range map[string]string{
		"a 990 kB text that grows as JSON": strings.Repeat("\x01", 990<<10),
		"a million spaces":                 strings.Repeat(" ", 1_000_000),
		"one word of 5 MB":                 strings.Repeat("x", 5<<20),
	} {
		out, err := b.fetched(testJob(), uploadedFile("a.txt", text, nil))
		require.NoError(t, err, name)
		require.Equal(t, text, out[0].(*events.Loaded).Text, name)
	}
	require.Empty(t, b.fetch.large)
}

// TestTwoHundredFiles is the case of a directory with one file of no known format.
func TestTwoHundredFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 199 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d.txt", i)), fmt.Appendf(nil, "text %d", i), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "odd.dat"), []byte("x"), 0o644))
	b := newBench(t, Config{Roots: []string{dir}})
	out, faults := b.through(`{"sources":["."],"error_policy":"skip"}`)
	require.Len(t, out, 199)
	require.Len(t, faults, 1)
	require.Equal(t, "unsupported_format", fault.Of(faults["odd.dat"]).Code)
	require.Equal(t, fault.Document, fault.Of(faults["odd.dat"]).Class)
}

func TestRandomBytesNeverPanic(t *testing.T) {
	seed := int64(20240517)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	b := newBench(t, Config{})
	names := []string{"a.txt", "a.md", "a.html", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.dat", "a.xml", "a.docx", "README"}
	alphabet := []string{"\xff", "\xfe", "\x00", "{", "}", "[", "]", "\"", ",", ":", "\n", "\r", "<table>", "<tr>", "<td>", "</table>", "<pre>", "<!--", "text", "id", "\\u", "é", "1", " ", "# "}
	for range 4000 {
		var text strings.Builder
		for range rng.Intn(30) {
			text.WriteString(alphabet[rng.Intn(len(alphabet))])
		}
		out, err := b.fetched(testJob(), uploadedFile(names[rng.Intn(len(names))], text.String(), nil))
		if err != nil {
			require.Equal(t, fault.Document, fault.Of(err).Class, "%q: %v", text.String(), err)
			continue
		}
		require.NotEmpty(t, out)
		for _, e := range out {
			overTheWire(t, e)
		}
	}
}

func FuzzFetch(f *testing.F) {
	names := []string{"a.txt", "a.md", "a.html", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.xml", "a.docx", "README"}
	for i := range names {
		f.Add(uint8(i), []byte("id,text\n1,a\n"))
		f.Add(uint8(i), []byte(`{"records":[{"text":"a"}]}`))
		f.Add(uint8(i), []byte("<meta charset=latin1>\xe9<table><td>x"))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		b := newBench(t, Config{})
		out, err := b.fetched(testJob(), uploadedFile(names[int(which)%len(names)], string(data), nil))
		if err != nil && fault.Of(err).Class != fault.Document {
			t.Fatalf("%v", err)
		}
		for _, e := range out {
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
			overTheWire(t, e)
		}
	})
}

func BenchmarkFetch(b *testing.B) {
	text := strings.Repeat("Ada Lovelace worked for Acme Ltd in London. ", 93)
	for name, src := range map[string]events.Source{
		"text":     uploadedFile("a.txt", text, nil),
		"markdown": uploadedFile("a.md", "# T\n\n"+text, nil),
		"html":     uploadedFile("a.html", "<title>T</title><p>"+strings.ReplaceAll(text, ". ", ".</p><p>"), nil),
	} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, Config{})
			in := s.delivery(&events.Found{Job: testJob(), Source: src})
			b.ReportAllocs()
			for b.Loop() {
				s.committer.asked = nil
				if _, err := s.fetch.Handle(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
