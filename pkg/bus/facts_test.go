package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// What this package builds on in NATS. When an upgrade changes one of these, the code that relies on it must be looked at.

type fact struct {
	t testing.TB
	*bus.Conn
	s jetstream.Stream
}

func facts(t *testing.T, change func(*jetstream.StreamConfig)) fact {
	t.Helper()
	srv := testkit.Server(t, embedded.Options{Dir: t.TempDir()})
	c := testkit.Connect(t, srv, "facts")
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, AllowAtomicPublish: true}
	if change != nil {
		change(&cfg)
	}
	s, err := c.JS.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	return fact{t: t, Conn: c, s: s}
}

func (f fact) consumer(cfg jetstream.ConsumerConfig) jetstream.Consumer {
	f.t.Helper()
	cfg.Durable, cfg.AckPolicy = "c", jetstream.AckExplicitPolicy
	c, err := f.s.CreateConsumer(f.t.Context(), cfg)
	require.NoError(f.t, err)
	return c
}

func (f fact) publish(n int) {
	f.t.Helper()
	for i := range n {
		_, err := f.JS.Publish(f.t.Context(), "s.a", fmt.Appendf(nil, "%d", i))
		require.NoError(f.t, err)
	}
}

func (f fact) next(c jetstream.Consumer, wait time.Duration) jetstream.Msg {
	f.t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(wait))
	if errors.Is(err, nats.ErrTimeout) {
		return nil
	}
	require.NoError(f.t, err)
	return m
}

func (f fact) msgs() uint64 {
	f.t.Helper()
	i, err := f.s.Info(f.t.Context())
	require.NoError(f.t, err)
	return i.State.Msgs
}

func deliveries(t testing.TB, m jetstream.Msg) uint64 {
	t.Helper()
	require.NotNil(t, m, "a message was expected")
	d, err := m.Metadata()
	require.NoError(t, err)
	return d.NumDelivered
}

func TestFactDefaultPrefetchTakesEverything(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{})
	f.publish(40)
	release := make(chan struct{})
	cc, err := c.Consume(func(jetstream.Msg) { <-release })
	require.NoError(t, err)
	testkit.Await(t, "all 40 to lie in one client whose handler has one", func() bool {
		i, err := c.Info(t.Context())
		return err == nil && i.NumAckPending == 40
	})
	cc.Stop()
	close(release)
	<-cc.Closed()
}

func TestFactAckTimerRunsInTheClientsBuffer(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{AckWait: 200 * time.Millisecond})
	f.publish(1)
	require.Equal(t, uint64(1), deliveries(t, f.next(c, time.Second)))
	require.Equal(t, uint64(2), deliveries(t, f.next(c, 2*time.Second)), "nobody looked at it, and it was delivered again")
}

func TestFactBackOffReplacesAckWaitAndNakIgnoresIt(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{AckWait: 30 * time.Second, MaxDeliver: 5, BackOff: []time.Duration{300 * time.Millisecond, time.Hour}})
	f.publish(1)
	require.NotNil(t, f.next(c, time.Second))
	m := f.next(c, 3*time.Second)
	require.Equal(t, uint64(2), deliveries(t, m), "after the back-off, not after AckWait")
	require.NoError(t, m.Nak())
	require.Equal(t, uint64(3), deliveries(t, f.next(c, 2*time.Second)), "at once, not after an hour")
}

func TestFactNakWithDelay(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{})
	f.publish(1)
	require.NoError(t, f.next(c, time.Second).NakWithDelay(400*time.Millisecond))
	at := time.Now()
	require.NotNil(t, f.next(c, 3*time.Second))
	require.GreaterOrEqual(t, time.Since(at), 300*time.Millisecond)
}

func TestFactMaxDeliverLeavesTheMessageInvisible(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{AckWait: 100 * time.Millisecond, MaxDeliver: 1})
	f.publish(1)
	require.NotNil(t, f.next(c, time.Second))
	require.Nil(t, f.next(c, time.Second))
	require.Equal(t, uint64(1), f.msgs())
}

func TestFactWorkQueueForgetsAckedIdsAtARestart(t *testing.T) {
	dir := t.TempDir()
	publish := func(c *bus.Conn) bool {
		a, err := c.JS.Publish(t.Context(), "s.a", nil, jetstream.WithMsgID("one"))
		require.NoError(t, err)
		return a.Duplicate
	}
	srv := testkit.Server(t, embedded.Options{Dir: dir})
	c := testkit.Connect(t, srv, "facts")
	s, err := c.JS.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Retention: jetstream.WorkQueuePolicy})
	require.NoError(t, err)
	f := fact{t: t, Conn: c, s: s}
	cons := f.consumer(jetstream.ConsumerConfig{})
	require.False(t, publish(c))
	require.NoError(t, f.next(cons, time.Second).DoubleAck(t.Context()))
	require.True(t, publish(c), "before the restart it is remembered")
	c.Close()
	srv.Shutdown(true)
	c = testkit.Connect(t, testkit.Server(t, embedded.Options{Dir: dir}), "facts")
	require.False(t, publish(c), "after it, it is not")
}

func TestFactARetryWithTheSameIdIsSwallowed(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{})
	for i, duplicate := range []bool{false, true} {
		a, err := f.JS.Publish(t.Context(), "s.a", nil, jetstream.WithMsgID("one"))
		require.NoError(t, err)
		require.Equal(t, duplicate, a.Duplicate)
		if i == 0 {
			require.NoError(t, f.next(c, time.Second).DoubleAck(t.Context()))
		}
	}
	require.Zero(t, f.msgs())
}

func TestFactALateAckIsAccepted(t *testing.T) {
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{AckWait: 200 * time.Millisecond})
	f.publish(1)
	stalled := f.next(c, time.Second)
	require.Equal(t, uint64(2), deliveries(t, f.next(c, 2*time.Second)), "another worker has it now")
	require.NoError(t, stalled.DoubleAck(t.Context()))
	require.Zero(t, f.msgs(), "the stalled worker's ack took it from the other")
}

func TestFactHeadersCountToMaxPayload(t *testing.T) {
	f := facts(t, nil)
	max := int(f.NC.MaxPayload())
	require.Equal(t, 1<<20, max)
	require.NoError(t, f.NC.PublishMsg(&nats.Msg{Subject: "t", Data: make([]byte, max)}))
	err := f.NC.PublishMsg(&nats.Msg{Subject: "t", Data: make([]byte, max), Header: nats.Header{"A": []string{"b"}}})
	require.ErrorIs(t, err, nats.ErrMaxPayload)
}

func TestFactPlainPublishToAFullStreamSaysNothing(t *testing.T) {
	f := facts(t, func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 })
	f.publish(1)
	require.NoError(t, f.NC.Publish("s.a", make([]byte, 2000)))
	require.NoError(t, f.NC.Flush())
	require.NoError(t, f.NC.LastError())
	require.Equal(t, uint64(1), f.msgs())
	_, err := f.JS.Publish(t.Context(), "s.a", make([]byte, 2000))
	var api *jetstream.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, jetstream.ErrorCode(10077), api.ErrorCode)
	require.Contains(t, api.Description, "maximum bytes exceeded")
}

func TestFactAtomicBatch(t *testing.T) {
	f := facts(t, nil)
	batch := func(n int, id func(i int) string) error {
		msgs := make([]*nats.Msg, n)
		for i := range msgs {
			msgs[i] = &nats.Msg{Subject: "s.a", Header: nats.Header{"Nats-Msg-Id": []string{id(i)}}}
		}
		_, err := jetstreamext.PublishMsgBatch(t.Context(), f.JS, msgs, jetstreamext.BatchFlowControl{AckTimeout: 5 * time.Second})
		return err
	}
	code := func(err error) jetstream.ErrorCode {
		var api *jetstream.APIError
		require.ErrorAs(t, err, &api)
		return api.ErrorCode
	}
	name := func(p string) func(int) string { return func(i int) string { return fmt.Sprint(p, i) } }
	require.NoError(t, batch(1000, name("a")))
	require.Equal(t, uint64(1000), f.msgs())
	require.Equal(t, jetstreamext.JSErrCodeBatchPublishExceedsLimit, code(batch(1001, name("b"))))
	require.Equal(t, jetstream.ErrorCode(10201), code(batch(3, func(i int) string { return []string{"c", "a7", "d"}[i] })))
	require.Equal(t, uint64(1000), f.msgs(), "a refused batch leaves nothing")
}

func TestFactMicroHandlesOneRequestAtATime(t *testing.T) {
	f := facts(t, nil)
	begun, release := make(chan string, 2), make(chan struct{})
	svc, err := micro.AddService(f.NC, micro.Config{Name: "m", Version: "1.0.0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, svc.Stop()) }()
	require.NoError(t, svc.AddEndpoint("e", micro.HandlerFunc(func(r micro.Request) {
		begun <- string(r.Data())
		<-release
		_ = r.Respond(nil)
	}), micro.WithEndpointSubject("m.*.e")))
	in := f.NC.NewRespInbox()
	got, err := f.NC.SubscribeSync(in)
	require.NoError(t, err)
	require.NoError(t, f.NC.PublishRequest("m.x.e", in, []byte("1")))
	require.NoError(t, f.NC.PublishRequest("m.y.e", in, []byte("2")))
	require.Equal(t, "1", testkit.Receive(t, "the first request", begun))
	require.NoError(t, f.NC.Flush())
	require.Empty(t, begun, "the second has arrived and waits for the first")
	close(release)
	require.Equal(t, "2", testkit.Receive(t, "the second request", begun))
	for range 2 {
		_, err := got.NextMsg(time.Second)
		require.NoError(t, err)
	}
}

func TestFactNakOnAMessageIsOneDelivery(t *testing.T) {
	// Why a message that is handed back without having failed is renewed before the runner's count says that it failed.
	f := facts(t, nil)
	c := f.consumer(jetstream.ConsumerConfig{})
	f.publish(1)
	for i := range 5 {
		m := f.next(c, time.Second)
		require.Equal(t, uint64(i+1), deliveries(t, m))
		require.NoError(t, m.Nak())
	}
}
