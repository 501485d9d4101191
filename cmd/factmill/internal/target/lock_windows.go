package target

import (
	"errors"
	"os"
	"syscall"
)

var errHeld = errors.New("held by another process")

const sharingViolation = syscall.Errno(32)

// lockExclusive opens a file that nobody else can open until it is closed or the process ends.
func lockExclusive(name string) (*os.File, error) {
	p, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(p, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, sharingViolation) {
		return nil, errHeld
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), name), nil
}
