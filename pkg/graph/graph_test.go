package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.Equal(t, 0.123457, graph.Round6(0.1234567))
	require.Equal(t, -0.5, graph.Round6(-0.5))
	require.Equal(t, 1.0, graph.Round6(0.99999999))
}
