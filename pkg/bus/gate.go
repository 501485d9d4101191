package bus

import "sync"

// Gate holds back what a runner pulls, where the work is done by something that it does not see, such as the slots of a model server: what
// waits in a process cannot be done by another replica. The zero value holds nothing back. A Gate belongs to one runner.
type Gate struct {
	mu   sync.Mutex
	slow bool
	full bool
	wake func()
}

// Hold says how to pull from now on. slow: one message at a time; full: none. The runner pulls at once what it newly may.
func (g *Gate) Hold(slow, full bool) {
	g.mu.Lock()
	more := g.full && !full || g.slow && !slow
	g.slow, g.full = slow, full
	wake := g.wake
	g.mu.Unlock()
	if more && wake != nil {
		wake()
	}
}

// cut returns how many of want messages may be asked for, when asked of them are on their way.
func (g *Gate) cut(want, asked int) int {
	if g == nil {
		return want
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.full:
		return 0
	case g.slow:
		return min(want, 1-asked)
	}
	return want
}

func (g *Gate) onWake(f func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.wake = f
	g.mu.Unlock()
}
