package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/factmill/factmill/pkg/events"
)

const (
	rowFormat = "format"
	rowEpoch  = "epoch"
	rowOwn    = "name"
)

// Options of Open. Only Dir is required.
type Options struct {
	// Dir is the data directory; it is made when missing.
	Dir string
	// FS is the file system. Defaults to the machine's.
	FS vfs.FS
	// Log receives what the store has to say. Defaults to nothing.
	Log *slog.Logger
	// CacheBytes bounds the block cache, which holds what is read of tables. Defaults to 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of a memtable. Defaults to 32 MiB.
	MemTableBytes int
	// BatchBytes is about how much of a commit is held in memory before it is written at the next, still invisible
	// sequence. Defaults to 64 MiB: an entity that many documents name is written once a batch.
	BatchBytes int
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Fatal is told once when a write failed in a way after which the store must be opened anew. It should end the process:
	// Pebble counts on it, and calls that are under way may never return. It must not call the store. Without it every
	// later call answers ErrBroken.
	Fatal func(error)
	// ReserveBytes of free space: below it new commits and writes are refused with ErrNoSpace. Defaults to 0, no reserve.
	ReserveBytes uint64
	// BallastBytes is the size of a file that is given up when the space runs out in the middle of a commit, and made again
	// when there is room. Defaults to 0, none.
	BallastBytes int64
	// Follower opens a copy that follows another store: it takes that one's batches by Follow, and nothing else; see ErrReadOnly.
	Follower bool
	// ShipBytes of batches are kept for copies, at least one file of 16 MiB, once Ship was called. Defaults to 256 MiB.
	ShipBytes int64
	// FreeSpace returns the free bytes of the file system that holds dir. Defaults to asking FS; where that cannot tell,
	// space counts as unlimited.
	FreeSpace func(dir string) (uint64, error)
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MemTableBytes <= 0 {
		o.MemTableBytes = 32 << 20
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = 64 << 20
	}
	if o.ShipBytes <= 0 {
		o.ShipBytes = 256 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is an open data directory. All methods may be called from any goroutine.
type Store struct {
	opt   Options
	db    *pebble.DB
	lock  *pebble.Lock
	epoch uint64
	name  string
	space *space
	ship  *shipper

	broken  atomic.Pointer[error]
	changed [256]atomic.Uint64 // changes of raw rows, by space

	mu       sync.Mutex
	closed   bool          // guarded by mu
	closing  chan struct{} // closed with closed
	inflight int           // calls under way; guarded by mu
	idle     chan struct{} // closed when inflight falls to 0 after closed; guarded by mu
	graphs   map[string]*graphState
	byID     map[uint32]*graphState
	snaps    map[*Snapshot]struct{} // guarded by mu
	txns     map[*Txn]struct{}      // guarded by mu
}

// graphState is what memory knows of a graph.
type graphState struct {
	id      uint32
	name    string
	current atomic.Uint64
	turn    chan struct{} // holds one token: the right to a transaction
	out     outbox
}

// Open opens or makes a data directory. The errors to tell apart are ErrInUse and ErrNewerFormat.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if o.Dir == "" {
		return nil, errors.New("no data directory given")
	}
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", o.Dir, err)
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		if lockHeld(err) {
			return nil, fmt.Errorf("%w: %s (another process has it open: %v)", ErrInUse, o.Dir, err)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", o.Dir, err)
	}
	s := &Store{opt: o, lock: lock, graphs: map[string]*graphState{}, byID: map[uint32]*graphState{},
		closing: make(chan struct{}), snaps: map[*Snapshot]struct{}{}, txns: map[*Txn]struct{}{}}
	s.space, s.ship = &space{opt: o}, newShipper(o)
	if err := s.open(ctx); err != nil {
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// lockHeld tells a lock that somebody holds from one that cannot be made. The system call fails with a bare number; the file
// it needs fails with a path; a second Open of one process has only words.
func lockHeld(err error) bool {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return false
	}
	var no syscall.Errno
	return errors.As(err, &no) || strings.Contains(err.Error(), "lock held by current process")
}

func (s *Store) open(ctx context.Context) error {
	db, err := pebble.Open(s.opt.Dir, s.pebbleOptions())
	if err != nil {
		return fmt.Errorf("open store %s: %w", s.opt.Dir, err)
	}
	s.db = db
	format, err := s.systemNumber(rowFormat)
	if err != nil {
		return err
	}
	if format > formatVersion {
		return fmt.Errorf("%w: %s has format %d, this program reads up to %d: start the version that wrote it, or a newer one, or restore a backup that this one wrote",
			ErrNewerFormat, s.opt.Dir, format, formatVersion)
	}
	epoch, err := s.systemNumber(rowEpoch)
	if err != nil {
		return err
	}
	if s.opt.Follower {
		if format != formatVersion {
			return fmt.Errorf("%w: the copy in %s has format %d, this program reads %d", ErrOlderFormat, s.opt.Dir, format, formatVersion)
		}
		s.epoch = epoch
		return s.loadGraphs(ctx)
	}
	name, err := s.systemRow(rowOwn)
	if err != nil {
		return err
	}
	if len(name) == 0 { // a new store, or one that an older version wrote
		name = []byte(fmt.Sprintf("%016x", rand.Uint64()))
	}
	s.name = string(name)
	// First of all: copies are to see what is undone and brought forward now.
	if err := s.resumeShip(epoch); err != nil {
		return err
	}
	if err := s.loadGraphs(ctx); err != nil {
		return err
	}
	if format != 0 && format < formatVersion {
		if err := s.migrate(ctx, format, epoch); err != nil {
			return err
		}
	}
	s.epoch = epoch + 1
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(b.Set(systemKey(rowFormat).end(), number(formatVersion), nil), b.Set(systemKey(rowEpoch).end(), number(s.epoch), nil),
		b.Set(systemKey(rowOwn).end(), name, nil)); err != nil {
		return fmt.Errorf("raise epoch: %w", err)
	}
	s.ship.raise(s.epoch)
	if err := s.apply(b, true); err != nil {
		return fmt.Errorf("raise epoch: %w", err)
	}
	s.space.restoreBallast()
	return nil
}

// tableBytes is the size of a table, about. Its filter and its index are read as a whole: at most a tenth of this, together.
const tableBytes = 16 << 20

func (s *Store) pebbleOptions() *pebble.Options {
	l := &logger{log: s.opt.Log, fatal: s.Fatal}
	// Pebble takes the memtables out of the cache's size; two are there most of the time.
	cache := s.opt.CacheBytes + 2*int64(s.opt.MemTableBytes)
	o := &pebble.Options{
		FS: s.opt.FS, Lock: s.lock, Logger: l, Comparer: comparer, CacheSize: cache, FormatMajorVersion: pebble.FormatNewest,
		MemTableSize: uint64(s.opt.MemTableBytes), MemTableStopWritesThreshold: 4, L0CompactionThreshold: 4, L0StopWritesThreshold: 24,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		EventListener: &pebble.EventListener{
			DataCorruption: func(i pebble.DataCorruptionInfo) {
				s.Fatal(fmt.Errorf("%w: %s: %v", ErrDamaged, i.Path, i.Details)) // printed whole it has stacks and keys
			},
			BackgroundError: func(err error) { s.opt.Log.Error("store background work", "error", err) },
			WriteStallBegin: func(i pebble.WriteStallBeginInfo) { s.opt.Log.Warn("store writes wait", "reason", i.Reason) },
			DiskSlow:        func(i pebble.DiskSlowInfo) { s.opt.Log.Warn("slow disk", "what", i.String()) },
		},
	}
	// What holds for level 0 holds for the levels below it. An index in one piece saves a step a look-up; few and larger tables save
	// opening one for almost every look-up.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	o.Levels[0] = pebble.LevelOptions{FilterPolicy: bloom.FilterPolicy(10), IndexBlockSize: 1 << 20}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = tableBytes
	}
	return o
}

// logger passes Pebble's words on; its Fatalf does not end the process.
type logger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l *logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("store", "what", fmt.Sprintf(format, args...))
	}
}

func (l *logger) Errorf(format string, args ...any) {
	l.log.Error("store", "what", fmt.Sprintf(format, args...))
}

func (l *logger) Fatalf(format string, args ...any) { l.fatal(fmt.Errorf(format, args...)) }

// Fatal marks the store as broken: what memory and disk hold may differ. Every later call answers ErrBroken; Options.Fatal
// is told the first time.
func (s *Store) Fatal(err error) {
	err = fmt.Errorf("%w: %w", ErrBroken, err)
	if !s.broken.CompareAndSwap(nil, &err) {
		return
	}
	s.opt.Log.Error("store is broken", "dir", s.opt.Dir, "error", err)
	if s.opt.Fatal != nil {
		s.opt.Fatal(err)
	}
}

// Epoch counts the writers of this data directory: each Open raises it by one.
func (s *Store) Epoch() uint64 { return s.epoch }

// Name is a random name that the store got when it was made: its backups and what is made of them have it too, another store has another one. A
// copy that follows has none of its own: it is empty.
func (s *Store) Name() string { return s.name }

// enter registers a call; exit must follow when it returns nil.
func (s *Store) enter() error {
	if p := s.broken.Load(); p != nil {
		return *p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.inflight++
	return nil
}

func (s *Store) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inflight--; s.inflight == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Close waits for the calls under way, ends what is open (a transaction that was not finished is undone by the next Open)
// and closes the data directory. Calling it again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	idle := make(chan struct{})
	if s.inflight > 0 {
		s.idle = idle
	} else {
		close(idle)
	}
	s.mu.Unlock()
	<-idle
	s.mu.Lock()
	var err error
	for sn := range s.snaps {
		err = errors.Join(err, sn.closeIters())
	}
	for t := range s.txns {
		err = errors.Join(err, t.closeIters())
	}
	s.mu.Unlock()
	err = errors.Join(err, s.closeDB())
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.opt.Dir, err)
	}
	return nil
}

// closeDB closes Pebble and the lock. A broken Pebble may panic in Close, which must not take the process along.
func (s *Store) closeDB() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrBroken, p)
		}
		err = errors.Join(err, s.ship.close(), s.lock.Close())
	}()
	return s.db.Close()
}

// apply commits a batch and tells when Pebble said that it failed for good.
func (s *Store) apply(b *pebble.Batch, sync bool) error {
	if s.opt.Follower {
		return ErrReadOnly
	}
	if err := s.ship.apply(s.db, b, sync); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	if p := s.broken.Load(); p != nil {
		return *p
	}
	return nil
}

func systemKey(name string) key { return newKey(0, spaceSystem).part(name) }

func number(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func (s *Store) systemNumber(name string) (uint64, error) { return s.readNumber(systemKey(name)) }

// readNumber reads a row that holds one number; 0 when there is no row.
func (s *Store) readNumber(k key) (uint64, error) {
	v, closer, err := s.db.Get(k.end())
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", describe(k), err)
	}
	defer closer.Close()
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: %s", ErrCorrupt, describe(k))
	}
	return binary.BigEndian.Uint64(v), nil
}

// graph finds a graph by name.
func (s *Store) graph(name string) (*graphState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.graphs[name]
	if g == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoGraph, name)
	}
	return g, nil
}

// Graph returns the number of a graph; create makes the graph when it is not there. ok is false when there is none, when
// the name is malformed, or when the store cannot write.
func (s *Store) Graph(name string, create bool) (num uint32, ok bool) {
	if s.enter() != nil {
		return 0, false
	}
	defer s.exit()
	if g, err := s.graph(name); err == nil {
		return g.id, true
	}
	if !create || events.CheckGraph(name) != nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.graphs[name]; g != nil {
		return g.id, true
	}
	num = uint32(len(s.graphs) + 1)
	b := s.db.NewBatch()
	defer b.Close()
	if b.Set(newKey(0, spaceGraph).part(name).end(), number(uint64(num)), nil) != nil || s.apply(b, true) != nil {
		return 0, false
	}
	s.addGraph(name, num, 0, 1)
	return num, true
}

// addGraph is called with mu held, or before anybody else knows s.
func (s *Store) addGraph(name string, num uint32, current, nextOut uint64) {
	g := &graphState{id: num, name: name, turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	g.current.Store(current)
	g.out.init(nextOut)
	s.graphs[name], s.byID[num] = g, g
}

// Graphs lists the graphs, sorted. A closed store has none.
func (s *Store) Graphs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	out := make([]string, 0, len(s.graphs))
	for n := range s.graphs {
		out = append(out, n)
	}
	sortStrings(out)
	return out
}

// Seq is the current sequence of a graph: what its last commit made visible; 0 before the first.
func (s *Store) Seq(graph string) (uint64, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.exit()
	g, err := s.graph(graph)
	if err != nil {
		return 0, err
	}
	return g.current.Load(), nil
}
