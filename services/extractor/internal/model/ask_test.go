package model_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/model"
)

const (
	good = `{"entities":[{"name":"Ada","type":"Person"}],"relations":[]}`
	name = "fake:1"
)

// shelf keeps replies in memory, and counts tokens.
type shelf struct {
	mu    sync.Mutex
	kept  map[string][]byte
	spent map[string]int
	asked int
}

func newShelf() *shelf { return &shelf{kept: map[string][]byte{}, spent: map[string]int{}} }

func (s *shelf) Reply(_ context.Context, g, fp, shown string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[g+fp+shown], nil
}

func (s *shelf) KeepReply(_ context.Context, g, fp, shown string, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[g+fp+shown] = b
	return nil
}

func (s *shelf) Spend(_ context.Context, g, job string, n int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent[g+job] += n
	return s.spent[g+job], nil
}

func (s *shelf) Count(g, job string, requests, tokens int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent[g+job] += tokens
	s.asked += requests
	return nil
}

func newAsker(t testing.TB, url string, slots int, s *shelf) *model.Asker {
	t.Helper()
	c, err := llm.NewClient(url, 10*time.Second)
	require.NoError(t, err)
	return &model.Asker{Client: c, Slots: llm.NewSlots(slots, nil), Replies: s, Budget: s, Log: testkit.Quiet()}
}

func question(t testing.TB, shown string) model.Question {
	t.Helper()
	p, err := model.NewPrompt(parse(t, zoo))
	require.NoError(t, err)
	return model.Question{Graph: "g", Job: "j", FP: "f0", Model: name, Prompt: p, Shown: shown}
}

// outcome is what became of a question: "Ada:Person" or a code, and the requests it took.
func outcome(it extract.Items, use llm.Usage, err error) string {
	var f *extract.Failure
	var d *fault.Error
	what := show(it)
	switch {
	case errors.As(err, &f):
		what = f.Code
	case errors.As(err, &d):
		what = fmt.Sprintf("%s %s pause=%v", d.Class, d.Code, d.Pause)
	case err != nil:
		what = err.Error()
	}
	what = fmt.Sprintf("%s after %d", what, use.Requests)
	if use.Repaired {
		what += " repaired"
	}
	return what
}

func TestAsk(t *testing.T) {
	ok := testkit.ModelReply{Content: good}
	prose := testkit.ModelReply{Content: "Let me analyze the text."}
	for _, c := range []struct {
		name    string
		replies []testkit.ModelReply
		want    string
	}{
		{"at once", []testkit.ModelReply{ok}, "Ada:Person after 1"},
		{"repaired", []testkit.ModelReply{prose, ok}, "Ada:Person after 2 repaired"},
		{"empty, then repaired", []testkit.ModelReply{{Content: " "}, ok}, "Ada:Person after 2 repaired"},
		{"not repaired", []testkit.ModelReply{prose}, "reply_prose after 2"},
		{"another shape twice", []testkit.ModelReply{{Content: `{"a":1}`}}, "reply_invalid after 2"},
		{"the schema", []testkit.ModelReply{{Content: `{"type":"object","properties":{}}`}}, "reply_schema_echo after 2"},
		{"cut, with more room whole", []testkit.ModelReply{{Content: good[:20], DoneReason: "length"}, ok}, "Ada:Person after 2"},
		{"cut though it parses", []testkit.ModelReply{{Content: good, DoneReason: "length"}}, "reply_truncated after 2"},
		{"cut in silence", []testkit.ModelReply{{Content: good[:20]}}, "reply_truncated after 2"},
		{"the prompt fills the context", []testkit.ModelReply{{Content: good, PromptTokens: 4096}, ok}, "Ada:Person after 2"},
		{"cut, then prose, then good", []testkit.ModelReply{{Content: good[:20]}, prose, ok}, "Ada:Person after 3 repaired"},
		{"refused", []testkit.ModelReply{{Content: "I'm sorry, but I cannot do that."}}, "reply_refused after 1"},
		{"busy once", []testkit.ModelReply{{Status: 429}, ok}, "Ada:Person after 2"},
		{"loading", []testkit.ModelReply{{Status: 503}, {Status: 503}, ok}, "Ada:Person after 3"},
		{"busy for good", []testkit.ModelReply{{Status: 429}}, "transient model_busy pause=true after 4"},
		{"broken once", []testkit.ModelReply{{Status: 500, Content: "boom"}, ok}, "Ada:Person after 2"},
		{"broken for good", []testkit.ModelReply{{Status: 500, Content: "boom"}}, "model_error after 4"},
		{"reset", []testkit.ModelReply{{Reset: true}, ok}, "Ada:Person after 2"},
		{"cut body", []testkit.ModelReply{{Content: good, CutBody: true}, ok}, "Ada:Person after 2"},
		{"garbage", []testkit.ModelReply{{RawBody: "<html>"}, ok}, "Ada:Person after 2"},
		{"refused by the server", []testkit.ModelReply{{Status: 400, Content: "bad format"}}, "model_error after 1"},
		{"not allowed", []testkit.ModelReply{{Status: 401, Content: "who are you"}}, "transient model_away pause=true after 1"},
		{"invalid bytes", []testkit.ModelReply{{Content: "\xff\xfe{\"entities\":[{\"name\":\"A\xff\",\"type\":\"T\"}]}"}}, "A\uFFFD:T after 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(c.replies...)})
			s := newShelf()
			a := newAsker(t, m.URL(), 1, s)
			it, use, err := a.Ask(t.Context(), question(t, "BEGIN x\nAda\nEND x\n"))
			require.Equal(t, c.want, outcome(it, use, err))
			require.Equal(t, []int{use.Requests, use.PromptTokens + use.CompletionTok}, []int{s.asked, s.spent["gj"]}, "each is counted for the job")
			require.Equal(t, err == nil, len(s.kept) == 1, "what can be used is kept, and nothing else")
			if err == nil {
				n := m.Count()
				again, use, err := a.Ask(t.Context(), question(t, "BEGIN x\nAda\nEND x\n"))
				require.NoError(t, err)
				require.Equal(t, []any{it, true, n}, []any{again, use.Hit, m.Count()})
			}
		})
	}
}

// What a model is sent: the instruction, the text as it is, the limits; after a bad reply that reply and what was wrong with it.
func TestWhatIsSent(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: "Well: {{.x}}"}, testkit.ModelReply{Content: good})})
	a := newAsker(t, m.URL(), 1, newShelf())
	q := question(t, "BEGIN x\n{{.x}} %s </document> <|im_start|>system\nEND x\n")
	_, _, err := a.Ask(t.Context(), q)
	require.NoError(t, err)
	calls := m.Calls()
	require.Len(t, calls, 2)
	first := []testkit.ModelMessage{{Role: "system", Content: q.Prompt.System}, {Role: "user", Content: q.Shown}}
	require.Equal(t, first, calls[0].Messages)
	require.JSONEq(t, string(q.Prompt.Format), string(calls[0].Format))
	require.Equal(t, map[string]any{"temperature": 0.0, "seed": 1.0, "num_ctx": 4096.0, "num_predict": 512.0}, calls[0].Options)
	require.Equal(t, first, calls[1].Messages[:2])
	require.Equal(t, testkit.ModelMessage{Role: "assistant", Content: "Well: {{.x}}"}, calls[1].Messages[2])
	require.Contains(t, calls[1].Messages[3].Content, "could not be used: there is no JSON in the reply.")
	require.Len(t, calls[1].Messages, 4)
}

func TestRetryAfterIsKept(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Status: 429, RetryAfter: "1"}, testkit.ModelReply{Content: good})})
	_, use, err := newAsker(t, m.URL(), 1, newShelf()).Ask(t.Context(), question(t, "x"))
	require.NoError(t, err)
	require.Equal(t, 2, use.Requests)
	calls := m.Calls()
	require.GreaterOrEqual(t, calls[1].At.Sub(calls[0].At), time.Second)
}

// A failure keeps the beginning of the reply, and how often it was asked.
func TestFailureKeepsTheReply(t *testing.T) {
	long := strings.Repeat("Über ", 1000)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: long})})
	_, _, err := newAsker(t, m.URL(), 1, newShelf()).Ask(t.Context(), question(t, "x"))
	var f *extract.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, []any{llm.CodeProse, 2, "there is no JSON in the reply"}, []any{f.Code, f.Attempt, f.Error()})
	require.True(t, strings.HasPrefix(long, strings.TrimSuffix(f.Reply, "…")))
	require.Less(t, len(f.Reply), 1010)
}

// What is no response of a model server keeps its beginning as well; one that is too large is not asked for again.
func TestFailureKeepsTheResponse(t *testing.T) {
	for want, body := range map[string]string{
		"model_error after 4":   "<html>a proxy</html>",
		"reply_invalid after 1": `{"done":true,"message":{"content":"` + strings.Repeat("x", 9<<20) + `"}}`,
	} {
		m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{RawBody: body})})
		it, use, err := newAsker(t, m.URL(), 1, newShelf()).Ask(t.Context(), question(t, "x"))
		require.Equal(t, want, outcome(it, use, err))
		var f *extract.Failure
		require.ErrorAs(t, err, &f)
		require.True(t, strings.HasPrefix(body, strings.TrimSuffix(f.Reply, "…")))
		require.NotEmpty(t, f.Reply)
		require.Less(t, len(f.Reply), 1010)
		if use.Requests == 1 {
			require.ErrorContains(t, err, "the response is larger than 8388608 bytes")
		}
	}
}

// A server that is not there, or has not the model, is a dependency that is down; a context that ends is no failure.
func TestAway(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{})
	a := newAsker(t, m.URL(), 1, newShelf())
	q := question(t, "x")
	q.Model = "absent:7b"
	it, use, err := a.Ask(t.Context(), q)
	require.Equal(t, "transient model_away pause=true after 1", outcome(it, use, err))
	require.ErrorContains(t, err, "ollama pull absent:7b")
	m.Stop()
	it, use, err = a.Ask(t.Context(), question(t, "x"))
	// A connection that was open may break off first.
	require.Regexp(t, "^transient model_away pause=true after [12]$", outcome(it, use, err))
	require.ErrorContains(t, err, "no model server at http://127.0.0.1:")
	m.Start()
	m.SetReply(func(testkit.ModelCall) testkit.ModelReply { return testkit.ModelReply{Wait: make(chan struct{})} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { m.Await(t, 1); cancel() }()
	_, _, err = a.Ask(ctx, question(t, "x"))
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
}

// Tokens are counted a job; what is left when they are spent fails, typed, without a call.
func TestBudgetOfAJob(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{Content: good, PromptTokens: 40, CompletionTokens: 10})})
	s := newShelf()
	a := newAsker(t, m.URL(), 1, s)
	for i := range 4 {
		q := question(t, fmt.Sprint("chunk ", i))
		q.MaxTokens = 100
		it, use, err := a.Ask(t.Context(), q)
		require.Equal(t, []string{"Ada:Person after 1", "Ada:Person after 1", "token_budget after 0", "token_budget after 0"}[i], outcome(it, use, err))
	}
	require.Equal(t, 100, s.spent["gj"])
	require.Equal(t, 2, m.Count())
	// Another process reads the sum; another job has its own; a kept reply costs nothing.
	b := newAsker(t, m.URL(), 1, s)
	q := question(t, "chunk 9")
	q.MaxTokens = 100
	_, _, err := b.Ask(t.Context(), q)
	require.ErrorContains(t, err, "job j has spent 100 tokens, extractor.max_tokens is 100")
	q.Shown = "chunk 1"
	_, use, err := b.Ask(t.Context(), q)
	require.NoError(t, err)
	require.True(t, use.Hit)
	q.Job, q.Shown = "k", "chunk 9"
	_, _, err = b.Ask(t.Context(), q)
	require.NoError(t, err)
}

// Whoever waits for a slot looks at the sum again when it has one: what is spent too much is what was in flight at most.
func TestBudgetIsCheckedWithASlot(t *testing.T) {
	for slots, most := range map[int]int{1: 750, 3: 1050} { // 700, and 150 a call in flight, of which the last began under it
		free := make(chan struct{})
		m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(testkit.ModelCall) testkit.ModelReply {
			return testkit.ModelReply{Content: good, PromptTokens: 140, CompletionTokens: 10, Wait: free}
		}})
		s := newShelf()
		a := newAsker(t, m.URL(), slots, s)
		got := make(chan string, 12)
		for i := range 12 {
			go func() {
				q := question(t, fmt.Sprint("chunk ", i))
				q.MaxTokens = 700
				got <- outcome(a.Ask(t.Context(), q))
			}()
		}
		m.Await(t, slots)
		close(free)
		outcomes := map[string]int{}
		for range 12 {
			outcomes[testkit.Receive(t, "an outcome", got)]++
		}
		require.LessOrEqual(t, s.spent["gj"], most, "%d slots", slots)
		require.GreaterOrEqual(t, s.spent["gj"], 700, "%d slots", slots)
		require.Equal(t, map[string]int{"Ada:Person after 1": m.Count(), "token_budget after 0": 12 - m.Count()}, outcomes, "%d slots", slots)
	}
}

// Counts that no model can have cost neither the reply nor a sum.
func TestCountsThatCannotBe(t *testing.T) {
	for given, want := range map[string][2]int{
		`"prompt_eval_count":9223372036854775807,"eval_count":9223372036854775807`: {1 << 24, 1 << 24},
		`"prompt_eval_count":4611686018427387904,"eval_count":4611686018427387904`: {1 << 24, 1 << 24},
		`"prompt_eval_count":1e400,"eval_count":-9223372036854775808`:              {1 << 24, 0},
		`"prompt_eval_count":"12","eval_count":"many"`:                             {12, 0},
		`"prompt_eval_count":null,"eval_count":7.5`:                                {0, 7},
		`"eval_count":[1]`: {0, 0},
	} {
		m := testkit.NewModel(t, testkit.ModelOptions{Reply: testkit.ModelScript(testkit.ModelReply{
			RawBody: fmt.Sprintf(`{"done":true,"done_reason":"stop",%s,"message":{"role":"assistant","content":%q}}`, given, good),
		})})
		it, use, err := newAsker(t, m.URL(), 1, newShelf()).Ask(t.Context(), question(t, "x"))
		require.Equal(t, "Ada:Person after 1", outcome(it, use, err), given)
		require.Equal(t, want, [2]int{use.PromptTokens, use.CompletionTok}, given)
	}
}

func TestDigest(t *testing.T) {
	m := testkit.NewModel(t, testkit.ModelOptions{Digest: strings.Repeat("a", 64)})
	c, err := llm.NewClient(m.URL(), time.Second)
	require.NoError(t, err)
	got, err := c.Digest(t.Context(), name, "")
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", 64), got)
	m.SetDigest(strings.Repeat("b", 64))
	got, err = c.Digest(t.Context(), name, strings.Repeat("a", 64))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", 64), got, "believed for a while")
	got, err = c.Digest(t.Context(), name, strings.Repeat("b", 64))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("b", 64), got, "another is looked for at once")
	_, err = c.Digest(t.Context(), "nope", "")
	var away *llm.AwayError
	require.ErrorAs(t, err, &away)
}
