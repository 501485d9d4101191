package vectors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/crowd"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func TestRestartLoadsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, dir)
	x, err := Open(t.Context(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(t, err)
	chunk := Item{Ref: Ref{Chunk, idOf(7)}, Text: strings.Repeat("the guide camera of the telescope ", 40), Vector: hashed(strings.Repeat("the guide camera of the telescope ", 40))}
	require.NoError(t, x.Apply(t.Context(), Batch{
		Upserts: []Item{item(1, "Person", "Charles Babbage"), item(2, "Person", "Ada Lovelace"), item(3, "Place", "Charles Babbage"), chunk}, Position: 4}))
	require.NoError(t, x.Apply(t.Context(), Batch{Upserts: []Item{item(2, "Person", "Babbage Charles")}, Deletes: []Ref{{Entity, idOf(9)}, {Entity, idOf(3)}}, Position: 5}))
	check := func(x *Index) {
		got, err := x.Search(t.Context(), Entity, "Person", hashed("charles babbage"), 50, 0.8)
		require.NoError(t, err)
		a, b := idOf(1), idOf(2)
		if b < a {
			a, b = b, a
		}
		require.Equal(t, []string{a, b}, []string{got[0].ID, got[1].ID}, "equal scores: the least id first")
		require.InDelta(t, 1, got[0].Score, 1e-6)
		got, err = x.Search(t.Context(), Entity, "Place", hashed("charles babbage"), 50, 0.8)
		require.NoError(t, err)
		require.Empty(t, got)
		require.NotNil(t, got, "searched, found nothing")
		got, err = x.Search(t.Context(), Chunk, "", hashed("guide camera"), 5, 0.1)
		require.NoError(t, err)
		require.Equal(t, []Hit{{chunk.ID, embed.Cosine(hashed("guide camera"), chunk.Vector)}}, got)
		p, err := x.Position(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(5), p)
		n, err := x.Count(t.Context(), Entity)
		require.NoError(t, err)
		require.Equal(t, int64(2), n)
		known, err := x.Lookup(t.Context(), []Ref{{Entity, idOf(3)}, {Entity, idOf(2)}, chunk.Ref})
		require.NoError(t, err)
		require.Nil(t, known[0])
		require.Equal(t, &Known{"Person", DigestOf("Babbage Charles"), hashed("Babbage Charles")}, known[1])
		require.Equal(t, chunk.Vector, known[2].Vector)
		refs, err := x.Refs(t.Context(), Ref{}, 2)
		require.NoError(t, err)
		more, err := x.Refs(t.Context(), refs[1], 2)
		require.NoError(t, err)
		require.Equal(t, []Ref{chunk.Ref, {Entity, a}, {Entity, b}}, append(refs, more...))
	}
	check(x)
	require.NoError(t, st.Close())
	st = openStore(t, dir)
	defer func() { require.NoError(t, st.Close()) }()
	x, err = Open(t.Context(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(t, err)
	check(x)

	_, err = Open(t.Context(), st, g, Options{Embedder: "all-minilm:1", Size: 384})
	require.ErrorIs(t, err, ErrEmbedder)
	require.EqualError(t, err, "graph default has vectors of hash-1 with 256 numbers, the embedder is all-minilm:1 with 384: `factmill reembed` makes them anew")
	require.NoError(t, Reset(t.Context(), st, g, Options{Embedder: "all-minilm:1", Size: 384}))
	x, err = Open(t.Context(), st, g, Options{Embedder: "all-minilm:1", Size: 384})
	require.NoError(t, err)
	n, _ := x.Size()
	require.Zero(t, n)
	p, _ := x.Position(t.Context())
	require.Zero(t, p)
	require.NoError(t, x.Upsert(t.Context(), []Item{{Ref{Entity, idOf(1)}, "A", "a", anyUnit(3, 384)}}))
	got, err := x.Search(t.Context(), Entity, "A", anyUnit(3, 384), 1, 0.9)
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestBadItemsAreRefused(t *testing.T) {
	x := openIndex(t)
	for what, it := range map[string]Item{
		"id":     {Ref{Entity, "x"}, "A", "a", hashed("a b")},
		"kind":   {Ref{'x', idOf(1)}, "A", "a", hashed("a b")},
		"label":  {Ref{Entity, idOf(1)}, "", "a", hashed("a b")},
		"size":   {Ref{Entity, idOf(1)}, "A", "a", []float32{1}},
		"length": {Ref{Entity, idOf(1)}, "A", "a", append(make([]float32, 255), 2)},
	} {
		require.ErrorIs(t, x.Upsert(t.Context(), []Item{item(5, "A", "good"), it}), ErrBadItem, what)
	}
	n, _ := x.Size()
	require.Zero(t, n, "a batch is taken whole or not")
	_, err := x.Search(t.Context(), Entity, "A", []float32{1}, 50, 0.8)
	require.ErrorIs(t, err, ErrBadItem)
	x.opt.MaxVectors = 1
	require.ErrorIs(t, x.Upsert(t.Context(), []Item{item(1, "A", "a"), item(2, "A", "b")}), ErrFull)
	require.NoError(t, x.Upsert(t.Context(), []Item{item(1, "A", "a"), item(1, "A", "b")}))
}

func TestAlteredRowsAreRefused(t *testing.T) {
	x := openIndex(t)
	require.NoError(t, x.Upsert(t.Context(), []Item{item(1, "A", "Charles Babbage")}))
	of, err := Ref{Entity, idOf(1)}.parse()
	require.NoError(t, err)
	b, err := x.st.Get(g, space, of.key())
	require.NoError(t, err)
	for i := range b {
		b[i] ^= 4
		require.NoError(t, x.st.Put(t.Context(), g, space, of.key(), b))
		_, err = Open(t.Context(), x.st, g, OptionsFor(embed.NewHash()))
		require.ErrorIs(t, err, ErrCorrupt, "byte %d", i)
		b[i] ^= 4
	}
}

func FuzzRow(f *testing.F) {
	of, _ := Ref{Entity, idOf(1)}.parse()
	f.Add(encodeRow(of, row{label: "A", words: embed.Hash{}.Words("a b c")}))
	f.Add(encodeRow(of, row{label: "A", floats: make([]float32, 256)}))
	f.Add(encodeRow(of, row{label: "A", group: 7, words: embed.Hash{}.Words("a b c")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, at := range [][]byte{b, sealed(of, b)} {
			r, err := decodeRow(of, at, 256)
			if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && len(r.vector(256)) != 256 {
				t.Fatal(err)
			}
		}
	})
}

// sealed gives b a right checksum, so that what is behind it is tried.
func sealed(of ref, b []byte) []byte {
	sum := checksum(of, b)
	return append(b[:len(b):len(b)], byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

// TestReadersBesideAWriter: a reader sees each batch whole, and dead slots go in the end.
func TestReadersBesideAWriter(t *testing.T) {
	x := openIndex(t)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				hits, err := x.Search(context.Background(), Entity, "A", hashed("common name"), 1000, 0.99)
				if err != nil || len(hits)%10 != 0 {
					t.Errorf("%d hits: %v", len(hits), err)
				}
			}
		})
	}
	for round := range 60 {
		var b Batch
		for i := range 100 {
			name := fmt.Sprintf("name %d of %d", i, round)
			if i%10 == 0 {
				name = "common name"
			}
			b.Upserts = append(b.Upserts, item(i, "A", name))
		}
		require.NoError(t, x.Apply(t.Context(), b))
	}
	cancel()
	wg.Wait()
	n, _ := x.Size()
	require.Equal(t, 100, n)
	require.Less(t, len(x.shards[shardKey{Entity, "A"}].words.slots), 2400, "what is dead is swept")
}

func TestAnUnknownGraphIsEmpty(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	x, err := Open(t.Context(), st, "none", OptionsFor(embed.NewHash()))
	require.NoError(t, err)
	require.ErrorIs(t, x.Upsert(t.Context(), []Item{item(1, "A", "a")}), store.ErrNoGraph)
	hits, err := x.Search(t.Context(), Entity, "A", hashed("a b"), 5, 0.8)
	require.NoError(t, err)
	require.Empty(t, hits)
}

// TestNumbersAreFoundExactly: a model's vectors are no sums of words.
func TestNumbersAreFoundExactly(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer func() { require.NoError(t, st.Close()) }()
	x, err := Open(t.Context(), st, g, Options{Embedder: "model", Size: 100})
	require.NoError(t, err)
	items := map[Ref]Item{}
	var b Batch
	for i := range 1500 {
		it := Item{Ref{Entity, idOf(i)}, "A", fmt.Sprint(i), anyUnit(uint64(i%1400), 100)}
		items[it.Ref] = it
		b.Upserts = append(b.Upserts, it)
	}
	require.NoError(t, x.Apply(t.Context(), b))
	for i := range 60 {
		v := anyUnit(uint64(i*40), 100)
		drop, top := []float64{0.8, 0.5, 0, -1}[i%4], []int{1, 7, 50}[i%3]
		got, stats, err := x.SearchStats(t.Context(), Entity, "A", v, top, drop)
		require.NoError(t, err)
		require.Equal(t, brute(items, Entity, "A", v, top, drop), got)
		if drop == 0 && top == 7 {
			require.Less(t, stats.Exact, 200, "one byte a number tells most of them apart")
		}
	}
}

// BenchmarkChunk embeds one chunk of 600 tokens and puts it into the index.
func BenchmarkChunk(b *testing.B) {
	text := strings.Repeat("The guide camera of the telescope was replaced in spring because its cooler had failed twice. ", 32)[:2800]
	x := openIndex(b)
	b.Run("embed", func(b *testing.B) {
		for b.Loop() {
			_ = hashed(text)
		}
	})
	i := 0
	b.Run("put", func(b *testing.B) {
		v := hashed(text)
		for b.Loop() {
			i++
			if err := x.Upsert(b.Context(), []Item{{Ref{Chunk, idOf(i)}, "", text, v}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpen opens an index of persons: what a restart costs. It is of 10,000 names; OPEN_VECTORS says another number.
func BenchmarkOpen(b *testing.B) {
	n := 10_000
	if s := os.Getenv("OPEN_VECTORS"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(b, err)
	}
	x, c := openIndex(b), crowd.New(5)
	for at := 0; at < n; at += 5000 {
		var batch Batch
		for i := at; i < min(n, at+5000); i++ {
			batch.Upserts = append(batch.Upserts, item(i, "Person", c.Name(c.Person)))
		}
		require.NoError(b, x.Apply(b.Context(), batch))
	}
	st := x.st
	x = nil
	runtime.GC()
	b.ResetTimer()
	for b.Loop() {
		y, err := Open(b.Context(), st, g, OptionsFor(embed.NewHash()))
		require.NoError(b, err)
		have, memory := y.Size()
		require.Equal(b, n, have)
		b.ReportMetric(float64(memory)/float64(n), "bytes/vector")
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/float64(n), "heap-bytes/vector")
		runtime.KeepAlive(y)
	}
}
