// Package schemacache keeps the schemas that jobs run under. A job names its schema by graph and revision, and a revision never
// changes, so a service fetches it once.
package schemacache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/factmill/factmill/pkg/schema"
)

// DefaultSize is how many schemas New keeps when it is not told.
const DefaultSize = 64

// ErrUnreadable wraps the error of a schema that was fetched but that this build cannot read.
var ErrUnreadable = errors.New("unreadable schema")

// Cache is a bounded cache of parsed schemas, the least recently used out first. Safe for concurrent use; it has no goroutine
// of its own.
type Cache struct {
	get  func(ctx context.Context, graph string, revision uint64) ([]byte, error)
	size int

	mu    sync.Mutex
	order *list.List            // of *entry, the most recently used first; guarded by mu
	kept  map[key]*list.Element // guarded by mu
	calls map[key]*call         // fetches under way; guarded by mu
}

type key struct {
	graph    string
	revision uint64
}

type entry struct {
	key    key
	schema *schema.Schema
}

// call is a fetch that several callers wait for. schema and err are set before done is closed.
type call struct {
	done   chan struct{}
	schema *schema.Schema
	err    error
}

// New makes a cache of up to size schemas (DefaultSize when size is not positive). get returns the effective schema of a graph's
// revision as JSON (api.SchemaReply.Schema).
func New(get func(ctx context.Context, graph string, revision uint64) ([]byte, error), size int) *Cache {
	if size <= 0 {
		size = DefaultSize
	}
	return &Cache{get: get, size: size, order: list.New(), kept: map[key]*list.Element{}, calls: map[key]*call{}}
}

// Get returns the schema of a graph's revision, fetched at most once at a time. It is shared: do not change it. revision is above
// 0, which would mean "the active one" and moves.
//
// An error of get comes back wrapped, one of parsing wraps ErrUnreadable too. Errors are not kept: the next Get tries again. When
// the caller that fetches is cancelled, another that waits takes over.
func (c *Cache) Get(ctx context.Context, graph string, revision uint64) (*schema.Schema, error) {
	if revision == 0 {
		return nil, fmt.Errorf("schema of graph %s: revision 0 is none", graph)
	}
	k := key{graph, revision}
	for {
		s, theirs, own := c.look(k)
		switch {
		case s != nil:
			return s, nil
		case own != nil:
			c.fetch(ctx, k, own)
			return own.schema, own.err
		}
		select {
		case <-theirs.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("schema %d of graph %s: %w", revision, graph, ctx.Err())
		}
		if !cancelled(theirs.err) || ctx.Err() != nil {
			return theirs.schema, theirs.err
		}
	}
}

func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// look returns a kept schema, or the fetch under way, or a new fetch that is the caller's to do.
func (c *Cache) look(k key) (s *schema.Schema, theirs, own *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.kept[k]; ok {
		c.order.MoveToFront(e)
		return e.Value.(*entry).schema, nil, nil
	}
	if f, ok := c.calls[k]; ok {
		return nil, f, nil
	}
	own = &call{done: make(chan struct{}), err: fmt.Errorf("schema %d of graph %s: the fetch panicked", k.revision, k.graph)}
	c.calls[k] = own
	return nil, nil, own
}

func (c *Cache) fetch(ctx context.Context, k key, own *call) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, k)
		if own.err == nil {
			c.keep(k, own.schema)
		}
		close(own.done)
	}()
	raw, err := c.get(ctx, k.graph, k.revision)
	if err != nil {
		own.err = fmt.Errorf("fetch schema %d of graph %s: %w", k.revision, k.graph, err)
		return
	}
	s, err := schema.Parse(raw, fmt.Sprintf("%s-%d.json", k.graph, k.revision), nil)
	if err != nil {
		own.err = fmt.Errorf("schema %d of graph %s: %w: %w", k.revision, k.graph, ErrUnreadable, err)
		return
	}
	own.schema, own.err = s, nil
}

// keep is called with mu held.
func (c *Cache) keep(k key, s *schema.Schema) {
	c.kept[k] = c.order.PushFront(&entry{k, s})
	for c.order.Len() > c.size {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.kept, last.Value.(*entry).key)
	}
}

// Len is how many schemas are kept.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
