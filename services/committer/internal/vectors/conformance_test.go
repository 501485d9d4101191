package vectors_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
	"github.com/factmill/factmill/services/committer/internal/vectors/vectorstest"
)

func TestNativeConforms(t *testing.T) {
	vectorstest.Conformance(t, func(t *testing.T) (vectorstest.Route, func() vectorstest.Route) {
		st, err := store.Open(context.Background(), store.Options{Dir: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		_, ok := st.Graph("default", true)
		require.True(t, ok)
		open := func() vectorstest.Route {
			x, err := vectors.Open(context.Background(), st, "default", vectors.OptionsFor(embed.NewHash()))
			require.NoError(t, err)
			return x
		}
		return open(), open
	})
}
