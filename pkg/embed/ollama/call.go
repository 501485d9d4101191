package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/factmill/factmill/pkg/embed"
)

const (
	// maxBody of an answer: 1,024 vectors of 16,384 numbers are more than any model gives.
	maxBody   = 256 << 20
	firstWait = 200 * time.Millisecond
	maxWait   = 30 * time.Second
)

// ErrDown says that the server does not embed with the model now: nobody listens, it does not have the model, or it stays busy.
var ErrDown = errors.New("the embedding model does not answer")

// ErrChanged says that the model was pulled anew: vectors made before cannot be compared with those made from now on.
var ErrChanged = errors.New("the embedding model is another one")

// downError is an ErrDown that says where and what to do.
type downError struct {
	what string
	err  error
}

func (e *downError) Error() string        { return e.what + ": " + e.err.Error() }
func (e *downError) Unwrap() error        { return e.err }
func (e *downError) Is(target error) bool { return target == ErrDown }

// statusError is an HTTP status that is no answer.
type statusError struct {
	status  int
	message string
	after   time.Duration // what Retry-After says; 0: nothing
}

func (e *statusError) Error() string { return fmt.Sprintf("it answers %d: %s", e.status, e.message) }

// transport turns the statuses that are no answers into errors, with what Retry-After says, and bounds bodies.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxBody), resp.Body}
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return nil, err
	}
	e := &statusError{status: resp.StatusCode, message: strings.TrimSpace(string(body)), after: after(resp.Header.Get("Retry-After"))}
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		e.message = said.Error
	}
	return nil, e
}

// after reads Retry-After: seconds or a date.
func after(h string) time.Duration {
	if n, err := strconv.Atoi(h); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	if at, err := http.ParseTime(h); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// ask embeds one batch, again while the server is busy or breaks off. A slot is held only while it is asked.
func (e *Embedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	wait := firstWait
	for n := 1; ; n++ {
		vs, err := e.once(ctx, texts)
		if err == nil {
			return vs, e.checked(len(texts), vs)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pause := wait + rand.N(wait/2+1)
		retry, err := e.judge(err, &pause)
		if !retry {
			return nil, err
		}
		if n >= e.cfg.Tries {
			return nil, &downError{fmt.Sprintf("the model server at %s does not embed with %s after %d tries: look at its log, or lower ollama.slots", e.url, e.cfg.Model, n), err}
		}
		wait = min(2*wait, maxWait)
		select {
		case <-e.cfg.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// judge says whether a call is made again, and makes the error what the caller gets.
func (e *Embedder) judge(err error, pause *time.Duration) (retry bool, _ error) {
	var status *statusError
	var op *net.OpError
	var dns *net.DNSError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &status):
		if status.after > 0 {
			*pause = min(status.after, maxWait) + rand.N(firstWait)
		}
		switch {
		case status.status == http.StatusNotFound && strings.Contains(strings.ToLower(status.message), "model"):
			return false, &downError{fmt.Sprintf("the model server at %s does not have %s: ollama pull %s", e.url, e.cfg.Model, e.cfg.Model), status}
		case status.status == http.StatusUnauthorized || status.status == http.StatusForbidden:
			return false, &downError{fmt.Sprintf("the model server at %s refuses: check ollama.url", e.url), status}
		case status.status == http.StatusTooManyRequests || status.status == http.StatusRequestTimeout || status.status >= 500:
			return true, status
		}
		return false, fmt.Errorf("embed with %s at %s: %w", e.cfg.Model, e.url, status)
	case errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns):
		return false, &downError{fmt.Sprintf("no model server at %s: start it, or set ollama.url, or embedder: hash", e.url), err}
	case errors.As(err, &kind):
		return false, fmt.Errorf("embedder %s at %s: %w: %w", e.Name(), e.url, embed.ErrShape, err)
	}
	return true, err
}

func (e *Embedder) once(ctx context.Context, texts []string) ([][]float32, error) {
	if err := e.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer e.slots.Release(1)
	ctx, stop := context.WithTimeout(ctx, e.cfg.Timeout)
	defer stop()
	cut := true
	r, err := e.api.Embed(ctx, &api.EmbedRequest{Model: e.cfg.Model, Input: texts, Truncate: &cut})
	if err != nil {
		return nil, err
	}
	return r.Embeddings, nil
}

// recheck asks for the digest now and then, where it is known.
func (e *Embedder) recheck(ctx context.Context) error {
	e.mu.Lock()
	fresh := e.digest == "" || time.Since(e.seen) < digestFresh
	e.mu.Unlock()
	if fresh {
		return nil
	}
	return e.checkDigest(ctx)
}

// checkDigest learns the model's digest, or compares it with the known one.
func (e *Embedder) checkDigest(ctx context.Context) error {
	call, stop := context.WithTimeout(ctx, e.cfg.Timeout)
	defer stop()
	list, err := e.api.List(call)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		var pause time.Duration
		retry, err := e.judge(err, &pause)
		if retry {
			err = &downError{fmt.Sprintf("the model server at %s does not list its models", e.url), err}
		}
		return err
	}
	for _, m := range list.Models {
		if m.Name != e.cfg.Model && m.Name != e.cfg.Model+":latest" {
			continue
		}
		e.mu.Lock()
		was := e.digest
		if was == "" {
			e.digest = m.Digest
		}
		e.seen = time.Now()
		e.mu.Unlock()
		if was != "" && was != m.Digest {
			return fmt.Errorf("%w: %s at %s was %.12s and is %.12s: restart, then `factmill reembed`", ErrChanged, e.cfg.Model, e.url, was, m.Digest)
		}
		return nil
	}
	return &downError{fmt.Sprintf("the model server at %s does not have %s: ollama pull %s", e.url, e.cfg.Model, e.cfg.Model), errors.New("it is not in its list")}
}
