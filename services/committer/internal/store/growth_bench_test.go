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

const (
	growthEach       = 20     // chunks a document
	growthSmall      = 10_000 // chunks of the smallest graph
	growthNames      = 5      // chunks a name: the people of a graph are a fifth of its chunks
	growthGroups     = growthSmall / growthNames
	growthHubs       = 5 // names that one document in four has, in every graph
	growthJob        = 100
	growthVocabulary = 20_000 // words of the language
	growthRounds     = 4
)

// grown writes documents for a graph of a size. Each chunk names one person, drawn from all people of the graph; one document in
// four names hubs as well.
type grown struct {
	rng    *rand.Rand
	people int
	docs   int
	jobs   int
	words  int // of a chunk besides the name
}

func newGrown(chunks, words int) *grown {
	return &grown{rng: rand.New(rand.NewPCG(7, 7)), people: chunks / growthNames, docs: chunks / growthEach, words: words}
}

// build are documents from first on, as the graph is made of.
func (w *grown) build(first, n int) []DocChange {
	out := make([]DocChange, 0, n)
	for i := range n {
		out = append(out, w.doc(first+i, func() string { return fmt.Sprintf("Person %07d", w.rng.IntN(w.people)) }))
	}
	return out
}

// job is the next of the jobs that are the same for a graph of any size: one document in four takes the place of one that is there;
// of five names four are in the graph and one is not; and a name comes as often in the job, though there are more to draw from in a
// large graph: those are parted into as many groups as the smallest graph has people, and a job knows one of each.
func (w *grown) job() []DocChange {
	w.jobs++
	out := make([]DocChange, 0, growthJob)
	for i := range growthJob {
		no := w.docs
		if at := w.rng.Float64(); i%4 == 0 {
			no = int(at * float64(w.docs))
		} else {
			w.docs++
		}
		out = append(out, w.doc(no, func() string {
			group, each := w.rng.IntN(growthGroups), w.people/growthGroups
			if w.rng.IntN(5) == 0 {
				return fmt.Sprintf("Guest %07d", w.jobs*growthGroups+group)
			}
			return fmt.Sprintf("Person %07d", group*each+(w.jobs*31+group*17)%each)
		}))
	}
	return out
}

func (w *grown) doc(no int, name func() string) DocChange {
	c := DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: fmt.Sprintf("doc %07d", no)}, SchemaFP: "s", ChunkerFP: "c",
		ExtractionFP: "x", Job: "j", Order: graph.Order{Time: time.Now().UnixNano()}}
	hub := w.rng.IntN(4) == 0
	var text strings.Builder
	places := map[string]int{}
	for i := range growthEach {
		said := name()
		if hub && i < 2 {
			said = fmt.Sprintf("Hub %d", w.rng.IntN(growthHubs))
		}
		start := text.Len()
		text.WriteString(said)
		at, ok := places[said]
		if !ok {
			at = len(places)
			places[said] = at
			c.Assertions.Entities = append(c.Assertions.Entities, graph.EntityRef{ID: personID(said), Label: "Person", Key: fingerprint.Fold(said)})
		}
		c.Assertions.Chunks = append(c.Assertions.Chunks, graph.ChunkAssertions{Index: i, Mentions: []graph.Mention{
			{Entity: at, Name: said, Start: start, End: text.Len(), Confidence: 0.9, Extractor: "rules"}}})
		text.WriteString(" went to the river")
		for range w.words {
			fmt.Fprintf(&text, " w%d", int(float64(growthVocabulary)*w.rng.Float64()*w.rng.Float64()))
		}
		text.WriteString(".\n")
		c.Chunks = append(c.Chunks, graph.Chunk{Start: start, End: text.Len() - 1, Content: "text", Tokens: 10})
	}
	c.Text = text.String()
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return c
}

func personID(name string) string { return fingerprint.EntityID("Person", fingerprint.Fold(name)) }

// grow makes a store with a graph of a size, its events published. The store is opened anew in the end, so that graphs of all sizes
// are read from tables, and not the small ones from the memtable that their build left.
func grow(b *testing.B, chunks, words int) (*Store, *grown) {
	o := Options{Dir: b.TempDir()}
	s, w := openStore(b, o), newGrown(chunks, words)
	for first := 0; first < w.docs; first += 5_000 {
		commit(b, s, w.build(first, min(5_000, w.docs-first))...)
		no, err := s.lastOutbox(1)
		require.NoError(b, err)
		require.NoError(b, s.OutboxDone(g, no))
	}
	require.NoError(b, s.Close())
	s = openStore(b, o)
	w.rng = rand.New(rand.NewPCG(8, 8))
	return s, w
}

// BenchmarkCommitGrowth shows that a commit's cost follows the job and not the graph: jobs of the same shape (see grown.job) into a
// graph of 10,000 chunks and into one of 1,000,000, in turn. The small graph is made anew before it has doubled; the large one is
// built once, which takes a minute or more. Chunks of a line are the worst case: of a commit nearly all is look-ups then, where a chunk
// of the default size has 400 words or so to write beside them.
func BenchmarkCommitGrowth(b *testing.B) {
	for _, words := range []int{4, 40} {
		b.Run(fmt.Sprintf("words=%d", words), func(b *testing.B) { commitGrowth(b, words) })
	}
}

func commitGrowth(b *testing.B, words int) {
	large, largeJobs := grow(b, 1_000_000, words)
	took := [2][]time.Duration{}
	for b.Loop() {
		small, smallJobs := grow(b, growthSmall, words)
		for range growthRounds {
			for i, at := range []struct {
				s *Store
				w *grown
			}{{small, smallJobs}, {large, largeJobs}} {
				jobs := at.w.job()
				start := time.Now()
				txn, err := at.s.Begin(context.Background(), g)
				require.NoError(b, err)
				require.NoError(b, txn.Ahead(context.Background(), jobs))
				for _, c := range jobs {
					_, err := txn.Apply(context.Background(), c)
					require.NoError(b, err)
				}
				_, err = txn.Finish(context.Background(), nil)
				require.NoError(b, err)
				took[i] = append(took[i], time.Since(start))
			}
		}
		require.NoError(b, small.Close())
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return d[len(d)/2].Seconds() * 1000 }
	at10k, at1M := median(took[0]), median(took[1])
	b.ReportMetric(at10k, "ms/job@10k")
	b.ReportMetric(at1M, "ms/job@1M")
	b.ReportMetric(at1M/at10k, "ratio")
	b.ReportMetric(0, "ns/op")
}
