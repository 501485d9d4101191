package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

func requireFault(t testing.TB, err error, class, code string) {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, class, f.Class.String())
	require.Equal(t, code, f.Code)
}

func counter(reg *prometheus.Registry, outcome string) float64 {
	mf, err := reg.Gather()
	if err != nil {
		return -1
	}
	for _, f := range mf {
		if f.GetName() != "factmill_chunker_messages_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestRunnerPublishesThenAcks(t *testing.T) {
	testkit.NoLeaks(t)
	r := newRig(t)
	reg := prometheus.NewRegistry()
	cfg := config()
	cfg.Metrics = reg
	in := loaded("d1", "text")
	require.NoError(t, r.Publish(bus.WithTrace(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), in))
	got := make(chan bus.Delivery, 1)
	stop := r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		got <- in
		e := in.Event.(*events.Loaded)
		return []events.Event{chunked(e), staged(e)}, nil
	})
	d := testkit.Receive(t, "the delivery", got)
	require.Equal(t, in, d.Event)
	require.Equal(t, uint64(1), d.Seq)
	require.Equal(t, uint64(1), d.Attempt)
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", d.Trace)
	r.awaitCount(bus.StreamLoaded, 0)
	require.Equal(t, 1, r.count(bus.StreamChunked))
	require.Equal(t, 1, r.count(bus.StreamCommit))
	h := r.at(bus.StreamChunked, 1).Header
	require.Equal(t, "chunker", h.Get("ce-source"))
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", h.Get("traceparent"), "without a tracer it goes on as it came")
	require.NoError(t, cfg.Status.Ready())
	require.InDelta(t, 1, counter(reg, "handled"), 0)
	n, err := testutil.GatherAndCount(reg, "factmill_chunker_handle_seconds", "factmill_chunker_in_flight")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	stop()
	require.ErrorContains(t, cfg.Status.Ready(), "chunker on FACTMILL_LOADED is not running")
}

func TestEmitPublishesAtOnce(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "text"))
	release := make(chan struct{})
	r.start(config(), func(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
		if err := in.Emit(ctx, chunked(in.Event.(*events.Loaded))); err != nil {
			return nil, err
		}
		<-release
		return nil, nil
	})
	r.awaitCount(bus.StreamChunked, 1)
	require.Equal(t, 1, r.count(bus.StreamLoaded))
	close(release)
	r.awaitCount(bus.StreamLoaded, 0)
}

func TestDocumentErrorsFollowThePolicy(t *testing.T) {
	for policy, outcome := range map[string]string{
		events.PolicyRaise: events.OutcomeFailed, events.PolicySkip: events.OutcomeSkipped, events.PolicyQuarantine: events.OutcomeQuarantined,
	} {
		t.Run(policy, func(t *testing.T) {
			r := newRig(t)
			in := loaded("d1", "the text")
			in.Job.ErrorPolicy = policy
			r.publish(in)
			r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) {
				return nil, &fault.Error{Class: fault.Document, Code: "no_text", Items: 3, Err: errors.New("nothing to read in d1")}
			})
			r.awaitCount(bus.StreamLoaded, 0)
			e := decodeAt[events.Ended](r, bus.StreamCommit, 1)
			require.Equal(t, outcome, e.Outcome)
			require.Equal(t, in.Doc, *e.Doc)
			require.Equal(t, "src", e.Source)
			require.Equal(t, uint64(7), e.Base)
			require.Len(t, e.Failure.TraceID, 32)
			e.Failure.TraceID = ""
			require.Equal(t, graph.Failure{Stage: "chunker", Item: "key of d1", Code: "no_text", Message: "nothing to read in d1"}, *e.Failure)
			require.Zero(t, r.count(bus.StreamDead))
			if policy != events.PolicyQuarantine {
				require.Empty(t, e.Body)
				require.Zero(t, e.Items)
				return
			}
			require.Equal(t, []any{"doc.loaded", 3}, []any{e.BodyKind, e.Items})
			body, err := r.GetBody(t.Context(), "default", e.Body, 0)
			require.NoError(t, err)
			require.Contains(t, string(body), `"text":"the text"`)
		})
	}
}

func TestPermanentErrorsAndPanicsAreParked(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "fatal"), loaded("d2", "panic"))
	reg := prometheus.NewRegistry()
	cfg := config()
	cfg.Metrics = reg
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		if e := in.Event.(*events.Loaded); e.Text == "panic" {
			panic("boom")
		}
		return nil, fault.Fatal("broken", "cannot ever work")
	})
	r.awaitCount(bus.StreamLoaded, 0)
	require.Equal(t, 2, r.count(bus.StreamDead))
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	require.Equal(t, "factmill.default.dead.chunker.job1.d1", r.at(bus.StreamDead, 1).Subject)
	require.Equal(t, "key of d1", d.Item)
	require.Equal(t, "broken", d.Code)
	require.Equal(t, "cannot ever work", d.Error)
	require.Equal(t, bus.StreamLoaded, d.Stream)
	require.Equal(t, uint64(1), d.Seq)
	require.Equal(t, uint64(1), d.Attempts)
	require.Equal(t, loaded("d1", "fatal").ID(), d.Headers["Nats-Msg-Id"])
	require.Contains(t, string(d.Body), `"text":"fatal"`)
	p := decodeAt[events.Dead](r, bus.StreamDead, 2)
	require.Equal(t, "panic", p.Code)
	require.Equal(t, "the handler panicked: boom", p.Error)
	require.Equal(t, uint64(3), p.Attempts, "a panic is tried three times")
	end := decodeAt[events.Ended](r, bus.StreamCommit, 1)
	require.Equal(t, []string{events.OutcomeFailed, "FACTMILL_LOADED:1"}, []string{end.Outcome, end.Parked})
	require.False(t, r.at(bus.StreamCommit, 1).Time.Before(r.at(bus.StreamDead, 1).Time), "the letter lies there before its document ends")
	require.Equal(t, 2, r.count(bus.StreamCommit))
	require.InDelta(t, 2, counter(reg, "dead"), 0)
	require.InDelta(t, 2, counter(reg, "retried"), 0)
}

func TestTransientErrorsAreTriedAgainThenParked(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "slow"), loaded("d2", "never"))
	cfg := config()
	cfg.MaxAttempts = 3
	var first, second atomic.Int64
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		if in.Event.(*events.Loaded).Text == "never" {
			return nil, errors.New("not classified")
		}
		if in.Attempt == 1 {
			first.Store(time.Now().UnixNano())
			return nil, fault.Retry("busy", 300*time.Millisecond, errors.New("busy"))
		}
		second.Store(time.Now().UnixNano())
		return nil, nil
	})
	r.awaitCount(bus.StreamLoaded, 0)
	require.GreaterOrEqual(t, time.Duration(second.Load()-first.Load()), 290*time.Millisecond)
	require.Equal(t, 1, r.count(bus.StreamDead))
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	require.Equal(t, "internal", d.Code)
	require.Equal(t, "after 3 attempts: not classified", d.Error)
	require.Equal(t, uint64(3), d.Attempts)
}

func TestAMessageThatKillsItsWorkersIsParkedUnhandled(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "deadly"))
	cons, err := r.JS.Consumer(t.Context(), bus.StreamLoaded, bus.DurableChunker)
	require.NoError(t, err)
	for range 2 { // two workers that die with it
		m, err := cons.Next()
		require.NoError(t, err)
		require.NoError(t, m.Nak())
	}
	cfg := config()
	cfg.MaxAttempts = 2
	var calls atomic.Int64
	r.start(cfg, func(context.Context, bus.Delivery) ([]events.Event, error) { calls.Add(1); return nil, nil })
	r.awaitCount(bus.StreamLoaded, 0)
	require.Zero(t, calls.Load())
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	require.Equal(t, "gave_up", d.Code)
	require.Equal(t, "delivered 2 times and never answered", d.Error)
	require.Equal(t, "key of d1", decodeAt[events.Ended](r, bus.StreamCommit, 1).Failure.Item)
}

func TestUndecodableMessagesAreParked(t *testing.T) {
	r := newRig(t)
	for _, subject := range []string{"factmill.default.doc.loaded.job1.d1", "factmill.BAD.doc.loaded.job1.d$2"} {
		_, err := r.JS.Publish(t.Context(), subject, []byte("{not json"))
		require.NoError(t, err)
	}
	r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, nil })
	r.awaitCount(bus.StreamLoaded, 0)
	require.Equal(t, 2, r.count(bus.StreamDead))
	subjects := []string{r.at(bus.StreamDead, 1).Subject, r.at(bus.StreamDead, 2).Subject}
	require.ElementsMatch(t, []string{"factmill.default.dead.chunker.job1.d1", "factmill.default.dead.chunker.unknown.unknown"}, subjects)
	require.Equal(t, "undecodable", decodeAt[events.Dead](r, bus.StreamDead, 1).Code)
}

func TestAParkedDocumentEventNamesItsJob(t *testing.T) {
	r := newRig(t)
	for _, e := range []struct {
		body   string
		header map[string]string
	}{
		{`{"job":"nightly","text":"x"}`, nil}, {`{"text":"x"}`, nil}, {"a text", map[string]string{"Factmill-Job": "by-header"}}, {`{"job":"no.token"}`, nil},
	} {
		_, err := r.Ingest(t.Context(), "default", []byte(e.body), e.header)
		require.NoError(t, err)
	}
	cfg := config()
	cfg.Service, cfg.Stream, cfg.Durable, cfg.Concurrency = "loader", bus.StreamIngest, bus.DurableLoader, 1
	r.start(cfg, func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, fault.Fatal("broken", "no") })
	r.awaitCount(bus.StreamDead, 4)
	var got []string
	for seq := range uint64(4) {
		got = append(got, r.at(bus.StreamDead, seq+1).Subject)
	}
	require.ElementsMatch(t, []string{"factmill.default.dead.loader.nightly.event", "factmill.default.dead.loader.j2.event",
		"factmill.default.dead.loader.by-header.event", "factmill.default.dead.loader.j4.event"}, got)
}

func TestALargeDeadLetterTravelsByReference(t *testing.T) {
	r := newRig(t)
	body := []byte("{" + strings.Repeat("x", 900_000))
	_, err := r.JS.Publish(t.Context(), "factmill.default.doc.loaded.job1.d1", body)
	require.NoError(t, err)
	r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, nil })
	r.awaitCount(bus.StreamLoaded, 0)
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	require.Empty(t, d.Body)
	got, err := r.GetBody(t.Context(), "default", d.Headers["Factmill-Body"], 0)
	require.NoError(t, err)
	require.Equal(t, body, got)
}

func TestANewerEventIsHandedBack(t *testing.T) {
	r := newRig(t)
	m := &nats.Msg{Subject: "factmill.default.doc.loaded.job1.d1", Data: []byte("{}"), Header: nats.Header{"Factmill-Schema": []string{"doc.loaded/2"}}}
	_, err := r.JS.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	cfg := config()
	r.start(cfg, func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, errors.New("not reached") })
	testkit.Await(t, "not ready", func() bool {
		err := cfg.Status.Ready()
		return err != nil && strings.Contains(err.Error(), "newer major schema")
	})
	require.Equal(t, 1, r.count(bus.StreamLoaded))
	require.Zero(t, r.count(bus.StreamDead))
}

func TestUnservedIsHandedBackAndNeverParked(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "text"))
	cfg := config()
	cfg.MaxAttempts = 3 // so that the message is renewed at its first delivery
	var serve atomic.Bool
	var calls atomic.Int64
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		calls.Add(1)
		if !serve.Load() {
			return nil, fault.CannotServe("the job wants chunker x")
		}
		return nil, nil
	})
	testkit.Await(t, "five times, more often than a failing message may", func() bool { return calls.Load() >= 5 })
	require.EqualError(t, cfg.Status.Ready(), "chunker on FACTMILL_LOADED: the job wants chunker x")
	serve.Store(true)
	r.awaitCount(bus.StreamLoaded, 0)
	testkit.Await(t, "ready", func() bool { return cfg.Status.Ready() == nil })
	require.Zero(t, r.count(bus.StreamDead))
}

func TestADependencyThatIsDownPausesPulling(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.publish(loaded(fmt.Sprintf("d%d", i), "text"))
	}
	cfg := config()
	var up atomic.Bool
	var most atomic.Uint64
	var done atomic.Int64
	r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		if in.Attempt > most.Load() {
			most.Store(in.Attempt)
		}
		if !up.Load() {
			return nil, &fault.Error{Code: "committer_away", Pause: true, Delay: 50 * time.Millisecond, Err: errors.New("no responders")}
		}
		done.Add(1)
		return nil, nil
	})
	testkit.Await(t, "not ready", func() bool {
		err := cfg.Status.Ready()
		return err != nil && err.Error() == "chunker on FACTMILL_LOADED: committer_away: no responders"
	})
	ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond) // longer than AckWait
	defer stop()
	<-ctx.Done()
	require.LessOrEqual(t, most.Load(), uint64(2), "the deliveries are not burnt")
	up.Store(true)
	r.awaitCount(bus.StreamLoaded, 0)
	require.Equal(t, int64(10), done.Load())
	testkit.Await(t, "ready", func() bool { return cfg.Status.Ready() == nil })
}

// A dependency that says itself when to ask again is asked less and less often all the same.
func TestAPauseGrows(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d", "text"))
	calls := make(chan time.Time, 10)
	r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) {
		calls <- time.Now()
		if len(calls) > 2 {
			return nil, nil
		}
		return nil, &fault.Error{Code: "busy", Pause: true, Delay: time.Millisecond, Err: errors.New("busy")}
	})
	r.awaitCount(bus.StreamLoaded, 0)
	first, second, third := <-calls, <-calls, <-calls
	require.GreaterOrEqual(t, second.Sub(first), 500*time.Millisecond)
	require.GreaterOrEqual(t, third.Sub(second), time.Second)
}
