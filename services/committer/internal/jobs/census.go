package jobs

import (
	"time"

	"github.com/factmill/factmill/pkg/api"
)

// Census counts the jobs that have not ended.
type Census struct {
	States map[string]int
	// OldestHeld is when the first of the held jobs was opened; the zero time without any.
	OldestHeld time.Time
}

// Census counts the jobs of all graphs, from memory.
func (m *Machine) Census() Census {
	c := Census{States: map[string]int{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.live {
		c.States[l.rec.State]++
		if at := l.rec.OpenedAt; l.rec.State == api.JobHeld && (c.OldestHeld.IsZero() || at.Before(c.OldestHeld)) {
			c.OldestHeld = at
		}
	}
	return c
}
