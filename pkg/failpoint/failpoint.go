// Package failpoint ends the process at a named point of the work, so that tests can prove what a crash there leaves behind.
// It does nothing unless FACTMILL_FAILPOINT names the point.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Env names the point: "name", "name:n" for its n-th hit, and after "@" a file that is created before the end, so that a test
// knows the point was reached.
const Env = "FACTMILL_FAILPOINT"

type point struct {
	name string
	left atomic.Int64
	mark string
}

var active = parse(os.Getenv(Env))

func parse(s string) *point {
	if s == "" {
		return nil
	}
	p := &point{}
	s, p.mark, _ = strings.Cut(s, "@")
	name, n, counted := strings.Cut(s, ":")
	p.name = name
	p.left.Store(1)
	if v, err := strconv.ParseInt(n, 10, 64); counted && err == nil && v > 0 {
		p.left.Store(v)
	}
	return p
}

// Hit ends the process by SIGKILL when name is the point and its count has run down.
func Hit(name string) {
	p := active
	if p == nil || p.name != name || p.left.Add(-1) != 0 {
		return
	}
	if p.mark != "" {
		f, err := os.Create(p.mark)
		if err == nil {
			_ = f.Sync()
			_ = f.Close()
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
