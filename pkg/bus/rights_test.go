package bus_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/testkit"
)

// guarded is a server where each user has its rights.
func guarded(t *testing.T) (*embedded.Server, func(user string) *bus.Conn) {
	t.Helper()
	access := testkit.Access(t)
	access.Closed = true
	s := testkit.Server(t, embedded.Options{Dir: t.TempDir(), Access: access})
	return s, func(user string) *bus.Conn {
		c, err := bus.Connect(t.Context(), access.As(user, bus.Options{InProcess: s, Name: user, Log: testkit.Quiet()}))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
}

// A request that comes over a person's account has the name that the server put into its subject, and that is its actor.
func TestSignedRequests(t *testing.T) {
	_, as := guarded(t)
	admin, desk := as("admin"), as("reviewer")
	seen := make(chan api.ReviewDecide, 1)
	testkit.Start(t, func(ctx context.Context) error {
		return desk.Serve(ctx, bus.ServiceInfo{Name: "reviewer"}, []bus.Endpoint{{
			Name: "review-approve", Subject: "factmill.*.review.approve",
			Handler: func(ctx context.Context, graph string, body []byte, _ func(string) string) (any, *api.Error) {
				var req api.ReviewDecide
				if e := bus.ReadSigned(ctx, body, &req); e != nil {
					return nil, e
				}
				seen <- req
				return map[string]string{"graph": graph}, nil
			},
		}}, bus.ServeOptions{Nouns: []string{"review"}})
	})
	testkit.Await(t, "the desk", func() bool { return admin.Request(t.Context(), bus.HealthSubject("reviewer"), nil, nil) == nil })
	for subject, actor := range map[string]string{"factmill.g.review.approve": "eva", "factmill-by.ada.g.review.approve": "ada"} {
		var reply map[string]string
		require.NoError(t, admin.Request(t.Context(), subject, map[string]any{"ids": []string{"1"}, "actor": "eva"}, &reply))
		require.Equal(t, "g", reply["graph"])
		require.Equal(t, actor, testkit.Receive(t, "the request", seen).Actor)
	}
	var refused *api.Error
	require.ErrorAs(t, admin.Request(t.Context(), "factmill-by.ada.g.review.aprove", nil, nil), &refused)
	require.Equal(t, "unknown_verb", refused.Code)
}

// What a user may not ask is said at once, on that request alone.
func TestDeniedRequests(t *testing.T) {
	_, as := guarded(t)
	c := as("chunker")
	began := time.Now()
	var refused *api.Error
	require.ErrorAs(t, c.Request(t.Context(), "factmill.g.schema.put", nil, nil), &refused)
	require.Equal(t, "not_allowed", refused.Code)
	require.Equal(t, 403, refused.Status)
	require.ErrorContains(t, refused, "factmill.g.schema.put")
	_, err := c.Ingest(t.Context(), "g", []byte("text"), nil)
	require.ErrorAs(t, err, &refused)
	require.Less(t, time.Since(began), 5*time.Second)
	require.ErrorIs(t, testkit.Receive(t, "the failure", c.Failed()), nats.ErrPermissionViolation)
}

// Objects of any size are read without a consumer, which no stage may make, and a damaged one is told.
func TestObjectsAreReadDirectly(t *testing.T) {
	_, as := guarded(t)
	admin, loader := as("admin"), as("loader")
	require.NoError(t, bus.EnsureAll(t.Context(), admin.JS, testkit.Table()))
	b, err := admin.Bucket(t.Context(), bus.BucketUploads)
	require.NoError(t, err)
	for name, size := range map[string]int{"empty": 0, "one": 1, "chunk": 128 << 10, "large": 40<<20 + 7} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		_, err := b.PutBytes(t.Context(), name, want)
		require.NoError(t, err)
		r, n, err := loader.OpenObject(t.Context(), bus.BucketUploads, name)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		got, err := io.ReadAll(r)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(want, got), name)
	}
	_, _, err = loader.OpenObject(t.Context(), bus.BucketUploads, "none")
	require.ErrorIs(t, err, jetstream.ErrObjectNotFound)
	_, _, err = loader.OpenObject(t.Context(), "NOWHERE", "none")
	require.ErrorIs(t, err, jetstream.ErrBucketNotFound)

	r, _, err := loader.OpenObject(t.Context(), bus.BucketUploads, "large")
	require.NoError(t, err)
	require.NoError(t, b.Delete(t.Context(), "large"))
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, jetstream.ErrObjectNotFound)
	select {
	case err := <-loader.Failed():
		require.NoError(t, err)
	default:
	}
}

// A reply that may not be given any more ends nothing: the request came over a connection that was lost.
func TestALateReplyEndsNothing(t *testing.T) {
	_, as := guarded(t)
	c := as("committer")
	require.NoError(t, c.NC.Publish(bus.Inbox("loader")+".x", nil))
	require.NoError(t, c.NC.Flush())
	require.NoError(t, c.NC.Publish("factmill.default.review.approve", nil)) // which it may not, at any time
	require.ErrorContains(t, testkit.Receive(t, "the failure", c.Failed()), "factmill.default.review.approve")
}
