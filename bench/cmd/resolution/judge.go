package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/factmill/factmill/bench/eval"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/services/resolver"
)

// asked is a model that is asked, and what that came to.
type asked struct {
	judge *resolver.Judge
	model string

	pairs, requests, failed, prompt, completion int
	unsure                                      map[string]int // uncertain ones, by why
	took                                        time.Duration
}

func newAsked(url, model string) (*asked, error) {
	if model == "" {
		return nil, fmt.Errorf("-judge needs -judge-model: name one that the server at %s has", url)
	}
	j, err := resolver.NewJudge(resolver.Config{ModelURL: url}, app.Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return nil, err
	}
	return &asked{judge: j, model: model, unsure: map[string]int{}}, nil
}

func (a *asked) ask(ctx context.Context, pairs []eval.NamePair) ([]string, error) {
	req := api.JudgeRequest{Model: a.model}
	for _, p := range pairs {
		req.Pairs = append(req.Pairs, api.JudgePair{Label: p.Label, A: p.A, B: p.B})
	}
	start := time.Now()
	reply, err := a.judge.Ask(ctx, "eval", req)
	if err != nil {
		return nil, err
	}
	a.took += time.Since(start)
	a.pairs += len(pairs)
	a.requests += reply.Requests
	a.failed += reply.Failed
	a.prompt += reply.PromptTokens
	a.completion += reply.CompletionTokens
	out := make([]string, len(reply.Verdicts))
	for i, v := range reply.Verdicts {
		out[i] = v.Verdict
		if v.Verdict == api.VerdictUncertain {
			why := v.Why
			if why == "" {
				why = "said so"
			}
			a.unsure[why]++
		}
	}
	return out, nil
}

func (a *asked) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %d pairs in %d requests, %d failed, %d + %d tokens, %s; uncertain:", a.model, a.pairs, a.requests, a.failed, a.prompt, a.completion, a.took.Round(time.Second))
	for _, why := range slices.Sorted(maps.Keys(a.unsure)) {
		fmt.Fprintf(w, " %s %d", why, a.unsure[why])
	}
	fmt.Fprintln(w)
}
