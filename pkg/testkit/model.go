package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modelPatience is how long Model.Await waits.
const modelPatience = 30 * time.Second

// emptyExtraction is what a model says that nobody told what to say.
const emptyExtraction = `{"entities":[],"relations":[]}`

// ModelOptions says what model a Model plays.
type ModelOptions struct {
	// Name is the only model the server knows. Defaults to "fake:1". A name without a tag has the tag "latest", here and in requests.
	Name string
	// Digest is what the list of models shows, 64 hexadecimal digits. Defaults to the SHA-256 of Name.
	Digest string
	// Reply decides what a chat call gets. It is called by many goroutines at once, with no lock held, and must not block: a reply
	// that takes its time has Delay or Wait. Defaults to an empty extraction.
	Reply func(ModelCall) ModelReply
	// Slots is how many calls the model is supposed to serve at once. It is not enforced, only measured: see MaxInFlight and Busy.
	// Defaults to 1.
	Slots int
	// EmbedSize is the length of an embedding. Defaults to 8.
	EmbedSize int
}

// ModelMessage is one message of a conversation.
type ModelMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ModelCall is a chat call as it arrived. Its maps and slices are shared: read them only.
type ModelCall struct {
	N         int             // counts from 1, anew after Reset
	At        time.Time       // when it had arrived
	Model     string          // as the request wrote it
	Messages  []ModelMessage  // oldest first
	Format    json.RawMessage // nil, a string or a JSON schema
	Options   map[string]any  // numbers are float64
	Stream    bool            // true when the request says nothing
	KeepAlive any             // string, float64 or nil
	Think     any             // bool, string or nil

	turn int // counts from 1, anew after Reset and SetReply
}

// Last is the content of the last user message, or "".
func (c ModelCall) Last() string {
	for _, m := range slices.Backward(c.Messages) {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

// ModelReply is what a chat call gets. The zero value is an empty text that ended well.
type ModelReply struct {
	// Content is the assistant's whole text. Any bytes do; JSON carries each byte that is not UTF-8 as U+FFFD.
	Content string
	// Delay is how long the generation lasts; nothing is sent before. It ends early when the client goes away or the server stops.
	Delay time.Duration
	// Wait is instead of Delay: the generation lasts until the channel is closed.
	Wait <-chan struct{}
	// Status, when it is neither 0 nor 200, makes the reply an HTTP error whose body is {"error": Content}.
	Status int
	// RetryAfter is the value of the header of that name.
	RetryAfter string
	// Reset resets the connection before any byte of the reply.
	Reset bool
	// ResetAfter, when above 0, resets the connection after this many bytes of Content, cut back to a whole character when the reply
	// is streamed, and at the latest before the end of the body.
	ResetAfter int
	// CutBody ends the HTTP body properly, but in the middle of a JSON line.
	CutBody bool
	// DoneReason defaults to "stop"; "length" is that of a text that was cut.
	DoneReason string
	// PromptTokens and CompletionTokens default to one for every four bytes begun.
	PromptTokens, CompletionTokens int
	// RawBody, when set, is the whole HTTP body as it is, with Status.
	RawBody string
}

// ModelScript replies to the n-th call since the last Reset or SetReply with the n-th reply; the last one repeats.
func ModelScript(replies ...ModelReply) func(ModelCall) ModelReply {
	return func(c ModelCall) ModelReply {
		n := c.turn
		if n == 0 {
			n = c.N // a call the caller made up
		}
		if len(replies) == 0 {
			return ModelReply{Content: emptyExtraction}
		}
		return replies[min(max(n, 1), len(replies))-1]
	}
}

// Model is a server on the loopback that speaks the part of Ollama's HTTP API that its Go client needs to chat and embed, and says
// what it is told to. Safe for concurrent use, except that Start and Stop belong to the goroutine of the test.
type Model struct {
	t   testing.TB
	opt ModelOptions

	life    sync.Mutex // held by Start and Stop; guards srv and cancel
	srv     *httptest.Server
	cancel  context.CancelFunc
	serving sync.WaitGroup // handlers, also those that took over their connection

	mu     sync.Mutex // guards what follows
	addr   string     // host:port, the same after a restart
	digest string
	reply  func(ModelCall) ModelReply
	// embedReply is nil for the zero reply.
	embedReply func(ModelEmbedCall) ModelEmbedReply
	turn       int
	log        *modelLog
	arrived    chan struct{} // closed and replaced whenever a call arrives
}

// modelLog is what is remembered since the last Reset. Guarded by Model.mu.
type modelLog struct {
	calls         []ModelCall
	embeds        []ModelEmbedCall
	inFlight, max int
	busy          Busyness
}

// NewModel starts a server that ends with the test.
func NewModel(t testing.TB, opt ModelOptions) *Model {
	t.Helper()
	if opt.Name == "" {
		opt.Name = "fake:1"
	}
	if opt.Digest == "" {
		sum := sha256.Sum256([]byte(opt.Name))
		opt.Digest = hex.EncodeToString(sum[:])
	}
	if opt.Slots <= 0 {
		opt.Slots = 1
	}
	if opt.EmbedSize <= 0 {
		opt.EmbedSize = 8
	}
	m := &Model{t: t, opt: opt, addr: "127.0.0.1:0", digest: opt.Digest, log: &modelLog{}, arrived: make(chan struct{})}
	m.SetReply(opt.Reply)
	m.Start()
	t.Cleanup(m.Stop)
	return m
}

// Start lets the port answer again after Stop. It does nothing when the server runs.
func (m *Model) Start() {
	m.t.Helper()
	m.life.Lock()
	defer m.life.Unlock()
	if m.srv != nil {
		return
	}
	addr := m.address()
	var l net.Listener
	// An outgoing connection of somebody else may hold the port for a moment.
	AwaitFor(m.t, modelPatience, "the model's port "+addr, func() bool {
		var err error
		l, err = net.Listen("tcp", addr)
		return err == nil
	})
	m.mu.Lock()
	m.addr = l.Addr().String()
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.srv = &httptest.Server{Listener: l, Config: &http.Server{
		Handler:     m.handler(),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}}
	m.srv.Start()
}

// Stop is the end of the server's process: the port refuses connections, those that are open are cut, whatever they wait for. It
// returns when every goroutine has ended. It does nothing when the server is stopped.
func (m *Model) Stop() {
	m.life.Lock()
	defer m.life.Unlock()
	if m.srv == nil {
		return
	}
	m.cancel()
	m.srv.CloseClientConnections()
	m.srv.Close()
	m.serving.Wait()
	m.srv = nil
}

// URL is the server's address, http://127.0.0.1:port. It stays the same for the whole test.
func (m *Model) URL() string { return "http://" + m.address() }

func (m *Model) address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// SetReply replaces what decides the replies of calls that arrive from now on. Nil is an empty extraction.
func (m *Model) SetReply(reply func(ModelCall) ModelReply) {
	if reply == nil {
		reply = ModelScript()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply, m.turn = reply, 0
}

// SetDigest replaces the digest in the list of models: the name was pulled anew.
func (m *Model) SetDigest(digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.digest = digest
}

// Reset forgets calls and measures. A call in flight is forgotten too: it does not count when it ends.
func (m *Model) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log, m.turn = &modelLog{}, 0
}

// Await waits until n chat calls have arrived since the last Reset; the test fails after 30 s.
func (m *Model) Await(t testing.TB, n int) {
	t.Helper()
	tm := time.NewTimer(modelPatience)
	defer tm.Stop()
	for {
		m.mu.Lock()
		got, arrived := len(m.log.calls), m.arrived
		m.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-arrived:
		case <-tm.C:
			require.FailNow(t, "waited "+modelPatience.String()+" for model calls", "%d of %d arrived", got, n)
		}
	}
}
