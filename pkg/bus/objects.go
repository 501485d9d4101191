package bus

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Object is one entry of a bucket.
type Object struct {
	Name string
	// Stored is when its description was written; of a part without one, when its newest bytes were.
	Stored time.Time
	// Left says that no reader can see it: what a deletion or an upload that broke off left behind.
	Left bool
}

// Objects lists what lies in a bucket, and what deletions and broken uploads left of it.
func (c *Conn) Objects(ctx context.Context, bucket string) ([]Object, error) {
	b, s, err := c.objects(ctx, bucket)
	if err != nil || s.CachedInfo().State.Msgs == 0 {
		return nil, err
	}
	infos, err := b.List(ctx, jetstream.ListObjectsShowDeleted())
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", bucket, err)
	}
	var out []Object
	known := map[string]bool{}
	for _, i := range infos {
		known[i.NUID] = true
		if bucket == BucketBodies && i.Name == ownerObject {
			continue
		}
		out = append(out, Object{Name: i.Name, Stored: i.ModTime, Left: i.Deleted})
	}
	prefix := "$O." + bucket + ".C."
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", bucket, err)
	}
	for subject := range info.State.Subjects {
		if known[strings.TrimPrefix(subject, prefix)] {
			continue
		}
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", bucket, err)
		}
		out = append(out, Object{Name: subject, Stored: m.Time, Left: true})
	}
	return out, nil
}

// DeleteObject deletes an object so that nothing of it is left, no delete marker either. One that is not there is no error.
// Name may be that of an Object which is Left.
func (c *Conn) DeleteObject(ctx context.Context, bucket, name string) error {
	b, s, err := c.objects(ctx, bucket)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "$O."+bucket+".C.") {
		if err := s.Purge(ctx, jetstream.WithPurgeSubject(name)); err != nil {
			return fmt.Errorf("delete %s of %s: %w", name, bucket, err)
		}
		return nil
	}
	return deleteObject(ctx, b, s, name, "$O."+bucket+".M."+base64.URLEncoding.EncodeToString([]byte(name)))
}

func (c *Conn) objects(ctx context.Context, bucket string) (jetstream.ObjectStore, jetstream.Stream, error) {
	b, err := c.Bucket(ctx, bucket)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.JS.Stream(ctx, "OBJ_"+bucket)
	if err != nil {
		return nil, nil, fmt.Errorf("open the stream of %s: %w", bucket, err)
	}
	return b, s, nil
}
