package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// load reads the files of an earlier process: they must be whole and end with the store's last batch. More than that may be there, when the
// store lost it; it is cut off.
func (f *shipper) load() error {
	names, err := f.fs.List(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		names, err = nil, nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names) // by the number of their first batch
	var prev *Position
	for i, name := range names {
		next := f.last.No + 1
		if i+1 < len(names) {
			if next, err = firstOf(names[i+1]); err != nil {
				return err
			}
		}
		path := f.fs.PathJoin(f.dir, name)
		s, last, err := readSegment(f.fs, path, prev, min(f.last.No+1, next))
		if err != nil {
			return err
		}
		if s == nil { // all of it is more than the store has
			if err := f.fs.Remove(path); err != nil {
				return err
			}
			continue
		}
		f.segs, prev = append(f.segs, s), &last
	}
	if prev != nil && *prev != f.last {
		return fmt.Errorf("the store is at %s, the files end at %s", f.last, *prev)
	}
	return nil
}

func firstOf(name string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(name, shipExt), 16, 64)
}

// readSegment reads the heads of a file's batches before a number: behind it lies what the store lost. prev is what its first must follow; nil:
// anything.
func readSegment(files vfs.FS, path string, prev *Position, before uint64) (*segment, Position, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, Position{}, err
	}
	defer file.Close() // only read
	stat, err := file.Stat()
	if err != nil {
		return nil, Position{}, err
	}
	in, size := bufio.NewReaderSize(file, 1<<20), stat.Size()
	var s *segment
	var last Position
	var head [shipHead]byte
	for at := int64(0); at+shipHead <= size; {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, last, err
		}
		h := readShipHead(head[:])
		if h.pos.No >= before || at+shipHead+h.size > size { // the store lost it, or it was not written whole
			break
		}
		if _, err := in.Discard(int(h.size)); err != nil {
			return nil, last, err
		}
		if s == nil {
			s = &segment{path: path, first: h.pos.No, prev: h.prev}
		}
		if prev != nil && h.prev != *prev {
			return nil, last, fmt.Errorf("%s: batch %s follows %s, not %s", path, h.pos, h.prev, *prev)
		}
		s.grew(h.pos.No, shipHead+h.size)
		last, prev = h.pos, &last
		at += shipHead + h.size
	}
	return s, last, nil
}

type shippedHead struct {
	size      int64
	sum       uint32
	pos, prev Position
}

func readShipHead(b []byte) shippedHead {
	p := Position{binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
	return shippedHead{
		size: int64(binary.BigEndian.Uint32(b)), sum: binary.BigEndian.Uint32(b[4:]), pos: p,
		prev: Position{p.No - 1, binary.BigEndian.Uint64(b[24:])},
	}
}

// read returns bytes of the batches behind a position, up to a last one.
func (s *segment) read(files vfs.FS, after Position, upTo uint64, offset int64, n int) ([]byte, error) {
	file, err := files.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) { // let go meanwhile
		return nil, fmt.Errorf("%w: behind batch %s", ErrCut, after)
	}
	if err != nil {
		return nil, fmt.Errorf("read what is kept: %w", err)
	}
	defer file.Close() // only read
	at := int64(0)
	for _, m := range s.marks {
		if m.no <= after.No+1 {
			at = m.at
		}
	}
	begin, found := int64(0), false
	var head [shipHead]byte
	for at < s.size {
		if _, err := file.ReadAt(head[:], at); err != nil {
			return nil, fmt.Errorf("read what is kept: %w", err)
		}
		h := readShipHead(head[:])
		if h.pos.No == after.No+1 {
			if h.prev != after {
				return nil, fmt.Errorf("%w: batch %s follows %s, not %s", ErrCut, h.pos, h.prev, after)
			}
			begin, found = at, true
		}
		if h.pos.No > upTo || found && at-begin-offset >= int64(n) {
			break
		}
		at += shipHead + h.size
	}
	if !found {
		return nil, fmt.Errorf("%w: batch %s is not the last one, and nothing follows it", ErrCut, after)
	}
	size := min(at-begin-offset, int64(n))
	if offset < 0 || size <= 0 {
		return nil, nil
	}
	out := make([]byte, size)
	if _, err := file.ReadAt(out, begin+offset); err != nil {
		return nil, fmt.Errorf("read what is kept: %w", err)
	}
	return out, nil
}
