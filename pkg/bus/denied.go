package bus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/factmill/factmill/pkg/api"
)

// denials are who waits for an answer on a subject: the server says of a publish that it may not be on its own, and nobody answers it.
type denials struct {
	mu      sync.Mutex
	waiting map[string]map[*context.CancelCauseFunc]bool // by subject; guarded by mu
}

var violated = regexp.MustCompile(`(?i)violation for publish to "([^"]+)"`)

// lateReply says that a violation is about a reply. A service may reply to what it was asked over this connection; what it was asked over one
// that was lost since, nobody remembers. Whoever asked asks again.
func lateReply(err error) bool {
	m := violated.FindStringSubmatch(err.Error())
	return m != nil && errors.Is(err, nats.ErrPermissionViolation) && (strings.HasPrefix(m[1], "_INBOX") || strings.HasPrefix(m[1], "_R_."))
}

// within is ctx until the server refuses a publish to the subject.
func (d *denials) within(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[string]map[*context.CancelCauseFunc]bool{}
	}
	if d.waiting[subject] == nil {
		d.waiting[subject] = map[*context.CancelCauseFunc]bool{}
	}
	d.waiting[subject][&cancel] = true
	return ctx, func() {
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting[subject], &cancel)
		if len(d.waiting[subject]) == 0 {
			delete(d.waiting, subject)
		}
	}
}

// WhileAllowed is ctx until the server says that the user may not publish to the subject.
func (c *Conn) WhileAllowed(ctx context.Context, subject string) (context.Context, func()) {
	return c.denied.within(ctx, subject)
}

// Denied is what the server said of the subject that ctx is of, WhileAllowed; else err.
func Denied(ctx context.Context, err error) error {
	var denied *api.Error
	if errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return err
}

// tell ends the waiting of those that a violation is about, and says whether there are any.
func (d *denials) tell(err error) bool {
	m := violated.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for cancel := range d.waiting[m[1]] {
		(*cancel)(api.Errorf(403, "not_allowed", "this user may not publish to %s: ask who runs the NATS server for another role", m[1]))
	}
	return len(d.waiting[m[1]]) > 0
}

// seedOption signs with an nkey seed in memory.
func seedOption(seed string) (nats.Option, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("read an nkey seed: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read an nkey seed: %w", err)
	}
	return nats.Nkey(public, pair.Sign), nil
}
