package query

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// refused is the status and code of an error reply.
func refused(t *testing.T, err error) (int, string) {
	t.Helper()
	var e *api.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, strconv.Itoa(e.Status), api.Codes[e.Code][:3], "the table of codes says so")
	return e.Status, e.Code
}

func requireRefused(t *testing.T, err error, status int, code string) {
	t.Helper()
	s, c := refused(t, err)
	require.Equal(t, code, c)
	require.Equal(t, status, s)
}

func TestEntity(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	got, err := d.q.Entity(t.Context(), g, api.EntityGet{Type: "Person", Name: "ada  LOVELACE"})
	require.NoError(t, err)

	mention := func(doc *doc, chunk, start, end int, confidence float64) graph.Evidence {
		return graph.Evidence{Assertion: "explicit", Chunk: doc.chunkID(chunk), Confidence: confidence, Document: doc.c.Meta.Key, End: end,
			Extractors: []string{"rules"}, Quote: doc.c.Text[start:end], Start: start}
	}
	mentions := []graph.Evidence{mention(a, 0, 0, 12, 0.9), mention(a, 1, 52, 64, 0.9), mention(b, 0, 21, 33, 0.9)}
	if fingerprint.DocumentID("bab") < fingerprint.DocumentID("ada") { // by document id
		mentions = []graph.Evidence{mentions[2], mentions[0], mentions[1]}
	}
	want := graph.EntityRow{ID: entID(ada), Kind: "entity", Type: "Person", Labels: []string{"Agent", "Person"}, Name: "Ada Lovelace", MergeKey: "ada lovelace",
		Evidence: mentions, MentionsTotal: 3, DocumentsTotal: 2,
		Properties: map[string]graph.PropertyRow{"born": {Value: int64(1815), Evidence: graph.Sources{mention(a, 1, 77, 81, 0.7)}, Others: []graph.OtherRow{}}}}
	for _, m := range mentions {
		want.Mentions = append(want.Mentions, graph.MentionRow{Chunk: m.Chunk, Confidence: m.Confidence, Document: m.Document, End: m.End, Quote: m.Quote, Start: m.Start})
	}
	require.Equal(t, want, got.Entity)
	require.Equal(t, uint64(1), got.Seq)
	require.Equal(t, 2, got.RelationsTotal)
	require.Equal(t, []graph.RelationRow{
		{ID: relID("WORKS_FOR", ada, acme), Kind: "relation", Type: "WORKS_FOR", Source: entID(ada), SourceName: "Ada Lovelace", Target: entID(acme), TargetName: "Acme Ltd",
			Properties: map[string]any{}, EvidenceTotal: 1, Evidence: []graph.Evidence{mention(a, 0, 0, 33, 0.8)}},
		{ID: relID("KNOWS", charles, ada), Kind: "relation", Type: "KNOWS", Source: entID(charles), SourceName: "Charles Babbage", Target: entID(ada), TargetName: "Ada Lovelace",
			Properties: map[string]any{}, EvidenceTotal: 1, Evidence: []graph.Evidence{mention(b, 0, 0, 34, 0.8)}},
	}, got.Relations)
}

func TestFindEntity(t *testing.T) {
	d := newDesk(t)
	d.commit(newDoc("a", "Mercury met Ada Lovelace. Lovelace smiled. Mercury rises. Orbit Labs and Orbit.").
		mention("Person:Mercury", "Mercury met"[:7]).say("Location:Mercury", ada).mention(ada, "Lovelace smiled"[:8]).say("Organization:Orbit Labs"),
		newDoc("b", "Quux Co. hired Jean-Luc Noël. J. L. Noël is not Noël of C++. Both wrote C.").say("Organization:Quux Co.", "Person:Jean-Luc Noël", "Organization:C++").
			mention("Person:Jean-Luc Noël", "J. L. Noël").mentionAt("Person:Noël", "Noël", 0, 50).mentionAt("Person:Twin A", "Both", 0, 64).mentionAt("Person:Twin B", "Both", 0, 64))
	for _, c := range []struct {
		name string
		req  api.EntityGet
		want string
	}{
		{"id", api.EntityGet{ID: entID(ada)}, entID(ada)},
		{"id in capitals", api.EntityGet{ID: strings.ToUpper(entID(ada))}, entID(ada)},
		{"type and name", api.EntityGet{Type: "Location", Name: "mercury"}, entID("Location:Mercury")},
		{"type is folded", api.EntityGet{Type: "person", Name: "\"Ada\u00a0Lovelace\""}, entID(ada)},
		{"type above", api.EntityGet{Type: "Agent", Name: "Mercury"}, entID("Person:Mercury")},
		{"alias", api.EntityGet{Type: "Person", Name: "lovelace"}, entID(ada)},
		{"alias alone", api.EntityGet{Name: "Lovelace"}, entID(ada)},
		{"name alone", api.EntityGet{Name: "orbit labs"}, entID("Organization:Orbit Labs")},
		{"a dot too many", api.EntityGet{Name: "Orbit Labs."}, entID("Organization:Orbit Labs")},
		{"a dot too many, with type", api.EntityGet{Type: "Organization", Name: "orbit labs.."}, entID("Organization:Orbit Labs")},
		{"a dot too few", api.EntityGet{Type: "Agent", Name: "quux co"}, entID("Organization:Quux Co.")},
		{"the dot is the name", api.EntityGet{Name: "Quux Co."}, entID("Organization:Quux Co.")},
		{"an article", api.EntityGet{Type: "Organization", Name: "The Orbit Labs"}, entID("Organization:Orbit Labs")},
		{"accents and hyphens", api.EntityGet{Name: "jean luc noel"}, entID("Person:Jean-Luc Noël")},
		{"alias without its dots", api.EntityGet{Name: "J L Noel"}, entID("Person:Jean-Luc Noël")},
		{"a name before an alias", api.EntityGet{Name: "Noël"}, entID("Person:Noël")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := d.q.Entity(t.Context(), g, c.req)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Entity.ID)
		})
	}
	for _, c := range []struct {
		name   string
		req    api.EntityGet
		status int
		code   string
	}{
		{"nothing", api.EntityGet{}, 400, "bad_value"},
		{"type alone", api.EntityGet{Type: "Person"}, 400, "bad_value"},
		{"id and name", api.EntityGet{ID: "x", Name: "y"}, 400, "bad_value"},
		{"unknown id", api.EntityGet{ID: "x"}, 404, "entity_not_found"},
		{"unknown name", api.EntityGet{Name: "Nobody"}, 404, "entity_not_found"},
		{"other type", api.EntityGet{Type: "Location", Name: "Ada Lovelace"}, 404, "entity_not_found"},
		{"limit", api.EntityGet{Name: "x", Limit: -1}, 400, "bad_value"},
		{"offsets", api.EntityGet{Name: "x", Offsets: "words"}, 400, "bad_value"},
		{"sequence", api.EntityGet{Name: "x", AsOf: 9}, 404, "sequence_unknown"},
		{"ambiguous", api.EntityGet{Name: "mercury"}, 400, "bad_value"},
		{"ambiguous with a dot", api.EntityGet{Name: "mercury."}, 400, "bad_value"},
		{"ambiguous alias", api.EntityGet{Type: "Person", Name: "Both"}, 400, "bad_value"},
		{"signs that make a name", api.EntityGet{Name: "C"}, 404, "entity_not_found"},
		{"signs that make another name", api.EntityGet{Name: "C#"}, 404, "entity_not_found"},
		{"half a name", api.EntityGet{Name: "Orbit Lab"}, 404, "entity_not_found"},
		{"only a dot", api.EntityGet{Name: "."}, 404, "entity_not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.q.Entity(t.Context(), g, c.req)
			requireRefused(t, err, c.status, c.code)
		})
	}
	_, err := d.q.Entity(t.Context(), g, api.EntityGet{Name: "mercury"})
	var e *api.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, 2, e.Details["total"])
	_, err = d.q.Entity(t.Context(), g, api.EntityGet{Type: "Location", Name: "ada lovelace."})
	require.EqualError(t, err, `no Location is named "ada lovelace.", but there is one of type Person`)
}

func TestEntityLimits(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	got, err := d.q.Entity(t.Context(), g, api.EntityGet{Type: "Person", Name: "Ada Lovelace", Limit: 1})
	require.NoError(t, err)
	require.Len(t, got.Entity.Mentions, 1)
	require.Len(t, got.Entity.Evidence, 1)
	require.Equal(t, 3, got.Entity.MentionsTotal)
	require.Len(t, got.Relations, 1)
	require.Equal(t, 2, got.RelationsTotal)
}

func TestEntityAsOf(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	first := d.commit(a, b)
	second := d.commit(newDoc("ada", "Ada Lovelace left.").say(ada), deleted("bab"))
	now, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada)})
	require.NoError(t, err)
	require.Equal(t, second, now.Seq)
	require.Equal(t, 1, now.Entity.MentionsTotal)
	require.Empty(t, now.Entity.Properties)
	require.Empty(t, now.Relations)
	then, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), AsOf: first})
	require.NoError(t, err)
	require.Equal(t, first, then.Seq)
	require.Equal(t, 3, then.Entity.MentionsTotal)
	require.Equal(t, int64(1815), then.Entity.Properties["born"].Value)
	require.Equal(t, 2, then.RelationsTotal)
	_, err = d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(london)})
	requireRefused(t, err, 404, "entity_not_found")
	_, err = d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(london), AsOf: first})
	require.NoError(t, err)
}

func TestOffsets(t *testing.T) {
	d := newDesk(t)
	text := "😀 é 東京の Ada Lovelace は Acme Ltd で働く。"
	x := newDoc("a", text).say(ada, acme).relate("WORKS_FOR", ada, acme, "Ada Lovelace は Acme Ltd")
	d.commit(x)
	for unit, want := range map[string][2]int{"": {18, 30}, "bytes": {18, 30}, "runes": {8, 20}, "utf16": {9, 21}} {
		got, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Offsets: unit})
		require.NoError(t, err)
		m := got.Entity.Mentions[0]
		require.Equal(t, want, [2]int{m.Start, m.End}, unit)
		require.Equal(t, "Ada Lovelace", m.Quote)
		e := got.Relations[0].Evidence[0]
		require.Equal(t, want[0], e.Start, unit)
		require.Equal(t, "Ada Lovelace は Acme Ltd", e.Quote)
	}
}

func TestMergeRules(t *testing.T) {
	d := newDesk(t)
	value := func(key, date, title string, born int64, score float64, confidence float64, lang string) *doc {
		return newDoc(key, "Ada Lovelace "+title+" "+lang+" X").say(ada).property(ada, "title", title, title, 0.7).property(ada, "born", born, "X", 0.7).
			property(ada, "score", score, "X", confidence).property(ada, "langs", lang, lang, 0.7).
			meta(func(m *graph.Meta) { m.ContentDate = date })
	}
	d.commit(
		value("a", "2020", "Countess", 1815, 0.123456789, 0.6, "fr"),
		value("b", "2021", "Analyst", 1816, 0.5, 0.9, "en"),
		value("c", "2019", "Countess", 1815, 2, 0.8, "en"))
	got, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada)})
	require.NoError(t, err)
	p := got.Entity.Properties
	shown := func(name string) (any, []any) {
		var others []any
		for _, o := range p[name].Others {
			others = append(others, o.Value)
		}
		return p[name].Value, others
	}
	value1, others := shown("born") // most supported
	require.Equal(t, int64(1815), value1)
	require.Equal(t, []any{int64(1816)}, others)
	require.Len(t, p["born"].Evidence, 2)
	require.Len(t, p["born"].Others[0].Evidence, 1)
	require.Equal(t, "b", p["born"].Others[0].Evidence[0].Document)
	value1, others = shown("title") // newest
	require.Equal(t, "Analyst", value1)
	require.Equal(t, []any{"Countess"}, others)
	value1, others = shown("score") // most confident
	require.Equal(t, 0.5, value1)
	require.Equal(t, []any{int64(2), 0.123457}, others)
	value1, others = shown("langs") // all
	require.Equal(t, []any{"en", "fr"}, value1)
	require.Empty(t, others)
	require.Len(t, p["langs"].Evidence, 3)
}

func TestRelationProperties(t *testing.T) {
	d := newDesk(t)
	x := newDoc("a", "Ada Lovelace joined Acme Ltd in 1840.").say(ada, acme).relateWith(graph.RelationA{Type: "WORKS_FOR", Confidence: 0.8, Extractor: "rules",
		Properties: map[string]any{"since": int64(1840)}}, ada, acme, "Ada Lovelace joined Acme Ltd in 1840.").
		relateWith(graph.RelationA{Type: "WORKS_FOR", Confidence: 0.95, Extractor: "llm"}, ada, acme, "Ada Lovelace joined Acme Ltd in 1840.")
	d.commit(x)
	got, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(acme)})
	require.NoError(t, err)
	require.Len(t, got.Relations, 1)
	r := got.Relations[0]
	require.Equal(t, map[string]any{"since": int64(1840)}, r.Properties)
	// Two extractors about one span are one piece of evidence.
	require.Len(t, r.Evidence, 1)
	require.Equal(t, 1, r.EvidenceTotal)
	require.Equal(t, []string{"llm", "rules"}, r.Evidence[0].Extractors)
	require.Equal(t, 0.95, r.Evidence[0].Confidence)
}

func TestEmptyGraph(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{g, "nowhere"} {
		_, err := d.q.Entity(t.Context(), name, api.EntityGet{Name: "x"})
		requireRefused(t, err, 404, "entity_not_found")
		_, err = d.q.Neighbors(t.Context(), name, api.Neighbors{Name: "x"})
		requireRefused(t, err, 404, "entity_not_found")
		_, err = d.q.Path(t.Context(), name, api.Path{From: "x", To: "y"})
		requireRefused(t, err, 404, "entity_not_found")
		_, err = d.q.Evidence(t.Context(), name, api.EvidenceGet{ID: "x"})
		requireRefused(t, err, 404, "entity_not_found")
		_, err = d.q.Document(t.Context(), name, api.DocumentGet{Key: "x"})
		requireRefused(t, err, 404, "document_not_found")
		hits, err := d.q.Search(t.Context(), name, api.Search{Q: "x"})
		require.NoError(t, err)
		require.Equal(t, api.SearchReply{Hits: []api.Hit{}}, hits)
		stored, err := d.q.Stored(t.Context(), name, api.StoredGet{Keys: []string{"a", "b"}})
		require.NoError(t, err)
		require.Equal(t, []graph.Stored{{}, {}}, stored.Stored)
		types, err := d.q.RelationTypes(t.Context(), name, api.RelationTypesGet{})
		require.NoError(t, err)
		require.Equal(t, api.RelationTypesReply{Types: map[string]int{}}, types)
		stats, err := d.q.Stats(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, api.StatsReply{Graph: name, ByType: map[string]int{}, ByRelation: map[string]int{}, Schema: "test", SchemaFP: d.s.Fingerprint()}, stats)
		var b strings.Builder
		require.NoError(t, d.q.ExportTo(t.Context(), name, api.Export{Canonical: true}, &b))
		require.Empty(t, b.String())
		page, err := d.q.Export(t.Context(), name, api.Export{})
		require.NoError(t, err)
		require.Empty(t, page.Rows)
		require.Empty(t, page.Next)
	}
	_, err := d.q.Stats(t.Context(), "nowhere")
	require.NoError(t, err)
	_, err = d.q.Entity(t.Context(), "nowhere", api.EntityGet{Name: "x", AsOf: 3})
	requireRefused(t, err, 404, "sequence_unknown")
}

func TestStatsAndStored(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	seq := d.commit(a, b)
	stats, err := d.q.Stats(t.Context(), g)
	require.NoError(t, err)
	require.Positive(t, stats.CandidateNo)
	stats.CandidateNo = 0
	require.Equal(t, api.StatsReply{Graph: g, Seq: seq, Documents: 2, Chunks: 3, Mentions: 7, Entities: 4, Relations: 3, Candidates: 1,
		ByType:     map[string]int{"Person": 2, "Organization": 1, "Location": 1},
		ByRelation: map[string]int{"WORKS_FOR": 1, "KNOWS": 1, "LOCATED_IN": 1}, Schema: "test", SchemaFP: d.s.Fingerprint()}, stats)
	types, err := d.q.RelationTypes(t.Context(), g, api.RelationTypesGet{})
	require.NoError(t, err)
	require.Equal(t, api.RelationTypesReply{Seq: seq, Types: stats.ByRelation}, types)
	stored, err := d.q.Stored(t.Context(), g, api.StoredGet{Keys: []string{"none", "ada"}})
	require.NoError(t, err)
	require.Equal(t, graph.Stored{}, stored.Stored[0])
	require.True(t, stored.Stored[1].Open)
	require.Equal(t, a.c.ContentHash, stored.Stored[1].ContentHash)
	require.Equal(t, "x1", stored.Stored[1].ExtractionFP)
	_, err = d.q.Stored(t.Context(), g, api.StoredGet{Keys: make([]string, maxStored+1)})
	requireRefused(t, err, 413, "too_large")
}
