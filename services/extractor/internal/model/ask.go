// Package model asks a model for the items of a chunk, and reads what it answers.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// CodeBudget is the failure of a chunk whose job has spent its tokens.
const CodeBudget = "token_budget"

// minRoom and maxRoom bound what is asked of a reply at first, in tokens.
const minRoom, maxRoom = 512, 3072

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
	// Count adds requests and tokens that nothing is decided by. It does not wait.
	Count(graph, job string, requests, tokens int) error
}

// Asker asks one server. It is safe for concurrent use.
type Asker struct {
	Client  *llm.Client
	Slots   *llm.Slots
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

// kept is a reply as it is stored.
type kept struct {
	Reply            string `json:"reply"`
	PromptTokens     int    `json:"prompt_tokens"`
	CompletionTokens int    `json:"completion_tokens"`
}

// Ask returns the items that a model states of a chunk: those of a kept reply, or of a new one, which is kept before Ask returns.
//
// The error is an *extract.Failure when the chunk cannot be read; anything else is of the dependency, and classified.
func (a *Asker) Ask(ctx context.Context, q Question) (extract.Items, llm.Usage, error) {
	var use llm.Usage
	key := hash(q.Shown)
	if it, ok, err := a.kept(ctx, q, key); err != nil || ok {
		use.Hit = ok
		return it, use, err
	}
	var it extract.Items
	ask := llm.Question{
		Call: llm.Call{
			Model: q.Model, Format: q.Prompt.Format, Messages: []llm.Message{{Role: "system", Content: q.Prompt.System}, {Role: "user", Content: q.Shown}},
			// Twice the tokens that were shown, of about four bytes each: a dense chunk is said over again, with words around it. What needs
			// more is cut, and asked for once more with twice the room; a model that talks without end costs no more than that.
			Room: min(max(len(q.Shown)/2, minRoom), maxRoom),
		},
		Read:   func(content string) (err error) { it, err = Parse(content); return err },
		Repair: repair, Begun: q.Begun, Log: []any{"graph", q.Graph, "job", q.Job},
	}
	ask.Afford = func(ctx context.Context) error { return a.afford(ctx, q) }
	// What was paid is counted, whoever has lost interest meanwhile.
	ask.Spent = func(ctx context.Context, tokens int) error { return a.paid(context.WithoutCancel(ctx), q, tokens) }
	if q.MaxTokens > 0 {
		if err := a.spentAll(q); err != nil { // for this no slot is needed
			return it, use, err
		}
	}
	caller := llm.Caller{Client: a.Client, Slots: a.Slots, Log: a.Log}
	ans, err := caller.Ask(ctx, ask, &use)
	var no *llm.Unusable
	switch {
	case err == nil:
		return it, use, a.keep(ctx, q, key, ans, use)
	case errors.As(err, &no):
		err = &extract.Failure{Code: no.Code, Reply: no.Reply, Attempt: no.Attempt, Err: no.Err}
	}
	return extract.Items{}, use, err
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

func (a *Asker) keep(ctx context.Context, q Question, key string, ans llm.Answer, use llm.Usage) error {
	b, err := json.Marshal(kept{ans.Content, use.PromptTokens, use.CompletionTok})
	if err != nil {
		return fmt.Errorf("keep a reply: %w", err)
	}
	return a.Replies.KeepReply(ctx, q.Graph, q.FP, key, b)
}

// maxJobs is of how many jobs the sums are remembered.
const maxJobs = 256

// spentAll fails when the job is known to have spent what it may.
func (a *Asker) spentAll(q Question) error {
	a.mu.Lock()
	spent := a.spent[q.Graph+"/"+q.Job]
	a.mu.Unlock()
	if spent < q.MaxTokens {
		return nil
	}
	return &extract.Failure{Code: CodeBudget, Err: fmt.Errorf("job %s has spent %d tokens, extractor.max_tokens is %d", q.Job, spent, q.MaxTokens)}
}

// afford asks what all replicas have spent, and fails when that is all. Else the request is counted: it is paid for, whatever becomes of
// it, and of this process.
func (a *Asker) afford(ctx context.Context, q Question) error {
	if q.MaxTokens > 0 {
		if _, err := a.count(ctx, q, 0); err != nil {
			return err
		}
		if err := a.spentAll(q); err != nil {
			return err
		}
	}
	a.note(q, 1, 0)
	return nil
}

// paid counts tokens. Only a sum that decides something is waited for.
func (a *Asker) paid(ctx context.Context, q Question, tokens int) error {
	if q.MaxTokens > 0 {
		_, err := a.count(ctx, q, tokens)
		return err
	}
	a.note(q, 0, tokens)
	return nil
}

func (a *Asker) note(q Question, requests, tokens int) {
	if err := a.Budget.Count(q.Graph, q.Job, requests, tokens); err != nil {
		a.Log.Warn("what a model cost is not counted", "graph", q.Graph, "job", q.Job, "error", err)
	}
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
	a.spent[q.Graph+"/"+q.Job] = max(sum, a.spent[q.Graph+"/"+q.Job]) // answers overtake each other
	return sum, nil
}
