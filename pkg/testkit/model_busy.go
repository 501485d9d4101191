package testkit

import (
	"slices"
	"sync"
	"time"
)

// Busyness says when a model was at work. A call counts from its arrival until just before the last bytes of its reply are sent, so
// that it has ended when the client has read them; calls in flight count only when they end.
type Busyness struct {
	FirstStart time.Time     // the first arrival; zero without calls
	LastEnd    time.Time     // the last end; zero when no call has ended
	BusyTime   time.Duration // the sum over the calls that have ended
	Slots      int           // as in ModelOptions
}

// Share is the part of slots that was in use between FirstStart and LastEnd: 1 when every slot always was, 0 when no call has ended.
// With slots 0 it is b.Slots. It is above 1 when more calls came at once than there are slots.
func (b Busyness) Share(slots int) float64 {
	if slots <= 0 {
		slots = b.Slots
	}
	span := b.LastEnd.Sub(b.FirstStart)
	if b.LastEnd.IsZero() || span <= 0 || slots <= 0 {
		return 0
	}
	return float64(b.BusyTime) / (float64(slots) * float64(span))
}

// Calls are the chat calls in order of arrival. Requests for another model and requests that are no JSON are not among them.
func (m *Model) Calls() []ModelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log.calls)
}

// Count is the number of chat calls that have arrived.
func (m *Model) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log.calls)
}

// MaxInFlight is how many chat calls were served at once at most. A call whose client went away is in flight until the server sees
// that, which may be after the client's next call.
func (m *Model) MaxInFlight() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.max
}

// Busy says when the model was at work.
func (m *Model) Busy() Busyness {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.log.busy
	b.Slots = m.opt.Slots
	return b
}

// begin notes a call. It returns the call with its number, what decides its reply, and what must be called at its end; further calls
// of that do nothing.
func (m *Model) begin(c ModelCall) (call ModelCall, reply func(ModelCall) ModelReply, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.log
	m.turn++
	c.At, c.N, c.turn = time.Now(), len(log.calls)+1, m.turn
	log.calls = append(log.calls, c)
	log.inFlight++
	log.max = max(log.max, log.inFlight)
	if c.N == 1 {
		log.busy.FirstStart = c.At
	}
	close(m.arrived)
	m.arrived = make(chan struct{})
	return c, m.reply, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		log.inFlight--
		log.busy.LastEnd = time.Now()
		log.busy.BusyTime += log.busy.LastEnd.Sub(c.At)
	})
}
