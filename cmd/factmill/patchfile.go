package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
)

// checkOutput refuses an output that cannot be written before anything is asked for: one that exists, unless it may be overwritten.
func checkOutput(file string, overwrite bool) error {
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return usagef("--output %s is a directory: name a file in it", render.Line(file))
	case err == nil && !overwrite:
		return usagef("--output %s exists: name another file, or say --overwrite", render.Line(file))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return usagef("--output: %w", err)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return usagef("--output %s: there is no directory %s", render.Line(file), render.Line(filepath.Dir(file)))
	}
	return nil
}

// writeOutput writes a file of the user's: one that was not there, unless it may be overwritten; whole or not at all.
func writeOutput(file string, data []byte, overwrite bool) error {
	if overwrite {
		return replaceFile(file, data, 0o644)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return checkOutput(file, false)
	}
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--output: %w", errors.Join(err, os.Remove(file)))
	}
	return nil
}

// replaceFile puts data in a file's place at once. A link stays one: what it leads to is replaced. A file that is there keeps its mode.
func replaceFile(file string, data []byte, mode fs.FileMode) (err error) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
