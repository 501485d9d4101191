package testkit_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/testkit"
)

func TestModelChat(t *testing.T) {
	long := strings.Repeat("Zoë wrote “<b>x & y</b>”.\n", 40)
	for name, s := range map[string]string{
		"empty": "", "short": "hello", "long": long, "emoji": "👩‍🚀👩‍🚀👩‍🚀", "not UTF-8": "a\xff\xfeb\xe2\x82", "nul": "a\x00b",
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, stream bool) {
				m := testkit.NewModel(t, say(testkit.ModelReply{Content: s}))
				g := chat(t, m, stream, "12345")
				all := g.lines(t)
				last := all[len(all)-1]
				require.Equal(t, string([]rune(s)), text(all), "a byte that is not UTF-8 is U+FFFD")
				require.Equal(t, line{
					Model: "fake:1", CreatedAt: last.CreatedAt, Message: last.Message, Done: true, Reason: "stop", Prompt: 3, Eval: (len(s) + 3) / 4,
					Took: last.Took,
				}, last)
				require.Equal(t, "assistant", last.Message.Role)
				require.Positive(t, last.Took)
				require.WithinDuration(t, time.Now(), last.CreatedAt, time.Minute)
				if !stream {
					require.Len(t, all, 1)
					require.Equal(t, "application/json; charset=utf-8", g.header.Get("Content-Type"))
					return
				}
				require.Equal(t, "application/x-ndjson", g.header.Get("Content-Type"))
				require.Empty(t, last.Message.Content)
				if s == long {
					require.Greater(t, len(all), 20)
				}
				for _, l := range all[:len(all)-1] {
					require.Equal(t, line{Model: "fake:1", CreatedAt: l.CreatedAt, Message: l.Message}, l)
				}
			})
		})
	}
}

func TestModelCallIsKept(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, testkit.ModelOptions{})
	body := `{"model":"fake:1","messages":[{"role":"user","content":"first"},{"role":"assistant","content":"no"},
		{"role":"user","content":"again"},{"role":"assistant","content":"{"}],"format":{"type":"object"},
		"options":{"temperature":0,"num_ctx":4096},"keep_alive":"5m","think":false}`
	before := time.Now()
	all := do(t.Context(), client(t), http.MethodPost, m.URL()+"/api/chat", body).lines(t)
	require.Equal(t, `{"entities":[],"relations":[]}`, text(all))
	require.Greater(t, len(all), 1, "streams unless told otherwise")

	require.Equal(t, 1, m.Count())
	c := m.Calls()[0]
	require.Equal(t, 1, c.N)
	require.False(t, c.At.Before(before))
	require.Equal(t, "fake:1", c.Model)
	require.Equal(t, testkit.ModelMessage{Role: "assistant", Content: "no"}, c.Messages[1])
	require.Equal(t, "again", c.Last())
	require.Equal(t, `{"type":"object"}`, string(c.Format))
	require.Equal(t, map[string]any{"temperature": 0.0, "num_ctx": 4096.0}, c.Options)
	require.True(t, c.Stream)
	require.Equal(t, "5m", c.KeepAlive)
	require.Equal(t, false, c.Think)
	require.Equal(t, "", testkit.ModelCall{}.Last())

	do(t.Context(), client(t), http.MethodPost, m.URL()+"/api/chat", `{"model":"fake:1","format":null,"stream":false}`).lines(t)
	c = m.Calls()[1]
	require.Equal(t, 2, c.N)
	require.Nil(t, c.Format)
	require.Nil(t, c.KeepAlive)
	require.False(t, c.Stream)
}

func TestModelReplyKinds(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		m := testkit.NewModel(t, say(testkit.ModelReply{
			Content: `{"entities":[{"na`, DoneReason: "length", PromptTokens: 70, CompletionTokens: 8,
		}))
		all := chat(t, m, stream, "a").lines(t)
		last := all[len(all)-1]
		require.Equal(t, `{"entities":[{"na`, text(all))
		require.Equal(t, []any{"length", 70, 8}, []any{last.Reason, last.Prompt, last.Eval})

		m.SetReply(testkit.ModelScript(testkit.ModelReply{Status: 503, Content: "server busy", RetryAfter: "7"}))
		g := chat(t, m, stream, "a")
		require.Equal(t, []any{503, "7"}, []any{g.status, g.header.Get("Retry-After")})
		require.JSONEq(t, `{"error":"server busy"}`, g.body)

		m.SetReply(testkit.ModelScript(testkit.ModelReply{Status: 502, RawBody: "<html>no</html>"}))
		g = chat(t, m, stream, "a")
		require.Equal(t, []any{502, "<html>no</html>"}, []any{g.status, g.body})

		m.SetReply(testkit.ModelScript(testkit.ModelReply{RawBody: "{]\xff", Content: "unused"}))
		g = chat(t, m, stream, "a")
		require.Equal(t, []any{200, "{]\xff", nil}, []any{g.status, g.body, g.err})

		m.SetReply(nil)
		require.Equal(t, `{"entities":[],"relations":[]}`, text(chat(t, m, stream, "a").lines(t)))
	})
}

func TestModelCutBody(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		for _, s := range []string{"", "x", strings.Repeat("word ", 100)} {
			m := testkit.NewModel(t, say(testkit.ModelReply{Content: s, CutBody: true}))
			g := chat(t, m, stream, "a")
			require.NoError(t, g.err, "the HTTP body is whole")
			require.Equal(t, 200, g.status)
			whole, cut := g.body[:strings.LastIndex(g.body, "\n")+1], g.body[strings.LastIndex(g.body, "\n")+1:]
			require.NotEmpty(t, cut)
			require.Equal(t, "unexpected end of JSON input", json.Unmarshal([]byte(cut), &line{}).Error())
			require.Equal(t, stream && s != "", whole != "")
			require.NotContains(t, whole, `"done":true`)
		}
	})
}

func TestModelReset(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		m := testkit.NewModel(t, say(testkit.ModelReply{Content: "hello", Reset: true}))
		g := chat(t, m, stream, "a")
		require.ErrorIs(t, g.err, syscall.ECONNRESET)
		require.Zero(t, g.status)
		require.Equal(t, 1, m.Count())

		for _, n := range []int{1, 100, 5000} {
			m.SetReply(testkit.ModelScript(testkit.ModelReply{Content: strings.Repeat("é", 1000), ResetAfter: n}))
			g = chat(t, m, stream, "a")
			require.ErrorIs(t, g.err, syscall.ECONNRESET, "after %d", n)
			require.NotContains(t, g.body, "\n\n")
			want := min(n, 2000) / 2
			if stream {
				require.Equal(t, want, strings.Count(g.body, "é"), "after %d", n)
				require.NotContains(t, g.body, `"done":true`)
				continue
			}
			require.Equal(t, want, strings.Count(g.body, "é"), "after %d", n)
			require.Error(t, json.Unmarshal([]byte(g.body), &line{}))
		}
		require.Equal(t, 1, m.MaxInFlight(), "a reset ends a call")
	})
}

func TestModelScript(t *testing.T) {
	testkit.NoLeaks(t)
	script := testkit.ModelScript(testkit.ModelReply{Content: "a"}, testkit.ModelReply{Content: "b"})
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: script})
	next := func() string { return text(chat(t, m, false, "x").lines(t)) }
	require.Equal(t, []string{"a", "b", "b"}, []string{next(), next(), next()})
	m.SetReply(script)
	require.Equal(t, []string{"a", "b"}, []string{next(), next()}, "anew")
	require.Equal(t, 5, m.Calls()[4].N, "the numbers go on")
	m.Reset()
	require.Equal(t, "a", next())
	require.Equal(t, 1, m.Calls()[0].N)
	require.Equal(t, "b", script(testkit.ModelCall{N: 2}).Content)
	require.Equal(t, "a", script(testkit.ModelCall{}).Content)
}

func TestModelDelay(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, say(testkit.ModelReply{Content: "a", Delay: 30 * time.Millisecond}))
	start := time.Now()
	require.Equal(t, "a", text(chat(t, m, true, "x").lines(t)))
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	require.GreaterOrEqual(t, m.Busy().BusyTime, 30*time.Millisecond)
}
