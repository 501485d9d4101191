//go:build unix

package embedded

import (
	"fmt"
	"os"
	"syscall"
)

// lock takes the directory for this process. The kernel frees it when the process ends, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%w (%s): %w", ErrInUse, path, err)
	}
	return func() { _ = f.Close() }, nil
}
