package resolve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/graph"
)

func runKnown(t require.TestingT, known Known, chunks ...graph.ChunkItems) Result {
	res, err := Document(graph.Extraction{Chunks: chunks}, laws{}, known, true)
	require.NoError(t, err)
	return res
}

// A mention takes the identity of the one entry that has its name; it keeps its own name and span.
func TestKnownIdentities(t *testing.T) {
	short := person("Byron", 40)
	short.Of = "Ada Byron"
	org := graph.EntityItem{Type: "Organization", Name: "Ada Byron", Start: 60, End: 69, Confidence: 0.9, Extractor: "rules"}
	ents := []graph.EntityItem{person("ADA Byron", 0), person("Ada Lovelace", 20), short, org, person("Jo", 80), person("Ann", 90)}
	res := runKnown(t, Known{
		{"Person", "ada byron"}:    {Key: "ada lovelace"},
		{"Person", "ada lovelace"}: {Key: "ada lovelace"},
		{"Person", "byron"}:        {Key: "lord byron"}, // the full name in the document comes first
		{"Person", "jo"}:           {Ambiguous: true},
		{"Person", "nobody"}:       {Key: "x"},
	}, graph.ChunkItems{Entities: ents, Relations: []graph.RelationItem{
		{Type: "KNOWS", Source: 0, Target: 1, End: 9, Confidence: 0.9, Extractor: "rules"}, // herself, once it is known
		{Type: "KNOWS", Source: 0, Target: 5, End: 9, Confidence: 0.9, Extractor: "rules"},
	}, Candidates: []graph.CandidateItem{{Kind: "property", Label: "age", Text: "36", SourceText: "Ada Byron", SourceLabel: "Person", Confidence: 0.5}}})
	ada, homonym := place(t, res, "Person", "ada lovelace"), place(t, res, "Organization", "ada byron")
	jo, ann := place(t, res, "Person", "jo"), place(t, res, "Person", "ann")
	require.Len(t, res.Assertions.Entities, 4)
	var got []graph.Mention
	for _, m := range res.Assertions.Chunks[0].Mentions {
		got = append(got, graph.Mention{Entity: m.Entity, Name: m.Name, Start: m.Start, End: m.End})
	}
	require.Equal(t, []graph.Mention{
		{Entity: ada, Name: "ADA Byron", Start: 0, End: 9}, {Entity: ada, Name: "Ada Lovelace", Start: 20, End: 32}, {Entity: ada, Name: "Byron", Start: 40, End: 45},
		{Entity: homonym, Name: "Ada Byron", Start: 60, End: 69}, {Entity: jo, Name: "Jo", Start: 80, End: 82}, {Entity: ann, Name: "Ann", Start: 90, End: 93},
	}, got)
	require.Equal(t, 3, res.Known)
	require.Equal(t, 1, res.Ambiguous)
	require.Equal(t, 6, res.Mentions)
	require.Equal(t, 1, res.SelfLoops)
	require.Len(t, res.Assertions.Chunks[0].Relations, 1)
	require.Equal(t, id("Person", "ada lovelace"), res.Assertions.Candidates[0].SourceEntity)
}

// What is written as the name of an entry is that entry, also where the document has a longer name beside it.
func TestAnEntrysOwnNameIsNoShortForm(t *testing.T) {
	short := graph.EntityItem{Type: "Organization", Name: "Acme", Of: "Acme Ltd", Start: 20, End: 24, Confidence: 0.9, Extractor: "rules"}
	res := runKnown(t, Known{{"Organization", "acme"}: {Key: "acme"}, {"Organization", "acme ltd"}: {Key: "acme ltd"}}, graph.ChunkItems{Entities: []graph.EntityItem{
		{Type: "Organization", Name: "Acme Ltd", Start: 0, End: 8, Confidence: 0.9, Extractor: "rules"}, short}})
	require.Len(t, res.Assertions.Entities, 2)
	place(t, res, "Organization", "acme")
	require.Equal(t, 2, res.Known)
}

func TestNamesOfAnExtraction(t *testing.T) {
	short := person("Byron", 40)
	short.Of = "Ada  Byron"
	blank := person(" ", 50)
	got := Names(graph.Extraction{Chunks: []graph.ChunkItems{
		{Index: 1, Entities: []graph.EntityItem{short, blank, {Type: "Organization", Name: "Acme"}}},
		{Index: 0, Entities: []graph.EntityItem{person("ADA BYRON", 0), person("Bob", 5)}},
	}})
	require.Equal(t, []Name{{"Organization", "acme"}, {"Person", "ada byron"}, {"Person", "bob"}, {"Person", "byron"}}, got)
	require.Empty(t, Names(graph.Extraction{}))
}

func TestOrderAndCopiesDoNotMatterToWhatIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := Known{}
		entry := rapid.SampledFrom([]Entry{{Ambiguous: true}, {Key: "ada"}, {Key: "bob"}, {Key: "else"}})
		for _, label := range []string{"Person", "Organization"} {
			for _, key := range []string{"ada", "bob", "acme", "c++"} {
				if rapid.Bool().Draw(t, "known") {
					known[Name{label, key}] = entry.Draw(t, "entry")
				}
			}
		}
		chunks := rapid.SliceOfN(genChunk(), 0, 5).Draw(t, "chunks")
		names := Names(graph.Extraction{Chunks: chunks})
		want := runKnown(t, known, shuffle(chunks, 1)...)
		got := runKnown(t, known, shuffle(chunks, rapid.Uint64().Draw(t, "seed"))...)
		require.Equal(t, want, got)
		check(t, want)
		require.LessOrEqual(t, want.Known+want.Ambiguous, want.Mentions)
		// What Names does not name is not asked about, and must not count.
		less := Known{}
		for _, n := range names {
			if e, ok := known[n]; ok {
				less[n] = e
			}
		}
		require.Equal(t, want, runKnown(t, less, shuffle(chunks, 2)...))
	})
}
