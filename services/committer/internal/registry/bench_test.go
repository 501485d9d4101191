package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// shelf is Graphs for a benchmark.
type shelf struct{ st *store.Store }

// Ensure implements Graphs.
func (s shelf) Ensure(_ context.Context, graph string) error {
	s.st.Graph(graph, true)
	return nil
}

// Schema implements Graphs.
func (shelf) Schema(string, uint64) (*schema.Schema, error) {
	return schema.Parse([]byte(wordsSchema), "w.json", nil)
}

// BenchmarkLookup of 1,000 names, half of them known, in registries of different sizes.
func BenchmarkLookup(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			if size > 10_000 && testing.Short() {
				b.Skipf("NOT RUN: a registry of %d entries is left out of -short; 10,000 is measured on every machine", size)
			}
			st, err := store.Open(b.Context(), store.Options{Dir: b.TempDir(), Now: time.Now})
			require.NoError(b, err)
			defer func() { require.NoError(b, st.Close()) }()
			r := New(st, shelf{st}, operations.New(st), Options{})
			began := time.Now()
			for n := 0; n < size; n += 1000 {
				var list []api.RegistryEntry
				for i := n; i < n+1000; i++ {
					list = append(list, person(fmt.Sprint("Person Number ", i), fmt.Sprint("P", i), fmt.Sprint("No ", i)))
				}
				_, err := r.Put(b.Context(), "g", api.RegistryPut{Entries: list})
				require.NoError(b, err)
			}
			put := time.Since(began)
			names := make([]api.RegistryName, 1000)
			for i := range names {
				names[i] = api.RegistryName{Label: "Person", Key: fmt.Sprint("p", i*size/500)}
			}
			for b.Loop() {
				reply, err := r.Lookup(b.Context(), "g", api.RegistryLookup{Revision: 1 << 40, Names: names})
				require.NoError(b, err)
				require.Len(b, reply.Found, 500)
			}
			b.ReportMetric(float64(size)/put.Seconds(), "puts/s")
		})
	}
}
