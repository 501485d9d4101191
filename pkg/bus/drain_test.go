package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/testkit"
)

func TestHeartbeatKeepsASlowHandlerAlone(t *testing.T) {
	r := newRig(t)
	// One is handled slowly, the other waits in the buffer meanwhile: neither may be delivered again.
	r.publish(loaded("d1", "slow"), loaded("d2", "slow"))
	cfg := config()
	cfg.Concurrency, cfg.Prefetch = 1, 1
	var calls atomic.Int64
	slow := func(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
		calls.Add(1)
		tm := time.NewTimer(3 * testkit.AckWait / 2)
		defer tm.Stop()
		select {
		case <-tm.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if in.Attempt != 1 {
			return nil, fault.Fatal("again", "attempt %d", in.Attempt)
		}
		return nil, nil
	}
	r.start(cfg, slow)
	testkit.Await(t, "the first", func() bool { return calls.Load() == 1 })
	r.start(config(), func(context.Context, bus.Delivery) ([]events.Event, error) {
		return nil, fault.Fatal("stolen", "another worker got it")
	})
	r.awaitCount(bus.StreamLoaded, 0)
	require.Zero(t, r.count(bus.StreamDead))
	require.Equal(t, int64(2), calls.Load())
}

func TestDrainHandsBackAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	r := newRig(t)
	for i := range 6 {
		r.publish(loaded(fmt.Sprintf("d%d", i), "text"))
	}
	begun := make(chan string, 10)
	stop := r.start(config(), func(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
		begun <- in.Event.Where().Item
		<-ctx.Done()
		return nil, ctx.Err()
	})
	testkit.Receive(t, "a message", begun)
	testkit.Receive(t, "a message", begun)
	at := time.Now()
	stop()
	require.Less(t, time.Since(at), time.Second)
	var n atomic.Int64
	r.start(config(), func(_ context.Context, in bus.Delivery) ([]events.Event, error) { n.Add(1); return nil, nil })
	testkit.AwaitFor(t, testkit.AckWait/2, "all of them, before an ack timer could have run out", func() bool { return n.Load() == 6 })
}

func TestDrainPublishesWhatIsFinished(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "text"))
	begun := make(chan struct{})
	stop := r.start(config(), func(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
		close(begun)
		<-ctx.Done() // told to stop, and finishes all the same
		return []events.Event{chunked(in.Event.(*events.Loaded))}, nil
	})
	testkit.Receive(t, "the message", begun)
	stop()
	require.Equal(t, 1, r.count(bus.StreamChunked))
	require.Zero(t, r.count(bus.StreamLoaded))
}

func TestAHandlerThatDoesNotEndIsReported(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "text"))
	c := testkit.Connect(t, r.srv, "chunker")
	cfg := config()
	cfg.Grace = 50 * time.Millisecond
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		done <- c.Run(ctx, cfg, bus.HandlerFunc(func(context.Context, bus.Delivery) ([]events.Event, error) {
			close(begun)
			<-release
			close(ended)
			return nil, nil
		}))
	}()
	testkit.Receive(t, "the message", begun)
	stop()
	require.ErrorContains(t, testkit.Receive(t, "the end", done), "a handler did not end within 100ms")
	cons, err := r.JS.Consumer(t.Context(), bus.StreamLoaded, bus.DurableChunker)
	require.NoError(t, err)
	m, err := cons.Next()
	require.NoError(t, err)
	require.NoError(t, m.InProgress())
	close(release)
	<-ended
	require.Equal(t, 1, r.count(bus.StreamLoaded), "its late end does not take the message from the next worker")
}

func TestADeletedConsumerEndsTheRunner(t *testing.T) {
	for _, gone := range []string{"consumer", "stream"} {
		t.Run(gone, func(t *testing.T) {
			r := newRig(t)
			cfg := config()
			done := make(chan error, 1)
			go func() {
				done <- r.Run(t.Context(), cfg, bus.HandlerFunc(func(context.Context, bus.Delivery) ([]events.Event, error) { return nil, nil }))
			}()
			testkit.Await(t, "ready", func() bool { return cfg.Status.Ready() == nil })
			if gone == "stream" {
				require.NoError(t, r.JS.DeleteStream(t.Context(), bus.StreamLoaded))
			} else {
				require.NoError(t, r.JS.DeleteConsumer(t.Context(), bus.StreamLoaded, bus.DurableChunker))
			}
			require.ErrorContains(t, testkit.Receive(t, "the end", done), "run chunker: consumer chunker on FACTMILL_LOADED")
			err := r.Run(t.Context(), cfg, nil)
			require.ErrorContains(t, err, "consumer chunker on FACTMILL_LOADED does not exist: run factmill provision")
		})
	}
}

func TestReplayOfADeadLetter(t *testing.T) {
	r := newRig(t)
	r.publish(loaded("d1", "text"))
	var fixed atomic.Bool
	got := make(chan events.Event, 1)
	r.start(config(), func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
		if !fixed.Load() {
			return nil, fault.Fatal("broken", "broken")
		}
		got <- in.Event
		return nil, nil
	})
	r.awaitCount(bus.StreamLoaded, 0)
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	fixed.Store(true)
	require.NoError(t, r.Replay(t.Context(), &d, "replay:1"))
	require.Equal(t, loaded("d1", "text"), testkit.Receive(t, "the replayed event", got))
}

func TestARestartedServerIsFoundAgain(t *testing.T) {
	testkit.NoLeaks(t)
	dir := t.TempDir()
	srv := testkit.Server(t, embedded.Options{Dir: dir, Listen: "127.0.0.1:0"})
	address := strings.TrimPrefix(srv.ClientURL(), "nats://")
	connect := func() *bus.Conn {
		c, err := bus.Connect(t.Context(), bus.Options{URL: "nats://" + address, Log: testkit.Quiet()})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	c := connect()
	require.NoError(t, bus.EnsureAll(t.Context(), c.JS, testkit.Table()))
	var n atomic.Int64
	testkit.Start(t, func(ctx context.Context) error {
		return c.Run(ctx, config(), bus.HandlerFunc(func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
			n.Add(1)
			return []events.Event{chunked(in.Event.(*events.Loaded))}, nil
		}))
	})
	require.NoError(t, c.Publish(t.Context(), loaded("d1", "text")))
	testkit.Await(t, "the first", func() bool { return n.Load() == 1 })
	srv.Shutdown(true)
	published := make(chan error, 1)
	go func() { published <- c.Publish(t.Context(), loaded("d2", "text"), staged(loaded("d2", "text"))) }()
	testkit.Server(t, embedded.Options{Dir: dir, Listen: address})
	require.NoError(t, testkit.Receive(t, "the publish that began without a server", published))
	at := time.Now()
	testkit.Await(t, "the second", func() bool { return n.Load() >= 2 })
	require.Less(t, time.Since(at), 3*time.Second, "the runner pulls as soon as it is connected")
	s, err := c.JS.Stream(t.Context(), bus.StreamChunked)
	require.NoError(t, err)
	testkit.Await(t, "both outputs", func() bool {
		i, err := s.Info(t.Context())
		return err == nil && i.State.Msgs == 2
	})
}

func TestBatchesAreBoundedAndAnsweredOneByOne(t *testing.T) {
	testkit.NoLeaks(t)
	r := newRig(t)
	var out []events.Event
	for i := range 300 {
		out = append(out, &events.Ended{Job: job(events.PolicyRaise), Source: "s" + strconv.Itoa(i), Outcome: events.OutcomeListed, Documents: i})
	}
	r.publish(out...)
	c := testkit.Connect(t, r.srv, "committer")
	cfg := bus.RunConfig{Service: "committer", Stream: bus.StreamCommit, MaxBatch: 100, Log: testkit.Quiet(), Seed: 1, MaxAttempts: 5}
	var most, retried atomic.Int64
	testkit.Start(t, func(ctx context.Context) error {
		return c.RunBatch(ctx, cfg, bus.BatchHandlerFunc(func(_ context.Context, in []bus.Delivery) []bus.Result {
			most.Store(max(most.Load(), int64(len(in))))
			res := make([]bus.Result, len(in))
			for i, d := range in {
				switch n := d.Event.(*events.Ended).Documents; {
				case n == 7 && d.Attempt == 1:
					retried.Add(1)
					res[i].Err = fault.Retry("later", time.Millisecond, errors.New("later"))
				case n == 9:
					panic("nine")
				default:
					res[i].Out = []events.Event{&events.JobState{Graph: "default", Job: "j" + strconv.Itoa(n), State: "opened"}}
				}
			}
			return res
		}))
	})
	r.awaitCount(bus.StreamCommit, 0)
	require.Equal(t, 299, r.count(bus.StreamJobs))
	require.Equal(t, int64(100), most.Load())
	require.GreaterOrEqual(t, retried.Load(), int64(1))
	d := decodeAt[events.Dead](r, bus.StreamDead, 1)
	require.Equal(t, "panic", d.Code)
	require.Equal(t, "s9", d.Doc)
	require.Equal(t, 1, r.count(bus.StreamDead))
}

func TestBatchBytesAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range 6 {
		r.publish(loaded(fmt.Sprintf("d%d", i), strings.Repeat("x", 10_000)))
	}
	cfg := config()
	cfg.BatchBytes, cfg.BatchWait = 25_000, time.Second
	var most, n atomic.Int64
	testkit.Start(t, func(ctx context.Context) error {
		return r.RunBatch(ctx, cfg, bus.BatchHandlerFunc(func(_ context.Context, in []bus.Delivery) []bus.Result {
			most.Store(max(most.Load(), int64(len(in))))
			n.Add(int64(len(in)))
			return make([]bus.Result, len(in))
		}))
	})
	testkit.Await(t, "all", func() bool { return n.Load() == 6 })
	require.Equal(t, int64(2), most.Load())
}

func TestEndedFor(t *testing.T) {
	doc := events.DocRef{Key: "k", Token: "tok", Source: "src", Try: 2}
	f := graph.Failure{Stage: "s", Code: "c", Message: "m"}
	j := job(events.PolicyRaise)
	for _, e := range []events.Event{
		&events.Loaded{Job: j, Doc: doc, Base: 3}, &events.Chunked{Job: j, Doc: doc}, &events.Staged{Job: j, Doc: doc, Base: 3},
		&events.Extracted{Job: j, Doc: doc}, &events.Resolved{Job: j, Doc: doc},
	} {
		end := bus.EndedFor(e, events.OutcomeFailed, f)
		require.Equal(t, doc, *end.Doc)
		require.Equal(t, "src", end.Source)
		require.Equal(t, j, end.Job)
		require.Equal(t, "k", end.Failure.Item)
		require.Equal(t, "factmill.default.doc.ended.job1.tok", end.Where().String())
	}
	src := events.Source{Token: "src", Name: "a.csv"}
	end := bus.EndedFor(&events.Found{Job: j, Source: src}, events.OutcomeSkipped, f)
	require.Nil(t, end.Doc)
	require.Equal(t, "src", end.Source)
	require.Equal(t, "a.csv", end.Name)
	require.Equal(t, "a.csv", end.Failure.Item)
	src.Only, src.Try = "k", 2
	end = bus.EndedFor(&events.Found{Job: j, Source: src}, events.OutcomeSkipped, f)
	require.Equal(t, "k", end.Doc.Key)
	require.Equal(t, 2, end.Doc.Try)
	require.Len(t, end.Doc.Token, 24)
	require.Equal(t, "k", end.Failure.Item)
	require.Nil(t, bus.EndedFor(&events.Sealed{Job: j}, events.OutcomeFailed, f))
}
