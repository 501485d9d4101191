package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// Codes of failures besides those of replies.
const (
	CodeAway   = "model_away"
	CodeBusy   = "model_busy"
	CodeError  = "model_error"
	CodeBudget = "token_budget"
)

const (
	// tries of one question, while a server says that it is busy or breaks off.
	tries = 4
	// firstWait before the second; it doubles. A wait that the server asks for is kept up to maxWait.
	firstWait = 250 * time.Millisecond
	maxWait   = time.Minute
	// minContext and the powers of two above it are the sizes of context that are asked for: a server loads a model anew for each.
	minContext, maxContext = 4096, 131072
	minRoom, maxRoom       = 512, 3072
	// keptReply is what is kept of a reply that could not be used, in bytes.
	keptReply = 1000
	// shownReply is what a model is shown of its own reply when it is asked to mend it.
	shownReply = 4000
)

// Replies keeps what models answered.
type Replies interface {
	// Reply returns a kept reply, nil when there is none.
	Reply(ctx context.Context, graph, fp, shown string) ([]byte, error)
	KeepReply(ctx context.Context, graph, fp, shown string, body []byte) error
}

// Budget counts what jobs spend.
type Budget interface {
	// Spend adds tokens to those of a job and returns the sum.
	Spend(ctx context.Context, graph, job string, tokens int) (int, error)
}

// Asker asks one server. It is safe for concurrent use.
type Asker struct {
	Client  *Client
	Slots   *Slots
	Replies Replies
	Budget  Budget
	Log     *slog.Logger

	mu    sync.Mutex
	spent map[string]int // tokens by graph and job, as last heard; guarded by mu
}

// Question is one chunk and what is asked of it.
type Question struct {
	Graph, Job string
	// FP is the extraction fingerprint.
	FP     string
	Model  string
	Prompt *Prompt
	Shown  string
	// MaxTokens of the job; 0: no bound.
	MaxTokens int
	// Begun, when given, is called when the question has its first slot.
	Begun func()
}

// Usage is what a question cost.
type Usage struct {
	Requests                    int
	PromptTokens, CompletionTok int
	Took                        time.Duration
	Hit, Repaired               bool
}

// kept is a reply as it is stored.
type kept struct {
	Reply            string `json:"reply"`
	PromptTokens     int    `json:"prompt_tokens"`
	CompletionTokens int    `json:"completion_tokens"`
}

// Ask returns the items that a model states of a chunk: those of a kept reply, or of a new one, which is kept before Ask returns.
//
// The error is an *extract.Failure when the chunk cannot be read; anything else is of the dependency, and classified.
func (a *Asker) Ask(ctx context.Context, q Question) (extract.Items, Usage, error) {
	var use Usage
	key := hash(q.Shown)
	if it, ok, err := a.kept(ctx, q, key); err != nil || ok {
		use.Hit = ok
		return it, use, err
	}
	first := []Message{{"system", q.Prompt.System}, {"user", q.Shown}}
	messages := first
	call := Call{Model: q.Model, Format: q.Prompt.Format}
	// Twice the tokens that were shown, of about four bytes each: a dense chunk is said over again, with words around it. What needs
	// more is cut, and asked for once more with twice the room; a model that talks without end costs no more than that.
	call.Room = min(max(len(q.Shown)/2, minRoom), maxRoom)
	raised := false
	for {
		call.Messages = messages
		call.Context = contextFor(messages, call.Room)
		ans, err := a.call(ctx, q, call, &use)
		if err != nil {
			return extract.Items{}, use, err
		}
		it, err := Parse(ans.Content)
		if ans.Cut {
			err = bad(CodeTruncated, "the reply is cut after %d tokens (prompt %d, context %d)", ans.ReplyTokens, ans.PromptTokens, call.Context)
		}
		if err == nil {
			return it, use, a.keep(ctx, q, key, ans, use)
		}
		var why *ReplyError
		if !errors.As(err, &why) {
			return extract.Items{}, use, fmt.Errorf("read a reply: %w", err)
		}
		switch {
		case why.Code == CodeTruncated && !raised:
			raised, messages = true, first
			call.Room *= 2
		case why.Code != CodeTruncated && why.Code != CodeRefused && !use.Repaired:
			use.Repaired = true
			messages = append(first[:2:2], Message{"assistant", clip(ans.Content, shownReply)}, Message{"user", repair(why.Message)})
		default:
			use.Repaired = false
			return extract.Items{}, use, &extract.Failure{Code: why.Code, Reply: clip(ans.Content, keptReply), Attempt: use.Requests, Err: why}
		}
	}
}

// contextFor is the size of context for messages and a reply.
func contextFor(messages []Message, room int) int {
	n := room + 128
	for _, m := range messages {
		n += len(m.Content)/3 + 16
	}
	size := minContext
	for size < n && size < maxContext {
		size *= 2
	}
	return size
}

func (a *Asker) kept(ctx context.Context, q Question, key string) (extract.Items, bool, error) {
	b, err := a.Replies.Reply(ctx, q.Graph, q.FP, key)
	if err != nil || b == nil {
		return extract.Items{}, false, err
	}
	var k kept
	if err := json.Unmarshal(b, &k); err != nil {
		a.Log.Warn("a kept reply cannot be read", "graph", q.Graph, "reply", key, "error", err)
		return extract.Items{}, false, nil
	}
	it, err := Parse(k.Reply)
	if err != nil {
		a.Log.Warn("a kept reply cannot be read", "graph", q.Graph, "reply", key, "error", err)
		return extract.Items{}, false, nil
	}
	return it, true, nil
}

func (a *Asker) keep(ctx context.Context, q Question, key string, ans Answer, use Usage) error {
	b, err := json.Marshal(kept{ans.Content, use.PromptTokens, use.CompletionTok})
	if err != nil {
		return fmt.Errorf("keep a reply: %w", err)
	}
	return a.Replies.KeepReply(ctx, q.Graph, q.FP, key, b)
}

// call asks, again while the server is busy or breaks off. A slot is held only while it is asked.
func (a *Asker) call(ctx context.Context, q Question, call Call, use *Usage) (Answer, error) {
	wait := firstWait
	for n := 1; ; n++ {
		if err := a.afford(ctx, q); err != nil {
			return Answer{}, err
		}
		ans, err := a.once(ctx, q, call, use)
		if err == nil {
			return ans, a.spend(ctx, q, ans, use)
		}
		if ctx.Err() != nil {
			return Answer{}, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
		}
		pause := wait + time.Duration(rand.Int64N(int64(wait)/2+1))
		var away *AwayError
		var status *StatusError
		switch {
		case errors.As(err, &away):
			return Answer{}, fault.Down(CodeAway, err)
		case errors.As(err, &status) && (status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable):
			if status.After > 0 {
				pause = min(status.After, maxWait) + time.Duration(rand.Int64N(int64(firstWait)))
			}
			if n >= tries {
				return Answer{}, &fault.Error{Class: fault.Transient, Code: CodeBusy, Pause: true, Delay: pause, Err: err}
			}
		case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
			return Answer{}, fault.Down(CodeAway, err)
		case errors.As(err, &status) && status.Status < 500 && status.Status != http.StatusRequestTimeout, n >= tries:
			return Answer{}, &extract.Failure{Code: CodeError, Attempt: use.Requests, Err: err}
		}
		a.Log.Debug("a model call will be tried again", "graph", q.Graph, "job", q.Job, "attempt", n, "delay", pause, "error", err)
		wait *= 2
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return Answer{}, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
		}
	}
}

func (a *Asker) once(ctx context.Context, q Question, call Call, use *Usage) (Answer, error) {
	if err := a.Slots.Take(ctx); err != nil {
		return Answer{}, err
	}
	defer a.Slots.Give()
	if q.Begun != nil {
		q.Begun()
	}
	use.Requests++
	start := time.Now()
	ans, err := a.Client.Chat(ctx, call)
	use.Took += time.Since(start)
	return ans, err
}

// maxJobs is of how many jobs the sums are remembered.
const maxJobs = 256

// afford fails when the job has spent what it may.
func (a *Asker) afford(ctx context.Context, q Question) error {
	if q.MaxTokens <= 0 {
		return nil
	}
	a.mu.Lock()
	spent, known := a.spent[q.Graph+"/"+q.Job]
	a.mu.Unlock()
	if !known {
		var err error
		if spent, err = a.count(ctx, q, 0); err != nil {
			return err
		}
	}
	if spent < q.MaxTokens {
		return nil
	}
	return &extract.Failure{Code: CodeBudget, Err: fmt.Errorf("job %s has spent %d tokens, extractor.max_tokens is %d", q.Job, spent, q.MaxTokens)}
}

func (a *Asker) spend(ctx context.Context, q Question, ans Answer, use *Usage) error {
	use.PromptTokens += ans.PromptTokens
	use.CompletionTok += ans.ReplyTokens
	if q.MaxTokens <= 0 {
		return nil
	}
	_, err := a.count(ctx, q, ans.PromptTokens+ans.ReplyTokens)
	return err
}

func (a *Asker) count(ctx context.Context, q Question, tokens int) (int, error) {
	sum, err := a.Budget.Spend(ctx, q.Graph, q.Job, tokens)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.spent) >= maxJobs || a.spent == nil {
		a.spent = map[string]int{}
	}
	a.spent[q.Graph+"/"+q.Job] = sum
	return sum, nil
}

// clip cuts s to n bytes at a rune's border.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
