package resolver

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/services/resolver/internal/model"
)

// Judge asks a model whether names are of one thing. It is safe for concurrent use.
type Judge struct {
	cfg     Config
	model   *model.Judge
	metrics *judgeMetrics
	// room has an entry for each question that is in hand: as many as there are slots, and as many that wait for one.
	room chan struct{}
}

// NewJudge makes a judge. Nothing is asked yet: a model server that is away is said when there is a question.
func NewJudge(cfg Config, deps app.Deps) (*Judge, error) {
	cfg, deps = cfg.WithDefaults(), deps.WithDefaults()
	c, err := llm.NewClient(cfg.ModelURL, cfg.ModelTimeout)
	if err != nil {
		return nil, app.Misconfigured(err)
	}
	m, err := newJudgeMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	return &Judge{
		cfg: cfg, metrics: m, room: make(chan struct{}, 2*cfg.Slots),
		model: &model.Judge{Caller: llm.Caller{Client: c, Slots: llm.NewSlots(cfg.Slots, nil).Within(deps.ModelCalls), Log: deps.Log}},
	}, nil
}

// Close ends connections that nothing uses.
func (j *Judge) Close() { j.model.Client.Close() }

// Ask puts the pairs of a request before the model. The error is an *api.Error: 400 for a request that cannot be, 412 model_missing or
// model_differs, 429 busy when every slot is taken and as many questions wait, 503 model_unreachable, model_busy or not_ready.
func (j *Judge) Ask(ctx context.Context, graph string, req api.JudgeRequest) (api.JudgeReply, error) {
	reply, e := j.ask(ctx, graph, req)
	if e != nil {
		return reply, e
	}
	return reply, nil
}

func (j *Judge) ask(ctx context.Context, graph string, req api.JudgeRequest) (api.JudgeReply, *api.Error) {
	if e := req.Check(); e != nil {
		return api.JudgeReply{}, e
	}
	select {
	case j.room <- struct{}{}:
		defer func() { <-j.room }()
	default:
		return api.JudgeReply{}, api.Errorf(429, "busy", "%d questions are in hand of a judge with %d slots (ollama.slots): try again", cap(j.room), j.cfg.Slots)
	}
	reply, e := j.model.Ask(ctx, graph, req)
	j.metrics.count(reply, e)
	return reply, e
}

// endpoint is the verb match.judge.
func (j *Judge) endpoint() bus.Endpoint {
	return bus.Endpoint{
		Name: "match-judge", Subject: events.Root + ".*.match.judge", Limit: j.cfg.ModelTimeout,
		Handler: func(ctx context.Context, graph string, body []byte, _ func(string) string) (any, *api.Error) {
			var req api.JudgeRequest
			if e := api.Read(body, &req); e != nil {
				return nil, e
			}
			reply, e := j.ask(ctx, graph, req)
			if e != nil {
				return nil, e
			}
			return reply, nil
		},
	}
}

// workers is how many workers its requests need at most; others must be free for what is answered at once.
func (j *Judge) workers() int { return cap(j.room) }

// judgeMetrics of a process.
type judgeMetrics struct {
	pairs    *prometheus.CounterVec // by verdict
	requests prometheus.Counter
	failed   prometheus.Counter
	tokens   prometheus.Counter
}

func newJudgeMetrics(reg prometheus.Registerer) (*judgeMetrics, error) {
	m := &judgeMetrics{
		pairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "factmill_resolver_judge_pairs_total", Help: "Pairs of names that the judge gave a verdict on.",
		}, []string{"verdict"}),
		requests: counter("judge_requests_total", "Requests of the judge to the model server."),
		failed:   counter("judge_failed_total", "Questions of the judge that brought no answer that can be used, or no answer."),
		tokens:   counter("judge_tokens_total", "Tokens of the judge's prompts and replies."),
	}
	return m, errors.Join(share(reg, &m.pairs), share(reg, &m.requests), share(reg, &m.failed), share(reg, &m.tokens))
}

func (m *judgeMetrics) count(r api.JudgeReply, e *api.Error) {
	for _, v := range r.Verdicts {
		m.pairs.WithLabelValues(v.Verdict).Inc()
	}
	m.requests.Add(float64(r.Requests))
	m.tokens.Add(float64(r.PromptTokens + r.CompletionTokens))
	if e != nil || r.Failed > 0 {
		m.failed.Inc()
	}
}
