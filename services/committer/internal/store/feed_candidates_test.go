package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// The candidate feed names the keys whose waiting records a commit changed, and no others.
func TestCandidateFeed(t *testing.T) {
	for _, batch := range []int{0, 2000} { // in one write, and in many
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			fs := vfs.NewMem()
			o := options(fs)
			o.BatchBytes = batch
			s := openStore(t, o)
			commit := func(fn func(txn *Txn) error) uint64 {
				txn, err := s.Begin(t.Context(), g)
				require.NoError(t, err)
				require.NoError(t, fn(txn))
				done, err := txn.Finish(t.Context(), nil)
				require.NoError(t, err)
				return done.Seq
			}
			read := func(name, text string) uint64 {
				return commit(func(txn *Txn) error {
					_, err := txn.Apply(t.Context(), mustFixture(t, name, text))
					return err
				})
			}
			feed := func(seq uint64, limit int) (of uint64, keys []string) {
				for offset := 0; ; {
					page, err := s.CandidateFeed(t.Context(), g, seq, offset, limit)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Keys), limit)
					keys = append(keys, page.Keys...)
					if of = page.Seq; page.Next == 0 {
						return of, keys
					}
					offset = page.Next
				}
			}
			var many []string
			for i := range 30 {
				many = append(many, fmt.Sprintf("? 0 entity Mineral%02d met", i))
			}
			first := read("a", "[Person:Ada] met [Person:Bob].\n"+strings.Join(many, "\n"))
			of, all := feed(0, 1000)
			require.Equal(t, first, of)
			require.Len(t, all, 30)
			for _, limit := range []int{1, 7, 30} {
				_, paged := feed(0, limit)
				require.Equal(t, all, paged, "in pages of %d", limit)
			}
			second := read("b", "[Person:Cy] was there.") // no candidate at all
			of, keys := feed(first, 1000)
			require.Zero(t, of, "%v", keys)
			third := read("c", "[Person:Dee] met nobody.\n? 0 entity Mineral00 met")
			of, keys = feed(second, 1000)
			require.Equal(t, []any{third, []string{all[0]}}, []any{of, keys})

			// What is decided does not wait; what goes does change the rest of its key.
			fourth := commit(func(txn *Txn) error {
				_, err := txn.Decide(t.Context(), all[1], api.StateRejected)
				return err
			})
			of, _ = feed(third, 1000)
			require.Zero(t, of, "a decision leaves nothing in it")
			fifth := commit(func(txn *Txn) error {
				_, err := txn.Apply(t.Context(), DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "c"}})
				return err
			})
			of, keys = feed(fourth, 1000)
			require.Equal(t, []any{fifth, []string{all[0]}}, []any{of, keys})

			require.NoError(t, s.TrimFeed(t.Context(), g, third))
			_, err := s.CandidateFeed(t.Context(), g, second, 0, 10)
			require.ErrorIs(t, err, ErrFeedGone)
			of, _ = feed(third, 1000)
			require.Equal(t, fifth, of)
			verified(t, s)
		})
	}
}
