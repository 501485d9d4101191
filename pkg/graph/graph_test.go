package graph_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/graph"
)

// TestDecide is the decision table of the specification, first match.
func TestDecide(t *testing.T) {
	s := graph.Stored{Open: true, ContentHash: "h", SchemaFP: "s", ChunkerFP: "c", ExtractionFP: "x", MetaHash: "m"}
	w := graph.Wanted{ContentHash: "h", SchemaFP: "s", ChunkerFP: "c", ExtractionFP: "x", MetaHash: "m"}
	for name, tc := range map[string]struct {
		change func(*graph.Stored, *graph.Wanted)
		want   graph.Decision
	}{
		"nothing":            {func(*graph.Stored, *graph.Wanted) {}, graph.NoOp},
		"new key":            {func(s *graph.Stored, _ *graph.Wanted) { *s = graph.Stored{} }, graph.NewVersion},
		"deleted":            {func(s *graph.Stored, _ *graph.Wanted) { s.Open = false }, graph.NewVersion},
		"content":            {func(_ *graph.Stored, w *graph.Wanted) { w.ContentHash = "2" }, graph.NewVersion},
		"chunker":            {func(_ *graph.Stored, w *graph.Wanted) { w.ChunkerFP = "2" }, graph.NewVersion},
		"schema":             {func(_ *graph.Stored, w *graph.Wanted) { w.SchemaFP = "2" }, graph.NewVersion},
		"force":              {func(_ *graph.Stored, w *graph.Wanted) { w.Force = true }, graph.InPlace},
		"force and new text": {func(_ *graph.Stored, w *graph.Wanted) { w.Force, w.ContentHash = true, "2" }, graph.NewVersion},
		"extraction":         {func(_ *graph.Stored, w *graph.Wanted) { w.ExtractionFP = "2" }, graph.InPlace},
		"missing stamp":      {func(s *graph.Stored, _ *graph.Wanted) { s.ExtractionFP = "" }, graph.InPlace},
		"metadata":           {func(_ *graph.Stored, w *graph.Wanted) { w.MetaHash = "2" }, graph.MetadataOnly},
		"metadata and stamp": {func(s *graph.Stored, w *graph.Wanted) { w.MetaHash, s.ExtractionFP = "2", "" }, graph.InPlace},
	} {
		a, b := s, w
		tc.change(&a, &b)
		require.Equal(t, tc.want, graph.Decide(a, b), name)
	}
}

func TestScope(t *testing.T) {
	for in, out := range map[string]string{`"a"`: `"a"`, `["a"]`: `"a"`, `["a","b"]`: `["a","b"]`, `""`: `""`, `[]`: `""`, `null`: `""`} {
		var s graph.Scope
		require.NoError(t, json.Unmarshal([]byte(in), &s), in)
		b, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, out, string(b), in)
	}
	var s graph.Scope
	require.ErrorContains(t, json.Unmarshal([]byte(`{"a":1}`), &s), "neither a label nor a list of labels")
}

func TestMetaHash(t *testing.T) {
	m := graph.Meta{Key: "a", Title: "T", PublishedAt: "2024", Metadata: map[string]any{"x": 1.0}}
	same := m
	same.Key, same.SourceUpdatedAt, same.Format = "b", "2025", "md"
	require.Equal(t, m.MetaHash(), same.MetaHash(), "the key, the source's time and the format are no metadata")
	for _, change := range []func(*graph.Meta){
		func(m *graph.Meta) { m.Title = "U" }, func(m *graph.Meta) { m.PublishedAt = "" }, func(m *graph.Meta) { m.ContentDate = "2023" },
		func(m *graph.Meta) { m.Scope = graph.Scope{"s"} }, func(m *graph.Meta) { m.Metadata = nil },
	} {
		c := m
		change(&c)
		require.NotEqual(t, m.MetaHash(), c.MetaHash())
	}
	a, b := graph.Meta{Metadata: map[string]any{}}, graph.Meta{}
	require.Equal(t, a.MetaHash(), b.MetaHash())
}

func TestRound6(t *testing.T) {
	for in, want := range map[float64]string{
		0.1234567: "0.123457", -0.5: "-0.5", 0.99999999: "1", 0.0000005: "0.000001", -0.0000001: "0", 1: "1",
		8589934591.1234567: "8589934591.123457", 8589934592.0000019: "8589934592.000002", 9223372036854.775: "9223372036854.775",
		9.3e12: "9300000000000", -9.3e18: "-9300000000000000000", 1e300: "1e+300",
	} {
		b, err := json.Marshal(graph.Round6(in))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
	require.True(t, math.IsInf(graph.Round6(math.Inf(-1)), -1))
	require.True(t, math.IsNaN(graph.Round6(math.NaN())))
}

// TestRound6Properties: never more than six digits, nearest, and rounding again changes nothing.
func TestRound6Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(-1e15, 1e15).Draw(t, "f")
		r := graph.Round6(f)
		_, digits, _ := strings.Cut(strconv.FormatFloat(r, 'f', -1, 64), ".")
		if len(digits) > 6 || graph.Round6(r) != r || math.Abs(r-f) > 0.5000001e-6+math.Abs(f)*1e-15 {
			t.Fatalf("%v becomes %v", f, r)
		}
	})
}

// TestSources: the export gives chunk ids, replies give evidence.
func TestSources(t *testing.T) {
	var p graph.PropertyRow
	require.NoError(t, json.Unmarshal([]byte(`{"value":1,"evidence":["c1","c2"],"others":[{"value":2,"evidence":[{"chunk":"c3","quote":"q"}]}]}`), &p))
	require.Equal(t, graph.Sources{{Chunk: "c1"}, {Chunk: "c2"}}, p.Evidence)
	require.Equal(t, graph.Sources{{Chunk: "c3", Quote: "q"}}, p.Others[0].Evidence)
	require.Error(t, json.Unmarshal([]byte(`{"evidence":[1]}`), &p))
}
