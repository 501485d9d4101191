package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const ballastName = "BALLAST"

// space watches the free space of the data directory.
type space struct {
	opt Options
	mu  sync.Mutex
	has bool // the ballast file is there; guarded by mu
}

// free returns the free bytes; unlimited where nobody can tell.
func (p *space) free() (uint64, bool) {
	if p.opt.FreeSpace != nil {
		n, err := p.opt.FreeSpace(p.opt.Dir)
		return n, err == nil
	}
	u, err := p.opt.FS.GetDiskUsage(p.opt.Dir)
	if err != nil {
		return 0, false
	}
	return u.AvailBytes, true
}

// check refuses new work below the reserve.
func (p *space) check() error {
	if err := p.room(); err != nil {
		return err
	}
	p.restoreBallast()
	return nil
}

func (p *space) room() error {
	if p.opt.ReserveBytes == 0 {
		return nil
	}
	n, known := p.free()
	if known && n < p.opt.ReserveBytes {
		return fmt.Errorf("%w: %s has %d bytes free, the reserve is %d", ErrNoSpace, p.opt.Dir, n, p.opt.ReserveBytes)
	}
	return nil
}

// Room is ErrNoSpace while less than the reserve is free: new work has to wait.
func (s *Store) Room() error { return s.space.room() }

// relieve gives the ballast up when a commit under way runs out of space.
func (p *space) relieve() {
	if p.opt.BallastBytes == 0 {
		return
	}
	n, known := p.free()
	if !known || n >= uint64(p.opt.BallastBytes) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.has {
		return
	}
	if err := p.opt.FS.Remove(p.path()); err != nil {
		p.opt.Log.Warn("ballast file stays", "file", p.path(), "error", err)
		return
	}
	p.has = false
	p.opt.Log.Warn("space runs out; the ballast file was given up", "dir", p.opt.Dir, "free", n)
}

func (p *space) path() string { return p.opt.FS.PathJoin(p.opt.Dir, ballastName) }

// restoreBallast makes the ballast file when it is missing and there is room for it beside the reserve.
func (p *space) restoreBallast() {
	if p.opt.BallastBytes == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has {
		return
	}
	if st, err := p.opt.FS.Stat(p.path()); err == nil && st.Size() >= p.opt.BallastBytes {
		p.has = true
		return
	}
	n, known := p.free()
	if known && n < p.opt.ReserveBytes+2*uint64(p.opt.BallastBytes) {
		return
	}
	if err := p.writeBallast(); err != nil {
		p.opt.Log.Warn("no ballast file", "file", p.path(), "error", err)
		return
	}
	p.has = true
}

func (p *space) writeBallast() error {
	f, err := p.opt.FS.Create(p.path(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// Zeros are written, not only allocated, so that the space is taken on any file system.
	zeros := make([]byte, 1<<20)
	for left := p.opt.BallastBytes; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
