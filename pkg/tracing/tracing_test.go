package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/pkg/tracing"
)

const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A publisher decides whether its trace is recorded; else the ratio does, by the trace id.
func TestSampling(t *testing.T) {
	testkit.NoLeaks(t)
	for _, ratio := range []float64{0, 1} {
		out := testkit.NewCollector(t)
		tr, err := tracing.New(t.Context(), tracing.Config{Endpoint: out.URL, Ratio: ratio, Version: "v1"})
		require.NoError(t, err)
		tracer := tr.Tracer("loader")
		for _, tp := range []string{sampled, sampled[:53] + "00"} {
			_, s := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), bus.SpanContext(tp)), "theirs "+tp[53:])
			s.End()
		}
		root := bus.SpanContext(sampled).TraceID()
		_, s := tracer.Start(bus.WithRootTrace(t.Context(), root), "root")
		require.Equal(t, root, s.SpanContext().TraceID(), "the bus names the trace")
		s.End()
		_, s = tr.Tracer("chunker").Start(t.Context(), "other")
		require.NotEqual(t, root, s.SpanContext().TraceID())
		s.End()
		require.NoError(t, tr.Close(t.Context()))
		var names []string
		for _, s := range out.Spans() {
			names = append(names, s.Service+": "+s.Name)
		}
		want := []string{"loader: theirs 01", "loader: root", "chunker: other"}
		if ratio == 0 {
			want = want[:1]
		}
		require.ElementsMatch(t, want, names)
	}
}

// A collector that is away costs its spans and one line.
func TestCollectorAway(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	var log bytes.Buffer
	tr, err := tracing.New(t.Context(), tracing.Config{Endpoint: s.URL, Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	for range 3000 {
		_, s := tr.Tracer("loader").Start(t.Context(), "x")
		s.End()
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	require.NoError(t, tr.Close(ctx))
	require.Equal(t, 1, strings.Count(log.String(), "spans are lost"), log.String())
}

func TestOff(t *testing.T) {
	tr, err := tracing.New(t.Context(), tracing.Config{})
	require.NoError(t, err)
	require.Nil(t, tr)
	require.Nil(t, tr.Tracer("loader"))
	require.NoError(t, tr.Close(t.Context()))
	_, err = tracing.New(t.Context(), tracing.Config{Endpoint: "c:4317"})
	require.ErrorContains(t, err, "tracing.endpoint")
}
