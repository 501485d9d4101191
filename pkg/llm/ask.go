package llm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"github.com/factmill/factmill/pkg/fault"
)

// Codes of failures besides those of replies.
const (
	CodeAway  = "model_away"
	CodeBusy  = "model_busy"
	CodeError = "model_error"
)

const (
	// tries of one call, while a server says that it is busy or breaks off.
	tries = 4
	// firstWait before the second; it doubles. A wait that the server asks for is kept up to maxWait.
	firstWait = 250 * time.Millisecond
	maxWait   = time.Minute
	// minContext and the powers of two above it are the sizes of context that are asked for: a server loads a model anew for each.
	minContext, maxContext = 4096, 131072
	// keptReply is what is kept of a reply that could not be used, in bytes.
	keptReply = 1000
	// shownReply is what a model is shown of its own reply when it is asked to mend it.
	shownReply = 4000
)

// Caller asks one server. It is safe for concurrent use.
type Caller struct {
	Client *Client
	Slots  *Slots
	Log    *slog.Logger
}

// Question is what a model is asked, and what is done with its reply.
type Question struct {
	Call
	// Read takes a reply; a *ReplyError says why it could not be used.
	Read func(content string) error
	// Repair is what a model is told after such a reply; fault is the error's message.
	Repair func(fault string) string
	// Afford, when given, is called before each call, with its slot in hand; its error ends the question.
	Afford func(ctx context.Context) error
	// Spent, when given, is called after each call that was answered.
	Spent func(ctx context.Context, tokens int) error
	// Begun, when given, is called whenever the question has a slot.
	Begun func()
	// Log are attributes of what is logged.
	Log []any
}

// Usage is what a question cost.
type Usage struct {
	Requests                    int
	PromptTokens, CompletionTok int
	Took                        time.Duration
	Hit, Repaired               bool
}

// Unusable says that a question brought nothing: Code is of its last reply, or CodeError when the server answered none.
type Unusable struct {
	Code string
	// Reply is the beginning of the last reply, and Attempt how many calls were made.
	Reply   string
	Attempt int
	Err     error
}

func (e *Unusable) Error() string { return e.Err.Error() }
func (e *Unusable) Unwrap() error { return e.Err }

// Ask asks until a reply can be used: once more in the same words with twice the room when it was cut, once more with what was wrong
// when it could not be read. Call.Context is set here.
//
// The error is an *Unusable when the question itself brings nothing, whatever Afford and Spent return, or a *fault.Error of the server:
// CodeAway (wraps an *AwayError, or a *StatusError when it lets nobody in), CodeBusy, or interrupted.
func (c *Caller) Ask(ctx context.Context, q Question, use *Usage) (Answer, error) {
	first, call := q.Messages, q.Call
	raised := false
	for {
		call.Context = contextFor(call.Messages, call.Room)
		ans, err := c.call(ctx, &q, call, use)
		if err != nil {
			return Answer{}, err
		}
		err = q.Read(ans.Content)
		if ans.Cut {
			err = Bad(CodeTruncated, "the reply is cut after %d tokens (prompt %d, context %d)", ans.ReplyTokens, ans.PromptTokens, call.Context)
		}
		var why *ReplyError
		if err == nil || !errors.As(err, &why) {
			return ans, err
		}
		switch {
		case why.Code == CodeTruncated && !raised:
			raised, call.Messages = true, first
			call.Room *= 2
		case why.Code != CodeTruncated && why.Code != CodeRefused && !use.Repaired:
			use.Repaired = true
			call.Messages = append(first[:len(first):len(first)], Message{"assistant", Clip(ans.Content, shownReply)}, Message{"user", q.Repair(why.Message)})
		default:
			use.Repaired = false
			return Answer{}, &Unusable{Code: why.Code, Reply: Clip(ans.Content, keptReply), Attempt: use.Requests, Err: why}
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

// call asks, again while the server is busy or breaks off. A slot is held only while it is asked.
func (c *Caller) call(ctx context.Context, q *Question, call Call, use *Usage) (Answer, error) {
	wait := firstWait
	defer c.Slots.setLate("")
	for n := 1; ; n++ {
		ans, over, err := c.once(ctx, q, call, use)
		if over {
			return ans, err
		}
		if ctx.Err() != nil {
			return Answer{}, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
		}
		pause := wait + time.Duration(rand.Int64N(int64(wait)/2+1))
		var away *AwayError
		var status *StatusError
		var body *BodyError
		errors.As(err, &body)
		code := CodeError
		switch {
		case errors.As(err, &away):
			return Answer{}, fault.Down(CodeAway, err)
		case errors.As(err, &status) && (status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable):
			if status.After > 0 {
				pause = min(status.After, maxWait) + time.Duration(rand.Int64N(int64(firstWait)))
			}
			code = CodeBusy
			if n >= tries {
				return Answer{}, &fault.Error{Class: fault.Transient, Code: CodeBusy, Pause: true, Delay: pause, Err: err}
			}
		case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
			return Answer{}, fault.Down(CodeAway, err)
		case body != nil && body.TooLarge: // it would be as large again
			return Answer{}, &Unusable{Code: CodeInvalid, Reply: body.Head, Attempt: use.Requests, Err: err}
		case errors.As(err, &status) && status.Status < 500 && status.Status != http.StatusRequestTimeout, n >= tries:
			no := &Unusable{Code: CodeError, Attempt: use.Requests, Err: err}
			if body != nil {
				no.Reply = body.Head
			}
			return Answer{}, no
		}
		c.Slots.setLate(fmt.Sprintf("%s: attempt %d of %d in %s: %s", code, n+1, tries, pause.Round(100*time.Millisecond), err))
		c.Log.Debug("a model call will be tried again", append([]any{"attempt", n, "delay", pause, "error", err}, q.Log...)...)
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

// once asks once. A slot is held from before Afford is asked until what was spent is counted, so that at most as many calls as there are
// slots are not in the sums that Afford goes by. over: nothing is left to try.
func (c *Caller) once(ctx context.Context, q *Question, call Call, use *Usage) (ans Answer, over bool, err error) {
	give, err := c.Slots.Take(ctx)
	if err != nil {
		return Answer{}, false, err
	}
	defer func() {
		give()
		runtime.Gosched() // whoever has the slot now asks first; what this call brought can wait
	}()
	if q.Begun != nil {
		q.Begun()
	}
	if q.Afford != nil {
		if err := q.Afford(ctx); err != nil {
			return Answer{}, true, err
		}
	}
	use.Requests++
	start := time.Now()
	ctx, asked := begin(ctx, call.Model)
	ans, err = c.Client.Chat(ctx, call)
	asked(ans, err)
	use.Took += time.Since(start)
	if err != nil {
		return Answer{}, false, err
	}
	use.PromptTokens += ans.PromptTokens
	use.CompletionTok += ans.ReplyTokens
	if q.Spent != nil {
		err = q.Spent(ctx, ans.PromptTokens+ans.ReplyTokens)
	}
	return ans, true, err
}
