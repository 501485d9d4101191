//go:build !unix

package embedded

import (
	"fmt"
	"os"
)

// lock takes the directory for this process by a file that only its holder may have open, where the system enforces that; the
// file goes with an orderly end.
func lock(path string) (unlock func(), err error) {
	_ = os.Remove(path) // left by a process that was killed; refused while one holds it open
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("%w (%s): %w", ErrInUse, path, err)
	}
	return func() { _ = f.Close(); _ = os.Remove(path) }, nil
}
