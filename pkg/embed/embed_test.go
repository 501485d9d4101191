package embed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func one(t testing.TB, e Embedder, text string) []float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), []string{text})
	require.NoError(t, err)
	require.NoError(t, Check(e, 1, v))
	return v[0]
}

func cosine(t testing.TB, a, b string) float64 {
	return Cosine(one(t, NewHash(), a), one(t, NewHash(), b))
}

// TestHashBits pins the vectors: another digest is another embedder and needs another name, or stores mix the two.
func TestHashBits(t *testing.T) {
	sum := sha256.New()
	for _, s := range []string{"Charles Babbage", "東京大学", "Müller", "", "a", "The quick brown fox jumps over the lazy dog."} {
		for _, x := range one(t, NewHash(), s) {
			_ = binary.Write(sum, binary.LittleEndian, math.Float32bits(x))
		}
	}
	require.Equal(t, "hash-1", NewHash().Name())
	require.Equal(t, hashDigest, hex.EncodeToString(sum.Sum(nil))[:16])
}

func TestHashCosines(t *testing.T) {
	require.InDelta(t, 1, cosine(t, "Charles Babbage", "BABBAGE, Charles"), 1e-6, "case, order and punctuation do not count")
	require.InDelta(t, 1, cosine(t, "Jose Garcia", "José García"), 1e-6)
	require.Greater(t, cosine(t, "Northpoint Observatory", "Northpoint Observatry"), 0.8)
	require.Less(t, cosine(t, "Northpoint Observatory", "Guide Camera"), 0.25)
	require.Zero(t, cosine(t, "Charles", "!?"), "nothing to embed is all zeros")
	require.Zero(t, Cosine([]float32{1}, []float32{1, 0}))
}

func TestHashIsUnitAndPure(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "s")
		a, err := NewHash().Embed(context.Background(), []string{"other", s})
		require.NoError(rt, err)
		b, err := NewHash().Embed(context.Background(), []string{s})
		require.NoError(rt, err)
		require.Equal(rt, a[1], b[0])
		if l := Cosine(b[0], b[0]); l != 0 {
			require.InDelta(rt, 1, l, 1e-5)
		}
	})
}

func TestWordsAddUpToTheVector(t *testing.T) {
	for _, s := range []string{"", "a", "Charles Babbage", "the the", "東京大学 Müller"} {
		require.Equal(t, one(t, Hash{}, s), Sum(HashSize, Hash{}.Words(s)...), s)
	}
	require.Len(t, Hash{}.Words("Charles  Babbage, Jr."), 3)
	a, b := Hash{}.Words("babbage")[0], Hash{}.Words("babble")[0]
	require.Len(t, a, 3*7)
	require.Equal(t, a[:9], b[:9], "what begins with the same four letters begins with their n-grams")
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "s")
		v, err := Hash{}.Embed(context.Background(), []string{s})
		require.NoError(rt, err)
		require.Equal(rt, v[0], Sum(HashSize, Hash{}.Words(s)...))
	})
}

func TestHashStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewHash().Embed(ctx, []string{"a"})
	require.ErrorIs(t, err, context.Canceled)
}

// counting remembers what it was asked.
type counting struct {
	Hash
	name  string
	asked []string
	err   error
	short bool
}

func (c *counting) Name() string { return c.name }

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.asked = append(c.asked, texts...)
	if c.err != nil {
		return nil, c.err
	}
	v, err := c.Hash.Embed(ctx, texts)
	if c.short {
		v[0] = v[0][:1]
	}
	return v, err
}

func TestCacheAsksOnce(t *testing.T) {
	in := &counting{name: "m:1"}
	c, err := NewCache(in, 0)
	require.NoError(t, err)
	defer c.Close()
	got, err := c.Embed(t.Context(), []string{"a b", "c d", "a b"})
	require.NoError(t, err)
	require.Equal(t, []string{"a b", "c d"}, in.asked, "a text that comes twice is asked for once")
	require.Equal(t, one(t, Hash{}, "a b"), got[2])
	c.Wait()
	got, err = c.Embed(t.Context(), []string{"c d", "e f", "a b"})
	require.NoError(t, err)
	require.Equal(t, []string{"a b", "c d", "e f"}, in.asked)
	for i, s := range []string{"c d", "e f", "a b"} {
		require.Equal(t, one(t, Hash{}, s), got[i], s)
	}
	in.name = "m:2"
	_, err = c.Embed(t.Context(), []string{"a b"})
	require.NoError(t, err)
	require.Equal(t, []string{"a b", "c d", "e f", "a b"}, in.asked, "another embedder, another entry")
	link, drop := c.Thresholds()
	l, d := Hash{}.Thresholds()
	require.Equal(t, [2]float64{l, d}, [2]float64{link, drop})
	require.Equal(t, HashSize, c.Size())
}

func TestCacheKeepsNoErrors(t *testing.T) {
	in := &counting{name: "m", err: errors.New("down")}
	c, err := NewCache(in, 0)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Embed(t.Context(), []string{"a"})
	require.ErrorContains(t, err, "down")
	in.err, in.short = nil, true
	_, err = c.Embed(t.Context(), []string{"a"})
	require.ErrorIs(t, err, ErrShape)
	require.EqualError(t, err, "embedder m: vector 0 has 1 numbers instead of 256: vectors of the wrong shape")
	c.Wait()
	in.short = false
	got, err := c.Embed(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, one(t, Hash{}, "a"), got[0])
	require.Equal(t, []string{"a", "a", "a"}, in.asked)
}

func TestCacheIsBounded(t *testing.T) {
	_, err := NewCache(Hash{}, 10)
	require.EqualError(t, err, "embedding cache of 10 bytes: at least 1048576")
	c, err := NewCache(Hash{}, MinCacheBytes)
	require.NoError(t, err)
	defer c.Close()
	for i := range 3000 { // four times what fits
		_, err := c.Embed(t.Context(), []string{fmt.Sprint("name ", i)})
		require.NoError(t, err)
		if i%50 == 0 {
			c.Wait()
		}
	}
	c.Wait()
	left := c.kept.MaxCost() - c.kept.RemainingCost()
	require.Positive(t, left)
	require.LessOrEqual(t, left, int64(MinCacheBytes))
}

func BenchmarkHash(b *testing.B) {
	for b.Loop() {
		_, _ = NewHash().Embed(context.Background(), []string{"International Business Machines"})
	}
}
