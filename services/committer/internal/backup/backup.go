// Package backup hands out a consistent copy of the store while it is written to: a checkpoint that is read file by file, and let go.
package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// maxOpen backups at a time: each keeps tables on the disk that the store would give up.
	maxOpen = 2
	// keepFor is how long one is kept after it was last read.
	keepFor = time.Hour
	// lookEvery is how often it is looked for those that nobody reads any more.
	lookEvery = time.Minute
)

// Desk answers the verbs backup.begin, read and end.
type Desk struct {
	st  *store.Store
	dir string
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex // guards open
	open map[string]*opened
}

type opened struct {
	api.Backup
	read time.Time
}

// New makes a desk whose checkpoints lie below dir. Those that an earlier process left are taken away.
func New(st *store.Store, dir string, log *slog.Logger, now func() time.Time) (*Desk, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("take away old checkpoints: %w", err)
	}
	return &Desk{st: st, dir: dir, log: log, now: now, open: map[string]*opened{}}, nil
}

// Run lets backups go that nobody reads any more, until ctx is done; then all.
func (d *Desk) Run(ctx context.Context) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.drop(func(*opened) bool { return true })
		case <-t.C:
			if err := d.Forget(); err != nil {
				d.log.Warn("take away a checkpoint", "error", err)
			}
		}
	}
}

// Forget lets backups go that were not read for an hour.
func (d *Desk) Forget() error {
	old := d.now().Add(-keepFor)
	return d.drop(func(o *opened) bool { return o.read.Before(old) })
}

func (d *Desk) drop(which func(*opened) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for id, o := range d.open {
		if which(o) {
			delete(d.open, id)
			errs = append(errs, os.RemoveAll(filepath.Join(d.dir, id)))
		}
	}
	return errors.Join(errs...)
}

// Begin makes a backup: what it holds stays as it is, whatever is committed meanwhile. End must follow; an hour after the last Read it is let
// go by itself.
func (d *Desk) Begin(ctx context.Context, _ string) (api.Backup, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) >= maxOpen {
		return api.Backup{}, api.Errorf(429, "too_many_backups", "%d backups are being read: end one, or wait", len(d.open))
	}
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return api.Backup{}, fmt.Errorf("begin a backup: %w", err)
	}
	id := hex.EncodeToString(raw[:])
	dir := filepath.Join(d.dir, id)
	if err := os.MkdirAll(d.dir, 0o750); err != nil {
		return api.Backup{}, fmt.Errorf("begin a backup: %w", err)
	}
	format, graphs, err := d.st.Checkpoint(ctx, dir)
	if err != nil {
		return api.Backup{}, errors.Join(err, os.RemoveAll(dir))
	}
	b := api.Backup{ID: id, Format: format, At: d.now().UTC().Format(time.RFC3339), Graphs: []api.BackupGraph{}}
	for _, g := range graphs {
		b.Graphs = append(b.Graphs, api.BackupGraph{Graph: g.Graph, Seq: g.Seq})
	}
	if b.Files, err = List(dir); err != nil {
		return api.Backup{}, errors.Join(err, os.RemoveAll(dir))
	}
	d.open[id] = &opened{b, d.now()}
	return b, nil
}

// List is the files of a directory, by name.
func List(dir string) ([]api.BackupFile, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	out := make([]api.BackupFile, 0, len(all))
	for _, e := range all {
		i, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		if !i.Mode().IsRegular() {
			return nil, fmt.Errorf("list %s: %s is no file", dir, e.Name())
		}
		out = append(out, api.BackupFile{Name: e.Name(), Size: i.Size()})
	}
	return out, nil
}

// Read answers a part of a file.
func (d *Desk) Read(_ context.Context, _ string, req api.BackupRead) (api.BackupReadReply, error) {
	d.mu.Lock()
	o := d.open[req.ID]
	if o != nil {
		o.read = d.now()
	}
	d.mu.Unlock()
	if o == nil {
		return api.BackupReadReply{}, api.Errorf(404, "no_backup", "there is no backup %q: it was ended, not read for an hour, or the committer started anew", short(req.ID))
	}
	if !slices.ContainsFunc(o.Files, func(f api.BackupFile) bool { return f.Name == req.File }) {
		return api.BackupReadReply{}, api.Errorf(404, "no_backup", "backup %s has no file %q", o.ID, short(req.File))
	}
	if req.Offset < 0 {
		return api.BackupReadReply{}, api.Errorf(400, "bad_value", "offset is %d: at least 0", req.Offset)
	}
	f, err := os.Open(filepath.Join(d.dir, o.ID, req.File))
	if errors.Is(err, fs.ErrNotExist) { // it was let go meanwhile
		return api.BackupReadReply{}, api.Errorf(404, "no_backup", "backup %s was ended", o.ID)
	}
	if err != nil {
		return api.BackupReadReply{}, fmt.Errorf("read a backup: %w", err)
	}
	defer f.Close() // only read
	b := make([]byte, api.BackupPart)
	n, err := f.ReadAt(b, req.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return api.BackupReadReply{}, fmt.Errorf("read a backup: %w", err)
	}
	return api.BackupReadReply{Data: b[:n]}, nil
}

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 80)], "") }

// End lets a backup go.
func (d *Desk) End(_ context.Context, _ string, req api.BackupEnd) (api.BackupEndReply, error) {
	found := false
	err := d.drop(func(o *opened) bool {
		found = found || o.ID == req.ID
		return o.ID == req.ID
	})
	return api.BackupEndReply{Ended: found}, err
}
