// Package replica is a copy of the committer's store that follows it and is only read. It begins with a backup, and takes from then on what the
// committer writes, batch by batch; change events tell it when. What it cannot follow (it was away for too long, the committer's store was
// restored) it makes anew by itself, and answers from what it has meanwhile.
package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/backup"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Desk is the committer's side: it answers feed.begin and feed.read.
type Desk struct {
	Store  *store.Store
	Backup *backup.Desk
}

// Begin has the store keep what it writes from now on, and begins a backup for a replica to start from.
func (d Desk) Begin(ctx context.Context, graph string) (api.Backup, error) {
	if err := d.Store.Ship(); err != nil {
		return api.Backup{}, err
	}
	return d.Backup.Begin(ctx, graph)
}

// Run ends the keeping when no replica has asked for a day, until ctx is done.
func (d Desk) Run(ctx context.Context) error {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := d.Store.ShipIdle(); err != nil {
				return err
			}
		}
	}
}

// Read answers a part of what was written behind a position.
func (d Desk) Read(_ context.Context, _ string, req api.FeedRead) (json.RawMessage, error) {
	at, ok := store.ParsePosition(req.After)
	if !ok || req.Offset < 0 {
		return nil, api.Errorf(400, "bad_value", "after is %.60q and offset %d: a position such as 12-00ff00ff00ff00ff, and at least 0", req.After, req.Offset)
	}
	data, head, err := d.Store.Shipped(at, req.Offset, api.FeedPart)
	if errors.Is(err, store.ErrCut) {
		return nil, api.Errorf(409, "feed_cut", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(api.FeedHead{Head: head, Size: len(data)})
	if err != nil {
		return nil, fmt.Errorf("read the feed: %w", err)
	}
	return append(append(line, '\n'), s2.Encode(nil, data)...), nil
}

// decode takes a reply of Read apart.
func decode(raw []byte) (h api.FeedHead, data []byte, err error) {
	line, rest, ok := bytes.Cut(raw, []byte{'\n'})
	if !ok {
		return h, nil, errors.New("read the feed: the reply has no head")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("read the feed: %w", err)
	}
	n, err := s2.DecodedLen(rest)
	if err != nil {
		return h, nil, fmt.Errorf("read the feed: %w", err)
	}
	if n != h.Size || n > api.FeedPart {
		return h, nil, fmt.Errorf("read the feed: a part of %d bytes, said to be %d, at most %d", n, h.Size, api.FeedPart)
	}
	if data, err = s2.Decode(nil, rest); err != nil {
		return h, nil, fmt.Errorf("read the feed: %w", err)
	}
	return h, data, nil
}
