package embed

import (
	"context"
	"fmt"

	"github.com/dgraph-io/ristretto/v2"
)

// Bounds of a cache, and what an entry costs beside its numbers: the key's hashes, the slice, the policy's records.
const (
	DefaultCacheBytes = 64 << 20
	MinCacheBytes     = 1 << 20
	entryOverhead     = 160
)

// Cache answers from memory what it has embedded before, by text and embedder name, and asks its embedder for the rest
// in one call. What it holds is bounded by bytes; it keeps no text, only hashes of it (128 bits). Errors are not kept.
type Cache struct {
	inner Embedder
	kept  *ristretto.Cache[string, []float32]
	cost  int64
}

var _ Embedder = (*Cache)(nil)

// NewCache wraps inner. maxBytes bounds the vectors held; 0 means DefaultCacheBytes, and under MinCacheBytes is refused.
// Close ends its goroutine.
func NewCache(inner Embedder, maxBytes int64) (*Cache, error) {
	if maxBytes == 0 {
		maxBytes = DefaultCacheBytes
	}
	if maxBytes < MinCacheBytes {
		return nil, fmt.Errorf("embedding cache of %d bytes: at least %d", maxBytes, MinCacheBytes)
	}
	cost := int64(inner.Size())*4 + entryOverhead
	kept, err := ristretto.NewCache(&ristretto.Config[string, []float32]{
		NumCounters: max(1000, 10*maxBytes/cost), MaxCost: maxBytes, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("embedding cache of %d bytes: %w", maxBytes, err)
	}
	return &Cache{inner: inner, kept: kept, cost: cost}, nil
}

// Name is the inner embedder's.
func (c *Cache) Name() string { return c.inner.Name() }

// Size is the inner embedder's.
func (c *Cache) Size() int { return c.inner.Size() }

// Thresholds are the inner embedder's.
func (c *Cache) Thresholds() (link, drop float64) { return c.inner.Thresholds() }

// Embed asks the inner embedder once, for the distinct texts that are not held; its answer is checked before it is kept.
func (c *Cache) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	var missing []string
	at := map[string][]int{}
	for i, t := range texts {
		if v, ok := c.kept.Get(c.key(t)); ok {
			out[i] = v
			continue
		}
		if at[t] == nil {
			missing = append(missing, t)
		}
		at[t] = append(at[t], i)
	}
	if len(missing) == 0 {
		return out, nil
	}
	vectors, err := c.inner.Embed(ctx, missing)
	if err != nil {
		return nil, err
	}
	if err := Check(c.inner, len(missing), vectors); err != nil {
		return nil, err
	}
	for i, t := range missing {
		c.kept.Set(c.key(t), vectors[i], c.cost)
		for _, j := range at[t] {
			out[j] = vectors[i]
		}
	}
	return out, nil
}

func (c *Cache) key(text string) string { return c.inner.Name() + "\x00" + text }

// Wait returns when everything given to the cache before is held or refused. Tests use it.
func (c *Cache) Wait() { c.kept.Wait() }

// Close ends the cache's goroutine; Embed works on, holding nothing.
func (c *Cache) Close() { c.kept.Close() }
