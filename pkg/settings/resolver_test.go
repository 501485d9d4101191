package settings_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/settings"
)

func TestResolverSettings(t *testing.T) {
	flat := map[string]string{}
	for _, n := range settings.Names() {
		flat[n] = settings.Default().Get(n)
	}
	for n, want := range map[string]string{
		"resolver.top_k": "50", "resolver.judge": "none", "resolver.judge_model": "", "resolver.judge_budget": "200", "resolver.judge_pairs": "20",
		"resolver.review_floor": "0.9", "resolver.token_sort": "0.97", "resolver.link": "0", "resolver.drop": "0",
	} {
		got, ok := flat[n]
		require.True(t, ok, n)
		require.Equal(t, want, got, n)
	}
	// What is said explicitly and is the default is stored as settings were before there was a choice.
	same, err := settings.Default().Apply(flat)
	require.NoError(t, err)
	require.Equal(t, settings.Default(), same)
	b, err := json.Marshal(same.Resolver)
	require.NoError(t, err)
	require.JSONEq(t, `{"top_k":50}`, string(b))

	set := map[string]string{
		"resolver.judge": "ollama", "resolver.judge_model": "m:1", "resolver.judge_budget": "7", "resolver.judge_pairs": "3", "resolver.review_floor": "0.85",
		"resolver.token_sort": "0.98", "resolver.link": "0.93", "resolver.drop": "0.7",
	}
	p := mustApply(t, set)
	require.Equal(t, settings.Resolver{
		TopK: 50, Judge: "ollama", JudgeModel: "m:1", JudgeBudget: 7, JudgePairs: 3, ReviewFloor: 0.85, TokenSort: 0.98, Link: 0.93, Drop: 0.7,
	}, p.Resolver)
	for n, v := range set {
		require.Equal(t, v, p.Get(n), n)
	}
	again, err := settings.Default().Apply(p.Flat())
	require.NoError(t, err)
	require.Equal(t, p, again)
	require.Equal(t, p.Resolver, p.Resolver.WithDefaults())
	require.Equal(t, settings.Resolver{TopK: 50, Judge: "none", JudgeBudget: 200, JudgePairs: 20, ReviewFloor: 0.9, TokenSort: 0.97}, settings.Resolver{}.WithDefaults())

	for name, bad := range map[string]string{
		"resolver.judge": "me", "resolver.judge_budget": "0", "resolver.judge_pairs": "51", "resolver.review_floor": "0", "resolver.token_sort": "0.96",
		"resolver.link": "1.5", "resolver.drop": "-0.1",
	} {
		_, err := settings.Default().Apply(map[string]string{name: bad})
		require.ErrorContains(t, err, name)
	}
	for _, bad := range []string{"-1", "NaN", "x"} {
		for _, name := range []string{"resolver.judge_budget", "resolver.review_floor", "resolver.link"} {
			_, err := settings.Default().Apply(map[string]string{name: bad})
			require.ErrorContains(t, err, name, bad)
		}
	}
	_, err = settings.Default().Apply(map[string]string{"resolver.link": "0.8", "resolver.drop": "0.9"})
	require.ErrorContains(t, err, "resolver.drop is 0.9: it must not be above resolver.link (0.8)")
}

func TestJudgeNeedsAModel(t *testing.T) {
	require.NoError(t, settings.Default().Complete())
	require.ErrorContains(t, mustApply(t, map[string]string{"resolver.judge": "ollama"}).Complete(), "neither resolver.judge_model nor ollama.model")
	digest := "0123456789abcdef"
	both := map[string]string{"resolver.judge": "ollama", "ollama.model": "e:1", "ollama.model_digest": digest}
	for _, c := range []struct{ judge, model, digest string }{{"", "e:1", digest}, {"e:1", "e:1", digest}, {"j:1", "j:1", ""}} {
		both["resolver.judge_model"] = c.judge
		p := mustApply(t, both)
		require.NoError(t, p.Complete())
		model, d := p.JudgeModel()
		require.Equal(t, []string{c.model, c.digest}, []string{model, d}, c.judge)
	}
}

func TestThresholds(t *testing.T) {
	for _, c := range []struct{ setLink, setDrop, link, drop float64 }{
		{0, 0, 0.95, 0.8}, {0.9, 0, 0.9, 0.8}, {0.7, 0, 0.7, 0.7}, {0, 0.6, 0.95, 0.6}, {0, 0.97, 0.97, 0.97}, {0.9, 0.5, 0.9, 0.5},
	} {
		link, drop := settings.Resolver{Link: c.setLink, Drop: c.setDrop}.Thresholds(0.95, 0.8)
		require.Equal(t, []float64{c.link, c.drop}, []float64{link, drop}, c)
	}
}
