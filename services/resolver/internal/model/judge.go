// Package model asks a model whether names are of one thing, and reads what it answers.
package model

import (
	"context"
	"errors"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/llm"
)

// roomBase and roomPair are what is asked of a reply at first, in tokens: a dozen words of reason a pair, and the JSON around them.
const roomBase, roomPair = 200, 80

// Judge puts pairs of names before a model. It is safe for concurrent use.
type Judge struct{ llm.Caller }

// errBudget ends a question that may make no more requests.
var errBudget = errors.New("no more requests may be made")

// Ask puts pairs before the model in one question. The request has been checked.
//
// An answer that cannot be used leaves its pairs uncertain. An error says that nothing was decided and asking later may help (503), or that
// the request names what the model server does not have (412); Details has the server's url, and the requests that were made.
func (j *Judge) Ask(ctx context.Context, graph string, req api.JudgeRequest) (api.JudgeReply, *api.Error) {
	n := len(req.Pairs)
	reply := api.JudgeReply{PromptID: PromptID}
	if e := j.serves(ctx, req); e != nil {
		return reply, e
	}
	shown, err := Shown(req.Pairs)
	if err != nil {
		return reply, api.Errorf(500, "internal", "%v", err)
	}
	f, err := format(n)
	if err != nil {
		return reply, api.Errorf(500, "internal", "%v", err)
	}
	var use llm.Usage
	q := llm.Question{
		Call: llm.Call{
			Model: req.Model, Format: f, Room: roomBase + roomPair*n, NoThoughts: true,
			Messages: []llm.Message{{Role: "system", Content: judgeText}, {Role: "user", Content: shown}},
		},
		Read:   func(content string) (err error) { reply.Verdicts, err = Parse(content, n); return err },
		Repair: repair,
		Afford: func(context.Context) error {
			if req.MaxRequests > 0 && use.Requests >= req.MaxRequests {
				return errBudget
			}
			return nil
		},
		Log: []any{"graph", graph, "pairs", n},
	}
	_, err = j.Caller.Ask(ctx, q, &use)
	reply.Requests, reply.PromptTokens, reply.CompletionTokens = use.Requests, use.PromptTokens, use.CompletionTok
	var no *llm.Unusable
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, errBudget):
		fail(&reply, n, api.WhyBudget)
	case errors.As(err, &no):
		j.Log.Warn("the judge's reply cannot be used", "graph", graph, "code", no.Code, "attempt", no.Attempt, "error", no.Err, "reply", llm.Clip(no.Reply, 200))
		fail(&reply, n, no.Code)
	default:
		return reply, j.refusal(req.Model, err, use.Requests)
	}
	return reply, nil
}

// serves fails when the server has another model than the request names.
func (j *Judge) serves(ctx context.Context, req api.JudgeRequest) *api.Error {
	if req.ModelDigest == "" {
		return nil
	}
	have, err := j.Client.Digest(ctx, req.Model, req.ModelDigest)
	if err != nil {
		return j.refusal(req.Model, err, 0)
	}
	if have != req.ModelDigest {
		e := api.Errorf(412, "model_differs", "the model server at %s has %s with the digest %.12s, not %.12s: give it that model back, or put ollama.model_digest",
			j.Client.URL(), req.Model, have, req.ModelDigest)
		e.Details = map[string]any{"url": j.Client.URL(), "digest": have}
		return e
	}
	return nil
}

// refusal is what a caller is told when the server, not the answer, is at fault.
func (j *Judge) refusal(model string, err error, requests int) *api.Error {
	var away *llm.AwayError
	var e *api.Error
	switch f := fault.Of(err); {
	case errors.As(err, &away) && away.Missing:
		e = api.Errorf(412, "model_missing", "%v", err)
	case errors.As(err, &away):
		e = api.Errorf(503, "model_unreachable", "%v: is it running? ollama.url names it", err)
	case f.Class == fault.Interrupted, errors.Is(err, context.DeadlineExceeded):
		e = api.Errorf(503, "not_ready", "the judge was stopped before %s at %s had answered: ask again", model, j.Client.URL())
	case f.Code == llm.CodeBusy:
		e = api.Errorf(503, "model_busy", "the model server at %s: %v", j.Client.URL(), err)
	default:
		e = api.Errorf(503, "model_unreachable", "the model server at %s: %v", j.Client.URL(), err)
	}
	e.Details = map[string]any{"url": j.Client.URL(), "requests": requests}
	return e
}

// fail leaves every pair uncertain.
func fail(r *api.JudgeReply, n int, why string) {
	r.Failed, r.Verdicts = 1, make([]api.JudgeVerdict, n)
	for i := range r.Verdicts {
		r.Verdicts[i] = api.JudgeVerdict{Verdict: api.VerdictUncertain, Why: why}
	}
}
