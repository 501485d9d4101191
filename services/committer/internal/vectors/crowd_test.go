package vectors

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

func openStore(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: dir})
	require.NoError(tb, err)
	_, ok := st.Graph(g, true)
	require.True(tb, ok)
	return st
}

func openIndex(tb testing.TB) *Index {
	tb.Helper()
	st := openStore(tb, tb.TempDir())
	tb.Cleanup(func() { require.NoError(tb, st.Close()) })
	x, err := Open(context.Background(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(tb, err)
	return x
}

// idOf is an id made of a number, spread as hashes are.
func idOf(n int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(n)))
	return uuid(sum[:16]).String()
}

func hashed(text string) []float32 {
	v, _ := embed.NewHash().Embed(context.Background(), []string{text})
	return v[0]
}

func item(n int, label, name string) Item {
	return Item{Ref: Ref{Entity, idOf(n)}, Label: label, Text: name, Vector: hashed(name)}
}
