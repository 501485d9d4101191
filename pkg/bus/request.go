package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// requestTimeout of a request whose context has no deadline.
const requestTimeout = 65 * time.Second

// consultTimeout of a question between two services, which is answered in milliseconds.
const consultTimeout = 10 * time.Second

// Consult is Request for a service that asks another one. It does not wait long: whoever is killed with a question in its hands
// never answers it, and the broker does not tell. Asking again must be harmless.
func (c *Conn) Consult(ctx context.Context, subject string, req, reply any) error {
	ctx, stop := context.WithTimeout(ctx, consultTimeout)
	defer stop()
	return c.Request(ctx, subject, req, reply)
}

// Request asks a verb, for example "factmill.default.jobs.get". req is encoded as JSON ([]byte and json.RawMessage go as they
// are, nil as {}), the reply decoded into reply unless that is nil.
//
// An error reply comes back as *api.Error; so does a server that does not let the user ask: 403 not_allowed. Nobody who answers is an *api.Error too: 503 not_ready; and so is a server without an
// answer in time. A connection that is not there wraps ErrUnreachable.
func (c *Conn) Request(ctx context.Context, subject string, req, reply any) error {
	body := []byte("{}")
	if req != nil {
		var err error
		if body, err = replyBody(req); err != nil {
			return fmt.Errorf("request %s: %w", subject, err)
		}
	}
	m := &nats.Msg{Subject: subject, Data: body}
	if max := c.NC.MaxPayload(); max > 0 && int64(len(body)) > max {
		return api.Errorf(413, "too_large", "the request has %d bytes, a message at most %d", len(body), max)
	}
	if t := traceOf(ctx); t != "" {
		m.Header = nats.Header{events.HeaderTrace: []string{t}}
	}
	if _, ok := ctx.Deadline(); !ok {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, requestTimeout)
		defer stop()
	}
	ctx, done := c.denied.within(ctx, subject)
	defer done()
	r, err := c.NC.RequestMsgWithContext(ctx, m)
	if err != nil {
		return c.requestError(ctx, subject, err)
	}
	if e := errorReply(r); e != nil {
		return e
	}
	if reply == nil {
		return nil
	}
	if raw, ok := reply.(*json.RawMessage); ok {
		*raw = r.Data
		return nil
	}
	if err := json.Unmarshal(r.Data, reply); err != nil {
		return fmt.Errorf("decode the reply to %s: %w", subject, err)
	}
	return nil
}

func (c *Conn) requestError(ctx context.Context, subject string, err error) error {
	var denied *api.Error
	switch {
	case errors.As(context.Cause(ctx), &denied):
		return denied
	case errors.Is(err, nats.ErrNoResponders):
		return api.Errorf(503, "not_ready", "no service answers %s: is it running?", subject)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), !c.NC.IsConnected():
		return fmt.Errorf("request %s: %w: %w", subject, ErrUnreachable, err)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("request %s: %w", subject, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return api.Errorf(503, "not_ready", "%s was not answered in time", subject)
	default:
		return fmt.Errorf("request %s: %w", subject, err)
	}
}

// errorReply reads an error reply; nil when the reply is none.
func errorReply(m *nats.Msg) *api.Error {
	code := m.Header.Get(micro.ErrorCodeHeader)
	if code == "" {
		return nil
	}
	e := api.Unwrap(m.Data)
	if e == nil {
		e = &api.Error{Code: "internal", Message: m.Header.Get(micro.ErrorHeader)}
	}
	if n, err := strconv.Atoi(code); err == nil {
		e.Status = n
	} else {
		e.Status = 500
	}
	return e
}
