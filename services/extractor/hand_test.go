package extractor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor"
)

// clock is one that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// running is an extractor of one slot on a broker; its model hangs on every text that says so.
type running struct {
	*asking
	conn  *bus.Conn
	clock *clock
	hang  chan struct{}
}

func newRunning(t *testing.T) *running {
	t.Helper()
	testkit.NoLeaks(t)
	_, conn := testkit.NATS(t)
	r := &running{conn: conn, clock: &clock{at: time.Now()}, hang: make(chan struct{})}
	t.Cleanup(func() { close(r.hang) })
	r.asking = newAsking(t, "llm", nil, func(c testkit.ModelCall) testkit.ModelReply {
		if strings.Contains(c.Messages[1].Content, "hangs") {
			return testkit.ModelReply{Wait: r.hang, Content: `{"entities":[]}`}
		}
		return testkit.ModelReply{Content: `{"entities":[]}`}
	})
	sub, err := conn.NC.Subscribe("factmill.*.schema.get", respond(t, api.SchemaReply{Revision: 1, Active: true, Schema: r.sch.Marshal()}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	s, err := extractor.New(extractor.Config{ModelURL: r.model.URL(), Slots: 1}, app.Deps{Conn: conn, Log: testkit.Quiet(), Now: r.clock.now})
	require.NoError(t, err)
	stop := testkit.Start(t, s.Run)
	t.Cleanup(stop)
	testkit.Await(t, "the extractor", func() bool { return s.Ready() == nil })
	return r
}

// send publishes a document of some job.
func (r *running) send(job string, texts ...string) {
	r.t.Helper()
	e := r.document(events.PolicyRaise, texts...)
	e.Job.ID = job
	require.NoError(r.t, r.conn.Publish(r.t.Context(), e))
}

func (r *running) ends(job, state string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.Publish(r.t.Context(), &events.JobState{Graph: "default", Job: job, Attempt: 1, State: state}))
}

func (r *running) messages(stream string) int {
	r.t.Helper()
	s, err := r.conn.JS.Stream(r.t.Context(), stream)
	require.NoError(r.t, err)
	return int(s.CachedInfo().State.Msgs)
}

func (r *running) why() string {
	r.t.Helper()
	var h bus.Health
	require.NoError(r.t, r.conn.Request(r.t.Context(), bus.HealthSubject("extractor"), nil, &h))
	require.True(r.t, h.Ready)
	return h.Why
}

// A job that has ended is asked for no more, the call that hangs ends, and the slot is another job's.
func TestNothingIsAskedForAJobThatHasEnded(t *testing.T) {
	for _, state := range []string{api.JobRolledBack, api.JobCommitted} {
		t.Run(state, func(t *testing.T) {
			r := newRunning(t)
			texts := []string{"this one hangs. "}
			for i := range 30 {
				texts = append(texts, fmt.Sprint("chunk ", i, " hangs as well. "))
			}
			r.send("ended", texts...)
			r.model.Await(t, 1)
			r.ends("ended", state)
			testkit.Await(t, "the document", func() bool { return r.messages(bus.StreamChunked) == 0 })
			require.Zero(t, r.messages(bus.StreamExtracted), "nothing comes of it")
			r.send("ended", "late. ") // a document of it that was still under way
			r.send("other", "short. ")
			testkit.Await(t, "the other job", func() bool { return r.messages(bus.StreamExtracted) == 1 && r.messages(bus.StreamChunked) == 0 })
			require.Equal(t, 2, r.model.Count(), "the first of it, and the other job's")
			require.Zero(t, r.messages(bus.StreamDead))
		})
	}
}

// A job of the same name that ended before is another one: the stream of document events was made anew, or the id chosen again.
func TestAnOlderJobOfTheNameHasEnded(t *testing.T) {
	r := newRunning(t)
	r.ends("again", api.JobRolledBack)
	e := r.document(events.PolicyRaise, "short. ")
	e.Job.ID, e.Job.At.Time = "again", time.Now().Add(time.Hour).UnixNano()
	require.NoError(t, r.conn.Publish(t.Context(), e))
	testkit.Await(t, "the document", func() bool { return r.messages(bus.StreamExtracted) == 1 })
	require.Equal(t, 1, r.model.Count())
}

// The word of the end of an older job comes while the younger one of its name is being asked about: it goes on.
func TestTheWordOfAnOlderJobComesLate(t *testing.T) {
	r := newRunning(t)
	e := r.document(events.PolicyRaise, "this one hangs. ")
	e.Job.ID, e.Job.At.Time = "again", time.Now().Add(time.Hour).UnixNano()
	require.NoError(t, r.conn.Publish(t.Context(), e))
	r.model.Await(t, 1)
	r.ends("again", api.JobRolledBack)
	r.send("other", "short. ")
	select {
	case r.hang <- struct{}{}:
	case <-time.After(testkit.Patience):
		require.FailNow(t, "the call was ended")
	}
	testkit.Await(t, "both documents", func() bool { return r.messages(bus.StreamExtracted) == 2 && r.messages(bus.StreamChunked) == 0 })
	require.Equal(t, 2, r.model.Count())
}

// While all slots are taken by calls that do not end, health says so.
func TestHealthSaysThatNothingMoves(t *testing.T) {
	r := newRunning(t)
	require.Empty(t, r.why())
	r.send("a", "this one hangs. ")
	r.model.Await(t, 1)
	require.Empty(t, r.why(), "a call may take a while")
	r.clock.move(31 * time.Second)
	require.Equal(t, "model_slow: all slots (1) of the model server at "+r.model.URL()+" have been taken for 31s", r.why())
	testkit.AwaitFor(t, 30*time.Second, "a small question", func() bool { return strings.HasSuffix(r.why(), "for 31s; it answers other questions") })
	r.ends("a", api.JobRolledBack)
	testkit.Await(t, "the slot", func() bool { return r.why() == "" })
}

// While a call is made again later, health says why.
func TestHealthSaysThatTheServerIsBusy(t *testing.T) {
	r := newRunning(t)
	r.model.SetReply(testkit.ModelScript(testkit.ModelReply{Status: 429, RetryAfter: "60", Content: "too many"}))
	r.send("a", "busy. ")
	testkit.Await(t, "the reason", func() bool { return r.why() != "" })
	require.Regexp(t, `^model_busy: attempt 2 of 4 in 1m0(\.\d)?s: the model server answers 429: too many$`, r.why())
}
