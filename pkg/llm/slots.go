package llm

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Slots bounds the calls in flight of a process, over all its jobs. First come, first served. It is safe for concurrent use.
type Slots struct {
	n   int
	sem *semaphore.Weighted

	now func() time.Time

	mu      sync.Mutex
	backlog int
	tell    func(backlog int)    // called with mu held, so that what it is told is in order
	flying  map[uint64]time.Time // since when each call of these slots is in flight; guarded by mu
	waiting int                  // for a slot; guarded by mu
	since   time.Time            // somebody waits; guarded by mu
	taken   uint64               // counts; guarded by mu
	late    string               // why a call waits before it is made again; guarded by mu
}

// NewSlots makes n slots. tell, when given, hears how many questions are still to be asked, each time that changes; it must not
// call Slots.
func NewSlots(n int, tell func(backlog int)) *Slots {
	n = max(n, 1)
	if tell == nil {
		tell = func(int) {}
	}
	return &Slots{n: n, sem: semaphore.NewWeighted(int64(n)), tell: tell, now: time.Now, flying: map[uint64]time.Time{}}
}

// At gives the slots another clock. It is called before the first Take.
func (s *Slots) At(now func() time.Time) *Slots {
	s.now = now
	return s
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

// Take waits for a slot. After nil, give must be called once.
func (s *Slots) Take(ctx context.Context) (give func(), err error) {
	s.wait(1)
	err = s.sem.Acquire(ctx, 1)
	s.wait(-1)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	call := s.taken
	s.flying[call] = s.now()
	return func() {
		s.mu.Lock()
		delete(s.flying, call)
		s.mu.Unlock()
		s.sem.Release(1)
	}, nil
}

func (s *Slots) wait(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		s.since = s.now()
	}
	s.waiting += by
}

// Still is how long nothing has moved: no slot is free, and the last call was begun so long ago. 0 when one is free.
func (s *Slots) Still() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 && len(s.flying) < s.n {
		return 0
	}
	var last time.Time
	if len(s.flying) == 0 { // others have them all
		last = s.since
	}
	for _, at := range s.flying {
		if at.After(last) {
			last = at
		}
	}
	return s.now().Sub(last)
}

// Late says why a call is being made again later, with a code in front; "" when none is.
func (s *Slots) Late() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

func (s *Slots) setLate(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = why
}

// Expect counts questions that will want a slot; what has one, or wants none any more, is counted off.
func (s *Slots) Expect(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backlog += by
	s.tell(s.backlog)
}
