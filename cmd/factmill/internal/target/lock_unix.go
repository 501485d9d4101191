//go:build unix

package target

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errHeld = errors.New("held by another process")

// lockExclusive opens and locks a file; the system lets the lock go when the file is closed or the process ends.
func lockExclusive(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errHeld
		}
		return nil, errors.Join(err, f.Close())
	}
	// A holder may have taken the file away meanwhile: then this is the lock of nothing.
	mine, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = errHeld
	}
	return nil, errors.Join(err, f.Close())
}
