package vectors

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Digest tells the texts of vectors apart: the beginning of the SHA-256 of what was embedded.
type Digest [16]byte

// DigestOf a text.
func DigestOf(text string) (d Digest) {
	sum := sha256.Sum256([]byte(text))
	copy(d[:], sum[:])
	return d
}

// Options of an index.
type Options struct {
	// Embedder is the name of what makes the vectors, and Size the numbers in each. Required.
	Embedder string
	Size     int
	// Words takes a text apart as embed.Additive does; nil for an embedder that is none. With it names are found without looking at all of them.
	Words func(text string) [][]embed.Feature
	// Group partitions the names of a label: what SearchGroup is asked for is looked for among names of the same group alone, as names whose
	// numbers differ are never one thing. It is a pure function; "" is the group of most names. Groups names the function: stored groups of another
	// one are not used. Both may be left out.
	Group  func(label, text string) string
	Groups string
	// MaxVectors that the index holds; more are refused with ErrFull. Defaults to 8,000,000. In memory a vector of words takes about 400
	// bytes (measured: 310 to 760), another one its Size and 130 bytes.
	MaxVectors int
}

// DefaultMaxVectors is Options.MaxVectors when that is 0.
const DefaultMaxVectors = 8_000_000

// OptionsFor an embedder; caches around it are looked through.
func OptionsFor(e embed.Embedder) Options {
	o := Options{Embedder: e.Name(), Size: e.Size()}
	if a, ok := embed.AsAdditive(e); ok {
		o.Words = a.Words
	}
	return o
}

// groups is the name of the grouping, "" without one.
func (o Options) groups() string {
	if o.Group == nil {
		return ""
	}
	return o.Groups
}

// groupOf a name, 0 for none.
func (o Options) groupOf(k Kind, label, text string) uint64 {
	if o.Group == nil || k != Entity {
		return 0
	}
	g := o.Group(label, text)
	if g == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(g))
	return min(max(1, binary.LittleEndian.Uint64(sum[:])), any64-1)
}

// Index is the graph-native index of one graph: its vectors are rows of the store, which Open reads, and lie in memory in a
// form that is searched. Searches are exact and run side by side and beside the one writer; Apply and what is built on it must
// not run twice at once. There is nothing to close.
type Index struct {
	st    *store.Store
	graph string
	opt   Options

	write sync.Mutex // one writer at a time

	mu       sync.RWMutex // guards what follows
	shards   map[shardKey]*shard
	where    map[ref]place
	position uint64
	headed   bool // the header is stored
	apart    bool // stored groups are those of opt
}

// Open reads a graph's index; a graph that has none has an empty one. Vectors of another embedder are an *EmbedderError.
func Open(ctx context.Context, st *store.Store, graph string, o Options) (*Index, error) {
	if o.Embedder == "" || o.Size < 1 || o.Size > math.MaxUint16/2-1 {
		return nil, fmt.Errorf("vector index of graph %s: embedder %q of size %d", graph, o.Embedder, o.Size)
	}
	if o.MaxVectors <= 0 {
		o.MaxVectors = DefaultMaxVectors
	}
	x := &Index{st: st, graph: graph, opt: o, shards: map[shardKey]*shard{}, where: map[ref]place{}, apart: o.Group != nil}
	h, err := readHeader(st, graph)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return x, nil
	}
	if h.Embedder != o.Embedder || h.Size != o.Size {
		return nil, &EmbedderError{Graph: graph, Stored: h.Embedder, StoredN: h.Size, Given: o.Embedder, GivenN: o.Size}
	}
	x.headed, x.apart = true, o.Group != nil && h.Groups == o.groups()
	b, err := st.Get(graph, space, keyPosition)
	if err != nil {
		return nil, err
	}
	if len(b) == 8 {
		x.position = binary.BigEndian.Uint64(b)
	}
	for _, k := range []Kind{Entity, Chunk} {
		if err := x.load(ctx, k); err != nil {
			return nil, fmt.Errorf("read vector index of graph %s: %w", graph, err)
		}
	}
	return x, nil
}

func (x *Index) load(ctx context.Context, k Kind) error {
	return x.st.Scan(x.graph, space, []byte{byte(k)}, nil, 0, func(key, value []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		of := ref{kind: k}
		if len(key) != 1+len(of.id) {
			return fmt.Errorf("%w: key %x", ErrCorrupt, key)
		}
		copy(of.id[:], key[1:])
		r, err := decodeRow(of, value, x.opt.Size)
		if err != nil {
			return err
		}
		x.enter(of, r)
		return nil
	})
}

// Reset takes all vectors of a graph and the positions of the index and its copies away, and makes the index o's: what is then opened is
// empty and at position 0. An index that is open meanwhile must be given up before.
func Reset(ctx context.Context, st *store.Store, graph string, o Options) error {
	ops := []store.Op{{Graph: graph, Space: space, DeletePrefix: true}, headerOp(graph, o)}
	if err := st.Write(ctx, ops, true); err != nil {
		return fmt.Errorf("reset vectors of graph %s: %w", graph, err)
	}
	return nil
}

// Embedder is the name and size of what the index holds.
func (x *Index) Embedder() (name string, size int) { return x.opt.Embedder, x.opt.Size }

// Upsert is Apply of items alone.
func (x *Index) Upsert(ctx context.Context, items []Item) error {
	return x.Apply(ctx, Batch{Upserts: items})
}

// Delete is Apply of deletions alone.
func (x *Index) Delete(ctx context.Context, refs []Ref) error {
	return x.Apply(ctx, Batch{Deletes: refs})
}

// SetPosition is Apply of a position alone.
func (x *Index) SetPosition(ctx context.Context, seq uint64) error {
	return x.Apply(ctx, Batch{Position: seq})
}

// Position is the commit sequence up to which the index follows; 0 for an empty one.
func (x *Index) Position(context.Context) (uint64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.position, nil
}

// change is a checked upsert.
type change struct {
	of  ref
	row row
}

// Apply writes a batch at once and makes it visible; on an error nothing of it is. It does not wait for the disk: after a crash the index
// may be at an earlier position, never at one whose vectors it lacks. Errors: ErrBadItem, ErrFull, and the store's.
func (x *Index) Apply(ctx context.Context, b Batch) error {
	x.write.Lock()
	defer x.write.Unlock()
	var ops []store.Op
	changes, err := x.prepare(b.Upserts)
	if err != nil {
		return err
	}
	for _, c := range changes {
		ops = append(ops, store.Op{Graph: x.graph, Space: space, Key: c.of.key(), Value: encodeRow(c.of, c.row)})
	}
	gone := make([]ref, 0, len(b.Deletes))
	for _, r := range b.Deletes {
		of, err := r.parse()
		if err != nil {
			return err
		}
		gone = append(gone, of)
		ops = append(ops, store.Op{Graph: x.graph, Space: space, Key: of.key(), Delete: true})
	}
	if b.Position != 0 {
		ops = append(ops, positionOp(x.graph, b.Position))
	}
	if len(ops) == 0 {
		return nil
	}
	if !x.headed {
		ops = append(ops, headerOp(x.graph, x.opt))
	}
	if err := x.st.Write(ctx, ops, false); err != nil {
		return fmt.Errorf("write vectors of graph %s: %w", x.graph, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.headed = true
	for _, c := range changes {
		x.leave(c.of)
		x.enter(c.of, c.row)
	}
	for _, of := range gone {
		x.leave(of)
	}
	if b.Position != 0 {
		x.position = b.Position
	}
	x.tidy()
	return nil
}

// prepare checks items; of one id the last counts. Only the writer changes what it reads.
func (x *Index) prepare(items []Item) ([]change, error) {
	out := make([]change, 0, len(items))
	at := make(map[ref]int, len(items))
	fresh := 0
	for _, it := range items {
		if err := CheckItem(it, x.opt.Size); err != nil {
			return nil, err
		}
		of, err := it.parse()
		if err != nil {
			return nil, err
		}
		c := change{of: of, row: x.rowOf(it)}
		if i, ok := at[of]; ok {
			out[i] = c
			continue
		}
		at[of] = len(out)
		out = append(out, c)
		if _, ok := x.where[of]; !ok {
			fresh++
		}
	}
	if n := len(x.where) + fresh; n > x.opt.MaxVectors {
		return nil, fmt.Errorf("%w: %d vectors of graph %s, at most %d", ErrFull, n, x.graph, x.opt.MaxVectors)
	}
	return out, nil
}

// brief says whether a text may have few enough features to be kept as words: each letter brings several.
func brief(text string) bool {
	letters := 0
	for i := 0; i < len(text) && letters <= maxFeatures; i++ {
		if c := text[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			letters++
		}
	}
	return letters <= maxFeatures && len(text) <= 8*maxFeatures
}

// rowOf keeps an item as words where these give its vector, bit for bit, else as numbers.
func (x *Index) rowOf(it Item) row {
	r := row{label: it.Label, digest: DigestOf(it.Text), group: x.opt.groupOf(it.Kind, it.Label, it.Text)}
	if x.opt.Words != nil && brief(it.Text) {
		if ws := x.opt.Words(it.Text); featuresIn(ws) <= maxFeatures && slices.Equal(embed.Sum(x.opt.Size, ws...), it.Vector) {
			r.words = ws
			return r
		}
	}
	r.floats = it.Vector
	return r
}

// enter, leave and tidy are called with mu held, or before anybody else knows x.
func (x *Index) enter(of ref, r row) {
	k := shardKey{of.kind, r.label}
	s := x.shards[k]
	if s == nil {
		s = newShard(k, x.opt.Size)
		x.shards[k] = s
	}
	p := place{shard: s}
	switch {
	case r.floats != nil:
		p.in, p.slot = inDense, s.dense.add(of.id, r.floats, r.group)
	case r.group != 0:
		p.in, p.slot = inGrouped, s.grouped.add(of.id, r.words, r.group)
	default:
		p.slot = s.words.add(of.id, r.words, 0)
	}
	x.where[of] = p
}

func (x *Index) leave(of ref) {
	p, ok := x.where[of]
	if !ok {
		return
	}
	switch p.in {
	case inDense:
		p.shard.dense.remove(p.slot)
	case inGrouped:
		p.shard.grouped.remove(p.slot)
	default:
		p.shard.words.remove(p.slot)
	}
	delete(x.where, of)
}

func (x *Index) tidy() {
	for k, s := range x.shards {
		moved := func(to in) func(id uuid, at uint32) {
			return func(id uuid, at uint32) { x.where[ref{k.kind, id}] = place{s, at, to} }
		}
		s.words = s.words.tidy(moved(inWords))
		s.grouped = s.grouped.tidy(moved(inGrouped))
		s.dense = s.dense.tidy(moved(inDense))
	}
}

// Search returns the best k stored vectors of a kind and label whose score with vector is drop or more, best first, of equal scores
// the least id first: what comparing with every vector would give. An empty list says that there is none. A query of all zeros
// scores 0 with everything. Errors: ErrBadItem for the query, ErrCorrupt, the store's, and the context's.
func (x *Index) Search(ctx context.Context, k Kind, label string, vector []float32, top int, drop float64) ([]Hit, error) {
	hits, _, err := x.SearchStats(ctx, k, label, vector, top, drop)
	return hits, err
}

// SearchStats is Search that says what it took.
func (x *Index) SearchStats(ctx context.Context, k Kind, label string, vector []float32, top int, drop float64) ([]Hit, Stats, error) {
	return x.search(ctx, k, label, any64, vector, top, drop)
}

// SearchGroup is Search among the entities of a label that are in the group of a name (Options.Group), and takes time by the names of that group. Without
// a grouping, or where the stored one is another, it is Search.
func (x *Index) SearchGroup(ctx context.Context, label, name string, vector []float32, top int, drop float64) ([]Hit, error) {
	hits, _, err := x.searchGroup(ctx, label, name, vector, top, drop)
	return hits, err
}

func (x *Index) searchGroup(ctx context.Context, label, name string, vector []float32, top int, drop float64) ([]Hit, Stats, error) {
	group := any64
	if x.apart {
		group = x.opt.groupOf(Entity, label, name)
	}
	return x.search(ctx, Entity, label, group, vector, top, drop)
}

// any64 stands for every group.
const any64 uint64 = math.MaxUint64

func (x *Index) search(ctx context.Context, k Kind, label string, group uint64, vector []float32, top int, drop float64) ([]Hit, Stats, error) {
	if err := checkVector(vector, x.opt.Size); err != nil {
		return nil, Stats{}, fmt.Errorf("search %s %q: %w", k, label, err)
	}
	if top < 1 || math.IsNaN(drop) {
		return nil, Stats{}, fmt.Errorf("search %s %q: %w: %d hits above %g", k, label, ErrBadItem, top, drop)
	}
	if err := ctx.Err(); err != nil {
		return nil, Stats{}, err
	}
	q := newQuery(vector, top, drop)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.shards[shardKey{k, label}]; s != nil {
		if group == any64 || group == 0 {
			q.names(s.words, any64)
		}
		if group != 0 {
			q.names(s.grouped, group)
		}
		q.vectors(s.dense, group, func(id uuid) ([]float32, error) { return x.stored(ref{k, id}) })
	}
	hits, err := q.hits()
	if err != nil {
		return nil, q.stats, fmt.Errorf("search %s %q: %w", k, label, err)
	}
	return hits, q.stats, nil
}

// stored reads a vector; nil when a writer has taken it away just now.
func (x *Index) stored(of ref) ([]float32, error) {
	r, ok, err := x.read(of)
	if err != nil || !ok {
		return nil, err
	}
	return r.vector(x.opt.Size), nil
}

func (x *Index) read(of ref) (row, bool, error) {
	b, err := x.st.Get(x.graph, space, of.key())
	if err != nil || b == nil {
		return row{}, false, err
	}
	r, err := decodeRow(of, b, x.opt.Size)
	return r, err == nil, err
}

// Known is what is stored of one vector.
type Known struct {
	Label  string
	Digest Digest
	Vector []float32
}

// Lookup reads the vectors of refs, in order; nil for those that are not there.
func (x *Index) Lookup(_ context.Context, refs []Ref) ([]*Known, error) {
	out := make([]*Known, len(refs))
	for i, r := range refs {
		of, err := r.parse()
		if err != nil {
			return nil, err
		}
		got, ok, err := x.read(of)
		if err != nil {
			return nil, err
		}
		if ok {
			out[i] = &Known{Label: got.label, Digest: got.digest, Vector: got.vector(x.opt.Size)}
		}
	}
	return out, nil
}

// Refs lists what is stored behind a ref (the zero Ref: from the first), entities behind chunks, by id, at most limit.
func (x *Index) Refs(ctx context.Context, after Ref, limit int) ([]Ref, error) {
	var out []Ref
	for _, k := range []Kind{Chunk, Entity} {
		var from []byte
		if after.Kind == k {
			of, err := after.parse()
			if err != nil {
				return nil, err
			}
			from = of.key()
		}
		if after.Kind > k || len(out) == limit {
			continue
		}
		err := x.st.Scan(x.graph, space, []byte{byte(k)}, from, limit-len(out), func(key, _ []byte) error {
			if len(key) != 17 {
				return fmt.Errorf("%w: key %x", ErrCorrupt, key)
			}
			out = append(out, Ref{k, uuid(key[1:]).String()})
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Size says how many vectors there are, and about how many bytes of memory they take.
func (x *Index) Size() (vectors int, memory int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.shards {
		memory += s.words.bytes() + s.grouped.bytes() + s.dense.bytes()
	}
	return len(x.where), memory + int64(len(x.where))*80
}

// Labels that have vectors of a kind, sorted.
func (x *Index) Labels(k Kind) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []string
	for key := range x.shards {
		if key.kind == k {
			out = append(out, key.label)
		}
	}
	slices.Sort(out)
	return out
}

// Count is how many vectors of a kind there are.
func (x *Index) Count(_ context.Context, k Kind) (int64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 0
	for key, s := range x.shards {
		if key.kind == k {
			n += len(s.words.slots) - s.words.dead + len(s.grouped.slots) - s.grouped.dead + len(s.dense.meta) - s.dense.dead
		}
	}
	return int64(n), nil
}
