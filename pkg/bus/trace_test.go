package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func TestParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	require.True(t, parent(good))
	require.True(t, parent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"), "a later version may say more")
	for _, bad := range []string{
		"", "00", good + "-x", "ff" + good[2:], good[:53] + "0g", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00_" + good[3:],
	} {
		require.False(t, parent(bad), bad)
		require.False(t, SpanContext(bad).IsValid(), bad)
	}
	require.Equal(t, good, Traceparent(SpanContext(good)))
	require.True(t, SpanContext(good).IsSampled())
}

// What is delivered again, or listed again, goes on in the trace that it began; sources have traces of their own.
func TestTracesAreAFunctionOfTheEvent(t *testing.T) {
	at := graph.Order{Seq: 7, Time: 1700000000000000000}
	doc := &Document{Graph: "g", Seq: 7, Time: time.Unix(0, at.Time)}
	one, begun, remote := rootOf(doc, StreamIngest, 7, at.Time)
	require.True(t, parent(one))
	require.Equal(t, []bool{true, false}, []bool{begun, remote})
	require.Equal(t, "00", one[53:], "nobody recorded it")
	again, _, _ := rootOf(doc, StreamIngest, 7, at.Time)
	require.Equal(t, one, again)
	other, _, _ := rootOf(&Document{Graph: "g", Seq: 8, Time: doc.Time}, StreamIngest, 8, at.Time)
	require.NotEqual(t, one[3:35], other[3:35])

	relist := &events.Found{Job: events.Job{Graph: "g", At: at}, Source: events.Source{Relist: true}}
	tp, begun, remote := rootOf(relist, StreamFound, 3, 0)
	require.Equal(t, []any{one, true, false}, []any{tp, begun, remote})
	relist.Trace = one[:36] + "b7ad6b7169203331-01" // recorded
	tp, begun, remote = rootOf(relist, StreamFound, 3, 0)
	require.Equal(t, []any{relist.Trace, true, true}, []any{tp, begun, remote})
	relist.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" // of a publisher
	tp, begun, remote = rootOf(relist, StreamFound, 3, 0)
	require.Equal(t, []any{relist.Trace, false, true}, []any{tp, begun, remote})

	r := &runner{conn: &Conn{}}
	task := &task{}
	task.hop.next, task.hop.begun = one, true
	source := func(token string) string { return r.trace(task, &events.Found{Source: events.Source{Token: token}}) }
	require.Equal(t, one, source("a"))
	b := source("b")
	require.NotEqual(t, one[3:35], b[3:35])
	require.Equal(t, []string{one, b}, []string{source("a"), source("b")})
	require.Equal(t, one, r.trace(task, &events.Sealed{}))
	task.hop.begun = false
	require.Equal(t, one, source("b"), "a publisher's trace has all of its documents")

	// Documents of a source, in whichever trace that is.
	found := &events.Found{Job: events.Job{Graph: "g", At: at}, Source: events.Source{Token: "b"}}
	require.True(t, ours(found, one[3:35]))
	require.True(t, ours(found, b[3:35]))
	require.False(t, ours(found, "0af7651916cd43dd8448eb211c80319c"))
	task.hop.next, task.hop.first, task.hop.begun = b, "", true
	require.Equal(t, b, r.trace(task, &events.Loaded{Doc: events.DocRef{Token: "x"}}))
	end := &events.Ended{Doc: &events.DocRef{Token: "y"}, Failure: &graph.Failure{TraceID: b[3:35]}}
	y := r.trace(task, end)
	require.NotEqual(t, b[3:35], y[3:35])
	require.Equal(t, y[3:35], end.Failure.TraceID, "its failure names its own trace")
	require.Equal(t, b, r.trace(task, &events.Ended{Source: "b"}))
}

// Without a tracer a message's trace costs nothing.
func TestNoTracerAllocatesNothing(t *testing.T) {
	const tp = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	m := &nats.Msg{Subject: "factmill.g.doc.loaded.j.d", Header: nats.Header{events.HeaderTrace: {tp}}}
	it := &item{msg: m, meta: &nats.MsgMetadata{}}
	var e events.Event = &events.Loaded{}
	r := &runner{conn: &Conn{}}
	ctx := context.Background()
	tk := &task{}
	now := time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		tk.hop.next, tk.hop.span, tk.hop.begun = "", nil, false
		if got := tk.hop.begin(ctx, nil, "chunker", m.Header.Get(events.HeaderTrace), e, it, now); got != ctx || tk.hop.id() != tp[3:35] || r.trace(tk, e) != tp {
			t.Error("another trace")
		}
		tk.hop.ended(outcomeHandled, "")
	}))
}
