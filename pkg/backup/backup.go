// Package backup is the form in which a backup lies in a directory: the files of a store, and a manifest with their digests that is written
// last.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/factmill/factmill/pkg/api"
)

// Manifest is the name of the file of a backup directory that says what is in it. It is written last.
const Manifest = "factmill-backup.json"

// maxManifest bounds what is read of one.
const maxManifest = 64 << 20

// ErrIncomplete is a directory that is no whole backup.
var ErrIncomplete = errors.New("no whole backup")

// Open reads the manifest of a backup directory.
func Open(dir string) (b api.Backup, err error) {
	f, err := os.Open(filepath.Join(dir, Manifest))
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("%w: %s has no %s (it is no backup, or making it was interrupted)", ErrIncomplete, dir, Manifest)
	}
	if err != nil {
		return b, fmt.Errorf("read the backup: %w", err)
	}
	defer f.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return b, fmt.Errorf("read the backup: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("%w: %s: %w", ErrIncomplete, filepath.Join(dir, Manifest), err)
	}
	for _, f := range b.Files {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == ".." || f.Name == "." || f.Name == Manifest {
			return b, fmt.Errorf("%w: %s names the file %.80q", ErrIncomplete, filepath.Join(dir, Manifest), f.Name)
		}
	}
	return b, nil
}

// Copy copies the files of a backup into the directory to, which must not exist, and checks each. It is there when all are. said is called
// with the bytes that are done.
func Copy(ctx context.Context, b api.Backup, from, to string, said func(done, total int64)) (err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("restore: %s is there", to), err)
	}
	part := to + ".partial"
	if err := errors.Join(os.RemoveAll(part), os.Mkdir(part, 0o750)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	var done, total int64
	for _, f := range b.Files {
		total += f.Size
	}
	for _, f := range b.Files {
		if err := copyOne(ctx, f, from, part, func(n int64) { said(done+n, total) }); err != nil {
			return err
		}
		done += f.Size
	}
	if err := errors.Join(syncDir(part), os.Rename(part, to)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return syncDir(filepath.Dir(to))
}

func copyOne(ctx context.Context, f api.BackupFile, from, to string, said func(int64)) (err error) {
	in, err := os.Open(filepath.Join(from, f.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s lacks %s", ErrIncomplete, from, f.Name)
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer in.Close() // only read
	out, err := NewFile(to, f.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	b := make([]byte, 1<<20)
	for {
		n, err := in.Read(b)
		if n > 0 {
			if err := out.Add(b[:n]); err != nil {
				return err
			}
			said(out.size)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("restore %s: %w", f.Name, err)
		}
	}
	if got := out.Sum(); got.Size != f.Size || got.SHA256 != f.SHA256 {
		return fmt.Errorf("%w: %s is not as it was written (%d bytes, SHA-256 %.16s…, instead of %d, %.16s…)", ErrIncomplete,
			filepath.Join(from, f.Name), got.Size, got.SHA256, f.Size, f.SHA256)
	}
	return out.Sync()
}

// File is a file that is written anew and summed up.
type File struct {
	f    *os.File
	name string
	size int64
	sum  interface {
		io.Writer
		Sum([]byte) []byte
	}
}

// NewFile makes a file in dir that must not be there yet.
func NewFile(dir, name string) (*File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return &File{f: f, name: name, sum: sha256.New()}, nil
}

// Add writes more.
func (f *File) Add(b []byte) error {
	_, _ = f.sum.Write(b) // a hash takes everything
	f.size += int64(len(b))
	if _, err := f.f.Write(b); err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return nil
}

// Sum is what was written.
func (f *File) Sum() api.BackupFile {
	return api.BackupFile{Name: f.name, Size: f.size, SHA256: hex.EncodeToString(f.sum.Sum(nil))}
}

// Sync brings it to the disk.
func (f *File) Sync() error {
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	return nil
}

// Close closes it.
func (f *File) Close() error { return f.f.Close() }

// Finish writes the manifest of a directory whose files are there.
func Finish(dir string, b api.Backup) (err error) {
	b.ID = ""
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	f, err := NewFile(dir, Manifest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Add(append(raw, '\n')); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncDir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}
