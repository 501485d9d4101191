package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ownerObject of the bucket of bodies says to which store the streams belong, in its description. It has no bytes, and is listed nowhere.
const ownerObject = "store"

// Owner is the name of the store that the streams belong to; empty when none ever said so.
func (c *Conn) Owner(ctx context.Context) (string, error) {
	b, err := c.Bucket(ctx, BucketBodies)
	if err != nil {
		return "", err
	}
	info, err := b.GetInfo(ctx, ownerObject)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read whose the streams are: %w", err)
	}
	return info.Description, nil
}

// Own says that the streams belong to the store of that name.
func (c *Conn) Own(ctx context.Context, store string) error {
	b, err := c.Bucket(ctx, BucketBodies)
	if err == nil {
		_, err = b.Put(ctx, jetstream.ObjectMeta{Name: ownerObject, Description: store}, bytes.NewReader(nil))
	}
	if err != nil {
		return fmt.Errorf("say whose the streams are: %w", err)
	}
	return nil
}
