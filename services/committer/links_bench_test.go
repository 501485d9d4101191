package committer

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/crowd"
	"github.com/factmill/factmill/services/committer/internal/links"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// named is a document that mentions entities of one label.
func named(key, label string, names []string) store.DocChange {
	c := store.DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: key}, SchemaFP: "s", SchemaRevision: 1, ChunkerFP: "c", ExtractionFP: "e", Job: key,
		Order: graph.Order{Time: 1}}
	var b strings.Builder
	a := graph.ChunkAssertions{}
	type ref struct {
		graph.EntityRef
		name string
	}
	refs := make([]ref, len(names))
	for i, n := range names {
		k := fingerprint.Fold(n)
		refs[i] = ref{graph.EntityRef{ID: fingerprint.EntityID(label, k), Label: label, Key: k}, n}
	}
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.ID, b.ID) })
	refs = slices.CompactFunc(refs, func(a, b ref) bool { return a.ID == b.ID })
	for i, r := range refs {
		c.Assertions.Entities = append(c.Assertions.Entities, r.EntityRef)
		start := b.Len()
		b.WriteString(r.name)
		a.Mentions = append(a.Mentions, graph.Mention{Entity: i, Name: r.name, Start: start, End: b.Len(), Confidence: 0.9, Extractor: "rules"})
		b.WriteString(" lived.\n")
	}
	c.Text = b.String()
	c.Chunks = []graph.Chunk{{Start: 0, End: len(c.Text), Content: "text", Tokens: 1}}
	c.Assertions.Chunks = []graph.ChunkAssertions{a}
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return c
}

// BenchmarkLinkGrowth measures what linking the names of a new document takes, by the number of names of their label that are stored:
// 10,000, 100,000, and, with FACTMILL_LINKS=1000000, as many as that says. Names are a crowd's.
func BenchmarkLinkGrowth(b *testing.B) {
	sizes := []int{10_000, 100_000}
	if n, err := strconv.Atoi(os.Getenv("FACTMILL_LINKS")); err == nil {
		sizes = append(sizes, n)
	}
	for _, what := range []string{"persons", "organizations", "numbered"} {
		b.Run(what, func(b *testing.B) { linkGrowth(b, what, sizes) })
	}
}

func linkGrowth(b *testing.B, what string, sizes []int) {
	c := crowd.New(5)
	make := map[string]func() string{"persons": c.Person, "organizations": c.Organization, "numbered": c.Numbered}[what]
	label := map[string]string{"persons": "Person", "organizations": "Organization", "numbered": "Product"}[what]
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.Open(ctx, store.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	st.Graph("g", true)
	set := func(string) (settings.Pipeline, error) { return settings.Default(), nil }
	met, err := vectors.NewFollowerMetrics(nil)
	require.NoError(b, err)
	sp := newSpace(Config{}.WithDefaults(), st, set, met, slog.New(slog.DiscardHandler))
	l, err := links.New(links.Config{}, links.Deps{Store: st, Settings: set, Vectors: sp})
	require.NoError(b, err)
	done := beside(func() { _ = l.Run(ctx) })
	docs := 0
	link := func(names []string) (compared int, took time.Duration) {
		docs++
		job := fmt.Sprintf("d%d", docs)
		txn, err := st.Begin(ctx, "g")
		require.NoError(b, err)
		_, err = txn.Apply(ctx, named(job, label, names))
		require.NoError(b, err)
		done, err := txn.Finish(ctx, nil)
		require.NoError(b, err)
		begun := time.Now()
		l.Notify("g")
		s := l.Wait(ctx, "g", job, done.Seq)
		require.NoError(b, s.Err)
		took = time.Since(begun)
		n, err := l.Stats("g", job)
		require.NoError(b, err)
		return n.Compared, took
	}
	stored := 0
	fresh := func(n int) []string {
		out := []string{}
		for range n {
			out = append(out, c.Name(make))
		}
		stored += n
		return out
	}
	for _, size := range sizes {
		for stored < size {
			link(fresh(min(1000, size-stored)))
		}
		runtime.GC()
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			compared, mentions := 0, 0
			var times []time.Duration
			for b.Loop() {
				names := fresh(200)
				n, took := link(names)
				compared, mentions, times = compared+n, mentions+len(names), append(times, took)
			}
			slices.Sort(times)
			b.ReportMetric(float64(compared)/float64(mentions), "compared/mention")
			b.ReportMetric(times[len(times)/2].Seconds()*1000/200, "ms/mention")
			b.ReportMetric(0, "ns/op")
		})
	}
	cancel()
	<-done
	require.NoError(b, st.Close())
}

// beside runs a function beside and tells when it has ended.
func beside(fn func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	return done
}
