package conflicts

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// A page and the counts over many conflicts: a page reads them all, the counts do not.
func BenchmarkConflicts(b *testing.B) {
	const n = 20_000
	r := newRoom(b)
	for i := 0; i < n; i += 1000 {
		var one, two []string
		for j := i; j < i+1000; j++ {
			one = append(one, fmt.Sprintf("Person:P%d born=1950-05-01", j))
			two = append(two, fmt.Sprintf("Person:P%d born=1962-09-09", j))
		}
		r.commit(fmt.Sprint("a", i), one...)
		r.commit(fmt.Sprint("b", i), two...)
	}
	require.Equal(b, n, r.list(api.ConflictsList{Limit: 1}).Total)
	for _, c := range []struct {
		name  string
		limit int
	}{{"page", 100}, {"counts", 0}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				reply, err := r.List(context.Background(), g, api.ConflictsList{Limit: c.limit})
				require.NoError(b, err)
				require.Equal(b, map[string]int{"homonym": n}, reply.Reasons)
			}
		})
	}
}
