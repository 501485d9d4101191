package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
)

// What a commit says of itself before it ends is what it wrote, less the change event; also when it was too large for one batch.
func TestWritten(t *testing.T) {
	for _, batch := range []int{0, 20_000} {
		o := options(vfs.NewMem())
		o.BatchBytes = batch
		s := openStore(t, o)
		var docs []DocChange
		for i := range 40 {
			docs = append(docs, mustFixture(t, fmt.Sprintf("d%02d", i), fmt.Sprintf("[Person:Ada] met [Person:P%d] %s\n> 0 KNOWS Person:Ada Person:P%d\n? 0 entity Mineral met", i, strings.Repeat("word ", 50), i)))
		}
		var gone []DocChange
		for _, d := range docs {
			gone = append(gone, DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: d.Meta.Key}})
		}
		for _, c := range []struct {
			docs    []DocChange
			removes bool
		}{{docs, false}, {gone, true}} {
			txn, err := s.Begin(t.Context(), g)
			require.NoError(t, err)
			for _, d := range c.docs {
				_, err := txn.Apply(t.Context(), d)
				require.NoError(t, err)
			}
			w, err := txn.Written()
			require.NoError(t, err)
			again, err := txn.Written()
			require.NoError(t, err)
			require.Equal(t, w, again, "asking changes nothing")
			done, err := txn.Finish(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, done.RowsWritten-1, w.Rows+w.Removed, "the change event comes later")
			require.InEpsilon(t, done.Bytes, w.Bytes, 0.25)
			require.Equal(t, c.removes, w.Removed > 0)
			require.Equal(t, batch > 0, txn.batches > 0)
			_, err = txn.Written()
			require.ErrorIs(t, err, ErrDone)
		}
	}
}
