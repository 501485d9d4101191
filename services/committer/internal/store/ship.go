package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What the store writes can be followed by copies of it: every batch is numbered, and kept in files beside the store for a while, byte by
// byte. The number of the last one is a row of the batch itself, so that a store, a checkpoint of it and a copy each say up to where they are.
// Nothing is kept before Ship is called for the first time, nor for long after nobody followed any more.

// rowShipped holds a Position and the epoch of its writer. A program that does not know of it raises the epoch and leaves the row: then what it
// wrote is in no file, and the files are cut.
const rowShipped = "shipped"

// Position is a batch of the store: its number, and a random number of the Open that wrote it. Two batches of one number have different ones
// when the store was put back to an earlier state between them. The zero value is before everything.
type Position struct {
	No     uint64
	Writer uint64
}

// String is the form that a position has in messages.
func (p Position) String() string { return fmt.Sprintf("%d-%016x", p.No, p.Writer) }

// ParsePosition reads that form.
func ParsePosition(s string) (p Position, ok bool) {
	no, writer, found := strings.Cut(s, "-")
	var err, err2 error
	p.No, err = strconv.ParseUint(no, 10, 64)
	p.Writer, err2 = strconv.ParseUint(writer, 16, 64)
	return p, found && err == nil && err2 == nil
}

// ErrCut says that what follows a position is not kept, or that the position is of another history: a copy must be made anew.
var ErrCut = errors.New("what follows is not kept")

const (
	shipSegment = 16 << 20 // bytes of a file, about
	shipMark    = 64 << 10 // bytes between the places that memory knows
	// shipHead is before a batch: its length, a check sum of all that follows, its position, and the writer of the batch before it.
	shipHead = 4 + 4 + 8 + 8 + 8
	// maxShipped bounds a batch; one commit's last batch may be larger than BatchBytes.
	maxShipped = 1 << 30
)

// shipper keeps the last batches.
type shipper struct {
	fs    vfs.FS
	dir   string
	bytes int64 // kept at most
	now   func() time.Time
	log   *slog.Logger

	// mu is held for reading by every write while nothing is kept, and for writing by one at a time while it is: their order in the files is
	// that in the store.
	mu   sync.RWMutex
	on   bool     // guarded by mu
	last Position // the last batch; guarded by mu
	// epoch of the store as it stands; guarded by mu.
	epoch uint64

	files   sync.Mutex // guards what follows; taken after mu
	segs    []*segment
	out     vfs.File // of the last segment; nil: the next batch begins one
	durable uint64   // batches up to it survive a power failure
	asked   time.Time
	writer  uint64
}

// segment is one file.
type segment struct {
	path  string
	first uint64   // number of its first batch
	prev  Position // what its first batch follows
	size  int64
	marks []shipPlace
}

type shipPlace struct {
	no uint64
	at int64
}

func newShipper(o Options) *shipper {
	return &shipper{fs: o.FS, dir: o.Dir + "-feed", bytes: o.ShipBytes, now: o.Now, log: o.Log, writer: rand.Uint64()}
}

func shippedRow(p Position, epoch uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, p.No)
	b = binary.BigEndian.AppendUint64(b, p.Writer)
	return binary.BigEndian.AppendUint64(b, epoch)
}

// shipped reads how far a store is; found is false when nobody ever followed it.
func (s *Store) shipped() (p Position, epoch uint64, found bool, err error) {
	v, closer, err := s.db.Get(systemKey(rowShipped).end())
	if errors.Is(err, pebble.ErrNotFound) {
		return p, 0, false, nil
	}
	if err != nil {
		return p, 0, false, fmt.Errorf("read how far the store is: %w", err)
	}
	defer closer.Close()
	if len(v) != 24 {
		return p, 0, false, fmt.Errorf("%w: row %s", ErrCorrupt, rowShipped)
	}
	return Position{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, binary.BigEndian.Uint64(v[16:]), true, nil
}

// resume goes on behind what the files hold. It is called by Open, before anything is written, and cuts what does not fit the store.
func (f *shipper) resume(at Position, epoch, before uint64, found bool) {
	f.epoch = before
	if !found {
		f.remove()
		return
	}
	f.on, f.last, f.durable, f.asked = true, at, at.No, f.now()
	if epoch != before {
		f.log.Info("another version wrote the store: read replicas are made anew")
		f.last = Position{at.No + 1, f.writer} // a number that nobody has seen
		f.remove()
		return
	}
	if err := f.load(); err != nil {
		f.log.Warn("what was kept for read replicas cannot be read; they are made anew when they are behind", "error", err)
		f.remove()
	}
}

// raise gives what is written from now on a writer's epoch: that of the batch which raises it.
func (f *shipper) raise(epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch = epoch
}

func (s *Store) resumeShip(epoch uint64) error {
	at, writer, found, err := s.shipped()
	if err != nil {
		return err
	}
	s.ship.resume(at, writer, epoch, found)
	return nil
}

// apply writes a batch to the store, and to the files when they are kept.
func (f *shipper) apply(db *pebble.DB, b *pebble.Batch, sync bool) error {
	o := pebble.NoSync
	if sync {
		o = pebble.Sync
	}
	f.mu.RLock()
	if !f.on {
		defer f.mu.RUnlock()
		return db.Apply(b, o)
	}
	f.mu.RUnlock()
	p, err := f.write(db, b, o)
	if err != nil || !sync {
		return err
	}
	if err := b.SyncWait(); err != nil {
		return err
	}
	f.files.Lock()
	f.durable = max(f.durable, p.No)
	f.files.Unlock()
	return nil
}

// write does what must happen in one order, and leaves the wait for the disk to its caller.
func (f *shipper) write(db *pebble.DB, b *pebble.Batch, o *pebble.WriteOptions) (Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prev := f.last
	p := Position{prev.No + 1, f.writer}
	if f.on { // else it was given up since
		if err := b.Set(systemKey(rowShipped).end(), shippedRow(p, f.epoch), nil); err != nil {
			return p, err
		}
		f.keep(p, prev, b.Repr())
		f.last = p
	}
	if o.Sync {
		return p, db.ApplyNoSyncWait(b, o)
	}
	return p, db.Apply(b, o)
}

// keep appends a batch to the files. What cannot be written is not followed: the files are cut, the store goes on.
func (f *shipper) keep(p, prev Position, repr []byte) {
	f.files.Lock()
	defer f.files.Unlock()
	if err := f.append(p, prev, repr); err != nil {
		f.log.Warn("what is kept for read replicas is cut: those that are behind are made anew", "error", err)
		f.remove()
	}
}

func (f *shipper) append(p, prev Position, repr []byte) error {
	if len(repr) > maxShipped {
		return fmt.Errorf("a batch of %d bytes", len(repr))
	}
	if f.out == nil || f.segs[len(f.segs)-1].size >= shipSegment {
		if err := f.roll(p, prev); err != nil {
			return err
		}
	}
	s := f.segs[len(f.segs)-1]
	rec := make([]byte, shipHead, shipHead+len(repr))
	binary.BigEndian.PutUint32(rec, uint32(len(repr)))
	binary.BigEndian.PutUint64(rec[8:], p.No)
	binary.BigEndian.PutUint64(rec[16:], p.Writer)
	binary.BigEndian.PutUint64(rec[24:], prev.Writer)
	rec = append(rec, repr...)
	binary.BigEndian.PutUint32(rec[4:], crc32.Checksum(rec[8:], castagnoli))
	if _, err := f.out.Write(rec); err != nil {
		return err
	}
	s.grew(p.No, int64(len(rec)))
	return nil
}

func (s *segment) grew(no uint64, n int64) {
	if len(s.marks) == 0 || s.size-s.marks[len(s.marks)-1].at >= shipMark {
		s.marks = append(s.marks, shipPlace{no, s.size})
	}
	s.size += n
}

const shipExt = ".feed"

// roll begins a file, and lets go of those that are too many.
func (f *shipper) roll(p, prev Position) error {
	if f.out != nil {
		if err := f.out.Close(); err != nil {
			return err
		}
		f.out = nil
	}
	if err := f.fs.MkdirAll(f.dir, 0o750); err != nil {
		return err
	}
	path := f.fs.PathJoin(f.dir, fmt.Sprintf("%016x%s", p.No, shipExt))
	out, err := f.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	f.out = out
	f.segs = append(f.segs, &segment{path: path, first: p.No, prev: prev})
	var total int64
	for _, s := range f.segs {
		total += s.size
	}
	for len(f.segs) > 1 && total > f.bytes {
		total -= f.segs[0].size
		if err := f.fs.Remove(f.segs[0].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.segs = f.segs[1:]
	}
	return nil
}

// remove lets go of all files. The caller holds files, or is Open.
func (f *shipper) remove() {
	if f.out != nil {
		_ = f.out.Close() // its file goes
	}
	f.out, f.segs = nil, nil
	if err := f.fs.RemoveAll(f.dir); err != nil {
		f.log.Warn("take away what was kept for read replicas", "error", err)
	}
}

// Ship has the store keep what it writes from now on; it does nothing when it does already.
func (s *Store) Ship() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	f := s.ship
	f.mu.Lock()
	if f.on || s.opt.Follower {
		f.mu.Unlock()
		return nil
	}
	f.on, f.last = true, Position{f.last.No + 1, f.writer} // a number that nobody has seen
	f.files.Lock()
	f.asked = f.now()
	f.remove()
	f.files.Unlock()
	f.mu.Unlock()
	b := s.db.NewBatch()
	defer b.Close()
	return s.apply(b, true) // which writes the row
}

// shipIdle is how long nobody must have followed before nothing is kept any more.
const shipIdle = 24 * time.Hour

// ShipIdle ends what Ship began when nobody has followed for a day.
func (s *Store) ShipIdle() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	f := s.ship
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files.Lock()
	defer f.files.Unlock()
	if !f.on || f.now().Sub(f.asked) < shipIdle {
		return nil
	}
	f.remove()
	f.on = false
	b := s.db.NewBatch()
	defer b.Close()
	if err := b.Delete(systemKey(rowShipped).end(), nil); err != nil {
		return err
	}
	return s.db.Apply(b, pebble.Sync)
}

// Head is the last batch that survives whatever happens: as far as a copy can get. ok is false while nothing is kept.
func (s *Store) Head() (no uint64, ok bool) {
	f := s.ship
	f.mu.RLock()
	defer f.mu.RUnlock()
	f.files.Lock()
	defer f.files.Unlock()
	return f.durable, f.on
}

// Shipped returns at most n bytes of what follows a position: batches as Follow takes them, beginning offset bytes into the first. None: the
// position is the head. ErrCut says that they are not kept.
func (s *Store) Shipped(after Position, offset int64, n int) (data []byte, head uint64, err error) {
	if err := s.enter(); err != nil {
		return nil, 0, err
	}
	defer s.exit()
	f := s.ship
	f.mu.RLock()
	on, last := f.on, f.last
	f.mu.RUnlock()
	seg, head := f.behind(after.No)
	switch {
	case !on:
		return nil, head, fmt.Errorf("%w: nobody has followed this store", ErrCut)
	case after == last:
		return nil, head, nil
	case seg == nil:
		return nil, head, fmt.Errorf("%w: behind batch %s", ErrCut, after)
	}
	data, err = seg.read(f.fs, after, head, offset, n)
	return data, head, err
}

// behind returns a copy of what is known of the file that holds the batch behind a number, nil when none does, and the head.
func (f *shipper) behind(no uint64) (*segment, uint64) {
	f.files.Lock()
	defer f.files.Unlock()
	f.asked = f.now()
	for _, s := range slices.Backward(f.segs) {
		if s.first <= no+1 {
			c := *s
			return &c, f.durable
		}
	}
	return nil, f.durable
}

// close ends writing; the files stay.
func (f *shipper) close() error {
	f.files.Lock()
	defer f.files.Unlock()
	if f.out == nil {
		return nil
	}
	err := f.out.Close()
	f.out = nil
	return err
}
