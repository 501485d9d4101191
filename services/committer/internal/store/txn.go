package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// Txn is one commit under way: it writes at the sequence after the current one, which nobody reads until Finish. It is for
// one goroutine; Finish or Abort must end it.
type Txn struct {
	s       *Store
	g       *graphState
	seq     uint64 // of this commit
	current uint64
	at      string // time of the commit, RFC 3339

	mu    sync.Mutex // guards everything below against Store.Close
	ended bool
	// its see what was flushed; nil until needed. Folds have one of their own, so that looking up one after the other stays in the
	// same tables.
	its [2]*pebble.Iterator

	// The write-back cache: what the next batch holds.
	rows     map[string][]byte // key without sequence → value; empty removes
	size     int               // bytes of rows and folds, about
	ents     map[id]*entityAgg
	rels     map[id]*relationAgg
	props    map[propID]*propAgg
	byProp   map[ownerProp][]*propAgg
	docCands map[id][]string // keys of candidates in rows
	post     lexical.Index
	names    map[string][]byte // term → entity ids
	part     uint32            // number of the next part of a posting list
	events   [][]byte          // outbox rows without their head
	cands    map[candBatch]*pendingItems

	matched  map[id]map[id]bool // matches in rows, from either side
	fed      []byte             // entries of the feed, see feedRows
	fedParts int

	candFed      []byte // ids of the candidate feed, see candFeedRows
	candFedParts int

	counts  Counts
	batches int // written under a journal
	numbers []uint64
	touched map[id]bool // facts that changed: true is there, false is gone
	docs    []string    // keys of documents that changed
	job     string
	written int
	removed int // of written: rows that end others
	bytes   int64
}

// Begin starts a commit of a graph. One runs at a time; Begin waits for its turn.
func (s *Store) Begin(ctx context.Context, graph string) (*Txn, error) {
	g, err := s.turn(ctx, graph)
	if err != nil {
		return nil, fmt.Errorf("begin commit of graph %s: %w", graph, err)
	}
	t, err := s.begin(g)
	if err != nil {
		g.turn <- struct{}{}
		return nil, fmt.Errorf("begin commit of graph %s: %w", graph, err)
	}
	return t, nil
}

func (s *Store) turn(ctx context.Context, graph string) (*graphState, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	if err := s.space.check(); err != nil {
		return nil, err
	}
	g, err := s.graph(graph)
	if err != nil {
		return nil, err
	}
	// Close must not wait for a commit that only its owner can end.
	select {
	case <-g.turn:
		return g, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closing:
		return nil, ErrClosed
	}
}

func (s *Store) begin(g *graphState) (*Txn, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	// An Abort that failed half-way left its journal.
	if err := s.undo(context.Background(), g.id, g.current.Load()); err != nil {
		return nil, err
	}
	t := &Txn{s: s, g: g, current: g.current.Load(), at: s.opt.Now().UTC().Format(time.RFC3339Nano), touched: map[id]bool{},
		cands: map[candBatch]*pendingItems{}}
	t.seq = t.current + 1
	t.reset()
	sn := newSnapshot(s, g, t.current)
	c, err := sn.Counts()
	if err = errorsJoin(err, sn.Close()); err != nil {
		return nil, err
	}
	t.counts = c.clone()
	s.mu.Lock()
	s.txns[t] = struct{}{}
	s.mu.Unlock()
	return t, nil
}

// reset empties the write-back cache. Its maps stay as large as they grew: the next batch has as many rows.
func (t *Txn) reset() {
	if t.rows == nil {
		t.rows, t.ents, t.rels = map[string][]byte{}, map[id]*entityAgg{}, map[id]*relationAgg{}
	}
	clear(t.rows)
	clear(t.ents)
	clear(t.rels)
	t.size = 0
	t.props, t.byProp = map[propID]*propAgg{}, map[ownerProp][]*propAgg{}
	t.docCands, t.names, t.events = map[id][]string{}, map[string][]byte{}, nil
	t.matched = map[id]map[id]bool{}
	t.post.Reset()
}

// Seq is the sequence that this commit makes current.
func (t *Txn) Seq() uint64 { return t.seq }

// lock begins a method; unlock must follow when it returns nil.
func (t *Txn) lock() error {
	if err := t.s.enter(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.ended {
		t.unlock()
		return ErrDone
	}
	return nil
}

func (t *Txn) unlock() {
	t.mu.Unlock()
	t.s.exit()
}

// iter sees the current sequence and what this commit flushed.
func (t *Txn) iter(fold bool) (*pebble.Iterator, error) {
	it := &t.its[0]
	if fold {
		it = &t.its[1]
	}
	if *it == nil {
		var err error
		if *it, err = t.s.db.NewIter(&iterOptions); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
	}
	return *it, nil
}

func (t *Txn) closeIters() (err error) {
	for _, it := range t.its {
		if it != nil {
			err = errorsJoin(err, it.Close())
		}
	}
	t.its = [2]*pebble.Iterator{}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// load reads a row as this commit sees it. The value is valid until the next load.
func (t *Txn) load(k key) ([]byte, bool, error) {
	if v, ok := t.rows[string(k)]; ok {
		return v, len(v) > 0, nil
	}
	it, err := t.iter(foldSpace(k))
	if err != nil {
		return nil, false, err
	}
	return seekRow(it, k, t.seq)
}

// foldSpace says whether a key is that of a row which commits read in order to change it.
func foldSpace(k key) bool {
	switch k[headLen-1] {
	case spaceEntity, spaceRelation, spacePropFold:
		return true
	}
	return false
}

// put writes a row; an empty value removes it.
func (t *Txn) put(k key, v []byte) {
	t.rows[string(k)] = v
	t.size += len(k) + len(v) + 96
}

func (t *Txn) putJSON(k key, v any) error {
	b, err := encodeJSON(v)
	if err != nil {
		return err
	}
	t.put(k, b)
	return nil
}

// Stored is what the decision table is asked about a document: its state as of this commit.
func (t *Txn) Stored(docID string) (graph.Stored, error) {
	if err := t.lock(); err != nil {
		return graph.Stored{}, err
	}
	defer t.unlock()
	v, err := mustID(docID)
	if err != nil {
		return graph.Stored{}, err
	}
	d, _, err := t.loadDoc(v)
	return d.Stored(), err
}

// Emit puts an event into the outbox; it is published when the commit is current.
func (t *Txn) Emit(ev events.Event) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	return t.emit(ev)
}

func (t *Txn) emit(ev events.Event) error {
	b, err := encodeEvent(ev)
	if err != nil {
		return err
	}
	t.events = append(t.events, b)
	t.size += len(b) + 32
	return nil
}

// Finish makes the commit current: one synced batch holds what was not written yet, extra, the outbox rows and the new
// sequence. After an error that is not ErrBroken the transaction is still there and must be aborted; after ErrBroken the
// outcome is unclear until the store is opened anew.
func (t *Txn) Finish(ctx context.Context, extra []Op) (Committed, error) {
	if err := t.lock(); err != nil {
		return Committed{}, err
	}
	defer t.unlock()
	if err := t.finish(ctx, extra); err != nil {
		return Committed{}, fmt.Errorf("commit %d of graph %s: %w", t.seq, t.g.name, err)
	}
	return Committed{Seq: t.seq, Counts: t.counts.clone(), RowsWritten: t.written, Bytes: t.bytes}, nil
}

func (t *Txn) finish(ctx context.Context, extra []Op) error {
	if err := t.emitItems(); err != nil {
		return err
	}
	if err := t.emitFolds(); err != nil {
		return err
	}
	if err := t.emitChanges(ctx); err != nil {
		return err
	}
	if err := t.flushIfFull(ctx); err != nil {
		return err
	}
	if err := t.putJSON(newKey(t.g.id, spaceCounts), t.counts); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := t.s.db.NewBatchWithSize(t.size)
	defer b.Close()
	rest, err := t.gather()
	if err != nil {
		return err
	}
	if err := rest.fill(b, nil); err != nil {
		return err
	}
	t.counted(rest)
	release, err := t.s.addOps(b, extra)
	defer release()
	if err != nil {
		return err
	}
	// One by one: a range tombstone would lie in the way of every later look-up.
	for i := range t.batches {
		if err := b.Delete(t.journalKey(i).end(), nil); err != nil {
			return fmt.Errorf("drop journal: %w", err)
		}
	}
	if err := b.Set(newKey(t.g.id, spaceCurrent).end(), number(t.seq), nil); err != nil {
		return fmt.Errorf("write sequence: %w", err)
	}
	t.bytes += int64(b.Len())
	t.s.space.relieve()
	if err := t.s.apply(b, true); err != nil {
		return err
	}
	t.g.current.Store(t.seq)
	// The commit is done, whatever letting go of the rest says.
	if err := t.end(); err != nil {
		t.s.opt.Log.Warn("end of commit", "graph", t.g.name, "seq", t.seq, "error", err)
	}
	t.g.turn <- struct{}{}
	return nil
}

// Abort removes what the commit wrote. Aborting one that ended does nothing.
func (t *Txn) Abort() error {
	if err := t.s.enter(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.unlock()
	if t.ended {
		return nil
	}
	err := t.end()
	if t.batches > 0 {
		err = errorsJoin(err, t.s.undo(context.Background(), t.g.id, t.current))
	}
	t.g.turn <- struct{}{}
	if err != nil {
		return fmt.Errorf("abort commit %d of graph %s: %w", t.seq, t.g.name, err)
	}
	return nil
}

// end lets go of everything but the turn.
func (t *Txn) end() error {
	t.ended = true
	err := t.closeIters()
	t.rows, t.ents, t.rels, t.props, t.byProp = nil, nil, nil, nil, nil
	t.post.Reset()
	for _, no := range t.numbers {
		t.g.out.release(no)
	}
	t.s.mu.Lock()
	delete(t.s.txns, t)
	t.s.mu.Unlock()
	return err
}
