package bus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Status says whether the runners of a service can work, and why not. The zero value is ready to use; a service with
// several runners gives them the same one.
type Status struct {
	mu      sync.Mutex
	running map[string]bool   // by runner; guarded by mu
	why     map[string]string // by runner and cause; guarded by mu
}

// ErrNotStarted says that no runner has bound its consumer yet.
var ErrNotStarted = errors.New("not started")

// Ready is nil while every runner works; else it says what hinders which.
func (s *Status) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) == 0 {
		return ErrNotStarted
	}
	var out []string
	for name, up := range s.running {
		if !up {
			out = append(out, name+" is not running")
		}
	}
	for name, why := range s.why {
		runner, _, _ := strings.Cut(name, "/")
		out = append(out, runner+": "+why)
	}
	if len(out) == 0 {
		return nil
	}
	slices.Sort(out)
	return fmt.Errorf("%s", strings.Join(out, "; "))
}

func (s *Status) set(runner string, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running, s.why = map[string]bool{}, map[string]string{}
	}
	s.running[runner] = up
}

// hinder records why a runner cannot work; an empty reason clears the cause.
func (s *Status) hinder(runner, cause, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.running, s.why = map[string]bool{}, map[string]string{}
	}
	if why == "" {
		delete(s.why, runner+"/"+cause)
		return
	}
	s.why[runner+"/"+cause] = why
}
