package resolve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// laws are the schema of the tests.
type laws struct{}

func (laws) SelfAllowed(relation string) bool { return relation == "CITES" }
func (laws) Symmetric(relation string) bool   { return relation == "MARRIED_TO" || relation == "CITES" }

func run(t require.TestingT, chunks ...graph.ChunkItems) Result {
	res, err := Document(graph.Extraction{Chunks: chunks}, laws{}, nil, true)
	require.NoError(t, err)
	return res
}

func id(label, folded string) string { return fingerprint.EntityID(label, folded) }

// place finds an entity by label and key.
func place(t require.TestingT, res Result, label, key string) int {
	i := slices.Index(res.Assertions.Entities, graph.EntityRef{ID: id(label, key), Label: label, Key: key})
	require.NotEqual(t, -1, i, "%s %s in %v", label, key, res.Assertions.Entities)
	return i
}

func person(name string, start int) graph.EntityItem {
	return graph.EntityItem{Type: "Person", Name: name, Start: start, End: start + len(name), Confidence: 0.9, Extractor: "rules", Rule: "r"}
}

func TestMentions(t *testing.T) {
	acme := graph.EntityItem{Type: "Organization", Name: "ACME", Start: 30, End: 34, Confidence: 0.8, Extractor: "llm"}
	short := person("Lovelace", 50)
	short.Of = "Ada  Lovelace"
	res := run(t,
		graph.ChunkItems{Index: 0, Entities: []graph.EntityItem{person("Ada Lovelace", 0), acme, person("ADA lovelace", 15), short}},
		graph.ChunkItems{Index: 1, Entities: []graph.EntityItem{{Type: "Person", Name: "“Acme”", Start: 70, End: 80, Confidence: 0.5, Extractor: "rules"}}},
	)
	ada, org, homonym := place(t, res, "Person", "ada lovelace"), place(t, res, "Organization", "acme"), place(t, res, "Person", "acme")
	require.Len(t, res.Assertions.Entities, 3)
	require.True(t, slices.IsSortedFunc(res.Assertions.Entities, func(a, b graph.EntityRef) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}))
	require.Equal(t, []graph.ChunkAssertions{
		{Index: 0, Mentions: []graph.Mention{
			{Entity: ada, Name: "Ada Lovelace", Start: 0, End: 12, Confidence: 0.9, Extractor: "rules", Rule: "r"},
			{Entity: ada, Name: "ADA lovelace", Start: 15, End: 27, Confidence: 0.9, Extractor: "rules", Rule: "r"},
			{Entity: org, Name: "ACME", Start: 30, End: 34, Confidence: 0.8, Extractor: "llm"},
			{Entity: ada, Name: "Lovelace", Start: 50, End: 58, Confidence: 0.9, Extractor: "rules", Rule: "r"},
		}},
		{Index: 1, Mentions: []graph.Mention{{Entity: homonym, Name: "“Acme”", Start: 70, End: 80, Confidence: 0.5, Extractor: "rules"}}},
	}, res.Assertions.Chunks)
	require.Equal(t, 5, res.Mentions)
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"Systems thinking", "SYSTEMS THINKING", true},
		{`"Acme"`, "Acme", true},
		{"“Acme”", "Acme", true},
		{"ＡＣＭＥ", "ACME", true},
		{"A\u00a0B", "A B", true},
		{"C", "C++", false},
		{"C", "C#", false},
		{".NET", "Net", false},
		{"HTTP", "HTTPS", false},
		{"Tarea 5", "Tarea 6", false},
		{"NYC", "New York City", false},
		{"Sherlock Holmes", "Mr. Holmes", false},
	} {
		res := run(t, graph.ChunkItems{Entities: []graph.EntityItem{person(c.a, 0), person(c.b, 50)}})
		want := 2
		if c.same {
			want = 1
		}
		require.Len(t, res.Assertions.Entities, want, "%q and %q", c.a, c.b)
	}
}

func TestRelations(t *testing.T) {
	ents := []graph.EntityItem{person("Ada", 0), person("Bob", 10), person("ADA", 20)}
	rel := func(typ string, source, target, start int, confidence float64) graph.RelationItem {
		return graph.RelationItem{Type: typ, Source: source, Target: target, Start: start, End: start + 9, Confidence: confidence, Extractor: "rules"}
	}
	res := run(t, graph.ChunkItems{Entities: ents, Relations: []graph.RelationItem{
		rel("KNOWS", 0, 1, 0, 0.7), rel("KNOWS", 2, 1, 0, 0.9), // copies once Ada is one entity
		rel("KNOWS", 0, 1, 5, 0.7),                                        // another quote
		rel("KNOWS", 1, 0, 0, 0.8),                                        // the other way
		rel("MARRIED_TO", 0, 1, 0, 0.7), rel("MARRIED_TO", 1, 2, 0, 0.75), // one, whichever way
		rel("KNOWS", 0, 2, 3, 0.9), rel("KNOWS", 2, 0, 3, 0.9), rel("MARRIED_TO", 0, 0, 3, 0.9), // herself
		rel("CITES", 0, 2, 3, 0.9), // allowed
	}})
	ada, bob := place(t, res, "Person", "ada"), place(t, res, "Person", "bob")
	first, second := min(ada, bob), max(ada, bob)
	got := map[string]graph.RelationA{}
	for _, r := range res.Assertions.Chunks[0].Relations {
		got[fmt.Sprintf("%s %d>%d @%d", r.Type, r.Source, r.Target, r.Start)] = r
	}
	require.Len(t, got, 5)
	require.Len(t, res.Assertions.Chunks[0].Relations, 5)
	require.Equal(t, 0.9, got[fmt.Sprintf("KNOWS %d>%d @0", ada, bob)].Confidence)
	require.Equal(t, 0.7, got[fmt.Sprintf("KNOWS %d>%d @5", ada, bob)].Confidence)
	require.Equal(t, 0.8, got[fmt.Sprintf("KNOWS %d>%d @0", bob, ada)].Confidence)
	require.Equal(t, 0.75, got[fmt.Sprintf("MARRIED_TO %d>%d @0", first, second)].Confidence)
	require.Equal(t, 0.9, got[fmt.Sprintf("CITES %d>%d @3", ada, ada)].Confidence)
	require.Equal(t, 2, res.SelfLoops)
	require.Equal(t, []graph.Dropped{
		{Kind: "relation", Label: "KNOWS", Reason: "self_loop", Count: 1, Sample: "ada"},
		{Kind: "relation", Label: "MARRIED_TO", Reason: "self_loop", Count: 1, Sample: "ada"},
	}, res.Dropped)
}

func TestRelationCopiesKeepPropertiesAndKinds(t *testing.T) {
	ents := []graph.EntityItem{person("Ada", 0), person("Bob", 10)}
	rel := func(assertion string, confidence float64, props ...graph.PropertyItem) graph.RelationItem {
		return graph.RelationItem{
			Type: "KNOWS", Source: 0, Target: 1, End: 9, Confidence: confidence, Assertion: assertion, Extractor: "rules", Properties: props,
		}
	}
	res := run(t, graph.ChunkItems{Entities: ents, Relations: []graph.RelationItem{
		rel("", 0.7, graph.PropertyItem{Name: "since", Value: "1840", Confidence: 0.7}, graph.PropertyItem{Name: "how", Value: "well", Confidence: 0.5}),
		rel("explicit", 0.8, graph.PropertyItem{Name: "since", Value: "1833", Confidence: 0.9}),
		rel("opinion", 0.95),
	}})
	ada, bob := place(t, res, "Person", "ada"), place(t, res, "Person", "bob")
	require.Equal(t, []graph.RelationA{
		{Type: "KNOWS", Source: ada, Target: bob, End: 9, Confidence: 0.8, Extractor: "rules", Properties: map[string]any{"since": "1833", "how": "well"}},
		{Type: "KNOWS", Source: ada, Target: bob, End: 9, Confidence: 0.95, Assertion: "opinion", Extractor: "rules"},
	}, res.Assertions.Chunks[0].Relations)
}

func TestProperties(t *testing.T) {
	prop := func(value any, confidence float64) graph.PropertyItem {
		return graph.PropertyItem{Name: "born", Value: value, Start: 5, End: 9, Confidence: confidence}
	}
	ada, again := person("Ada", 0), person("ADA", 30)
	ada.Properties = []graph.PropertyItem{prop(int64(1815), 0.7), prop("1815", 0.6), prop(true, 0.5)}
	again.Properties = []graph.PropertyItem{prop(float64(1815), 0.9)} // the same, out of JSON
	res := run(t, graph.ChunkItems{Entities: []graph.EntityItem{ada, again}})
	require.Equal(t, []graph.PropertyA{
		{Name: "born", Value: true, Start: 5, End: 9, Confidence: 0.5, Extractor: "rules"},
		{Name: "born", Value: float64(1815), Start: 5, End: 9, Confidence: 0.9, Extractor: "rules"},
		{Name: "born", Value: "1815", Start: 5, End: 9, Confidence: 0.6, Extractor: "rules"},
	}, res.Assertions.Chunks[0].Properties)
}

func TestStates(t *testing.T) {
	res := run(t,
		graph.ChunkItems{Index: 3, State: graph.Failed, Failure: &graph.Failure{Code: "x"}},
		graph.ChunkItems{Index: 1, State: graph.Complete},
		graph.ChunkItems{Index: 2, State: graph.Incomplete, Entities: []graph.EntityItem{person("Ada", 0)}},
		graph.ChunkItems{Index: 2},
	)
	require.Equal(t, []graph.ChunkAssertions{
		{Index: 2, State: graph.Incomplete, Mentions: []graph.Mention{{Name: "Ada", End: 3, Confidence: 0.9, Extractor: "rules", Rule: "r"}}},
		{Index: 3, State: graph.Failed},
	}, res.Assertions.Chunks)
	empty := run(t)
	require.Equal(t, Result{}, empty)
}

func TestCandidates(t *testing.T) {
	team := func(text string, start int, confidence float64, reasons ...string) graph.CandidateItem {
		return graph.CandidateItem{
			Kind: "entity", Label: "Sports Team", Text: text, Start: start, End: start + len(text), Confidence: confidence, Reasons: reasons, Extractor: "rules",
		}
	}
	short := person("Lovelace", 40)
	short.Of = "Ada Lovelace"
	res := run(t,
		graph.ChunkItems{Index: 2, Candidates: []graph.CandidateItem{team("The Reds", 100, 0.9, "undeclared_label"), team("the reds", 120, 0.4, "policy", "entity_band")}},
		graph.ChunkItems{Index: 1, Entities: []graph.EntityItem{person("Ada Lovelace", 0), short, {Type: "Organization", Name: "Ada Lovelace", Start: 60, End: 72}},
			Candidates: []graph.CandidateItem{
				team("Reds", 50, 0.6, "undeclared_label"), team("Reds", 50, 0.6, "undeclared_label"),
				{Kind: "relation", Label: "LIKES", Text: "q", SourceText: "LOVELACE", SourceLabel: "Person", TargetText: "Nobody", Confidence: 0.8,
					Reasons: []string{"undeclared_label"}, Start: 40, End: 60, Assertion: "opinion", Extractor: "llm", Rule: "z"},
				{Kind: "property", Label: "age", Text: "36", SourceText: "Ada Lovelace", Confidence: 0.5, Reasons: []string{"undeclared_property"}, Extractor: "rules"},
				{Kind: "property", Label: "age", Text: "37", SourceText: "Ada Lovelace", SourceLabel: "Person", Confidence: 0.5, Reasons: nil, Extractor: "rules"},
			}},
	)
	ada := id("Person", "ada lovelace")
	require.Equal(t, []graph.Candidate{
		{Key: "entity|sports team|reds", Kind: "entity", Label: "Sports Team", Text: "Reds", Confidence: 0.9,
			Reasons: []string{"entity_band", "policy", "undeclared_label"}, Count: 3, Chunk: 1, Start: 50, End: 54, Extractor: "rules",
			More: [][3]int{{2, 100, 108}, {2, 120, 128}}},
		// Two entities have that text, and no label tells which is meant.
		{Key: "property|age|ada lovelace|36", Kind: "property", Label: "age", Text: "36", SourceText: "Ada Lovelace", Confidence: 0.5,
			Reasons: []string{"undeclared_property"}, Count: 1, Chunk: 1, Extractor: "rules"},
		{Key: "property|age|ada lovelace|37", Kind: "property", Label: "age", Text: "37", SourceText: "Ada Lovelace", SourceLabel: "Person",
			SourceEntity: ada, Confidence: 0.5, Reasons: []string{}, Count: 1, Chunk: 1, Extractor: "rules"},
		{Key: "relation|likes|lovelace|nobody", Kind: "relation", Label: "LIKES", Text: "q", SourceText: "LOVELACE", TargetText: "Nobody",
			SourceLabel: "Person", SourceEntity: ada, Confidence: 0.8, Reasons: []string{"undeclared_label"}, Count: 1,
			Chunk: 1, Start: 40, End: 60, Assertion: "opinion", Extractor: "llm", Rule: "z"},
	}, res.Assertions.Candidates)

	without, err := Document(graph.Extraction{Chunks: []graph.ChunkItems{{Candidates: []graph.CandidateItem{team("Reds", 0, 1)}}}}, laws{}, nil, false)
	require.NoError(t, err)
	require.Empty(t, without.Assertions.Candidates)
}

func TestMoreIsBounded(t *testing.T) {
	var items []graph.CandidateItem
	for i := range 50 {
		items = append(items, graph.CandidateItem{Kind: "entity", Label: "X", Text: "y", Start: i, End: i + 1})
	}
	got := run(t, graph.ChunkItems{Index: 4, Candidates: items}).Assertions.Candidates
	require.Len(t, got, 1)
	require.Equal(t, 50, got[0].Count)
	require.Len(t, got[0].More, MaxMore)
	require.Equal(t, [3]int{4, 1, 2}, got[0].More[0])
	require.Equal(t, [3]int{4, 20, 21}, got[0].More[19])
}

func TestBroken(t *testing.T) {
	for _, r := range []graph.RelationItem{{Source: 1}, {Target: 1}, {Source: -1}, {Target: -1}} {
		_, err := Document(graph.Extraction{Chunks: []graph.ChunkItems{{Index: 9, Entities: []graph.EntityItem{person("Ada", 0)}, Relations: []graph.RelationItem{r}}}}, laws{}, nil, true)
		require.ErrorContains(t, err, "relation 0 of chunk 9 joins mentions")
	}
	// A name of white space is dropped, with what hangs on it; a full name of white space falls back to the name.
	blankOf := person("Bob", 5)
	blankOf.Of = " "
	res := run(t, graph.ChunkItems{Entities: []graph.EntityItem{person(" \t", 0), blankOf}, Relations: []graph.RelationItem{{Type: "KNOWS", Source: 0, Target: 1}}})
	require.Equal(t, []graph.EntityRef{{ID: id("Person", "bob"), Label: "Person", Key: "bob"}}, res.Assertions.Entities)
	require.Equal(t, []graph.Dropped{
		{Kind: "entity", Label: "Person", Reason: "bad_name", Count: 1},
		{Kind: "relation", Label: "KNOWS", Reason: "unresolved_endpoint", Count: 1},
	}, res.Dropped)
}

func TestDroppedAreJoined(t *testing.T) {
	ex := graph.Extraction{
		Dropped: []graph.Dropped{
			{Kind: "relation", Label: "KNOWS", Reason: "self_loop", Count: 2, Sample: "zoe"},
			{Kind: "entity", Label: "X", Reason: "no_evidence", Count: 4},
		},
		Chunks: []graph.ChunkItems{{Entities: []graph.EntityItem{person("Ada", 0)}, Relations: []graph.RelationItem{{Type: "KNOWS"}}}},
	}
	res, err := Document(ex, laws{}, nil, true)
	require.NoError(t, err)
	require.Equal(t, []graph.Dropped{
		{Kind: "entity", Label: "X", Reason: "no_evidence", Count: 4},
		{Kind: "relation", Label: "KNOWS", Reason: "self_loop", Count: 3, Sample: "ada"},
	}, res.Dropped)
	require.Equal(t, 1, res.SelfLoops)
}

func genChunk() *rapid.Generator[graph.ChunkItems] {
	names := rapid.SampledFrom([]string{"Ada", "ADA", "Bob", "“Bob”", "Acme", "你好", "C++"})
	labels := rapid.SampledFrom([]string{"Person", "Organization"})
	conf := rapid.SampledFrom([]float64{0.3, 0.5, 0.9})
	who := rapid.SampledFrom([]string{"rules", "llm"})
	span := rapid.IntRange(0, 3)
	return rapid.Custom(func(t *rapid.T) graph.ChunkItems {
		prop := rapid.Custom(func(t *rapid.T) graph.PropertyItem {
			return graph.PropertyItem{
				Name: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "prop"), Value: rapid.SampledFrom([]any{"a", "b", int64(1), true, 0.5}).Draw(t, "value"),
				Start: span.Draw(t, "ps"), Confidence: conf.Draw(t, "pc"),
			}
		})
		c := graph.ChunkItems{Index: rapid.IntRange(0, 3).Draw(t, "index"), State: rapid.SampledFrom([]string{"", "complete", "incomplete", "failed"}).Draw(t, "state")}
		for range rapid.IntRange(0, 5).Draw(t, "entities") {
			c.Entities = append(c.Entities, graph.EntityItem{
				Type: labels.Draw(t, "label"), Name: names.Draw(t, "name"), Of: rapid.SampledFrom([]string{"", "", "Ada"}).Draw(t, "of"),
				Start: span.Draw(t, "s"), End: 9, Confidence: conf.Draw(t, "c"), Extractor: who.Draw(t, "x"), Rule: who.Draw(t, "rule"),
				Properties: rapid.SliceOfN(prop, 0, 2).Draw(t, "props"),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "relations") {
			if len(c.Entities) == 0 {
				break
			}
			end := rapid.IntRange(0, len(c.Entities)-1)
			c.Relations = append(c.Relations, graph.RelationItem{
				Type: rapid.SampledFrom([]string{"KNOWS", "MARRIED_TO", "CITES"}).Draw(t, "type"), Source: end.Draw(t, "source"), Target: end.Draw(t, "target"),
				Start: span.Draw(t, "rs"), End: 9, Confidence: conf.Draw(t, "rc"), Extractor: who.Draw(t, "rx"),
				Assertion: rapid.SampledFrom([]string{"", "explicit", "opinion"}).Draw(t, "a"), Properties: rapid.SliceOfN(prop, 0, 2).Draw(t, "rprops"),
			})
		}
		for range rapid.IntRange(0, 4).Draw(t, "candidates") {
			c.Candidates = append(c.Candidates, graph.CandidateItem{
				Kind: rapid.SampledFrom([]string{"entity", "relation", "property"}).Draw(t, "kind"), Label: labels.Draw(t, "cl"), Text: names.Draw(t, "ct"),
				SourceText: names.Draw(t, "st"), TargetText: names.Draw(t, "tt"), SourceLabel: rapid.SampledFrom([]string{"", "Person"}).Draw(t, "sl"),
				Confidence: conf.Draw(t, "cc"), Reasons: rapid.SliceOfN(who, 0, 2).Draw(t, "reasons"), Start: span.Draw(t, "cs"), End: 9, Extractor: who.Draw(t, "cx"),
			})
		}
		return c
	})
}

// shuffle permutes entries and, inside them, items (relations follow their entities), and gives some twice.
func shuffle(in []graph.ChunkItems, seed uint64) []graph.ChunkItems {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []graph.ChunkItems
	for _, c := range in {
		to := r.Perm(len(c.Entities))
		ents := make([]graph.EntityItem, len(to))
		for i, k := range to {
			ents[k] = c.Entities[i]
		}
		rels := slices.Clone(c.Relations)
		for i := range rels {
			rels[i].Source, rels[i].Target = to[rels[i].Source], to[rels[i].Target]
		}
		if len(rels) > 0 {
			rels = append(rels, rels[r.IntN(len(rels))])
		}
		r.Shuffle(len(rels), func(i, j int) { rels[i], rels[j] = rels[j], rels[i] })
		cands := slices.Clone(c.Candidates)
		r.Shuffle(len(cands), func(i, j int) { cands[i], cands[j] = cands[j], cands[i] })
		c.Entities, c.Relations, c.Candidates = ents, rels, cands
		out = append(out, c)
		if r.IntN(3) == 0 {
			out = append(out, c)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestOrderAndCopiesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOfN(genChunk(), 0, 5).Draw(t, "chunks")
		want := run(t, slices.Clone(chunks)...)
		got := run(t, shuffle(chunks, rapid.Uint64().Draw(t, "seed"))...)
		require.Equal(t, want, got)
		check(t, want)
	})
}

// check requires what every result has.
func check(t require.TestingT, res Result) {
	used := make([]bool, len(res.Assertions.Entities))
	mentions := 0
	for _, c := range res.Assertions.Chunks {
		mentions += len(c.Mentions)
		for _, m := range c.Mentions {
			used[m.Entity] = true
		}
		for _, r := range c.Relations {
			require.True(t, r.Source != r.Target || r.Type == "CITES")
			if r.Type == "MARRIED_TO" {
				require.Less(t, res.Assertions.Entities[r.Source].ID, res.Assertions.Entities[r.Target].ID)
			}
		}
	}
	require.NotContains(t, used, false, "every entity has a mention")
	require.Equal(t, mentions, res.Mentions)
	for i, c := range res.Assertions.Candidates {
		require.Positive(t, c.Count)
		require.LessOrEqual(t, len(c.More), c.Count-1)
		if i > 0 {
			require.Less(t, res.Assertions.Candidates[i-1].Key, c.Key)
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	// About what a document of 4 KB holds.
	var chunks []graph.ChunkItems
	for i := range 2 {
		c := graph.ChunkItems{Index: i}
		for k := range 30 {
			c.Entities = append(c.Entities, person(fmt.Sprintf("Ada Lovelace %d", k%12), 40*k))
		}
		for k := range 12 {
			c.Relations = append(c.Relations, graph.RelationItem{Type: "KNOWS", Source: k, Target: k + 1, Start: 40 * k, End: 40*k + 50, Confidence: 0.8, Extractor: "rules"})
		}
		for k := range 8 {
			c.Candidates = append(c.Candidates, graph.CandidateItem{Kind: "entity", Label: "Sports Team", Text: fmt.Sprintf("Team %d", k), Start: 40 * k, End: 40*k + 6,
				Confidence: 0.6, Reasons: []string{"undeclared_label"}, Extractor: "rules"})
		}
		chunks = append(chunks, c)
	}
	ex := graph.Extraction{Chunks: chunks}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Document(ex, laws{}, nil, true); err != nil {
			b.Fatal(err)
		}
	}
}
