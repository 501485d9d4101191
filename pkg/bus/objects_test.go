package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
)

func TestObjects(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	list, err := r.Objects(ctx, bus.BucketUploads)
	require.NoError(t, err)
	require.Empty(t, list)
	b, err := r.Bucket(ctx, bus.BucketUploads)
	require.NoError(t, err)
	for _, n := range []string{"a/one.tar", "two", "gone"} {
		_, err := b.PutBytes(ctx, n, make([]byte, 300<<10))
		require.NoError(t, err)
	}
	require.NoError(t, b.Delete(ctx, "gone"))
	_, err = r.JS.PublishMsg(ctx, &nats.Msg{Subject: "$O.FACTMILL_UPLOADS.C.broken", Data: []byte("a part")})
	require.NoError(t, err)

	left := map[string]bool{}
	list, err = r.Objects(ctx, bus.BucketUploads)
	require.NoError(t, err)
	for _, o := range list {
		require.WithinDuration(t, time.Now(), o.Stored, time.Minute, o.Name)
		left[o.Name] = o.Left
	}
	require.Equal(t, map[string]bool{"a/one.tar": false, "two": false, "gone": true, "$O.FACTMILL_UPLOADS.C.broken": true}, left)

	for name := range left {
		require.NoError(t, r.DeleteObject(ctx, bus.BucketUploads, name))
		require.NoError(t, r.DeleteObject(ctx, bus.BucketUploads, name), "again is no error")
	}
	require.Zero(t, r.count("OBJ_FACTMILL_UPLOADS"), "no part and no marker is left")
}
