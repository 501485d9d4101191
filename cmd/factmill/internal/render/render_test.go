package render

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                 "plain",
		"Zoë 東京 🔭":              "Zoë 東京 🔭",
		"a\x1b[2Jb":             `a\x1b[2Jb`,
		"a\nb\tc\rd":            `a\nb\tc\rd`,
		"bell\a del\x7f":        `bell\x07 del\x7f`,
		"\u0085\u009b31m":       `\x85\x9b31m`,
		"\u202egpj.exe":         `\u202egpj.exe`,
		"a\u2028b":              `a\u2028b`,
		"bad\xff":               `bad\xff`,
		"tag\U000e0041":         `tag\U000e0041`,
		"👩\u200d🚀 joined, kept": "👩\u200d🚀 joined, kept",
	} {
		require.Equal(t, want, Line(in))
		require.Equal(t, want, Line(Line(in)), "escaping twice changes nothing")
	}
	require.Equal(t, "a\n\tb\\x1b\\r", Block("a\n\tb\x1b\r"))
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc…ij", Middle("abcdefghij", 6))
	require.Equal(t, "abcdefghij", Middle("abcdefghij", 10))
	require.Equal(t, "東…京", Middle("東東東京京京", 6), "a wide rune takes two columns")
	require.Equal(t, "ab…", End("abcdef", 3))
	require.Equal(t, "“a b c”", Quote("  a\n b\tc ", 0))
	require.Equal(t, 4, Width("東京"))
	require.Equal(t, 2, Width("👩\u200d🚀"))
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -100: "-100", -1234: "-1,234", 100000: "100,000"} {
		require.Equal(t, want, Number(n))
	}
	require.Equal(t, "1 document", Count(1, "document", "documents"))
	require.Equal(t, "1,200 documents", Count(1200, "document", "documents"))
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3482: "3.4 KiB", 12 << 20: "12 MiB", 5 << 40: "5.0 TiB"} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestTable(t *testing.T) {
	tab := NewTable("NAME", ">N", "TEXT").Cap(2, 7)
	tab.Row("東京", "5", "short")
	tab.Row("b\x1b", "1,200", "a very long text")
	var b strings.Builder
	require.NoError(t, tab.Write(&b))
	require.Equal(t, "NAME       N  TEXT\n東京       5  short\nb\\x1b  1,200  a ve…xt\n", b.String())
	b.Reset()
	require.NoError(t, NewTable("A").Write(&b))
	require.Empty(t, b.String(), "no rows, no head")
}

func TestProgressLines(t *testing.T) {
	now := time.Unix(100, 0)
	var b strings.Builder
	p := NewProgress(&b, false, func() time.Time { return now })
	p.Set(0, 0, "loader") // within the first second
	now = now.Add(time.Second)
	p.Set(1, 0, "loader")
	p.Set(2, 200, "extractor") // within the same second
	now = now.Add(time.Second)
	p.Set(1500, 2000, "extractor\x1b")
	now = now.Add(time.Second)
	p.Set(1500, 2000, "extractor\x1b") // nothing new
	p.Done()
	require.Equal(t, "loader: 1\nextractor\\x1b: 1,500 of 2,000\n", b.String())

	b.Reset()
	p = NewProgress(&b, true, func() time.Time { return now })
	now = now.Add(time.Second)
	p.Set(2048, 4096, "reading 2 files")
	require.Equal(t, "reading 2 files: 2.0 KiB of 4.0 KiB\n", b.String())
}

func TestEntity(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Entity(&b, api.EntityReply{
		Entity: graph.EntityRow{
			ID: "e1", Name: "Ada \x1b[31mLovelace", Type: "Person", Labels: []string{"Agent", "Person"}, MentionsTotal: 3, DocumentsTotal: 2,
			Evidence:   []graph.Evidence{{Document: "a.txt", Start: 0, End: 12, Quote: "Ada\n Lovelace", Confidence: 0.9}},
			Properties: map[string]graph.PropertyRow{"born": {Value: float64(1815), Others: []graph.OtherRow{{Value: float64(1816)}}}},
		},
		Relations: []graph.RelationRow{{Type: "WORKS_FOR", Source: "e1", SourceName: "Ada", Target: "e2", TargetName: "Acme", EvidenceTotal: 3,
			Evidence: []graph.Evidence{{Document: "a.txt", Start: 0, End: 34, Quote: "Ada worked for Acme.", Confidence: 0.85}}}},
		RelationsTotal: 2,
	}))
	require.Equal(t, `Ada \x1b[31mLovelace  (Person)
  id        e1
  labels    Agent, Person
  mentions  3 in 2 documents
    “Ada Lovelace”  a.txt [0:12]
  properties
    born: 1815  (also stated: 1816)
  relations
    Ada  WORKS_FOR  Acme
      “Ada worked for Acme.”  a.txt [0:34]  0.85
      … and 1 more quote
    … and 1 more relation
`, b.String())
}

func TestEntityCluster(t *testing.T) {
	row := func(id, a, b, method string, score float64, state string) graph.MatchRow {
		return graph.MatchRow{ID: id, A: a, AName: strings.ToUpper(a), B: b, BName: strings.ToUpper(b), Method: method, Score: score, State: state}
	}
	r := api.EntityReply{Entity: graph.EntityRow{ID: "b", Name: "B", Type: "Person"}, UnclearTotal: 30,
		Cluster: &api.Cluster{ID: "a", Name: "B", Members: []api.Member{{ID: "a", Name: "A\x1b"}, {ID: "b", Name: "B"}, {ID: "c", Name: "C"}},
			Links:   []graph.MatchRow{row("m1", "a", "c", "order", 0.985, "confirmed"), row("m2", "a", "b", "typo", 0.93, "active")},
			LeftOut: []graph.MatchRow{row("m3", "b", "d", "embedding", 0.9, "active")}, LeftOutTotal: 1, Cut: true, Unchecked: "no model"}}
	r.Cluster.LeftOut[0].Why = "A and D were rejected"
	for range 25 {
		r.Unclear = append(r.Unclear, row("m4", "b", "e", "short name", 0.7, "unclear"))
	}
	var b strings.Builder
	require.NoError(t, Entity(&b, r))
	waits := strings.Repeat("    B ~ E  (short name, 0.70)  match m4\n", 20)
	require.Equal(t, `B  (Person)
  id        b
  mentions  0
  also known as
    A\x1b  (typo, 0.93)  match m2
    C  (over A, order, 0.98, confirmed)  match m1
    to take one out: factmill review reject --id MATCH
  left out, to keep apart what is not one
    B ~ D  (embedding, 0.90)  match m3
      for A and D were rejected
    there is more than is looked at: this is a part of what is linked
    the likeness of names was not looked at: no model
  perhaps the same, to be decided: factmill review approve|reject --id MATCH
`+waits+`    … and 10 more
`, b.String())
	b.Reset()
	require.NoError(t, Hits(&b, api.SearchReply{Hits: []api.Hit{{Kind: "entity", ID: "b", Row: json.RawMessage(`{"name":"B","type":"Person"}`),
		Cluster: &api.HitCluster{ID: "a", Members: []api.Member{{ID: "c", Name: "C"}, {ID: "a", Name: "A\n"}, {ID: "b", Name: "B"}}}}}}, false))
	require.Equal(t, "1. B  (Person)  b\n     also known as A\\n, C\n", b.String())
}

func TestEvidence(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Evidence(&b, api.EvidenceReply{ID: "r1", Kind: "relation", Total: 1, Next: "c2", Evidence: []graph.Evidence{
		{Document: "a.txt", Start: 0, End: 20, Quote: "Ada worked for Acme.", Confidence: 0.8, Assertion: "explicit", Extractors: []string{"rules"}, Version: 1, ClosedSeq: 3},
		{Document: "b.txt", Start: 5, End: 9, Quote: "a\x1bb", Confidence: 0.75},
	}}))
	require.Equal(t, `2 pieces of evidence of relation r1
  “Ada worked for Acme.”
    a.txt [0:20]  confidence 0.80  explicit  by rules  version 1, until sequence 3
  “a\x1bb”
    b.txt [5:9]  confidence 0.75
more: --cursor c2
`, b.String())
}

func TestEntityEvidence(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Entity(&b, api.EntityReply{Entity: graph.EntityRow{ID: "e1", Name: "Ada", Type: "Person", Properties: map[string]graph.PropertyRow{
		"born": {Value: float64(1815), Evidence: graph.Sources{{Document: "a.txt", Start: 25, End: 29, Quote: "1815"}}}}}}))
	require.Equal(t, `Ada  (Person)
  id        e1
  mentions  0
  properties
    born: 1815
      “1815”  a.txt [25:29]
`, b.String())
}

func TestHits(t *testing.T) {
	r := api.SearchReply{Hits: []api.Hit{
		{Kind: "entity", ID: "e1", Row: json.RawMessage(`{"name":"Ada","type":"Person","evidence":[{"document":"a.txt","start":9,"end":12,"quote":"Ada"}]}`),
			Snippet: "so \x1b[1m Ada Bé met", Matches: []api.Match{{Start: 8, End: 11}, {Start: 12, End: 15}}},
		{Kind: "relation", ID: "r1", Row: json.RawMessage(`{"type":"KNOWS","source":"x","target":"y","evidence":[
			{"document":"a.txt","start":1,"end":2,"quote":"another"},{"document":"b.txt","start":3,"end":8,"quote":"x knows\n y well"}]}`), Snippet: "x knows y…"},
		{Kind: "chunk", ID: "c1", Row: json.RawMessage(`{"document":"a.txt","document_id":"d1","index":2,"start":5,"end":9,"text":"x\u001by"}`)},
		{Kind: "other", ID: "o1", Snippet: "é", Matches: []api.Match{{Start: 0, End: 1}}, Row: json.RawMessage(`{}`)},
	}}
	var b strings.Builder
	require.NoError(t, Hits(&b, r, false))
	require.Equal(t, `1. Ada  (Person)  e1
     “so \x1b[1m Ada Bé met”  a.txt [9:12]
2. x  KNOWS  y  r1
     “x knows y…”  b.txt [3:8]
3. chunk 2 of a.txt  [5:9]
     “x\x1by”
4. other  o1
     “é”
`, b.String())
	b.Reset()
	require.NoError(t, Hits(&b, r, true))
	require.Contains(t, b.String(), "     “so \\x1b[1m \x1b[1mAda\x1b[22m \x1b[1mBé\x1b[22m met”  a.txt [9:12]\n", "what a document says turns nothing on")
	require.Contains(t, b.String(), "4. other  o1\n     “é”\n", "places that are none mark nothing")
	b.Reset()
	require.NoError(t, Hits(&b, api.SearchReply{Incomplete: true}, true))
	require.Equal(t, "nothing found\nthe filters left little of the best that were looked at, and there is more: name documents, or give rarer words\n", b.String())
}

func TestJob(t *testing.T) {
	s := api.JobStatus{
		Job: "j42", Graph: "default", Op: "add", State: api.JobRolledBack, Reason: "a document failed",
		Documents: api.DocumentCounts{Total: 3, Added: 2, Failed: 1},
		OpenedAt:  "2024-01-01T00:00:00Z", EndedAt: "2024-01-01T00:00:02.345Z",
	}
	s.Stages.Chunking.Chunks = 1200
	s.Stages.Ingestion.Add(graph.Failure{Item: "x.bin", Code: "bad_format", Message: "not a text\x1b"})
	s.Stages.Ingestion.Total = 12
	var b strings.Builder
	require.NoError(t, Job(&b, s))
	require.Equal(t, `job j42 rolled back (graph default, 2.35s)
  reason      a document failed
  documents   3: 2 added, 1 failed
  chunks      1,200 (0 tables)
  ingestion   x.bin: not a text\x1b (bad_format)
  ingestion   … and 11 more failures
`, b.String())
}

func TestJobLinks(t *testing.T) {
	show := func(r api.Resolution, state string, progress ...api.Progress) string {
		s := api.JobStatus{Job: "j1", Graph: "g", Op: "add", State: state, Progress: progress}
		s.Stages.Resolution = r
		out, ok := strings.CutPrefix(shown(t, func(w io.Writer) error { return Job(w, s) }), "job j1 "+state+" (graph g)\n  documents   0\n")
		require.True(t, ok, out)
		return out
	}
	require.Empty(t, show(api.Resolution{Unclear: 3, CapLeft: 2}, api.JobCommitted), "nothing was compared")
	require.Equal(t, "  links       1 pair compared, 0 linked\n", show(api.Resolution{Compared: 1}, api.JobCommitted))
	require.Equal(t, "  links       1,200 pairs compared, 47 linked (40 by name, 5 by cosine, 2 by a model), 9 unclear for review, 4 not compared (caps), 3 model requests (1 failed)\n",
		show(api.Resolution{Compared: 1200, Matched: api.Matched{Fuzzy: 40, Embedding: 5, LLM: 2}, Unclear: 9, CapLeft: 4, LLMRequests: 3, LLMFailed: 1}, api.JobCommitted))
	require.Equal(t, "  links       2 pairs compared, 1 linked (1 by a model), 1 model request\n",
		show(api.Resolution{Compared: 2, Matched: api.Matched{LLM: 1}, LLMRequests: 1}, api.JobCommitted))

	waits := api.Progress{Stage: api.StageLinker, Waiting: 1500}
	require.Equal(t, "  linker      1,500 to be compared or put before a model\n", show(api.Resolution{}, api.JobCommitted, waits))
	waits.Why = "nobody answers at http://\x1b"
	require.Equal(t, "  links       3 pairs compared, 0 linked\n  linker      1,500 to be compared or put before a model: nobody answers at http://\\x1b\n",
		show(api.Resolution{Compared: 3}, api.JobCommitted, api.Progress{Stage: "committer", Waiting: 4}, waits))
	require.Empty(t, show(api.Resolution{}, api.JobPending, waits), "its commit comes first")
	require.Empty(t, show(api.Resolution{}, api.JobCommitted, api.Progress{Stage: api.StageLinker, Done: 3}))
}

func TestStep(t *testing.T) {
	running := api.JobStatus{Job: "j1", State: "pending", Attempt: 2, Next: "the extractor and the resolver, for 4 documents", Progress: []api.Progress{
		{Stage: "loader", Done: 10}, {Stage: "extractor", Done: 4, Waiting: 1500}, {Stage: "committer", Done: 6, Waiting: 4},
	}}
	step := func(s api.JobStatus, expect int) []any {
		done, total, what := Step(s, expect)
		return []any{done, total, what}
	}
	what := "job j1 (attempt 2) waits for the extractor and the resolver, for 4 documents (queued: extractor 1,500, committer 4)"
	require.Equal(t, []any{int64(6), int64(10), what}, step(running, 0))
	require.Equal(t, []any{int64(6), int64(50), what}, step(running, 50))
	require.Equal(t, []any{int64(0), int64(0), "job j1 rolling back"}, step(api.JobStatus{Job: "j1", State: "rolling_back"}, 0))
	running = api.JobStatus{Job: "j1", State: "pending", Attempt: 1, Next: "the commit", Progress: []api.Progress{{Stage: "loader", Done: 10}, {Stage: "committer", Done: 10}}}
	require.Equal(t, []any{int64(10), int64(10), "job j1 waits for the commit"}, step(running, 7))
}

func TestJSONIsExact(t *testing.T) {
	var b strings.Builder
	require.NoError(t, JSON(&b, json.RawMessage(`{"a": 1,"b":"<x>"}`)))
	require.Equal(t, "{\"a\": 1,\"b\":\"<x>\"}\n", b.String())
	b.Reset()
	require.NoError(t, Value(&b, map[string]string{"a": "<x>"}))
	require.Equal(t, "{\"a\":\"<x>\"}\n", b.String())
}

func TestGroups(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Groups(&b, api.ReviewListReply{Total: 2, Next: "c2", Groups: []api.Group{{
		Key: "relation|founded|ada|acme", Kind: "relation", Label: "FOUNDED", Text: "Ada founded Acme", SourceText: "Ada", TargetText: "Acme",
		Reasons: []string{"undeclared_label"}, State: "pending", Count: 2, Documents: 1, Confidence: 0.8,
		Sample: api.Sample{Document: "a.txt", Quote: "Ada founded Acme.", Start: 1, End: 18},
	}}}, false))
	require.Equal(t, `Ada  FOUNDED  Acme
  relation pending  seen 2 times in 1 document  confidence 0.80  undeclared_label
  “Ada founded Acme.”  a.txt [1:18]
  key relation|founded|ada|acme
1 of 2 groups
more: --cursor c2
`, b.String())
}
