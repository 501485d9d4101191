package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/testkit"
)

// text collects log lines; the key time is left out.
type text struct {
	mu  sync.Mutex
	buf strings.Builder // guarded by mu
}

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.buf.Write(b)
}

func (x *text) line(with string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range strings.Split(x.buf.String(), "\n") {
		if strings.Contains(l, with) {
			return l
		}
	}
	return ""
}

func (x *text) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(x, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A dependency that does not answer in the first seconds of a start is nothing to warn of; later it is. A line names its service
// once.
func TestPausedIsAWarningAfterTheStart(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		level string
	}{{9 * time.Second, "INFO"}, {10 * time.Second, "WARN"}} {
		r := newRig(t)
		r.publish(loaded("d1", "a"))
		var out text
		begin, asked := time.Unix(1000, 0), atomic.Int64{}
		cfg := config()
		cfg.Log = out.log().With("service", "chunker")
		cfg.Now = func() time.Time { // the first to ask is the start
			if asked.Add(1) == 1 {
				return begin
			}
			return begin.Add(c.after)
		}
		var down atomic.Bool
		down.Store(true)
		stop := r.start(cfg, func(_ context.Context, in bus.Delivery) ([]events.Event, error) {
			if down.CompareAndSwap(true, false) {
				return nil, &fault.Error{Class: fault.Transient, Code: "schema.get", Pause: true, Delay: time.Millisecond, Err: errors.New("nobody answers")}
			}
			return []events.Event{chunked(in.Event.(*events.Loaded))}, nil
		})
		r.awaitCount(bus.StreamChunked, 1)
		stop()
		require.Equal(t, `level=`+c.level+` msg="paused, a dependency is down" service=chunker stream=FACTMILL_LOADED code=schema.get error="nobody answers"`,
			out.line("paused"))
	}
}

// A service whose logger names nobody is named by the bus, after the connection's logger.
func TestTheConnectionsLoggerIsGivenTheService(t *testing.T) {
	r := newRig(t)
	var out text
	c, err := bus.Connect(t.Context(), bus.Options{InProcess: r.srv, Name: "x", Log: out.log()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r.publish(loaded("d1", "a"))
	cfg := config()
	cfg.Log = nil
	stop := testkit.Start(t, func(ctx context.Context) error {
		return c.Run(ctx, cfg, bus.HandlerFunc(func(context.Context, bus.Delivery) ([]events.Event, error) {
			return nil, fault.Bad("bad", "no use")
		}))
	})
	r.awaitCount(bus.StreamCommit, 1)
	stop()
	require.Contains(t, out.line("a document ended"), `service=chunker stream=FACTMILL_LOADED`)
}

// nats micro ls shows the build's version, be it no semantic one.
func TestAnyBuildIsListed(t *testing.T) {
	r := newRig(t)
	c := testkit.Connect(t, r.srv, "committer")
	testkit.Start(t, func(ctx context.Context) error {
		return c.Serve(ctx, bus.ServiceInfo{Name: "committer", Version: "3b139aa-dirty"}, nil, bus.ServeOptions{Log: testkit.Quiet()})
	})
	var health bus.Health
	testkit.Await(t, "the service", func() bool { return r.Request(t.Context(), bus.HealthSubject("committer"), nil, &health) == nil })
	require.Equal(t, bus.Health{Service: "committer", Version: "0.0.0+3b139aa-dirty", Ready: true}, health)
}
