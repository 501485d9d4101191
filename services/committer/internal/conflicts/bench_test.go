package conflicts

import (
	"context"
	"fmt"
	"strings"
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

// The first page and the counts of graphs in which three entities lack a value, however many others there are; and a page where all lack one.
func BenchmarkMissing(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		r := newRoom(b)
		manyBorn(r, n)
		run := func(name string, limit, waits int) {
			b.Run(fmt.Sprintf("%s/entities=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					reply, err := r.List(context.Background(), g, api.ConflictsList{Limit: limit})
					require.NoError(b, err)
					require.Equal(b, map[string]int{"missing_required": waits}, reply.Reasons)
				}
			})
		}
		run("page", 100, 3)
		run("counts", 0, 3)
		r.put(strings.Replace(strict, "height: {type: integer}", "height: {type: integer, required: true}", 1))
		run("all lack one/page", 100, n+5)
	}
}
