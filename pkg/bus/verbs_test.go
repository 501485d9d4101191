package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

type verbs struct {
	*rig
	begun   chan string
	release chan struct{}
}

func serve(t *testing.T, o bus.ServeOptions) *verbs {
	t.Helper()
	v := &verbs{rig: newRig(t), begun: make(chan string, 16), release: make(chan struct{})}
	o.Log = testkit.Quiet()
	endpoints := []bus.Endpoint{
		{Name: "jobs-get", Subject: "factmill.*.jobs.get", Handler: func(_ context.Context, graph string, body []byte, header func(string) string) (any, *api.Error) {
			var q api.JobGet
			if e := api.Read(body, &q); e != nil {
				return nil, e
			}
			if q.Job == "none" {
				e := api.Errorf(404, "job_not_found", "no job %q\nis known", q.Job)
				e.Details = map[string]any{"job": q.Job}
				return nil, e
			}
			return api.JobStatus{Job: q.Job, Graph: graph, State: api.JobPending, Reason: header("X")}, nil
		}},
		{Name: "jobs-wait", Subject: "factmill.*.jobs.wait", Handler: func(ctx context.Context, _ string, body []byte, _ func(string) string) (any, *api.Error) {
			v.begun <- string(body)
			select {
			case <-v.release:
				return json.RawMessage(body), nil
			case <-ctx.Done():
				return nil, api.Errorf(503, "not_ready", "the time limit has passed")
			}
		}},
		{Name: "jobs-large", Subject: "factmill.*.jobs.large", Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
			return strings.Repeat("x", 1<<20), nil
		}},
		{Name: "jobs-panic", Subject: "factmill.*.jobs.panic", Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
			panic("boom")
		}},
	}
	c := testkit.Connect(t, v.srv, "committer")
	testkit.Start(t, func(ctx context.Context) error {
		return c.Serve(ctx, bus.ServiceInfo{Name: "committer", Version: "1.2.3", Description: "owns the graph"}, endpoints, o)
	})
	testkit.Await(t, "the service", func() bool { return v.Request(t.Context(), bus.HealthSubject("committer"), nil, nil) == nil })
	return v
}

func (v *verbs) refused(subject string, req any) *api.Error {
	v.t.Helper()
	err := v.Request(v.t.Context(), subject, req, nil)
	var e *api.Error
	require.ErrorAs(v.t, err, &e)
	return e
}

// A verb of a noun that another service answers is left to that one, and refused while none of it runs.
func TestVerbsThatAnotherServiceAnswers(t *testing.T) {
	testkit.NoLeaks(t)
	v := serve(t, bus.ServeOptions{Nouns: []string{"jobs"}, Elsewhere: map[string]string{"jobs.review": "reviewer"}})
	e := v.refused("factmill.g1.jobs.review", nil)
	require.Equal(t, []any{503, "not_ready", "jobs.review is answered by the reviewer, and none runs: start one"}, []any{e.Status, e.Code, e.Message})
	c := testkit.Connect(t, v.srv, "reviewer")
	ep := bus.Endpoint{Name: "jobs-review", Subject: "factmill.*.jobs.review", Handler: func(_ context.Context, graph string, _ []byte, _ func(string) string) (any, *api.Error) {
		return graph + " is reviewed", nil
	}}
	testkit.Start(t, func(ctx context.Context) error {
		return c.Serve(ctx, bus.ServiceInfo{Name: "reviewer"}, []bus.Endpoint{ep}, bus.ServeOptions{})
	})
	testkit.Await(t, "the reviewer", func() bool { return v.Request(t.Context(), bus.HealthSubject("reviewer"), nil, nil) == nil })
	for range 50 {
		var said string
		require.NoError(t, v.Request(t.Context(), "factmill.g1.jobs.review", nil, &said))
		require.Equal(t, "g1 is reviewed", said)
	}
	e = v.refused("factmill.g1.jobs.frobnicate", nil)
	require.Equal(t, "unknown_verb", e.Code)
}

func TestVerbs(t *testing.T) {
	testkit.NoLeaks(t)
	v := serve(t, bus.ServeOptions{Nouns: []string{"jobs"}})
	var s api.JobStatus
	require.NoError(t, v.Request(t.Context(), "factmill.g1.jobs.get", api.JobGet{Job: "j1"}, &s))
	require.Equal(t, api.JobStatus{Job: "j1", Graph: "g1", State: "pending"}, s)

	e := v.refused("factmill.g1.jobs.get", api.JobGet{Job: "none"})
	require.Equal(t, &api.Error{Status: 404, Code: "job_not_found", Message: "no job \"none\"\nis known", Details: map[string]any{"job": "none"}}, e)
	m, err := v.NC.Request("factmill.g1.jobs.get", []byte(`{"job":"none"}`), time.Second)
	require.NoError(t, err)
	require.Equal(t, "404", m.Header.Get("Nats-Service-Error-Code"))
	require.JSONEq(t, `{"error":{"code":"job_not_found","message":"no job \"none\"\nis known","details":{"job":"none"}}}`, string(m.Data))

	e = v.refused("factmill.g1.jobs.get", map[string]any{"jbo": 1})
	require.Equal(t, []any{400, "unknown_field"}, []any{e.Status, e.Code})
	e = v.refused("factmill.Bad.jobs.get", nil)
	require.Equal(t, []any{400, "bad_name"}, []any{e.Status, e.Code})
	e = v.refused("factmill.g1.jobs.frobnicate", nil)
	require.Equal(t, []any{404, "unknown_verb", `jobs has no verb "frobnicate"`}, []any{e.Status, e.Code, e.Message})
	e = v.refused("factmill.g1.jobs.large", nil)
	require.Equal(t, []any{413, "too_large"}, []any{e.Status, e.Code})
	require.Equal(t, map[string]any{"bytes": float64(1<<20 + 2), "limit": float64(1 << 20)}, e.Details)
	e = v.refused("factmill.g1.jobs.panic", nil)
	require.Equal(t, []any{500, "internal"}, []any{e.Status, e.Code})
	e = v.refused("factmill.g1.nobody.get", nil)
	require.Equal(t, []any{503, "not_ready", "no service answers factmill.g1.nobody.get: is it running?"}, []any{e.Status, e.Code, e.Message})
	e = v.refused("factmill.g1.jobs.get", strings.Repeat("x", 1<<20))
	require.Equal(t, []any{413, "too_large"}, []any{e.Status, e.Code})
}

func TestVerbsAreListedByMicro(t *testing.T) {
	v := serve(t, bus.ServeOptions{})
	v.refused("factmill.g1.jobs.get", api.JobGet{Job: "none"})
	m, err := v.NC.Request("$SRV.INFO.committer", nil, time.Second)
	require.NoError(t, err)
	var info micro.Info
	require.NoError(t, json.Unmarshal(m.Data, &info))
	require.Equal(t, "1.2.3", info.Version)
	require.Equal(t, "owns the graph", info.Description)
	require.Len(t, info.Endpoints, 5)
	require.Equal(t, "factmill.*.jobs.get", info.Endpoints[0].Subject)
	require.Equal(t, "factmill.health.committer", info.Endpoints[4].Subject, "health is registered last: its answer speaks for every verb")
	var got bus.VerbStats
	testkit.Await(t, "the request to be counted", func() bool {
		m, err := v.NC.Request("$SRV.STATS.committer", nil, time.Second)
		var stats micro.Stats
		return err == nil && json.Unmarshal(m.Data, &stats) == nil && stats.Endpoints[0].NumRequests == 1 &&
			json.Unmarshal(stats.Endpoints[0].Data, &got) == nil && got.Answered == 1
	})
	require.Equal(t, uint64(1), got.Errors)
	require.Equal(t, "job_not_found: no job \"none\"\nis known", got.LastError)
	// A verb without nouns of its own has no answer for others: that is another service's.
	require.Equal(t, "not_ready", v.refused("factmill.g1.jobs.frobnicate", nil).Code)
}

func TestASlowVerbDoesNotHoldTheOthersAndAFullPoolIsBusy(t *testing.T) {
	v := serve(t, bus.ServeOptions{Workers: 2, Queue: 2})
	done := make(chan error, 4)
	slow := func() {
		done <- v.Request(t.Context(), "factmill.g1.jobs.wait", nil, nil)
	}
	go slow()
	testkit.Receive(t, "the slow request", v.begun)
	require.NoError(t, v.Request(t.Context(), "factmill.g1.jobs.get", api.JobGet{Job: "j1"}, nil))
	go slow()
	testkit.Receive(t, "the second slow request", v.begun)
	go slow()
	go slow()
	// Two work, two wait: sooner or later the next ones are refused.
	testkit.Await(t, "busy", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer stop()
		var e *api.Error
		return errors.As(v.Request(ctx, "factmill.g1.jobs.get", api.JobGet{Job: "j1"}, nil), &e) && e.Status == 429 && e.Code == "busy"
	})
	close(v.release)
	for range 4 {
		err := testkit.Receive(t, "a slow answer", done)
		if err != nil {
			require.ErrorContains(t, err, "requests wait already")
		}
	}
}

// A verb with workers of its own takes none of the others', however many of its requests wait.
func TestAVerbWithWorkersOfItsOwn(t *testing.T) {
	testkit.NoLeaks(t)
	r := newRig(t)
	c := testkit.Connect(t, r.srv, "reviewer")
	begun, release := make(chan struct{}, 2), make(chan struct{})
	slow := bus.Endpoint{Name: "approve", Subject: "factmill.*.review.approve", Workers: 2, Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
		begun <- struct{}{}
		<-release
		return 1, nil
	}}
	quick := bus.Endpoint{Name: "list", Subject: "factmill.*.review.list", Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
		return 2, nil
	}}
	stop := testkit.Start(t, func(ctx context.Context) error {
		return c.Serve(ctx, bus.ServiceInfo{Name: "reviewer"}, []bus.Endpoint{slow, quick}, bus.ServeOptions{Workers: 1})
	})
	testkit.Await(t, "the service", func() bool { return r.Request(t.Context(), bus.HealthSubject("reviewer"), nil, nil) == nil })
	done := make(chan error, 6)
	for range cap(done) {
		go func() { done <- r.Request(t.Context(), "factmill.default.review.approve", nil, nil) }()
	}
	testkit.Receive(t, "a slow request", begun)
	testkit.Receive(t, "another slow request", begun)
	var n int
	require.NoError(t, r.Request(t.Context(), "factmill.default.review.list", nil, &n))
	require.Equal(t, 2, n)
	go func() {
		for range cap(done) - 2 {
			<-begun
		}
	}()
	close(release)
	for range cap(done) {
		require.NoError(t, testkit.Receive(t, "a slow answer", done))
	}
	stop()
}

func TestVerbsHaveATimeLimit(t *testing.T) {
	v := serve(t, bus.ServeOptions{Limit: 50 * time.Millisecond})
	e := v.refused("factmill.g1.jobs.wait", nil)
	require.Equal(t, []any{503, "not_ready", "the time limit has passed"}, []any{e.Status, e.Code, e.Message})
}

func TestRequestsUnderWayAreAnsweredWhenAServiceStops(t *testing.T) {
	r := newRig(t)
	c := testkit.Connect(t, r.srv, "reviewer")
	begun, release := make(chan struct{}), make(chan struct{})
	ep := bus.Endpoint{Name: "list", Subject: "factmill.*.review.list", Handler: func(context.Context, string, []byte, func(string) string) (any, *api.Error) {
		close(begun)
		<-release
		return 42, nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Serve(ctx, bus.ServiceInfo{Name: "reviewer"}, []bus.Endpoint{ep}, bus.ServeOptions{Workers: 1})
	}()
	testkit.Await(t, "the service", func() bool { return r.Request(t.Context(), bus.HealthSubject("reviewer"), nil, nil) == nil })
	answer := make(chan int, 1)
	var failed atomic.Value
	go func() {
		var n int
		if err := r.Request(t.Context(), "factmill.default.review.list", nil, &n); err != nil {
			failed.Store(err)
		}
		answer <- n
	}()
	testkit.Receive(t, "the request", begun)
	stop()
	close(release)
	require.Equal(t, 42, testkit.Receive(t, "the answer", answer), "%v", failed.Load())
	require.NoError(t, testkit.Receive(t, "the end", ended))
	require.ErrorContains(t, r.Request(t.Context(), "factmill.default.review.list", nil, nil), "no service answers")
}

func TestPermissionErrorsAreReported(t *testing.T) {
	r := newRig(t)
	require.Empty(t, r.Failed())
	r.NC.Opts.AsyncErrorCB(r.NC, nil, nats.ErrPermissionViolation)
	err := testkit.Receive(t, "the failure", r.Failed())
	require.ErrorIs(t, err, nats.ErrPermissionViolation)
	require.ErrorContains(t, err, "test lacks a permission at NATS")
}
