package testkit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/testkit"
)

// got is what a plain client sees of a reply.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of the call or of reading the body
}

// line is a line of a chat reply.
type line struct {
	Model     string               `json:"model"`
	CreatedAt time.Time            `json:"created_at"`
	Message   testkit.ModelMessage `json:"message"`
	Done      bool                 `json:"done"`
	Reason    string               `json:"done_reason"`
	Prompt    int                  `json:"prompt_eval_count"`
	Eval      int                  `json:"eval_count"`
	Took      int64                `json:"total_duration"`
}

// lines parses every line of the body.
func (g got) lines(t *testing.T) []line {
	t.Helper()
	require.NoError(t, g.err)
	require.Equal(t, http.StatusOK, g.status)
	var out []line
	for _, s := range strings.Split(strings.TrimSuffix(g.body, "\n"), "\n") {
		var l line
		require.NoError(t, json.Unmarshal([]byte(s), &l), s)
		out = append(out, l)
	}
	return out
}

// text is the content of all lines.
func text(lines []line) string {
	s := ""
	for _, l := range lines {
		s += l.Message.Content
	}
	return s
}

func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func do(ctx context.Context, c *http.Client, method, url, body string) got {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return got{err: err}
	}
	resp, err := c.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
}

func chat(t *testing.T, m *testkit.Model, stream bool, say string) got {
	t.Helper()
	return do(t.Context(), client(t), http.MethodPost, m.URL()+"/api/chat", chatBody(t, stream, say))
}

func chatBody(t *testing.T, stream bool, say string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"model": "fake:1", "stream": stream, "messages": []testkit.ModelMessage{{Role: "system", Content: "rules"}, {Role: "user", Content: say}},
	})
	require.NoError(t, err)
	return string(b)
}

// both runs f with stream off and on.
func both(t *testing.T, f func(t *testing.T, stream bool)) {
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			testkit.NoLeaks(t)
			f(t, stream)
		})
	}
}

func say(r testkit.ModelReply) testkit.ModelOptions {
	return testkit.ModelOptions{Reply: testkit.ModelScript(r)}
}

func TestModelSmallEndpoints(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 5})
	c := client(t)
	get := func(method, path, body string) got { return do(t.Context(), c, method, m.URL()+path, body) }

	require.True(t, strings.HasPrefix(m.URL(), "http://127.0.0.1:"), m.URL())
	require.Equal(t, "Ollama is running", get(http.MethodGet, "/", "").body)
	for _, path := range []string{"/", "/api/version", "/api/tags"} {
		g := get(http.MethodHead, path, "")
		require.Equal(t, []any{http.StatusOK, "", nil}, []any{g.status, g.body, g.err}, path)
	}
	require.JSONEq(t, `{"version":"0.12.0"}`, get(http.MethodGet, "/api/version", "").body)
	require.Equal(t, http.StatusNotFound, get(http.MethodGet, "/api/nothing", "").status)
	require.Equal(t, http.StatusMethodNotAllowed, get(http.MethodGet, "/api/chat", "").status)

	type list struct {
		Models []struct {
			Name, Model, Digest string
			Size                int64
		}
	}
	tags := func() (l list) {
		require.NoError(t, json.Unmarshal([]byte(get(http.MethodGet, "/api/tags", "").body), &l))
		require.Len(t, l.Models, 1)
		return l
	}
	one := tags().Models[0]
	require.Equal(t, "fake:1", one.Name)
	require.Equal(t, "fake:1", one.Model)
	require.Equal(t, int64(1<<30), one.Size)
	require.Regexp(t, "^[0-9a-f]{64}$", one.Digest)
	m.SetDigest("abc")
	require.Equal(t, "abc", tags().Models[0].Digest)

	for _, key := range []string{"model", "name"} {
		g := get(http.MethodPost, "/api/show", `{"`+key+`":"fake:1"}`)
		require.Equal(t, http.StatusOK, g.status)
		var shown struct {
			Details struct{ Family string }
			Info    map[string]any `json:"model_info"`
			Can     []string       `json:"capabilities"`
		}
		require.NoError(t, json.Unmarshal([]byte(g.body), &shown))
		require.Equal(t, "fake", shown.Details.Family)
		require.Equal(t, 5.0, shown.Info["fake.embedding_length"])
		require.Equal(t, []string{"completion", "embedding"}, shown.Can)
	}
	require.Zero(t, m.Count(), "none of it is a chat call")
}

func TestModelUnknownName(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Name: "own", Digest: "d"})
	c := client(t)
	for _, path := range []string{"/api/show", "/api/chat", "/api/embed"} {
		g := do(t.Context(), c, http.MethodPost, m.URL()+path, `{"model":"x","input":"a"}`)
		require.Equal(t, http.StatusNotFound, g.status, path)
		require.JSONEq(t, `{"error":"model \"x\" not found, try pulling it first"}`, g.body, path)
		require.Equal(t, http.StatusBadRequest, do(t.Context(), c, http.MethodPost, m.URL()+path, `{`).status, path)
	}
	require.Zero(t, m.Count())
	for _, name := range []string{"own", "own:latest"} {
		require.Equal(t, http.StatusOK, do(t.Context(), c, http.MethodPost, m.URL()+"/api/chat", `{"model":"`+name+`"}`).status, name)
	}
	require.Contains(t, do(t.Context(), c, http.MethodGet, m.URL()+"/api/tags", "").body, `"digest":"d"`)
}

func TestModelEmbed(t *testing.T) {
	testkit.NoLeaks(t)
	c := client(t)
	embed := func(m *testkit.Model, input string) [][]float32 {
		g := do(t.Context(), c, http.MethodPost, m.URL()+"/api/embed", `{"model":"fake:1","input":`+input+`}`)
		require.Equal(t, http.StatusOK, g.status, g.body)
		var a struct {
			Model      string
			Embeddings [][]float32
		}
		require.NoError(t, json.Unmarshal([]byte(g.body), &a))
		require.Equal(t, "fake:1", a.Model)
		return a.Embeddings
	}
	m := testkit.NewModel(t, testkit.ModelOptions{})
	two := embed(m, `["Ada","Bob"]`)
	require.Len(t, two, 2)
	require.NotEqual(t, two[0], two[1])
	for _, v := range two {
		require.Len(t, v, 8)
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		require.InDelta(t, 1, sum, 1e-5)
	}
	require.Equal(t, two[1:], embed(m, `"Bob"`), "a string is a list of one")
	require.Empty(t, embed(m, `[]`))
	other := testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 8})
	require.Equal(t, two, embed(other, `["Ada","Bob"]`), "another server says the same")
	require.Len(t, embed(testkit.NewModel(t, testkit.ModelOptions{EmbedSize: 3}), `"Ada"`)[0], 3)
	require.Equal(t, http.StatusBadRequest, do(t.Context(), c, http.MethodPost, m.URL()+"/api/embed", `{"model":"fake:1","input":7}`).status)
}

// TestModelInFlight: calls that wait are counted, and the measures of busy time follow.
func TestModelInFlight(t *testing.T) {
	testkit.NoLeaks(t)
	gate := make(chan struct{})
	m := testkit.NewModel(t, testkit.ModelOptions{Slots: 3, Reply: func(c testkit.ModelCall) testkit.ModelReply {
		return testkit.ModelReply{Content: c.Last(), Wait: gate}
	}})
	require.Equal(t, testkit.Busyness{Slots: 3}, m.Busy())
	require.Zero(t, m.Busy().Share(3))
	replies := make(chan string, 3)
	ask := make(chan string, 3)
	var wg sync.WaitGroup
	for range 3 {
		c := client(t)
		wg.Go(func() {
			for s := range ask {
				replies <- do(t.Context(), c, http.MethodPost, m.URL()+"/api/chat", s).body
			}
		})
	}
	for i := range 3 {
		ask <- chatBody(t, false, strings.Repeat("x", i+1))
		m.Await(t, i+1)
		require.Equal(t, i+1, m.MaxInFlight())
	}
	close(ask)
	require.Zero(t, m.Busy().BusyTime, "none has ended")
	require.Equal(t, m.Calls()[0].At, m.Busy().FirstStart)
	require.Equal(t, "xx", m.Calls()[1].Last())
	close(gate)
	wg.Wait()
	for range 3 {
		require.Contains(t, testkit.Receive(t, "a reply", replies), `"content":"x`)
	}
	b := m.Busy()
	span := b.LastEnd.Sub(b.FirstStart)
	require.Positive(t, span)
	require.Greater(t, b.BusyTime, span, "three at once")
	require.LessOrEqual(t, b.BusyTime, 3*span)
	require.InDelta(t, float64(b.BusyTime)/float64(3*span), b.Share(3), 1e-9)
	require.Equal(t, b.Share(3), b.Share(0))
	require.InDelta(t, 3*b.Share(3), b.Share(1), 1e-9)

	m.Reset()
	require.Zero(t, m.Count())
	require.Zero(t, m.MaxInFlight())
	require.Equal(t, testkit.Busyness{Slots: 3}, m.Busy())
	for range 5 {
		chat(t, m, true, "y").lines(t)
	}
	require.Equal(t, 1, m.MaxInFlight(), "one after the other: a call has ended when its reply was read")
	require.LessOrEqual(t, m.Busy().Share(1), 1.0)
}

// TestModelClientGoesAway: a generation that nobody waits for ends; without that the end of the test would hang.
func TestModelClientGoesAway(t *testing.T) {
	testkit.NoLeaks(t)
	for name, r := range map[string]testkit.ModelReply{"delay": {Delay: time.Hour}, "wait": {Wait: make(chan struct{})}} {
		t.Run(name, func(t *testing.T) {
			m := testkit.NewModel(t, say(r))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan got, 1)
			c, body := client(t), chatBody(t, true, "x")
			go func() { done <- do(ctx, c, http.MethodPost, m.URL()+"/api/chat", body) }()
			m.Await(t, 1)
			cancel()
			require.ErrorIs(t, testkit.Receive(t, "the client", done).err, context.Canceled)
			testkit.Await(t, "the end of the call", func() bool { return !m.Busy().LastEnd.IsZero() })
		})
	}
}

// TestModelResetWhileInFlight: a forgotten call leaves no trace when it ends.
func TestModelResetWhileInFlight(t *testing.T) {
	testkit.NoLeaks(t)
	gate := make(chan struct{})
	m := testkit.NewModel(t, say(testkit.ModelReply{Wait: gate}))
	done := make(chan got, 1)
	c, body := client(t), chatBody(t, true, "x")
	go func() { done <- do(t.Context(), c, http.MethodPost, m.URL()+"/api/chat", body) }()
	m.Await(t, 1)
	m.Reset()
	close(gate)
	require.Len(t, testkit.Receive(t, "the reply", done).lines(t), 1)
	require.Zero(t, m.Count())
	require.Zero(t, m.MaxInFlight())
	require.Equal(t, testkit.Busyness{Slots: 1}, m.Busy())
}

func TestModelStopAndStart(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, say(testkit.ModelReply{Content: "a", Wait: make(chan struct{})}))
	url, c := m.URL(), client(t)
	done := make(chan got, 1)
	body := chatBody(t, false, "x")
	go func() { done <- do(t.Context(), c, http.MethodPost, url+"/api/chat", body) }()
	m.Await(t, 1)
	m.Stop()
	g := testkit.Receive(t, "the call that was cut", done)
	require.Error(t, g.err)
	require.Zero(t, g.status, "no byte of a reply")

	m.Stop() // nothing more
	require.Equal(t, url, m.URL())
	require.ErrorIs(t, do(t.Context(), c, http.MethodGet, url+"/", "").err, syscall.ECONNREFUSED)
	l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err, "the port is free")
	require.NoError(t, l.Close())

	m.SetReply(testkit.ModelScript(testkit.ModelReply{Content: "b"}))
	m.Start()
	m.Start() // nothing more
	require.Equal(t, url, m.URL())
	require.Equal(t, "b", text(chat(t, m, true, "x").lines(t)))
	require.Equal(t, 2, m.Count(), "the calls from before are kept")
}

// TestModelManyAtOnce: every call gets the reply to its own question, each number occurs once.
func TestModelManyAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		return testkit.ModelReply{Content: strings.ToUpper(c.Last())}
	}})
	const workers, each = 8, 25
	var wg sync.WaitGroup
	bad := make(chan string, workers*each)
	for w := range workers {
		c, q := client(t), strings.Repeat(string(rune('a'+w)), 50)
		body := chatBody(t, w%2 == 0, q)
		wg.Go(func() {
			for range each {
				g := do(t.Context(), c, http.MethodPost, m.URL()+"/api/chat", body)
				s := ""
				for d := json.NewDecoder(bytes.NewBufferString(g.body)); d.More(); {
					var l line
					if d.Decode(&l) != nil {
						break
					}
					s += l.Message.Content
				}
				if s != strings.ToUpper(q) {
					bad <- g.body
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, bad)
	require.Equal(t, workers*each, m.Count())
	for i, c := range m.Calls() {
		require.Equal(t, i+1, c.N)
	}
	require.LessOrEqual(t, m.MaxInFlight(), workers)
}
