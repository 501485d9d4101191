package vectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/factmill/factmill/services/committer/internal/store"
)

// Searcher finds vectors; see Index.Search for what its arguments and answer mean.
type Searcher interface {
	Search(ctx context.Context, k Kind, label string, vector []float32, top int, drop float64) ([]Hit, error)
}

// Copy is vectors kept elsewhere. Every method may fail while the other side is away; then the error wraps ErrCopyDown. A copy is
// searched like the index, but may be behind, and may be approximate where it says so.
type Copy interface {
	Searcher
	// Ensure makes the copy when it is not there. Made is its birth: another value than before says that it was made anew and is empty.
	Ensure(ctx context.Context) (made string, err error)
	// Put replaces items by id, and Delete takes some away; both may be repeated. A later Search, by the same process, sees them.
	Put(ctx context.Context, items []Item) error
	Delete(ctx context.Context, refs []Ref) error
	// Count is how many there are of a kind.
	Count(ctx context.Context, k Kind) (int64, error)
	// Drop takes the copy away; Ensure makes it anew.
	Drop(ctx context.Context) error
	Close() error
}

// ErrCopyDown says that a copy does not answer; the follower tries again.
var ErrCopyDown = errors.New("vector copy does not answer")

// Copied is a Copy as a Sink: its position is a row of the store, beside the copy's birth, so that a copy that was lost or emptied is
// filled anew. A vector is put before the position says so: after a crash some are put twice, which changes nothing.
type Copied struct {
	copy  Copy
	st    *store.Store
	graph string
	name  string
}

// NewCopied makes a sink of a copy; name is that of its position's row.
func NewCopied(c Copy, st *store.Store, graph, name string) *Copied {
	return &Copied{copy: c, st: st, graph: graph, name: name}
}

type mark struct {
	Made     string `json:"made"`
	Position uint64 `json:"position"`
}

func (c *Copied) key() []byte { return append([]byte("m"), c.name...) }

// Position is 0 when the copy is not the one that the stored position is of.
func (c *Copied) Position(ctx context.Context) (uint64, error) {
	made, err := c.copy.Ensure(ctx)
	if err != nil {
		return 0, err
	}
	b, err := c.st.Get(c.graph, space, c.key())
	if err != nil || b == nil {
		return 0, err
	}
	var m mark
	if err := json.Unmarshal(b, &m); err != nil {
		return 0, fmt.Errorf("%w: position of %s of graph %s: %w", ErrCorrupt, c.name, c.graph, err)
	}
	if m.Made != made {
		return 0, nil
	}
	return m.Position, nil
}

// Apply puts, deletes, then writes the position.
func (c *Copied) Apply(ctx context.Context, b Batch) error {
	if len(b.Upserts) > 0 {
		if err := c.copy.Put(ctx, b.Upserts); err != nil {
			return err
		}
	}
	if len(b.Deletes) > 0 {
		if err := c.copy.Delete(ctx, b.Deletes); err != nil {
			return err
		}
	}
	if b.Position == 0 {
		return nil
	}
	made, err := c.copy.Ensure(ctx)
	if err != nil {
		return err
	}
	row, err := json.Marshal(mark{made, b.Position})
	if err != nil {
		return err
	}
	return c.st.Put(ctx, c.graph, space, c.key(), row)
}

// Refs cannot be listed.
func (c *Copied) Refs(context.Context, Ref, int) ([]Ref, error) { return nil, ErrNoList }

// Clear drops the copy and makes it anew.
func (c *Copied) Clear(ctx context.Context) error {
	if err := c.st.Delete(ctx, c.graph, space, c.key()); err != nil && !errors.Is(err, store.ErrNoGraph) {
		return err
	}
	if err := c.copy.Drop(ctx); err != nil {
		return err
	}
	_, err := c.copy.Ensure(ctx)
	return err
}

// Clear empties the index and sets its position to 0.
func (x *Index) Clear(ctx context.Context) error {
	x.write.Lock()
	defer x.write.Unlock()
	ops := []store.Op{{Graph: x.graph, Space: space, Key: []byte{byte(Entity)}, DeletePrefix: true},
		{Graph: x.graph, Space: space, Key: []byte{byte(Chunk)}, DeletePrefix: true},
		{Graph: x.graph, Space: space, Key: keyPosition, Delete: true}}
	if err := x.st.Write(ctx, ops, false); err != nil {
		return fmt.Errorf("clear vectors of graph %s: %w", x.graph, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shards, x.where, x.position = map[shardKey]*shard{}, map[ref]place{}, 0
	return nil
}

var (
	_ Sink     = (*Index)(nil)
	_ Sink     = (*Copied)(nil)
	_ Memory   = (*Index)(nil)
	_ Searcher = (*Index)(nil)
)
