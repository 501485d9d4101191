package ollama_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/embed/ollama"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// pauses remembers how long was waited, and does not wait.
type pauses struct{ all []time.Duration }

func (p *pauses) after(d time.Duration) <-chan time.Time {
	p.all = append(p.all, d)
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

func open(t *testing.T, m *testkit.Model, set func(c *ollama.Config)) (*ollama.Embedder, *pauses) {
	t.Helper()
	p := &pauses{}
	c := ollama.Config{URL: m.URL(), Model: "fake:1", After: p.after}
	if set != nil {
		set(&c)
	}
	e, err := ollama.New(c)
	require.NoError(t, err)
	return e, p
}

func TestProbeLearnsNameAndSize(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 12, Digest: strings.Repeat("ab", 32)})
	e, _ := open(t, m, nil)
	require.Equal(t, "ollama/fake:1", e.Name())
	require.Zero(t, e.Size())
	require.NoError(t, e.Probe(t.Context()))
	require.Equal(t, "ollama/fake:1@abababababab", e.Name())
	require.Equal(t, 12, e.Size())
	require.NoError(t, e.Probe(t.Context()))
	require.Len(t, m.EmbedCalls(), 1)
	link, drop := e.Thresholds()
	require.Equal(t, [2]float64{0.95, 0.80}, [2]float64{link, drop})
}

func TestTextsComeBackInOrder(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
	e, _ := open(t, m, func(c *ollama.Config) { c.Batch, c.Slots, c.MaxRunes = 3, 2, 5 })
	var texts []string
	for i := range 10 {
		texts = append(texts, fmt.Sprint("n", i))
	}
	texts = append(texts, "", " \n\t", "ööööööö", "  n3 ")
	got, err := e.Embed(t.Context(), texts)
	require.NoError(t, err)
	require.NoError(t, embed.Check(e, len(texts), got))
	for i, v := range got {
		want, err := e.Embed(t.Context(), texts[i:i+1])
		require.NoError(t, err)
		require.Equal(t, want[0], v, "%q", texts[i])
	}
	require.Equal(t, got[3], got[13], "white space around a text is not sent")
	require.Equal(t, make([]float32, 6), got[10])
	require.Equal(t, make([]float32, 6), got[11])
	require.InDelta(t, 1, embed.Cosine(got[0], got[0]), 1e-6)
	sent := map[string]int{}
	for _, c := range m.EmbedCalls() {
		require.LessOrEqual(t, len(c.Texts), 3)
		for _, s := range c.Texts {
			sent[s]++
		}
	}
	require.Positive(t, sent["ööööö"], "a long text is cut between two runes")
	require.NotContains(t, sent, "")
	m.Reset()
	none, err := e.Embed(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, m.EmbedCalls())
}

func TestBlankTextsAloneNeedTheSize(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
	e, _ := open(t, m, nil)
	got, err := e.Embed(t.Context(), []string{" "})
	require.NoError(t, err)
	require.Equal(t, [][]float32{make([]float32, 6)}, got)
	m.Stop()
	e, _ = open(t, m, func(c *ollama.Config) { c.Size = 6 })
	got, err = e.Embed(t.Context(), []string{" "})
	require.NoError(t, err, "no call is needed")
	require.Equal(t, [][]float32{make([]float32, 6)}, got)
}

func TestBusyAndBrokenCallsAreMadeAgain(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
	m.SetEmbed(func(c testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		return []testkit.ModelEmbedReply{{Status: 429, RetryAfter: "7"}, {Reset: true}, {Status: 503, RetryAfter: "86400"}, {}}[min(c.N, 4)-1]
	})
	e, p := open(t, m, nil)
	got, err := e.Embed(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Len(t, got[0], 6)
	require.Len(t, p.all, 3)
	require.GreaterOrEqual(t, p.all[0], 7*time.Second)
	require.Less(t, p.all[0], 8*time.Second)
	require.LessOrEqual(t, p.all[1], time.Second)
	require.GreaterOrEqual(t, p.all[2], 30*time.Second)
	require.Less(t, p.all[2], 31*time.Second, "what the server asks for is bounded")

	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		return testkit.ModelEmbedReply{Status: 500, Message: "oom"}
	})
	e, p = open(t, m, func(c *ollama.Config) { c.Tries = 3 })
	_, err = e.Embed(t.Context(), []string{"a"})
	require.ErrorIs(t, err, ollama.ErrDown)
	require.ErrorContains(t, err, m.URL()+" does not embed with fake:1 after 3 tries")
	require.ErrorContains(t, err, "oom")
	require.Len(t, p.all, 2)

	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		return testkit.ModelEmbedReply{Status: 400, Message: "no embeddings"}
	})
	e, p = open(t, m, nil)
	_, err = e.Embed(t.Context(), []string{"a"})
	require.ErrorContains(t, err, "no embeddings")
	require.NotErrorIs(t, err, ollama.ErrDown)
	require.Empty(t, p.all, "what is refused is not asked again")
}

func TestBadAnswersAreRefused(t *testing.T) {
	for what, r := range map[string]struct {
		reply testkit.ModelEmbedReply
		says  string
	}{
		"short list": {testkit.ModelEmbedReply{Short: 1}, "1 vectors for 2 texts"},
		"size":       {testkit.ModelEmbedReply{Size: 7}, "has 7 numbers instead of 6"},
		"no numbers": {testkit.ModelEmbedReply{RawBody: `{"embeddings":[[],[]]}`}, "has 0 numbers instead of 6"},
		"ragged":     {testkit.ModelEmbedReply{RawBody: `{"embeddings":[[1,0,0,0,0,0],[1,0]]}`}, "has 2 numbers instead of 6"},
		"too large":  {testkit.ModelEmbedReply{RawBody: `{"embeddings":[[1e39,0,0,0,0,0],[1,0,0,0,0,0]]}`}, "1e39"},
		"words":      {testkit.ModelEmbedReply{RawBody: `{"embeddings":["a","b"]}`}, "string"},
	} {
		t.Run(what, func(t *testing.T) {
			m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
			e, p := open(t, m, nil)
			require.NoError(t, e.Probe(t.Context()))
			m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply { return r.reply })
			_, err := e.Embed(t.Context(), []string{"a", "b"})
			require.ErrorIs(t, err, embed.ErrShape)
			require.ErrorContains(t, err, r.says)
			require.Empty(t, p.all)
			require.Equal(t, 6, e.Size())
		})
	}
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		return testkit.ModelEmbedReply{RawBody: `{"embeddings":[[3,0,0,0,0,4]]}`}
	})
	e, _ := open(t, m, nil)
	got, err := e.Embed(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, []float32{0.6, 0, 0, 0, 0, 0.8}, got[0])
	wrong, _ := open(t, m, func(c *ollama.Config) { c.Size = 5 })
	_, err = wrong.Embed(t.Context(), []string{"a"})
	require.ErrorIs(t, err, embed.ErrShape)
	require.ErrorContains(t, err, "vector 0 has 6 numbers instead of 5")
}

func TestAServerThatIsAway(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{})
	e, p := open(t, m, func(c *ollama.Config) { c.Model = "other" })
	for _, err := range []error{e.Probe(t.Context()), func() error { _, err := e.Embed(t.Context(), []string{"a"}); return err }()} {
		require.ErrorIs(t, err, ollama.ErrDown)
		require.ErrorContains(t, err, "the model server at "+m.URL()+" does not have other: ollama pull other")
	}
	m.Stop()
	e, _ = open(t, m, nil)
	for _, err := range []error{e.Probe(t.Context()), func() error { _, err := e.Embed(t.Context(), []string{"a"}); return err }()} {
		require.ErrorIs(t, err, ollama.ErrDown)
		require.ErrorContains(t, err, "no model server at "+m.URL()+": start it")
	}
	require.Empty(t, p.all, "whoever follows the commits tries again, with a pause of its own")
	m.Start()
	require.NoError(t, e.Probe(t.Context()))
}

func TestTheContextEndsACall(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{})
	never := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		cancel()
		return testkit.ModelEmbedReply{Wait: never}
	})
	e, _ := open(t, m, nil)
	_, err := e.Embed(ctx, []string{"a"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ollama.ErrDown)
}

func TestNoMoreCallsThanSlots(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 6})
	var now, most atomic.Int64
	m.SetEmbed(func(testkit.ModelEmbedCall) testkit.ModelEmbedReply {
		n := now.Add(1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		now.Add(-1)
		return testkit.ModelEmbedReply{}
	})
	e, _ := open(t, m, func(c *ollama.Config) { c.Batch, c.Slots = 1, 2 })
	done := make(chan error, 4)
	for range 4 {
		go func() {
			_, err := e.Embed(context.Background(), []string{"a", "b", "c", "d", "e", "f"})
			done <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Len(t, m.EmbedCalls(), 24)
}

func TestAPulledModelIsAnother(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Digest: strings.Repeat("ab", 32)})
	e, _ := open(t, m, nil)
	require.NoError(t, e.Probe(t.Context()))
	m.SetDigest(strings.Repeat("cd", 32))
	err := e.Probe(t.Context())
	require.ErrorIs(t, err, ollama.ErrChanged)
	require.ErrorContains(t, err, "was abababababab and is cdcdcdcdcdcd")
	require.Equal(t, "ollama/fake:1@abababababab", e.Name(), "the name of an embedder does not change any more")
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  ollama.Config
		says string
	}{
		{ollama.Config{URL: "127.0.0.1:1"}, "ollama.embed_model is empty"},
		{ollama.Config{URL: "ftp://x", Model: "m"}, `ollama.url is "ftp://x"`},
		{ollama.Config{Model: "m"}, `ollama.url is ""`},
		{ollama.Config{URL: "x", Model: "m", Slots: -1}, "slots is -1: it must be between 0 and 256"},
		{ollama.Config{URL: "x", Model: "m", Link: 0.5}, "thresholds link 0.5 and drop 0.8"},
	} {
		_, err := ollama.New(c.cfg)
		require.ErrorContains(t, err, c.says)
	}
}
