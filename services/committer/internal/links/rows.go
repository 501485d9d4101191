package links

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package. Keys:
//
//	p                 position: what of the feed is linked
//	b block id        an entity filed under a blocking key of its label
//	n id              label, name and aliases under which an entity is filed
//	r id              an entity that has to be compared anew
//	j job             counters of a job
//	q sequence pair   a pair that waits for a model
//	v pair            what a model said about a pair
const space = byte('M')

const (
	blockLen = 8
	idLen    = store.IDLen
)

var keyPosition = []byte("p")

// rows reads the linker's rows of one graph and makes operations of changes.
type rows struct {
	st    *store.Store
	graph string
}

// position in the feed. While All is set the whole graph is compared, up to entity After; the feed goes on behind Seq.
type position struct {
	Seq    uint64 `json:"seq"`
	Offset int    `json:"offset,omitempty"`
	All    bool   `json:"all,omitempty"`
	After  string `json:"after,omitempty"`
	// Rules names what decided about pairs; others compare everything anew.
	Rules string `json:"rules"`
}

func (r rows) op(k, v []byte) store.Op {
	return store.Op{Graph: r.graph, Space: space, Key: k, Value: v}
}
func (r rows) del(k []byte) store.Op {
	return store.Op{Graph: r.graph, Space: space, Key: k, Delete: true}
}

func (r rows) json(k []byte, v any) (store.Op, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return store.Op{}, fmt.Errorf("encode %T: %w", v, err)
	}
	return r.op(k, b), nil
}

// load reads a JSON row.
func (r rows) load(k []byte, into any) (bool, error) {
	b, err := r.st.Get(r.graph, space, k)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%w: row %q of links: %w", store.ErrCorrupt, k, err)
	}
	return true, nil
}

func (r rows) position() (p position, ok bool, err error) {
	ok, err = r.load(keyPosition, &p)
	return p, ok, err
}

func jobKey(job string) []byte { return append([]byte("j"), job...) }

func (r rows) stats(job string) (s api.Resolution, err error) {
	_, err = r.load(jobKey(job), &s)
	return s, err
}

// named is how an entity is compared. Aliases are parted by zeros.
type named struct{ label, name, aliases string }

func nameKey(v store.ID) []byte { return append([]byte("n"), v[:]...) }

func (n named) encode() []byte { return []byte(n.label + "\x00" + n.name + "\x00" + n.aliases) }

func (r rows) filed(v store.ID) (n named, err error) {
	b, err := r.st.Get(r.graph, space, nameKey(v))
	if err != nil || b == nil {
		return n, err
	}
	label, rest, ok := strings.Cut(string(b), "\x00")
	name, aliases, also := strings.Cut(rest, "\x00")
	if !ok || !also {
		return n, fmt.Errorf("%w: name of entity %s in the links", store.ErrCorrupt, v)
	}
	return named{label, name, aliases}, nil
}

// block is a blocking key of one label.
type block [blockLen]byte

func blocksOf(label string, keys []string) []block {
	out := make([]block, 0, len(keys))
	for _, k := range keys {
		h := fnv.New64a()
		_, _ = h.Write([]byte(label))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(k))
		out = append(out, block(binary.BigEndian.AppendUint64(nil, h.Sum64())))
	}
	return out
}

func blockPrefix(b block) []byte          { return append([]byte("b"), b[:]...) }
func blockKey(b block, v store.ID) []byte { return append(blockPrefix(b), v[:]...) }

// members lists the entities filed under blocks, at most limit+1 of each.
func (r rows) members(blocks []block, limit int, fn func(i int, v store.ID)) error {
	prefixes := make([][]byte, len(blocks))
	for i, b := range blocks {
		prefixes[i] = blockPrefix(b)
	}
	return r.st.Probe(r.graph, space, prefixes, limit+1, func(i int, k []byte) error {
		if len(k) != 1+blockLen+idLen {
			return fmt.Errorf("%w: row %x of links", store.ErrCorrupt, k)
		}
		fn(i, store.ID(k[1+blockLen:]))
		return nil
	})
}

func relinkKey(v store.ID) []byte { return append([]byte("r"), v[:]...) }

// relinks lists some of the entities that have to be compared anew.
func (r rows) relinks(limit int) (out []store.ID, err error) {
	err = r.st.Scan(r.graph, space, []byte("r"), nil, limit, func(k, _ []byte) error {
		if len(k) != 1+idLen {
			return fmt.Errorf("%w: row %x of links", store.ErrCorrupt, k)
		}
		out = append(out, store.ID(k[1:]))
		return nil
	})
	return out, err
}

func (r rows) prefix(p string) store.Op {
	return store.Op{Graph: r.graph, Space: space, Key: []byte(p), DeletePrefix: true}
}

// reset has the whole graph compared anew.
func (r rows) reset(ctx context.Context) error {
	head, err := r.st.Seq(r.graph)
	if errors.Is(err, store.ErrNoGraph) {
		return nil
	}
	if err != nil {
		return err
	}
	op, err := r.json(keyPosition, position{Seq: head, All: true})
	if err != nil {
		return err
	}
	return r.st.Write(ctx, []store.Op{op, r.prefix("r"), r.prefix("q"), r.del(jobKey(""))}, true)
}

// first is the position of a graph that was never linked: its beginning, or, when its feed does not reach back there, its head and everything.
func (r rows) first(ctx context.Context, head uint64) (position, error) {
	page, err := r.st.Feed(ctx, r.graph, 0, 0, 1)
	if err != nil && !errors.Is(err, store.ErrFeedGone) {
		return position{}, err
	}
	if err == nil && page.Seq == 1 || head == 0 {
		return position{}, nil
	}
	before := head
	if err == nil && page.Seq > 1 {
		before = page.Seq - 1
	}
	sn, err := r.st.Snapshot(r.graph, before)
	if err != nil {
		return position{}, err
	}
	c, err := sn.Counts()
	if err = errors.Join(err, sn.Close()); err != nil {
		return position{}, err
	}
	if len(c.Entities) == 0 {
		return position{}, nil
	}
	return position{Seq: head, All: true}, nil
}
