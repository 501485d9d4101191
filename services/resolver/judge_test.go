package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

const judgeSubject = "factmill.g.match.judge"

// byInitial is a model that matches names of one initial, and answers as it was asked to.
func byInitial(c testkit.ModelCall) testkit.ModelReply {
	var out []string
	for _, line := range strings.Split(c.Last(), "\n") {
		var p struct {
			Pair int
			A, B string
		}
		if json.Unmarshal([]byte(line), &p) != nil {
			continue
		}
		verdict := api.VerdictNoMatch
		if p.A[0] == p.B[0] {
			verdict = api.VerdictMatch
		}
		out = append(out, fmt.Sprintf(`{"pair":%d,"verdict":%q,"reason":"by %s"}`, p.Pair, verdict, p.A[:1]))
	}
	return testkit.ModelReply{Content: `{"answers":[` + strings.Join(out, ",") + `]}`, PromptTokens: 100, CompletionTokens: 10}
}

// serving starts a resolver with a judge and waits until it answers.
func serving(t *testing.T, conn *bus.Conn, m *testkit.Model, slots int, reg prometheus.Registerer) (*Service, func()) {
	t.Helper()
	s, err := New(Config{ModelURL: m.URL(), Slots: slots, ModelTimeout: 2 * time.Minute}, app.Deps{Conn: conn, Log: testkit.Quiet(), Metrics: reg})
	require.NoError(t, err)
	stop := testkit.Start(t, s.Run)
	testkit.Await(t, "the resolver", func() bool {
		var h bus.Health
		return s.Ready() == nil && conn.Request(t.Context(), bus.HealthSubject(Name), nil, &h) == nil
	})
	return s, stop
}

func pairs(names ...string) []api.JudgePair {
	var out []api.JudgePair
	for i := 0; i+1 < len(names); i += 2 {
		out = append(out, api.JudgePair{Label: "Person", A: names[i], B: names[i+1]})
	}
	return out
}

func refusal(t *testing.T, err error) *api.Error {
	t.Helper()
	var e *api.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestJudgeVerb(t *testing.T) {
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: byInitial})
	reg := prometheus.NewRegistry()
	_, stop := serving(t, conn, m, 2, reg)
	defer stop()
	ask := func(req any) (api.JudgeReply, error) {
		var r api.JudgeReply
		err := conn.Request(t.Context(), judgeSubject, req, &r)
		return r, err
	}
	got, err := ask(api.JudgeRequest{Model: "fake:1", Pairs: pairs("Ada", "A. Lovelace", "Bob", "Charles")})
	require.NoError(t, err)
	require.Equal(t, api.JudgeReply{
		Verdicts: []api.JudgeVerdict{{Verdict: "match", Reason: "by A"}, {Verdict: "no_match", Reason: "by B"}},
		PromptID: "judge/1", Requests: 1, PromptTokens: 100, CompletionTokens: 10,
	}, got)

	long := strings.Repeat("ü", api.MaxJudgeName)
	_, err = ask(api.JudgeRequest{Model: "fake:1", Pairs: pairs(long, long)})
	require.NoError(t, err)
	for _, c := range []struct {
		req  any
		want string
	}{
		{api.JudgeRequest{Pairs: pairs("a", "b")}, "model is empty"},
		{api.JudgeRequest{Model: "fake:1"}, "pairs has 0 entries: it must have 1 to 10"},
		{api.JudgeRequest{Model: "fake:1", Pairs: pairs(strings.Fields(strings.Repeat("a b ", 11))...)}, "pairs has 11 entries"},
		{api.JudgeRequest{Model: "fake:1", Pairs: pairs("a", "b", "c", " ")}, "pairs[1].b has 1 characters"},
		{api.JudgeRequest{Model: "fake:1", Pairs: pairs(long+"ü", "b")}, "pairs[0].a has 201 characters"},
		{api.JudgeRequest{Model: "fake:1", Pairs: []api.JudgePair{{A: "a", B: "b"}}}, "pairs[0].label has 0 characters"},
		{api.JudgeRequest{Model: "fake:1", MaxRequests: -1, Pairs: pairs("a", "b")}, "max_requests is -1"},
		{map[string]any{"modle": "fake:1"}, `unknown field "modle"`},
	} {
		_, err := ask(c.req)
		e := refusal(t, err)
		require.Equal(t, 400, e.Status)
		require.Contains(t, e.Message, c.want)
	}
	err = conn.Request(t.Context(), "factmill.g.match.guess", nil, nil)
	require.Equal(t, "unknown_verb", refusal(t, err).Code)

	m.SetReply(testkit.ModelScript(testkit.ModelReply{Content: "I'm sorry, I can't."}))
	got, err = ask(api.JudgeRequest{Model: "fake:1", Pairs: pairs("Ada", "A. Lovelace")})
	require.NoError(t, err)
	require.Equal(t, []any{1, 1, []api.JudgeVerdict{{Verdict: "uncertain", Why: "reply_refused"}}}, []any{got.Requests, got.Failed, got.Verdicts})
	_, err = ask(api.JudgeRequest{Model: "absent:7b", Pairs: pairs("a", "b")})
	require.Equal(t, []any{412, "model_missing"}, []any{refusal(t, err).Status, refusal(t, err).Code})
	m.Stop()
	_, err = ask(api.JudgeRequest{Model: "fake:1", Pairs: pairs("a", "b")})
	e := refusal(t, err)
	require.Equal(t, []any{503, "model_unreachable", m.URL()}, []any{e.Status, e.Code, e.Details["url"]})
	require.Contains(t, e.Message, m.URL())
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP factmill_resolver_judge_pairs_total Pairs of names that the judge gave a verdict on.
# TYPE factmill_resolver_judge_pairs_total counter
factmill_resolver_judge_pairs_total{verdict="match"} 2
factmill_resolver_judge_pairs_total{verdict="no_match"} 1
factmill_resolver_judge_pairs_total{verdict="uncertain"} 1
# HELP factmill_resolver_judge_failed_total Questions of the judge that brought no answer that can be used, or no answer.
# TYPE factmill_resolver_judge_failed_total counter
factmill_resolver_judge_failed_total 3
`), "factmill_resolver_judge_pairs_total", "factmill_resolver_judge_failed_total"))
}

// Every slot taken and as many questions waiting: the next is told so at once, and the service's health is answered all the while.
func TestJudgeIsBounded(t *testing.T) {
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	release := make(chan struct{})
	m := testkit.NewModel(t, testkit.ModelOptions{Slots: 2, Reply: func(c testkit.ModelCall) testkit.ModelReply {
		r := byInitial(c)
		r.Wait = release
		return r
	}})
	s, stop := serving(t, conn, m, 2, nil)
	defer stop()
	req := api.JudgeRequest{Model: "fake:1", Pairs: pairs("Ada", "A. Lovelace")}
	done := make(chan error, 4)
	for range 4 {
		go func() { done <- conn.Request(t.Context(), judgeSubject, req, nil) }()
	}
	testkit.Await(t, "two questions that are asked and two that wait", func() bool { return len(s.judge.room) == 4 })
	m.Await(t, 2)
	for range 3 {
		e := refusal(t, conn.Request(t.Context(), judgeSubject, req, nil))
		require.Equal(t, []any{429, "busy"}, []any{e.Status, e.Code})
		require.Contains(t, e.Message, "ollama.slots")
	}
	var h bus.Health
	require.NoError(t, conn.Request(t.Context(), bus.HealthSubject(Name), nil, &h))
	require.True(t, h.Ready)
	close(release)
	for range 4 {
		require.NoError(t, testkit.Receive(t, "an answer", done))
	}
	require.Equal(t, []int{4, 2}, []int{m.Count(), m.MaxInFlight()})
}

// Replicas share the questions, and each keeps to its slots.
func TestJudgeReplicas(t *testing.T) {
	testkit.NoLeaks(t)
	srv, conn := testkit.NATS(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		r := byInitial(c)
		r.Delay = 20 * time.Millisecond
		return r
	}})
	first, _ := serving(t, testkit.Connect(t, srv, "one"), m, 1, nil)
	second, _ := serving(t, testkit.Connect(t, srv, "two"), m, 1, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	answered, busy := 0, 0
	for i := range 6 {
		wg.Go(func() {
			for left := 4; left > 0; {
				var r api.JudgeReply
				err := conn.Request(t.Context(), judgeSubject, api.JudgeRequest{Model: "fake:1", Pairs: pairs(fmt.Sprint("Ada ", i), "A.")}, &r)
				var e *api.Error
				mu.Lock()
				if errors.As(err, &e) && e.Status == 429 {
					busy++
					mu.Unlock()
					continue
				}
				if err == nil && r.Verdicts[0].Verdict == api.VerdictMatch {
					answered++
				}
				mu.Unlock()
				left--
			}
		})
	}
	wg.Wait()
	require.Equal(t, 24, answered, "busy %d times", busy)
	require.Equal(t, 24, m.Count())
	require.LessOrEqual(t, m.MaxInFlight(), 2)
	require.Empty(t, first.judge.room)
	require.Empty(t, second.judge.room)
}

// Services of one process share its slots.
func TestJudgesOfOneProcess(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		r := byInitial(c)
		r.Delay = 20 * time.Millisecond
		return r
	}})
	cfg, err := app.LoadConfig("", nil, map[string]string{"ollama.url": m.URL(), "ollama.slots": "2"})
	require.NoError(t, err)
	deps := app.Deps{ModelCalls: cfg.ModelCalls()}
	done := make(chan error, 12)
	for range 3 {
		j, err := NewJudge(FromConfig(cfg), deps)
		require.NoError(t, err)
		defer j.Close()
		for range 4 {
			go func() {
				_, err := j.Ask(t.Context(), "g", api.JudgeRequest{Model: "fake:1", Pairs: pairs("Ada", "A.")})
				done <- err
			}()
		}
	}
	for range 12 {
		require.NoError(t, testkit.Receive(t, "an answer", done))
	}
	require.Equal(t, []int{12, 2}, []int{m.Count(), m.MaxInFlight()})
}

// A service that is told to stop does not wait for a model.
func TestJudgeStops(t *testing.T) {
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Wait: make(chan struct{})})})
	_, stop := serving(t, conn, m, 1, nil)
	done := make(chan error, 1)
	go func() {
		done <- conn.Request(context.WithoutCancel(t.Context()), judgeSubject, api.JudgeRequest{Model: "fake:1", Pairs: pairs("a", "b")}, nil)
	}()
	m.Await(t, 1)
	stop()
	e := refusal(t, testkit.Receive(t, "the refusal", done))
	require.Equal(t, []any{503, "not_ready"}, []any{e.Status, e.Code})
}

func TestJudgeIsMisconfigured(t *testing.T) {
	_, err := New(Config{ModelURL: "ftp://x"}, app.Deps{})
	require.ErrorContains(t, err, `ollama.url is "ftp://x"`)
}
