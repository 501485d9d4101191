package model_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/resolver/internal/model"
)

const fake = "fake:1"

func newJudge(t testing.TB, url string, slots int) *model.Judge {
	t.Helper()
	c, err := llm.NewClient(url, 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &model.Judge{Caller: llm.Caller{Client: c, Slots: llm.NewSlots(slots, nil), Log: testkit.Quiet()}}
}

func request(n int) api.JudgeRequest {
	r := api.JudgeRequest{Model: fake}
	for range n {
		r.Pairs = append(r.Pairs, api.JudgePair{Label: "Person", A: "Charles Babbage", B: "C. Babbage"})
	}
	return r
}

func TestAsk(t *testing.T) {
	both := answers(sure("0", "match"), sure("1", "no_match"))
	ok := testkit.ModelReply{Content: both, PromptTokens: 40, CompletionTokens: 10}
	prose := testkit.ModelReply{Content: "Let me compare them.", PromptTokens: 40, CompletionTokens: 10}
	from1 := testkit.ModelReply{Content: answers(sure("1", "match"), sure("2", "match"))}
	all := func(why string) string { return "uncertain:" + why + " uncertain:" + why }
	const good = "match no_match"
	for _, c := range []struct {
		name     string
		replies  []testkit.ModelReply
		max      int
		want     string // verdicts, or a code
		status   int
		requests int
		failed   int
	}{
		{"at once", []testkit.ModelReply{ok}, 0, good, 0, 1, 0},
		{"repaired", []testkit.ModelReply{prose, ok}, 0, good, 0, 2, 0},
		{"numbered from 1, repaired", []testkit.ModelReply{from1, ok}, 0, good, 0, 2, 0},
		{"numbered from 1", []testkit.ModelReply{from1}, 0, all(llm.CodeInvalid), 0, 2, 1},
		{"not repaired", []testkit.ModelReply{prose}, 0, all(llm.CodeProse), 0, 2, 1},
		{"empty", []testkit.ModelReply{{}}, 0, all(llm.CodeEmpty), 0, 2, 1},
		{"cut, with more room whole", []testkit.ModelReply{{Content: both[:30], DoneReason: "length"}, ok}, 0, good, 0, 2, 0},
		{"cut twice", []testkit.ModelReply{{Content: both, DoneReason: "length"}}, 0, all(llm.CodeTruncated), 0, 2, 1},
		{"cut in silence", []testkit.ModelReply{{Content: both[:40]}}, 0, all(llm.CodeTruncated), 0, 2, 1},
		{"refused", []testkit.ModelReply{{Content: "I'm sorry, I cannot do that."}}, 0, all(llm.CodeRefused), 0, 1, 1},
		{"refused by the server", []testkit.ModelReply{{Status: 400, Content: "bad format"}}, 0, all(llm.CodeError), 0, 1, 1},
		{"busy once", []testkit.ModelReply{{Status: 429}, ok}, 0, good, 0, 2, 0},
		{"loading", []testkit.ModelReply{{Status: 503}, ok}, 0, good, 0, 2, 0},
		{"busy for good", []testkit.ModelReply{{Status: 429}}, 0, "model_busy", 503, 4, 0},
		{"broken once", []testkit.ModelReply{{Status: 500, Content: "boom"}, ok}, 0, good, 0, 2, 0},
		{"reset", []testkit.ModelReply{{Reset: true}, ok}, 0, good, 0, 2, 0},
		{"not allowed", []testkit.ModelReply{{Status: 401}}, 0, "model_unreachable", 503, 1, 0},
		// The bound holds whatever a request would be for.
		{"bound, repair", []testkit.ModelReply{prose, ok}, 1, all(api.WhyBudget), 0, 1, 1},
		{"bound, room", []testkit.ModelReply{{Content: both, DoneReason: "length"}, ok}, 1, all(api.WhyBudget), 0, 1, 1},
		{"bound, busy", []testkit.ModelReply{{Status: 429}}, 2, all(api.WhyBudget), 0, 2, 1},
		{"bound is enough", []testkit.ModelReply{prose, ok}, 2, good, 0, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(c.replies...)})
			q := request(2)
			q.MaxRequests = c.max
			got, e := newJudge(t, m.URL(), 1).Ask(t.Context(), "g", q)
			require.Equal(t, c.requests, m.Count())
			if c.status != 0 {
				require.NotNil(t, e)
				require.Equal(t, []any{c.want, c.status}, []any{e.Code, e.Status})
				require.Contains(t, e.Message, m.URL())
				require.Equal(t, map[string]any{"url": m.URL(), "requests": c.requests}, e.Details)
				require.Equal(t, "503", api.Codes[e.Code][:3])
				return
			}
			require.Nil(t, e)
			require.Equal(t, []any{c.want, c.requests, c.failed, "judge/1"}, []any{show(got.Verdicts), got.Requests, got.Failed, got.PromptID})
		})
	}
}

// What a model is sent besides the text: the limits of the call.
func TestWhatIsSent(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(
		testkit.ModelReply{Content: answers(), DoneReason: "length", PromptTokens: 7, CompletionTokens: 3},
		testkit.ModelReply{Content: answers(sure("0", "match")), PromptTokens: 70, CompletionTokens: 30},
	)})
	got, e := newJudge(t, m.URL(), 1).Ask(t.Context(), "g", request(10))
	require.Nil(t, e)
	require.Equal(t, []int{77, 33}, []int{got.PromptTokens, got.CompletionTokens}, "of both calls")
	calls := m.Calls()
	require.Len(t, calls, 2)
	require.Equal(t, map[string]any{"temperature": 0.0, "seed": 1.0, "num_ctx": 4096.0, "num_predict": 1000.0}, calls[0].Options)
	require.Equal(t, map[string]any{"temperature": 0.0, "seed": 1.0, "num_ctx": 4096.0, "num_predict": 2000.0}, calls[1].Options)
	require.Equal(t, calls[0].Messages, calls[1].Messages, "the same question")
	require.Equal(t, false, calls[0].Think)
	require.Contains(t, string(calls[0].Format), `"maxItems":10`)
	// Long names need a larger context.
	q := request(10)
	for i := range q.Pairs {
		q.Pairs[i].A, q.Pairs[i].B = strings.Repeat("名", 200), strings.Repeat("𝔘", 200)
	}
	_, e = newJudge(t, m.URL(), 1).Ask(t.Context(), "g", q)
	require.Nil(t, e)
	require.Equal(t, 8192.0, m.Calls()[2].Options["num_ctx"])
}

func TestRetryAfterIsKept(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(
		testkit.ModelReply{Status: 429, RetryAfter: "1"}, testkit.ModelReply{Content: answers(sure("0", "match"))})})
	_, e := newJudge(t, m.URL(), 1).Ask(t.Context(), "g", request(1))
	require.Nil(t, e)
	calls := m.Calls()
	require.Len(t, calls, 2)
	require.GreaterOrEqual(t, calls[1].At.Sub(calls[0].At), time.Second)
}

func TestServerOrModelIsAbsent(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Digest: strings.Repeat("a", 64), Reply: testkit.ModelScript(testkit.ModelReply{Content: answers(sure("0", "match"))})})
	j := newJudge(t, m.URL(), 1)
	refused := func(q api.JudgeRequest, status int, code, message string) {
		t.Helper()
		_, e := j.Ask(t.Context(), "g", q)
		require.NotNil(t, e)
		require.Equal(t, []any{status, code}, []any{e.Status, e.Code})
		require.Contains(t, e.Message, message)
		require.Contains(t, e.Message, m.URL())
		require.Equal(t, m.URL(), e.Details["url"])
	}
	q := request(1)
	q.Model = "absent:7b"
	refused(q, 412, "model_missing", "ollama pull absent:7b")
	q.ModelDigest = strings.Repeat("a", 64)
	refused(q, 412, "model_missing", "ollama pull absent:7b")
	q.Model, q.ModelDigest = fake, strings.Repeat("b", 64)
	refused(q, 412, "model_differs", "digest aaaaaaaaaaaa, not bbbbbbbbbbbb")
	require.Zero(t, m.Count(), "nothing was asked")
	q.ModelDigest = strings.Repeat("a", 64)
	got, e := j.Ask(t.Context(), "g", q)
	require.Nil(t, e)
	require.Equal(t, "match", show(got.Verdicts))
	m.Stop()
	refused(request(1), 503, "model_unreachable", "no model server at")
	q.Model = "other:1"
	refused(q, 503, "model_unreachable", "no model server at")
	m.Start()
	got, e = j.Ask(t.Context(), "g", request(1))
	require.Nil(t, e)
	require.Equal(t, "match", show(got.Verdicts))
}

// A server that dies under a question is away, not a verdict.
func TestServerDiesUnderAQuestion(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Wait: make(chan struct{})})})
	j := newJudge(t, m.URL(), 1)
	done := make(chan *api.Error, 1)
	go func() { _, e := j.Ask(context.Background(), "g", request(1)); done <- e }()
	m.Await(t, 1)
	m.Stop()
	e := testkit.Receive(t, "the refusal", done)
	require.NotNil(t, e)
	require.Equal(t, "model_unreachable", e.Code)
}

func TestStopped(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Wait: make(chan struct{})})})
	j := newJudge(t, m.URL(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *api.Error, 1)
	go func() { _, e := j.Ask(ctx, "g", request(1)); done <- e }()
	m.Await(t, 1)
	cancel()
	e := testkit.Receive(t, "the refusal", done)
	require.NotNil(t, e)
	require.Equal(t, []any{503, "not_ready"}, []any{e.Status, e.Code})
}
