package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// corpus makes documents of about 4 KB in two chunks with 8 entities (half of them shared by many documents) and 3 relations.
func corpus(tb T, n, from int) []DocChange {
	rng := rand.New(rand.NewPCG(1, uint64(from)))
	words := make([]string, 4000)
	for i := range words {
		words[i] = fmt.Sprintf("w%x", rng.IntN(1<<20))
	}
	out := make([]DocChange, n)
	for i := range out {
		var b strings.Builder
		fill := func(size int) {
			for end := b.Len() + size; b.Len() < end; {
				b.WriteString(words[int(float64(len(words))*rng.Float64()*rng.Float64())])
				b.WriteByte(' ')
			}
		}
		var tail []string
		for chunk := range 2 {
			if chunk > 0 {
				b.WriteString("\n~\n")
			}
			fill(1000)
			names := make([]string, 4)
			for j := range names {
				names[j] = fmt.Sprintf("Person:Hub %d", rng.IntN(500))
				if j%2 == 0 {
					names[j] = fmt.Sprintf("Org:Own %d-%d-%d", from+i, chunk, j)
				}
				fmt.Fprintf(&b, "[%s] ", names[j])
				fill(230)
			}
			for j := range 2 - chunk {
				tail = append(tail, fmt.Sprintf("> %d KNOWS %s %s", chunk, strings.ReplaceAll(names[j], " ", "_"), strings.ReplaceAll(names[j+1], " ", "_")))
			}
		}
		c, err := fixture(fmt.Sprintf("doc-%d", from+i), b.String()+"\n"+strings.Join(tail, "\n"))
		require.NoError(tb, err)
		out[i] = c
	}
	return out
}

// BenchmarkCommit commits jobs of 1000 documents of 4 KB with 8 entities and 3 relations each to a directory.
func BenchmarkCommit(b *testing.B) {
	o := Options{Dir: b.TempDir()}
	s := openStore(b, o)
	rows, docs := 0, 0
	var busy time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		changes := corpus(b, 1000, i*1000)
		b.StartTimer()
		start := time.Now()
		txn, err := s.Begin(context.Background(), g)
		require.NoError(b, err)
		for _, c := range changes {
			_, err := txn.Apply(context.Background(), c)
			require.NoError(b, err)
		}
		done, err := txn.Finish(context.Background(), nil)
		require.NoError(b, err)
		busy += time.Since(start)
		rows += done.RowsWritten
		docs += len(changes)
	}
	b.ReportMetric(float64(docs)/busy.Seconds(), "docs/s")
	b.ReportMetric(float64(rows)/float64(docs), "rows/doc")
}

// BenchmarkSmallJobs commits one document a job.
func BenchmarkSmallJobs(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir()})
	changes := corpus(b, 3000, 0)
	for i := 0; b.Loop(); i++ {
		c := changes[i%len(changes)]
		c.Order = graph.Order{Time: int64(i)}
		commit(b, s, c)
	}
}

// BenchmarkHub deletes and adds one document that mentions an entity which 2000 others mention.
func BenchmarkHub(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir()})
	var all []DocChange
	for i := range 2000 {
		all = append(all, mustFixture(b, fmt.Sprint(i), "[Person:Ada] is here.\n. 0 age=1 Person:Ada"))
	}
	commit(b, s, all...)
	for i := 1; b.Loop(); i++ {
		c := all[0]
		c.Order.Time = int64(i)
		if i%2 == 1 {
			c = DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "0"}, Order: c.Order}
		}
		commit(b, s, c)
	}
}

// BenchmarkEntity reads an entity by id.
func BenchmarkEntity(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir()})
	commit(b, s, corpus(b, 2000, 0)...)
	sn, err := s.Snapshot(g, 0)
	require.NoError(b, err)
	defer sn.Close()
	for i := 0; b.Loop(); i++ {
		_, ok, err := sn.Entity(fingerprint.EntityID("Person", fmt.Sprintf("hub %d", i%500)))
		require.NoError(b, err)
		require.True(b, ok)
	}
}
