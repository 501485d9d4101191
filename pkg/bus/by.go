package bus

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// RootBy is the first token of requests whose sender the NATS server names: factmill-by.<who>.<graph>.<noun>.<verb>. No user may publish
// there; the imports of a person's account map factmill.<graph>.<noun>.<verb> to it, see pkg/bus/rights. The header that a shared import
// sets (Nats-Request-Info) would not do: a client that writes the block of headers itself can hide it behind a blank line.
const RootBy = events.Root + "-by"

// RootJS stands for $JS.API in the accounts of people, where that is their own account's, which has no streams.
const RootJS = events.Root + "-js"

// Subjects on which a server says who a connection is, and what its account's JetStream is.
const (
	UserInfoSubject    = "$SYS.REQ.USER.INFO"
	AccountInfoSubject = "$JS.API.INFO"
)

// Inbox is the prefix of the inboxes of a user of the services' account. Nobody else may subscribe below it.
func Inbox(user string) string { return "_INBOX_" + user }

type byKey struct{}

// WithBy is ctx of a request whose sender is known.
func WithBy(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, byKey{}, who)
}

// By is who the connection is that a request came over; empty when the server does not tell: where everybody is one user.
func By(ctx context.Context) string {
	who, _ := ctx.Value(byKey{}).(string)
	return who
}

// ReadSigned decodes a request strictly. Where the server tells who the connection is, that is the request's actor, whatever its body says:
// a command fills in the user of its machine, who may be called otherwise.
func ReadSigned(ctx context.Context, body []byte, into any) *api.Error {
	if e := api.Read(body, into); e != nil {
		return e
	}
	if r, ok := into.(api.Signed); ok && By(ctx) != "" {
		r.Sign(By(ctx))
	}
	return nil
}

// bySubject is where requests to a subject of the contract arrive with their sender's name.
func bySubject(subject string) string {
	return RootBy + ".*" + strings.TrimPrefix(subject, events.Root)
}

// plainSubject is the subject of the contract, and who sends the request when the subject told.
func plainSubject(subject string) (plain, who string) {
	rest, ok := strings.CutPrefix(subject, RootBy+".")
	if !ok {
		return subject, ""
	}
	who, rest, _ = strings.Cut(rest, ".")
	return events.Root + "." + rest, who
}
