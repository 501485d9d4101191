package settings_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
)

func TestApply(t *testing.T) {
	p, err := settings.Default().Apply(map[string]string{"chunker.size": "300", "extractor.escalation_budget": "all"})
	require.NoError(t, err)
	require.Equal(t, 300, p.Chunker.Size)
	require.Equal(t, 75, p.Chunker.MinSize, "the default quarter follows the size")
	require.Equal(t, 1.0, p.Extractor.EscalationBudget)
	p, err = p.Apply(map[string]string{"chunker.min_size": "10", "chunker.size": "400"})
	require.NoError(t, err)
	require.Equal(t, 10, p.Chunker.MinSize)
	require.Equal(t, []string{"chunker.min_size: 75 -> 10", "chunker.size: 300 -> 400"},
		settings.Diff(mustApply(t, map[string]string{"chunker.size": "300"}), mustApply(t, map[string]string{"chunker.size": "400", "chunker.min_size": "10"})))
	for name, bad := range map[string]string{
		"chunker.size": "7", "chunker.min_size": "600", "extractor.mode": "magic", "extractor.floor": "2", "resolver.top_k": "51",
		"embedder": "x", "extractor.assertions": "explicit,maybe", "extractor.heading": "perhaps", "nope": "1", "extractor.without_model": "cry", "extractor.max_tokens": "-1", "ollama.model_digest": "zz",
	} {
		_, err := settings.Default().Apply(map[string]string{name: bad})
		require.ErrorContains(t, err, name)
	}
}

func mustApply(t *testing.T, v map[string]string) settings.Pipeline {
	t.Helper()
	p, err := settings.Default().Apply(v)
	require.NoError(t, err)
	return p
}

func TestFlatRoundTrips(t *testing.T) {
	p := mustApply(t, map[string]string{"chunker.size": "1000", "extractor.entity_cut": "0.55", "ollama.model": "m", "extractor.mode": "hybrid"})
	q, err := settings.Default().Apply(p.Flat())
	require.NoError(t, err)
	require.Equal(t, p, q)
}

// TestFingerprints: what can change an item changes the fingerprint, and nothing else does.
func TestFingerprints(t *testing.T) {
	s := schema.Default()
	base := settings.Default()
	fp := func(v map[string]string) string { return mustApply(t, v).ExtractionFingerprint(s) }
	same := base.ExtractionFingerprint(s)
	require.Len(t, same, 16)
	for _, v := range []map[string]string{
		{"extractor.escalation_budget": "all"}, {"extractor.escalation_threshold": "0.9"}, {"ollama.model": "x"}, {"resolver.top_k": "5"},
		{"chunker.size": "300"}, {"resolver.judge": "ollama", "resolver.judge_model": "m", "resolver.judge_budget": "9", "resolver.judge_pairs": "9"},
		{"resolver.review_floor": "0.8", "resolver.token_sort": "0.99", "resolver.link": "0.9", "resolver.drop": "0.7"},
	} {
		require.Equal(t, same, fp(v), v)
	}
	for _, v := range []map[string]string{
		{"extractor.entity_cut": "0.6"}, {"extractor.relation_cut": "0.6"}, {"extractor.floor": "0.1"}, {"extractor.mode": "llm", "ollama.model": "m"},
		{"extractor.max_entities": "5"}, {"extractor.assertions": "explicit,inferred"},
	} {
		require.NotEqual(t, same, fp(v), v)
	}
	hybrid := func(name, value string) string {
		return fp(map[string]string{"extractor.mode": "hybrid", "ollama.model": "m", name: value})
	}
	as := hybrid("extractor.mode", "hybrid")
	for name, value := range map[string]string{
		"extractor.escalation_threshold": "0.9", "ollama.model": "n", "ollama.model_digest": "0123456789ab", "extractor.heading": "false",
		"extractor.mode": "llm",
	} {
		require.NotEqual(t, as, hybrid(name, value), name)
	}
	for name, value := range map[string]string{
		"extractor.escalation_budget": "all", "extractor.max_tokens": "9", "extractor.without_model": "rules",
	} {
		require.Equal(t, as, hybrid(name, value), name)
	}
	require.NotEqual(t, base.ChunkerFingerprint(), mustApply(t, map[string]string{"chunker.size": "300"}).ChunkerFingerprint())
	other, err := schema.Parse([]byte("entities: {Person: Somebody else.}"), "x", nil)
	require.NoError(t, err)
	require.NotEqual(t, same, base.ExtractionFingerprint(other))
}
