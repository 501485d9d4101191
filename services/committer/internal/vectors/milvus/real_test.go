package milvus

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
	"github.com/factmill/factmill/services/committer/internal/vectors/vectorstest"
)

// route is a copy with its position.
type route struct {
	*vectors.Copied
	copy *Copy
}

func (r route) Search(ctx context.Context, k vectors.Kind, label string, v []float32, top int, drop float64) ([]vectors.Hit, error) {
	return r.copy.Search(ctx, k, label, v, top, drop)
}

func (r route) Count(ctx context.Context, k vectors.Kind) (int64, error) { return r.copy.Count(ctx, k) }

func openStore(t *testing.T) *store.Store {
	st, err := store.Open(context.Background(), store.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	_, ok := st.Graph("default", true)
	require.True(t, ok)
	return st
}

// conform runs the suite; open makes a copy, each time as a new process would.
func conform(t *testing.T, open func() *Copy) {
	vectorstest.Conformance(t, func(t *testing.T) (vectorstest.Route, func() vectorstest.Route) {
		st := openStore(t)
		c := open()
		require.NoError(t, c.Drop(t.Context()))
		make := func(c *Copy) vectorstest.Route { return route{vectors.NewCopied(c, st, "default", "milvus"), c} }
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return make(c), func() vectorstest.Route {
			again := open()
			t.Cleanup(func() {
				require.NoError(t, again.Drop(context.Background()))
				require.NoError(t, again.Close())
			})
			return make(again)
		}
	})
}

// TestRealMilvus runs the suite against the server at FACTMILL_REAL_MILVUS, which `make real/milvus` sets up.
func TestRealMilvus(t *testing.T) {
	address := os.Getenv("FACTMILL_REAL_MILVUS")
	if address == "" {
		t.Skip("NOT RUN: no Milvus; `make real/milvus` starts one, then set FACTMILL_REAL_MILVUS=127.0.0.1:19630")
	}
	if conn, err := net.DialTimeout("tcp", address, 5*time.Second); err != nil {
		t.Skipf("NOT RUN: nobody listens at %s (%v); `make real/milvus` starts a Milvus", address, err)
	} else {
		require.NoError(t, conn.Close())
	}
	conform(t, func() *Copy {
		c, err := New(Config{Address: address, Graph: "test " + t.Name(), Embedder: "hash-1", Size: 256, Timeout: 30 * time.Second})
		require.NoError(t, err)
		return c
	})
}
