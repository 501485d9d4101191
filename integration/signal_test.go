package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/testkit"
)

// signal sends one to a process.
func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
	if s == syscall.SIGSTOP {
		testkit.Await(t, p.name+" to stand still", func() bool { return p.stopped() })
	}
}

// stopped says whether every thread of a process stands still: on a busy machine that takes a moment, in which it still answers.
func (p *process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return true // no such system: nothing tells
	}
	for _, f := range threads {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended
		}
		// "pid (name) S …"; a name may hold anything.
		if state := b[bytes.LastIndexByte(b, ')')+1:]; len(state) > 1 && state[1] != 'T' {
			return false
		}
	}
	return true
}
