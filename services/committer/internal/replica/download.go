package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/backup"
)

// download writes the files of a backup into dir.
func (r *Replica) download(ctx context.Context, dir string) (err error) {
	b, err := r.from.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		if e := r.from.End(end, b.ID); e != nil { // it ends by itself an hour later
			r.cfg.Log.Warn("let the backup go", "error", e)
		}
	}()
	for _, f := range b.Files {
		if err := r.file(ctx, dir, b.ID, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replica) file(ctx context.Context, dir, id string, f api.BackupFile) (err error) {
	if f.Name == "" || f.Name == "." || f.Name == ".." || f.Name != filepath.Base(f.Name) { // never out of dir, whoever answers
		return fmt.Errorf("the backup has a file of the name %.80q", f.Name)
	}
	out, err := backup.NewFile(dir, f.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for at := int64(0); at < f.Size; {
		data, err := r.from.File(ctx, api.BackupRead{ID: id, File: f.Name, Offset: at})
		if err != nil {
			return err
		}
		data = data[:min(int64(len(data)), f.Size-at)] // a log may have grown
		if len(data) == 0 {
			return fmt.Errorf("file %s of the backup ends at %d of %d bytes", f.Name, at, f.Size)
		}
		if err := out.Add(data); err != nil {
			return err
		}
		r.cfg.Metrics.bytes.Add(float64(len(data)))
		at += int64(len(data))
	}
	return out.Sync()
}
