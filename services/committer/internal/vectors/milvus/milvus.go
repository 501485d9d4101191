// Package milvus keeps a copy of a graph's vectors in a Milvus server. It alone knows the client library.
//
// A collection holds one graph's vectors of one embedder: id (kind and UUID, the primary key), slot (a hash of kind and label, by which searches are
// filtered), kind, label, text (cut at 32 KiB), vector. The index is FLAT: searches are exact, and their scores are computed here from the returned
// vectors, so that they equal those of the native route; only which of equal scores is the last hit is Milvus' choice. A vector of all
// zeros is not copied: it is near nothing.
package milvus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/milvus-io/milvus-sdk-go/v2/client"
	"github.com/milvus-io/milvus-sdk-go/v2/entity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Config of a copy.
type Config struct {
	// Address of the server, host:port. Required.
	Address string
	// Username, Password and Database may be empty.
	Username, Password, Database string
	// Collection begins the collection's name. Defaults to factmill.
	Collection string
	// Graph and Embedder name the collection; Size is the embedder's. Required.
	Graph, Embedder string
	Size            int
	// Timeout of a call. Defaults to 10 s; making and loading a collection may take six times that.
	Timeout time.Duration
	// RetryMin and RetryMax bound how long after a failed connection the next one is tried; the time doubles. Default to 200 ms and 15 s.
	RetryMin, RetryMax time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Collection == "" {
		c.Collection = "factmill"
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if c.RetryMin <= 0 {
		c.RetryMin = 200 * time.Millisecond
	}
	if c.RetryMax < c.RetryMin {
		c.RetryMax = max(15*time.Second, c.RetryMin)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Error is what the server answered. It is vectors.ErrCopyDown when the server was not reached or did not answer in time.
type Error struct {
	Op, Collection string
	Down           bool
	Err            error
}

func (e *Error) Error() string {
	return fmt.Sprintf("milvus: %s of collection %s: %v", e.Op, e.Collection, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is says whether e is an ErrCopyDown.
func (e *Error) Is(target error) bool { return target == vectors.ErrCopyDown && e.Down }

// api is what is used of the client.
type api interface {
	HasCollection(ctx context.Context, name string) (bool, error)
	CreateCollection(ctx context.Context, schema *entity.Schema, shards int32, opts ...client.CreateCollectionOption) error
	DescribeCollection(ctx context.Context, name string) (*entity.Collection, error)
	DropCollection(ctx context.Context, name string, opts ...client.DropCollectionOption) error
	CreateIndex(ctx context.Context, name, field string, idx entity.Index, async bool, opts ...client.IndexOption) error
	LoadCollection(ctx context.Context, name string, async bool, opts ...client.LoadCollectionOption) error
	Upsert(ctx context.Context, name, partition string, columns ...entity.Column) (entity.Column, error)
	Delete(ctx context.Context, name, partition, expr string) error
	Search(ctx context.Context, name string, partitions []string, expr string, output []string, vectors []entity.Vector, field string,
		metric entity.MetricType, top int, sp entity.SearchParam, opts ...client.SearchQueryOptionFunc) ([]client.SearchResult, error)
	Query(ctx context.Context, name string, partitions []string, expr string, output []string, opts ...client.SearchQueryOptionFunc) (client.ResultSet, error)
	Close() error
}

// Names of fields.
const (
	fieldID     = "id"
	fieldSlot   = "slot"
	fieldKind   = "kind"
	fieldLabel  = "label"
	fieldText   = "text"
	fieldVector = "vector"

	maxText = 32 << 10
	// maxTop is the most hits that Milvus gives; MaxPut the most items a call sends.
	maxTop = 16384
	maxPut = 500
)

// dialTimeout is how long a server may take to accept a connection.
const dialTimeout = 3 * time.Second

// Copy is a vectors.Copy. It connects when it is first used, and anew after the connection failed.
type Copy struct {
	cfg  Config
	name string
	dial func(ctx context.Context) (api, error)

	mu    sync.Mutex // guards what follows
	conn  api
	made  string // of the collection that is known to be loaded; empty: look again
	wait  time.Duration
	next  time.Time // no new connection before
	cause error     // of the last failed one
	shut  bool

	wrote atomic.Uint64 // writes, and one for those of earlier processes
	seen  atomic.Uint64 // how many of them a search has waited for
}

var _ vectors.Copy = (*Copy)(nil)

// New makes a copy; nothing is connected yet. Close ends it.
func New(cfg Config) (*Copy, error) {
	if cfg.Address == "" || cfg.Graph == "" || cfg.Embedder == "" || cfg.Size < 1 {
		return nil, fmt.Errorf("milvus: address %q, graph %q, embedder %q and size %d must all be given", cfg.Address, cfg.Graph, cfg.Embedder, cfg.Size)
	}
	c := newCopy(cfg)
	c.dial = func(ctx context.Context) (api, error) {
		// The client waits until its time is up for a server that is not there.
		probe, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", c.cfg.Address)
		if err != nil {
			return nil, err
		}
		if err := probe.Close(); err != nil {
			return nil, err
		}
		return client.NewClient(ctx, client.Config{Address: c.cfg.Address, Username: c.cfg.Username, Password: c.cfg.Password, DBName: c.cfg.Database})
	}
	return c, nil
}

func newCopy(cfg Config) *Copy {
	sum := sha256.Sum256([]byte(cfg.Graph + "\x00" + cfg.Embedder + "\x00" + strconv.Itoa(cfg.Size)))
	cfg = cfg.withDefaults()
	c := &Copy{cfg: cfg, name: cfg.Collection + "_" + hex.EncodeToString(sum[:12])}
	c.wrote.Store(1)
	return c
}

// Collection is the name of the collection.
func (c *Copy) Collection() string { return c.name }

// connected returns the connection, made anew when there is none and it is time.
func (c *Copy) connected(ctx context.Context) (api, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.shut:
		return nil, errors.New("closed")
	case c.conn != nil:
		return c.conn, nil
	case c.cfg.Now().Before(c.next):
		return nil, fmt.Errorf("not tried again before %s: %w", c.next.Format(time.RFC3339), c.cause)
	}
	conn, err := c.dial(ctx)
	if err != nil {
		c.wait = min(max(2*c.wait, c.cfg.RetryMin), c.cfg.RetryMax)
		c.next, c.cause = c.cfg.Now().Add(c.wait), err
		return nil, err
	}
	c.conn, c.wait, c.made = conn, 0, ""
	return conn, nil
}

// call runs fn with the connection, within so many timeouts, and classifies its error. A connection that failed is given up.
func (c *Copy) call(ctx context.Context, op string, timeouts int, fn func(ctx context.Context, a api) error) error {
	limited, cancel := context.WithTimeout(ctx, time.Duration(timeouts)*c.cfg.Timeout)
	defer cancel()
	a, err := c.connected(limited)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Error{Op: op, Collection: c.name, Down: true, Err: err}
	}
	err = fn(limited, a)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	down := away(err)
	c.mu.Lock()
	c.made = "" // it may be gone: look again
	if down && c.conn == a {
		c.conn = nil
		_ = a.Close() // it failed already
	}
	c.mu.Unlock()
	return &Error{Op: op, Collection: c.name, Down: down, Err: err}
}

// away tells a server that does not answer from one that refuses.
func away(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrClientNotReady) {
		return true
	}
	switch status.Code(errors.Unwrap(err)) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return true
	}
	return false
}

// Ensure makes, indexes and loads the collection when that was not done; made is the collection's number.
func (c *Copy) Ensure(ctx context.Context) (made string, err error) {
	c.mu.Lock()
	made = c.made
	c.mu.Unlock()
	if made != "" {
		return made, nil
	}
	err = c.call(ctx, "make", 6, func(ctx context.Context, a api) error {
		has, err := a.HasCollection(ctx, c.name)
		if err != nil {
			return err
		}
		if !has {
			if err := a.CreateCollection(ctx, c.schema(), 1); err != nil {
				return err
			}
		}
		d, err := a.DescribeCollection(ctx, c.name)
		if err != nil {
			return err
		}
		flat, err := entity.NewIndexFlat(entity.COSINE)
		if err != nil {
			return err
		}
		if err := a.CreateIndex(ctx, c.name, fieldVector, flat, false); err != nil {
			return err
		}
		if err := a.LoadCollection(ctx, c.name, false); err != nil {
			return err
		}
		made = strconv.FormatInt(d.ID, 10)
		return nil
	})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.made = made
	c.mu.Unlock()
	return made, nil
}

func (c *Copy) schema() *entity.Schema {
	text := func(name string, most int64) *entity.Field {
		return entity.NewField().WithName(name).WithDataType(entity.FieldTypeVarChar).WithMaxLength(most)
	}
	return entity.NewSchema().WithName(c.name).WithDescription("vectors of graph " + c.cfg.Graph + " by " + c.cfg.Embedder).
		WithField(text(fieldID, 40).WithIsPrimaryKey(true)).
		WithField(text(fieldSlot, 40)).
		WithField(text(fieldKind, 8)).
		WithField(text(fieldLabel, 1<<10)).
		WithField(text(fieldText, maxText)).
		WithField(entity.NewField().WithName(fieldVector).WithDataType(entity.FieldTypeFloatVector).WithDim(int64(c.cfg.Size)))
}

// slotOf is the value of the field by which a kind and label are found: no label can be part of an expression.
func slotOf(k vectors.Kind, label string) string {
	sum := sha256.Sum256([]byte(string(rune(k)) + label))
	return hex.EncodeToString(sum[:16])
}

func keyOf(r vectors.Ref) string { return string(rune(r.Kind)) + r.ID }

func cut(s string) string {
	if len(s) < maxText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	s = s[:maxText-8]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s[:max(0, len(s)-1)], "")
}

// Put upserts items by id, some hundreds a call; those of all zeros are taken away instead.
func (c *Copy) Put(ctx context.Context, items []vectors.Item) error {
	last := make(map[vectors.Ref]int, len(items))
	for i, it := range items {
		if err := vectors.CheckItem(it, c.cfg.Size); err != nil {
			return fmt.Errorf("milvus: %w", err)
		}
		last[it.Ref] = i
	}
	if _, err := c.Ensure(ctx); err != nil {
		return err
	}
	var zeros []vectors.Ref
	var b columns
	for i, it := range items {
		if last[it.Ref] != i {
			continue
		}
		if zero(it.Vector) {
			zeros = append(zeros, it.Ref)
			continue
		}
		b.add(it)
		if len(b.ids) == maxPut {
			if err := c.upsert(ctx, &b); err != nil {
				return err
			}
		}
	}
	if err := c.upsert(ctx, &b); err != nil {
		return err
	}
	return c.Delete(ctx, zeros)
}

type columns struct {
	ids, slots, kinds, labels, texts []string
	vectors                          [][]float32
}

func (b *columns) add(it vectors.Item) {
	b.ids = append(b.ids, keyOf(it.Ref))
	b.slots = append(b.slots, slotOf(it.Kind, it.Label))
	b.kinds = append(b.kinds, string(rune(it.Kind)))
	b.labels = append(b.labels, it.Label)
	b.texts = append(b.texts, cut(it.Text))
	b.vectors = append(b.vectors, it.Vector)
}

func (c *Copy) upsert(ctx context.Context, b *columns) error {
	if len(b.ids) == 0 {
		return nil
	}
	err := c.call(ctx, "upsert", 1, func(ctx context.Context, a api) error {
		_, err := a.Upsert(ctx, c.name, "", entity.NewColumnVarChar(fieldID, b.ids), entity.NewColumnVarChar(fieldSlot, b.slots),
			entity.NewColumnVarChar(fieldKind, b.kinds), entity.NewColumnVarChar(fieldLabel, b.labels), entity.NewColumnVarChar(fieldText, b.texts),
			entity.NewColumnFloatVector(fieldVector, c.cfg.Size, b.vectors))
		return err
	})
	c.wrote.Add(1) // also a failed one may have been taken
	*b = columns{}
	return err
}

func zero(v []float32) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

// Delete takes vectors away; those that are not there are no error.
func (c *Copy) Delete(ctx context.Context, refs []vectors.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	if _, err := c.Ensure(ctx); err != nil {
		return err
	}
	for len(refs) > 0 {
		n := min(len(refs), maxPut)
		keys := make([]string, n)
		for i, r := range refs[:n] {
			if strings.Trim(r.ID, "0123456789abcdef-") != "" {
				return fmt.Errorf("milvus: %w: %.60q is no id", vectors.ErrBadItem, r.ID)
			}
			keys[i] = strconv.Quote(keyOf(r))
		}
		err := c.call(ctx, "delete", 1, func(ctx context.Context, a api) error {
			return a.Delete(ctx, c.name, "", fieldID+" in ["+strings.Join(keys, ",")+"]")
		})
		c.wrote.Add(1)
		if err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// Count asks the server.
func (c *Copy) Count(ctx context.Context, k vectors.Kind) (n int64, err error) {
	if _, err := c.Ensure(ctx); err != nil {
		return 0, err
	}
	err = c.call(ctx, "count", 1, func(ctx context.Context, a api) error {
		rs, err := a.Query(ctx, c.name, nil, fieldKind+" == "+strconv.Quote(string(rune(k))), []string{"count(*)"},
			client.WithSearchQueryConsistencyLevel(entity.ClStrong))
		if err != nil {
			return err
		}
		col := rs.GetColumn("count(*)")
		if col == nil || col.Len() != 1 {
			return errors.New("the answer has no count")
		}
		n, err = col.GetAsInt64(0)
		return err
	})
	return n, err
}

// Drop takes the collection away.
func (c *Copy) Drop(ctx context.Context) error {
	return c.call(ctx, "drop", 6, func(ctx context.Context, a api) error {
		has, err := a.HasCollection(ctx, c.name)
		if err != nil || !has {
			return err
		}
		c.mu.Lock()
		c.made = ""
		c.mu.Unlock()
		return a.DropCollection(ctx, c.name)
	})
}

// Close ends the connection.
func (c *Copy) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}
