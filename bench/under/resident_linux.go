package under

import (
	"os"
	"syscall"
)

// resident is the largest resident memory of an ended process in bytes.
func resident(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
