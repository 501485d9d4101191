// Package llm is what the services that ask a model share: a client of the model server, the slots that bound the calls in flight, a
// question that is asked again when that helps, and the reading of replies. What is asked, and what an answer means, is the services'.
package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ollama/ollama/api"
)

const (
	// maxBody of a response, far above what the limits of a call let a model write.
	maxBody = 8 << 20
	// maxTokens is what is believed of a count of tokens at most, far above what a model can hold.
	maxTokens = 1 << 24
	// digestFresh is how long a digest that fits is believed.
	digestFresh = time.Second
	// askTimeout of the small questions.
	askTimeout = 10 * time.Second
)

// Message is one turn of a chat; Role is system, user or assistant.
type Message struct{ Role, Content string }

// Call is one question.
type Call struct {
	Model    string
	Messages []Message
	// Format is the JSON schema of the reply.
	Format json.RawMessage
	// Context is the tokens that prompt and reply have together, Room those of the reply.
	Context, Room int
	// NoThoughts tells a model that thinks before it answers not to.
	NoThoughts bool
}

// Answer is what came back.
type Answer struct {
	Content string
	// Cut says that the limit of tokens ended the reply, or that the prompt alone filled the context.
	Cut bool
	// Tokens of prompt and reply, as the server counts.
	PromptTokens, ReplyTokens int
}

// StatusError is an HTTP status that is no answer.
type StatusError struct {
	Status  int
	Message string
	// After is what Retry-After says; 0: nothing.
	After time.Duration
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the model server answers %d: %s", e.Status, e.Message)
}

// AwayError says that nobody listens, or that the server does not have the model.
type AwayError struct {
	// Missing: the server is there, the model is not.
	Missing bool
	Err     error
}

func (e *AwayError) Error() string { return e.Err.Error() }
func (e *AwayError) Unwrap() error { return e.Err }

// BodyError is a response that cannot be read. Head is how it begins.
type BodyError struct {
	Head     string
	TooLarge bool
	Err      error
}

func (e *BodyError) Error() string { return e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

// Client speaks to one model server. It is safe for concurrent use.
type Client struct {
	url     string // for people
	base    *url.URL
	timeout time.Duration
	http    *http.Client
	api     *api.Client

	mu      sync.Mutex
	digests map[string]seen // by model; guarded by mu
}

type seen struct {
	digest string
	at     time.Time
}

// URL is the server's address, fit to be shown.
func (c *Client) URL() string { return c.url }

// NewClient makes a client of the server at address. timeout bounds a call.
func NewClient(address string, timeout time.Duration) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("ollama.url is %q: it must be an http or https address", address[strings.LastIndexByte(address, '@')+1:])
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	h := &http.Client{Transport: transport{t}}
	return &Client{url: u.Redacted(), base: u, timeout: timeout, http: h, api: api.NewClient(u, h), digests: map[string]seen{}}, nil
}

// Close ends connections that nothing uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// transport turns the statuses that are no answers into errors, with what Retry-After says, and bounds bodies.
type transport struct{ next *http.Transport }

// CloseIdleConnections is called by http.Client.
func (t transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxBody+1), resp.Body}
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return nil, err
	}
	e := &StatusError{Status: resp.StatusCode, Message: strings.TrimSpace(string(body)), After: after(resp.Header.Get("Retry-After"))}
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		e.Message = said.Error
	}
	return nil, e
}

// after reads Retry-After: seconds or a date.
func after(h string) time.Duration {
	if n, err := strconv.Atoi(h); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(h); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Chat asks once.
func (c *Client) Chat(ctx context.Context, call Call) (Answer, error) {
	ctx, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	req := &api.ChatRequest{
		Model: call.Model, Format: call.Format, Stream: new(bool),
		Options: map[string]any{"temperature": 0, "seed": 1, "num_ctx": call.Context, "num_predict": call.Room},
	}
	if call.NoThoughts {
		req.Think = &api.ThinkValue{Value: false}
	}
	for _, m := range call.Messages {
		req.Messages = append(req.Messages, api.Message{Role: m.Role, Content: m.Content})
	}
	r, err := c.chat(ctx, req)
	if err == nil && !r.Done {
		err = errors.New("the reply broke off")
	}
	if err != nil {
		return Answer{}, c.failed(call.Model, err)
	}
	return Answer{
		Content: r.Message.Content, PromptTokens: int(r.PromptEvalCount), ReplyTokens: int(r.EvalCount),
		Cut: r.DoneReason == "length" || int(r.PromptEvalCount) >= call.Context && r.PromptEvalCount < maxTokens,
	}, nil
}

// response is what is read of a chat's response.
type response struct {
	Message struct {
		Content string `json:"content"`
	} `json:"message"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount tokens `json:"prompt_eval_count"`
	EvalCount       tokens `json:"eval_count"`
}

// tokens is a count as a server gives it: one that cannot be is 0 or maxTokens, so that no sum of them overflows.
type tokens int

// UnmarshalJSON implements json.Unmarshaler: no count costs the reply.
func (t *tokens) UnmarshalJSON(b []byte) error {
	*t = 0
	if n, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64); n > 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		*t = tokens(min(n, maxTokens))
	}
	return nil
}

// chat posts the library's request and reads its response. The library's own call reads every reply through a new buffer of megabytes,
// whose clearing costs more than the rest of a call.
func (c *Client) chat(ctx context.Context, req *api.ChatRequest) (r response, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return r, fmt.Errorf("encode a question: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("/api/chat").String(), bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	post.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(post)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	switch {
	case len(raw) > maxBody:
		return r, &BodyError{Head: Clip(string(raw[:2*keptReply]), keptReply), TooLarge: true, Err: fmt.Errorf("the response is larger than %d bytes", maxBody)}
	case err != nil:
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, &BodyError{Head: Clip(string(raw), keptReply), Err: fmt.Errorf("the response is not what a model server sends: %w", err)}
	}
	return r, nil
}

// failed tells what is away from what went wrong.
func (c *Client) failed(name string, err error) error {
	var status *StatusError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusNotFound && strings.Contains(strings.ToLower(status.Message), "model"):
		return &AwayError{true, fmt.Errorf("the model server at %s does not have %s (ollama pull %s): %s", c.url, name, name, status.Message)}
	case errors.As(err, &status):
		return status
	case errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns):
		return &AwayError{false, fmt.Errorf("no model server at %s: %w", c.url, err)}
	}
	return fmt.Errorf("ask %s at %s: %w", name, c.url, err)
}

// Alive asks something small, to see whether the server answers at all.
func (c *Client) Alive(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	if _, err := c.api.List(ctx); err != nil {
		return c.failed("for the list of models", err)
	}
	return nil
}

// Digest returns the digest of a model on the server. One that is want is believed for a while.
func (c *Client) Digest(ctx context.Context, name, want string) (string, error) {
	c.mu.Lock()
	known, ok := c.digests[name]
	c.mu.Unlock()
	if ok && known.digest == want && time.Since(known.at) < digestFresh {
		return known.digest, nil
	}
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	list, err := c.api.List(ctx)
	if err != nil {
		return "", c.failed(name, err)
	}
	for _, m := range list.Models {
		if m.Name == name || m.Name == name+":latest" {
			c.mu.Lock()
			c.digests[name] = seen{m.Digest, time.Now()}
			c.mu.Unlock()
			return m.Digest, nil
		}
	}
	return "", &AwayError{true, fmt.Errorf("the model server at %s does not have %s: ollama pull %s", c.url, name, name)}
}
