package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/fault"
)

// Bodies over InlineBody bytes travel by reference. A reference is "<bucket>/<job>/<sha256>", as the contract's Factmill-Body
// header has it; the object's name in the bucket is "<graph>/<job>/<sha256>", because two graphs may have jobs of one id. The
// graph of a reference is that of the subject of the event that carries it, so each follows from the other.
const (
	InlineBody = 256 << 10
	// MaxBody is the largest body that travels at all.
	MaxBody = 128 << 20
	// HeaderBodySize is the size of a body by reference, so that a reader can bound what it holds before it fetches.
	HeaderBodySize = "Factmill-Body-Size"
)

// ErrBodyGone says that the bytes of a reference are no longer kept.
var ErrBodyGone = errors.New("the body is no longer kept")

// Bucket opens one of the buckets of the table.
func (c *Conn) Bucket(ctx context.Context, name string) (jetstream.ObjectStore, error) {
	c.bodiesMu.Lock()
	defer c.bodiesMu.Unlock()
	if b := c.bodies[name]; b != nil {
		return b, nil
	}
	b, err := c.JS.ObjectStore(ctx, name)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount {
		var js jetstream.JetStream // of another account, which lets this one in to its uploads
		if js, err = jetstream.NewWithAPIPrefix(c.NC, RootJS); err == nil {
			b, err = js.ObjectStore(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	c.bodies[name] = b
	return b, nil
}

// PutBody keeps a body of a job and returns its reference, "FACTMILL_BODIES/<job>/<sha256>". Bytes that are kept already are
// not sent again. It waits while the bucket is full.
func (c *Conn) PutBody(ctx context.Context, graph, job string, body []byte) (string, error) {
	if len(body) > MaxBody {
		return "", fault.Bad("too_large", "it would have %d bytes, at most %d: split the document", len(body), MaxBody)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	name := graph + "/" + job + "/" + hash
	b, err := c.Bucket(ctx, BucketBodies)
	if err != nil {
		return "", err
	}
	if info, err := b.GetInfo(ctx, name); err == nil && info.Size == uint64(len(body)) {
		return BucketBodies + "/" + job + "/" + hash, nil
	}
	err = c.whileFull(ctx, "bucket "+BucketBodies, func() error {
		_, err := b.PutBytes(ctx, name, body)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("put body %s: %w", name, err)
	}
	return BucketBodies + "/" + job + "/" + hash, nil
}

// parseRef takes a reference apart.
func parseRef(ref string) (bucket, job, hash string, err error) {
	p := strings.Split(ref, "/")
	if len(p) != 3 || p[0] != BucketBodies || p[1] == "" || len(p[2]) != 64 || !isHex(p[2]) {
		return "", "", "", fmt.Errorf("bad body reference %q: want %s/<job>/<sha256>", ref, BucketBodies)
	}
	return p[0], p[1], p[2], nil
}

// GetBody reads the bytes of a reference of a graph and checks their hash. More than limit bytes (MaxBody when 0) is an error
// of class document, too_large. Bytes that were deleted wrap ErrBodyGone.
func (c *Conn) GetBody(ctx context.Context, graph, ref string, limit int) ([]byte, error) {
	if limit <= 0 {
		limit = MaxBody
	}
	bucket, job, hash, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	o, size, err := c.OpenObject(ctx, bucket, graph+"/"+job+"/"+hash)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("get body %s of graph %s: %w", ref, graph, ErrBodyGone)
	}
	if err != nil {
		return nil, fmt.Errorf("get body %s of graph %s: %w", ref, graph, err)
	}
	defer func() { _ = o.Close() }() // the bytes were read, or the error is reported already
	if size > int64(limit) {
		return nil, fault.Bad("too_large", "body %s has %d bytes: the limit is %d", ref, size, limit)
	}
	body := make([]byte, size)
	_, err = io.ReadFull(o, body)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("read body %s of graph %s: %w", ref, graph, ErrBodyGone)
	}
	if err != nil {
		return nil, fmt.Errorf("read body %s of graph %s: %w", ref, graph, err)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != hash {
		return nil, fault.Fatal("body_damaged", "body %s of graph %s does not have the hash of its name", ref, graph)
	}
	return body, nil
}

// DeleteBodies deletes the bodies of a job, except those that keep says are still named; nil deletes all. It returns how many
// went. Nothing of them is left in the bucket, no delete markers either.
func (c *Conn) DeleteBodies(ctx context.Context, graph, job string, keep func(ref string) bool) (int, error) {
	b, err := c.Bucket(ctx, BucketBodies)
	if err != nil {
		return 0, err
	}
	s, err := c.JS.Stream(ctx, "OBJ_"+BucketBodies)
	if err != nil {
		return 0, fmt.Errorf("open the stream of %s: %w", BucketBodies, err)
	}
	if s.CachedInfo().State.Msgs == 0 {
		return 0, nil
	}
	meta := "$O." + BucketBodies + ".M."
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(meta+">"))
	if err != nil {
		return 0, fmt.Errorf("list %s: %w", BucketBodies, err)
	}
	n := 0
	for subject := range info.State.Subjects {
		raw, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, meta))
		hash, mine := strings.CutPrefix(string(raw), graph+"/"+job+"/")
		if err != nil || !mine || keep != nil && keep(BucketBodies+"/"+job+"/"+hash) {
			continue
		}
		if err := deleteObject(ctx, b, s, string(raw), subject); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// deleteObject purges an object's chunks and then its description. ObjectStore.Delete would leave a marker for ever.
func deleteObject(ctx context.Context, b jetstream.ObjectStore, s jetstream.Stream, name, metaSubject string) error {
	info, err := b.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
	if err == nil && info.NUID != "" {
		err = s.Purge(ctx, jetstream.WithPurgeSubject("$O."+info.Bucket+".C."+info.NUID))
	}
	if err == nil || errors.Is(err, jetstream.ErrObjectNotFound) {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(metaSubject))
	}
	if err != nil {
		return fmt.Errorf("delete body %s: %w", name, err)
	}
	return nil
}

// refOf is the reference that a message's body travels by, empty when it is inline.
func refOf(h nats.Header) string { return h.Get("Factmill-Body") }
