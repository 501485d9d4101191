package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	// An object is read in batches of at most batchChunks messages and about batchBytes.
	batchChunks = 256
	batchBytes  = 4 << 20
)

// ErrNoDirect says that a bucket was made so that its objects cannot be read directly.
var ErrNoDirect = errors.New("the bucket does not allow direct reads")

// OpenObject opens an object of any bucket. It is read by direct requests: a consumer could be made to deliver to any subject, so that no
// service but the committer may make one. Missing ones wrap jetstream.ErrBucketNotFound, jetstream.ErrObjectNotFound. The digest is
// checked where the bytes end.
func (c *Conn) OpenObject(ctx context.Context, bucket, name string) (io.ReadCloser, int64, error) {
	b, err := c.Bucket(ctx, bucket)
	if err != nil {
		return nil, 0, err
	}
	info, err := b.GetInfo(ctx, name)
	if err != nil {
		return nil, 0, fmt.Errorf("open object %s/%s: %w", bucket, name, err)
	}
	if info.Opts != nil && info.Opts.Link != nil {
		return nil, 0, fmt.Errorf("open object %s/%s: it is a link, name the object itself: %w", bucket, name, jetstream.ErrObjectNotFound)
	}
	r := &objectReader{ctx: ctx, conn: c, what: bucket + "/" + name, stream: "OBJ_" + bucket, subject: "$O." + bucket + ".C." + info.NUID, left: info.Size,
		digest: info.Digest, sum: sha256.New()}
	return r, int64(min(info.Size, 1<<62)), nil
}

type objectReader struct {
	ctx                   context.Context // of the reading, which has no other
	conn                  *Conn
	what, stream, subject string
	last                  uint64 // sequence of the last message read
	left                  uint64
	buf                   [][]byte
	digest                string
	sum                   hash.Hash
}

// Close implements io.Closer.
func (r *objectReader) Close() error { return nil }

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.left == 0 {
			if got := "SHA-256=" + base64.URLEncoding.EncodeToString(r.sum.Sum(nil)); r.digest != "" && got != r.digest {
				return 0, fmt.Errorf("read object %s: %w", r.what, jetstream.ErrDigestMismatch)
			}
			return 0, io.EOF
		}
		if err := r.fetch(); err != nil {
			return 0, fmt.Errorf("read object %s: %w", r.what, err)
		}
	}
	n := copy(p, r.buf[0])
	if r.buf[0] = r.buf[0][n:]; len(r.buf[0]) == 0 {
		r.buf = r.buf[1:]
	}
	return n, nil
}

// fetch gets the next messages. None is an object that was deleted meanwhile.
func (r *objectReader) fetch() error {
	ctx, stop := context.WithTimeout(r.ctx, ackTimeout)
	defer stop()
	msgs, err := jetstreamext.GetBatch(ctx, r.conn.JS, r.stream, batchChunks, jetstreamext.GetBatchSubject(r.subject),
		jetstreamext.GetBatchSeq(r.last+1), jetstreamext.GetBatchMaxBytes(batchBytes))
	if err != nil {
		return err
	}
	for m, err := range msgs {
		switch {
		case errors.Is(err, jetstreamext.ErrNoMessages):
			return jetstream.ErrObjectNotFound
		case errors.Is(err, jetstreamext.ErrBatchUnsupported):
			return ErrNoDirect
		case err != nil:
			return err
		case uint64(len(m.Data)) > r.left || m.Sequence <= r.last:
			return jetstream.ErrDigestMismatch
		}
		r.last = m.Sequence
		r.left -= uint64(len(m.Data))
		_, _ = r.sum.Write(m.Data) // which never fails
		if len(m.Data) > 0 {
			r.buf = append(r.buf, m.Data)
		}
	}
	if len(r.buf) == 0 {
		return jetstream.ErrObjectNotFound
	}
	return nil
}
