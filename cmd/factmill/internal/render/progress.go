package render

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far long work is: a bar on a terminal, plain lines (at most one a second) elsewhere.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar
	now   func() time.Time
	last  time.Time
	shown string
	note  string
	max   int64
	bytes bool
}

// Terminal says whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewProgress counts items; with bytes it counts bytes. now is the clock.
func NewProgress(out io.Writer, bytes bool, now func() time.Time) *Progress {
	p := &Progress{out: out, now: now, last: now(), bytes: bytes} // what is done within a second says nothing
	if !Terminal(out) {
		return p
	}
	p.bar = progressbar.NewOptions64(-1,
		progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(80*time.Millisecond),
		progressbar.OptionShowBytes(bytes), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseIECUnits(true))
	return p
}

// Set says that done of total items are done (total 0: not known yet), and by whom.
func (p *Progress) Set(done, total int64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.setBar(done, total, what)
		return
	}
	line := p.line(done, total, what)
	if line == p.shown {
		return
	}
	if now := p.now(); now.Sub(p.last) >= time.Second {
		p.last, p.shown = now, line
		_, _ = fmt.Fprintln(p.out, line)
	}
}

// Note says what hinders the work; empty: nothing does. It stands in the lines of Set; beside a bar it gets a line of its own.
func (p *Progress) Note(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why == p.note {
		return
	}
	p.note = why
	if p.bar != nil && why != "" {
		_ = p.bar.Clear()
		_, _ = fmt.Fprintln(p.out, Line(why))
	}
}

// setBar drops the bar's errors: a progress bar that cannot be drawn is no reason to stop.
func (p *Progress) setBar(done, total int64, what string) {
	if total > 0 && total != p.max {
		p.max = total
		p.bar.ChangeMax64(total)
	}
	p.bar.Describe(End(Line(what), 40))
	// A full bar would finish and vanish: the last step is Done's.
	if p.max > 0 && done >= p.max {
		done = p.max - 1
	}
	_ = p.bar.Set64(max(done, 0))
}

func (p *Progress) line(done, total int64, what string) string {
	show := func(n int64) string {
		if p.bytes {
			return Bytes(n)
		}
		return Number(int(n))
	}
	line := fmt.Sprintf("%s: %s", Line(what), show(done))
	if total > 0 {
		line += " of " + show(total)
	}
	if p.note != "" {
		line += "; " + Line(p.note)
	}
	return line
}

// Done removes the bar.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
