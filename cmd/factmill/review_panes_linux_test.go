package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// terminal is a pseudo terminal of so many columns, and what a program wrote to it.
type terminal struct {
	t           *testing.T
	main, slave *os.File
	got         chan string
	all         string
}

func newTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("NOT RUN: there are no pseudo terminals here (%v); the panes themselves are tested in internal/panes on every machine", err)
	}
	ioctl := func(request uintptr, arg unsafe.Pointer) {
		_, _, no := syscall.Syscall(syscall.SYS_IOCTL, main.Fd(), request, uintptr(arg))
		require.Zero(t, no)
	}
	var unlock, number int32
	ioctl(syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	ioctl(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{40, columns}
	ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	x := &terminal{t: t, main: main, slave: slave, got: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(x.got)
		b := make([]byte, 4096)
		for {
			n, err := main.Read(b)
			if n > 0 {
				x.got <- string(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		_ = main.Close()
		for range x.got {
		}
		<-done
	})
	return x
}

// until reads on until the program wrote a text, and returns what it wrote since the last one.
func (x *terminal) until(text string) string {
	x.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		if i := strings.Index(x.all, text); i >= 0 {
			before := x.all[:i+len(text)]
			x.all = x.all[i+len(text):]
			return strings.ReplaceAll(before, "\r\n", "\n")
		}
		select {
		case s, ok := <-x.got:
			require.True(x.t, ok, "the terminal ended before %q: %s", text, x.all)
			x.all += s
		case <-limit.C:
			require.Fail(x.t, "not written", "%q: %s", text, x.all)
		}
	}
}

func (x *terminal) press(key string) {
	x.t.Helper()
	_, err := x.main.WriteString(key)
	require.NoError(x.t, err)
}

func (p place) on(x *terminal, args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.slave, x.slave, x.slave
	require.NoError(p.t, cmd.Start())
	return cmd
}

// On a terminal an item has three panes, and the walk shows each so and decides on what it showed.
func TestPanesOnATerminal(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", "entities: {Person: {}, Organization: {}}\nrelations: {WORKS_FOR: [\"Person->Organization\"]}\nrules:\n  entities: {Person: {names: [Bob, Alice]}, Organization: {names: [Orva]}}\n  relations: {WORKS_FOR: {phrases: [works for]}}\n")
	p.file("docs/a.txt", "It rained. Perhaps Bob will work for Orva. Perhaps Alice will work for Orva.\n")
	r := p.run("", "run", "docs", "--schema", "schema.yaml", "--data", "g")
	require.Equal(t, exitDone, r.code, r.err)
	key := "relation|works for|bob|orva"
	plain := p.run("", "review", "show", key, "--data", "g")
	require.Contains(t, plain.out, "what approve does  fingerprint ")
	require.NotContains(t, plain.out, "│")

	for _, x := range []struct {
		columns uint16
		args    []string
		beside  bool
		panes   bool
	}{{120, nil, true, true}, {80, nil, false, true}, {120, []string{"--plain"}, false, false}} {
		term := newTerminal(t, x.columns)
		cmd := p.on(term, append([]string{"review", "show", key, "--data", "g"}, x.args...)...)
		require.NoError(t, cmd.Wait())
		got := term.until("approved")
		require.Equal(t, x.beside, strings.Contains(got, " │ "), got)
		require.Equal(t, x.panes, strings.Contains(got, "── source ──"), got)
	}

	term := newTerminal(t, 120)
	cmd := p.on(term, "review", "next", "--kind", "relation", "--actor", "eva", "--data", "g")
	shown := term.until("quit > ")
	require.Contains(t, shown, "── what approve does ──")
	require.Contains(t, shown, "Alice WORKS_FOR Orva")
	require.Contains(t, shown, "~ pending becomes approved")
	for _, arrow := range []string{"\x1b[A", "\x1bOA", "\x1b[1;5A", "\x1b[[A", "\x1ba"} { // one key each, which decides nothing
		term.press(arrow)
		got := term.until("quit > ")
		require.Contains(t, got, "\\x1b\none of a, r, s, d, u, q\n2 left  a approve", "%q", arrow)
		require.NotContains(t, got, "approved", "%q", arrow)
	}
	term.press("a")
	require.Contains(t, term.until("quit > "), "approved")
	term.press("r")
	require.Contains(t, term.until("1 approved, 1 rejected, 0 skipped"), "rejected")
	require.NoError(t, cmd.Wait())
	log := reads[api.ReviewAuditReply](t, p.run("", "review", "audit", "--data", "g", "--json"))
	require.Len(t, log.Records, 2)
	require.Equal(t, []string{"reject", "approve"}, []string{log.Records[0].Decision, log.Records[1].Decision})
	require.Len(t, log.Records[1].Plan, 64)
}
