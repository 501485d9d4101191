package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
)

// TestALongVerb may take longer than the service's limit, and does not hold up the end of its service.
func TestALongVerb(t *testing.T) {
	r := newRig(t)
	c := testkit.Connect(t, r.srv, "committer")
	const limit = 20 * time.Millisecond
	begun := make(chan time.Duration, 1)
	ep := bus.Endpoint{Name: "verify", Subject: "factmill.*.query.verify", Limit: time.Hour,
		Handler: func(ctx context.Context, _ string, _ []byte, _ func(string) string) (any, *api.Error) {
			d, _ := ctx.Deadline()
			begun <- time.Until(d)
			<-ctx.Done()
			return nil, api.Errorf(503, "not_ready", "%v", context.Cause(ctx))
		}}
	ctx, stop := context.WithCancel(t.Context())
	ended, answer := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- c.Serve(ctx, bus.ServiceInfo{Name: "committer"}, []bus.Endpoint{ep}, bus.ServeOptions{Workers: 1, Limit: limit})
	}()
	testkit.Await(t, "the service", func() bool { return r.Request(t.Context(), bus.HealthSubject("committer"), nil, nil) == nil })
	go func() { answer <- r.Request(t.Context(), "factmill.default.query.verify", nil, nil) }()
	require.Greater(t, testkit.Receive(t, "the request", begun), 59*time.Minute)
	stop()
	require.NoError(t, testkit.Receive(t, "the end", ended))
	require.ErrorContains(t, testkit.Receive(t, "the answer", answer), "context canceled")
}
