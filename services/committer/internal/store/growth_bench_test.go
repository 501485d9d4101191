package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// grown makes documents of chunksEach short chunks; each chunk names one of many people, and one document in four names hubs.
func grown(first, n, chunksEach int) []DocChange {
	r := rand.New(rand.NewPCG(uint64(first), 7))
	out := make([]DocChange, 0, n)
	for i := range n {
		out = append(out, grownDoc(r, fmt.Sprintf("doc %d", first+i), chunksEach))
	}
	return out
}

func grownDoc(r *rand.Rand, key string, chunks int) DocChange {
	c := DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key}, SchemaFP: "s", ChunkerFP: "c", ExtractionFP: "x", Job: "j"}
	var text strings.Builder
	places := map[string]int{}
	var names []string
	ent := func(name string) int {
		if at, ok := places[name]; ok {
			return at
		}
		places[name] = len(names)
		names = append(names, name)
		return places[name]
	}
	hub := r.IntN(4) == 0
	type said struct {
		chunk, start, end int
		name              string
	}
	var all []said
	for i := range chunks {
		name := fmt.Sprintf("Person %d", r.IntN(200_000))
		if hub && i < 2 {
			name = fmt.Sprintf("Hub %d", r.IntN(5))
		}
		start := text.Len()
		text.WriteString(name)
		all = append(all, said{i, start, text.Len(), name})
		fmt.Fprintf(&text, " went to the river in the year %d.\n", 1000+r.IntN(1000))
		c.Chunks = append(c.Chunks, graph.Chunk{Start: start, End: text.Len() - 1, Content: "text", Tokens: 10})
	}
	c.Text = text.String()
	c.ContentHash = fingerprint.ContentHash(c.Text)
	for _, s := range all {
		ent(s.name)
	}
	ids := slices.Clone(names)
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(personID(a), personID(b)) })
	for at, n := range ids {
		places[n] = at
		c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: personID(n), Label: "Person", Key: fingerprint.Fold(n)})
	}
	for _, s := range all {
		c.Assertions.Chunks = append(c.Assertions.Chunks, graph.ChunkAssertions{Index: s.chunk, Mentions: []graph.Mention{
			{Entity: places[s.name], Name: s.name, Start: s.start, End: s.end, Confidence: 0.9, Extractor: "rules"}}})
	}
	return c
}

func personID(name string) string { return fingerprint.EntityID("Person", fingerprint.Fold(name)) }

// BenchmarkCommitGrowth shows that a commit's cost follows the job and not the graph: the same jobs into a graph of 10,000 chunks
// and into one of 1,000,000, with hub entities in a quarter of the documents on both sides, in turn. It builds the large graph
// first, which takes a minute or more.
func BenchmarkCommitGrowth(b *testing.B) {
	const each, docsAJob, rounds = 20, 100, 15
	stores := map[string]*Store{}
	for name, chunks := range map[string]int{"10,000": 10_000, "1,000,000": 1_000_000} {
		s := openStore(b, Options{Dir: b.TempDir()})
		for first := 0; first < chunks/each; first += 5_000 {
			commit(b, s, grown(first, min(5_000, chunks/each-first), each)...)
		}
		stores[name] = s
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for round := range rounds {
			jobs := grown(10_000_000+round*docsAJob, docsAJob, each)
			for _, name := range []string{"10,000", "1,000,000"} {
				start := time.Now()
				txn, err := stores[name].Begin(context.Background(), g)
				require.NoError(b, err)
				for _, c := range jobs {
					c.Order = graph.Order{Time: time.Now().UnixNano()}
					_, err := txn.Apply(context.Background(), c)
					require.NoError(b, err)
				}
				_, err = txn.Finish(context.Background(), nil)
				require.NoError(b, err)
				took[name] = append(took[name], time.Since(start))
			}
		}
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return d[len(d)/2].Seconds() * 1000 }
	small, large := median(took["10,000"]), median(took["1,000,000"])
	b.ReportMetric(small, "ms/job@10k")
	b.ReportMetric(large, "ms/job@1M")
	b.ReportMetric(large/small, "ratio")
	b.ReportMetric(0, "ns/op")
}
