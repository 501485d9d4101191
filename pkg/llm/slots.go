package llm

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Slots bounds the calls in flight of a process, over all its jobs. First come, first served. It is safe for concurrent use.
type Slots struct {
	n   int
	sem *semaphore.Weighted

	mu      sync.Mutex
	backlog int
	tell    func(backlog int) // called with mu held, so that what it is told is in order
}

// NewSlots makes n slots. tell, when given, hears how many questions are still to be asked, each time that changes; it must not
// call Slots.
func NewSlots(n int, tell func(backlog int)) *Slots {
	n = max(n, 1)
	if tell == nil {
		tell = func(int) {}
	}
	return &Slots{n: n, sem: semaphore.NewWeighted(int64(n)), tell: tell}
}

// Within makes the slots be of calls, which others take from too; nil leaves them as they are. It is called before the first Take.
func (s *Slots) Within(calls *semaphore.Weighted) *Slots {
	if calls != nil {
		s.sem = calls
	}
	return s
}

// N is how many slots there are.
func (s *Slots) N() int { return s.n }

// Take waits for a slot. After nil, Give must follow.
func (s *Slots) Take(ctx context.Context) error { return s.sem.Acquire(ctx, 1) }

// Give gives a slot back.
func (s *Slots) Give() { s.sem.Release(1) }

// Expect counts questions that will want a slot; what has one, or wants none any more, is counted off.
func (s *Slots) Expect(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backlog += by
	s.tell(s.backlog)
}
