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
	waiting map[string]map[*context.CancelCauseFunc]bool // by subject, anySubject for what nobody waits for; guarded by mu
}

// anySubject stands for the subjects that are asked deep in a client library: of the JetStream interface, and inboxes.
const anySubject = ""

var violated = regexp.MustCompile(`(?i)violation for (publish|subscription) to "([^"]+)"`)

// lateReply says that a violation is about a reply. A service may reply to what it was asked over this connection; what it was asked over one
// that was lost since, nobody remembers. Whoever asked asks again.
func lateReply(err error) bool {
	m := violated.FindStringSubmatch(err.Error())
	return m != nil && errors.Is(err, nats.ErrPermissionViolation) && strings.EqualFold(m[1], "publish") &&
		(strings.HasPrefix(m[2], "_INBOX") || strings.HasPrefix(m[2], "_R_."))
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

// WhileAllAllowed is ctx until the server says that the user may not do something that nobody waits for by its subject, WhileAllowed or in a
// Request: what a library publishes or subscribes to in the caller's name. It is for whoever does one thing at a time with the connection.
func (c *Conn) WhileAllAllowed(ctx context.Context) (context.Context, func()) {
	return c.denied.within(ctx, anySubject)
}

// Denied is what the server said of the subject that ctx is of, WhileAllowed or WhileAllAllowed: *api.Error, 403 not_allowed, with the details
// subject and does (publish or subscribe). Else, and without an error, it is err.
func Denied(ctx context.Context, err error) error {
	var denied *api.Error
	if err != nil && errors.As(context.Cause(ctx), &denied) {
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
	does, subject := "publish", m[2]
	if !strings.EqualFold(m[1], does) {
		does = "subscribe"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.waiting[anySubject]
	if does == "publish" && len(d.waiting[subject]) > 0 {
		waiting = d.waiting[subject]
	}
	for cancel := range waiting {
		e := api.Errorf(403, "not_allowed", "this user may not %s to %s", does, subject)
		e.Details = map[string]any{"subject": subject, "does": does}
		(*cancel)(e)
	}
	return len(waiting) > 0
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
