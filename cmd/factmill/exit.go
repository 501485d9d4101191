package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
)

// Exit codes of the contract.
const (
	exitDone        = 0 // done; a held job too
	exitFailed      = 1 // the work failed: the job rolled back, nothing was committed
	exitUsage       = 2 // wrong usage or configuration
	exitUnreachable = 3 // a needed part could not be reached
	exitPartial     = 4 // done, but some documents were skipped, quarantined or failed
)

// coded is an error that knows its exit code. A nil err prints nothing: the command has said it all. details go with --json.
type coded struct {
	code    int
	err     error
	details map[string]any
}

func (e *coded) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *coded) Unwrap() error { return e.err }

// usagef is wrong usage or configuration.
func usagef(format string, args ...any) error {
	return &coded{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// usage makes err wrong usage; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: exitUsage, err: err}
}

// failf is work that failed.
func failf(format string, args ...any) error {
	return &coded{code: exitFailed, err: fmt.Errorf(format, args...)}
}

// exitCode is the exit code of what a command returned.
func exitCode(err error) int {
	var (
		c       *coded
		refused *api.Error
		door    *events.Refusal
		badFile *schema.Error
		inUse   *target.InUse
		bad     *bus.BadOption
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &c):
		return c.code
	case errors.As(err, &bad):
		return exitUsage
	case errors.As(err, &inUse):
		return exitUnreachable
	case errors.As(err, &badFile), errors.As(err, &door), errors.Is(err, target.ErrAddress), errors.Is(err, target.ErrBothTargets), errors.Is(err, embedded.ErrPortTaken),
		errors.Is(err, app.ErrConfig):
		return exitUsage
	case errors.As(err, &refused):
		return apiCode(refused)
	case unreachable(err):
		return exitUnreachable
	default:
		return exitFailed
	}
}

// apiCode sorts the refusals of the services: what was asked wrongly, what is away, what did not work out.
func apiCode(e *api.Error) int {
	switch e.Status {
	case 400, 413:
		return exitUsage
	case 429, 503:
		return exitUnreachable
	default:
		return exitFailed
	}
}

func unreachable(err error) bool {
	for _, e := range []error{
		bus.ErrUnreachable, bus.ErrRefused, target.ErrNoAnswer, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrConnectionClosed,
		nats.ErrNoServers, nats.ErrDisconnected, context.DeadlineExceeded, jetstream.ErrBucketNotFound,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// message is what people read of an error: what went wrong, with the details that help.
func message(err error) string {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(err.Error())
	if refused.Code != "" {
		fmt.Fprintf(&b, " (%s)", refused.Code)
	}
	if list, ok := refused.Details["problems"].([]any); ok {
		for _, p := range list {
			if m, ok := p.(map[string]any); ok {
				fmt.Fprintf(&b, "\n  %v: %v", m["path"], m["message"])
			} else {
				fmt.Fprintf(&b, "\n  %v", p)
			}
		}
	}
	for _, line := range planOf(refused) {
		fmt.Fprintf(&b, "\n  %s", line)
	}
	return b.String()
}

// planOf is the plan of now, of a decision that quoted another one.
func planOf(e *api.Error) []string {
	if e.Code != "stale_plan" {
		return nil
	}
	raw, err := json.Marshal(e.Details)
	var now api.Planned
	if err != nil || json.Unmarshal(raw, &now) != nil || now.Plan == nil {
		return nil
	}
	return append(now.Plan.Lines(), "fingerprint "+now.Fingerprint)
}

// Codes of errors that no service gave, for --json.
const (
	codeUsage       = "usage"
	codeUnreachable = "unreachable"
	codePartial     = "partial"
	codeFailed      = "failed"
)

// jsonError is an error as --json prints it: the code of the service's refusal where one refused, else what the exit code says.
func jsonError(err error, exit int) *api.Error {
	e := &api.Error{Code: codeFailed, Message: err.Error()}
	switch exit {
	case exitUsage:
		e.Code = codeUsage
	case exitUnreachable:
		e.Code = codeUnreachable
	case exitPartial:
		e.Code = codePartial
	}
	var (
		refused *api.Error
		bad     *schema.Error
		c       *coded
	)
	switch {
	case errors.As(err, &refused) && refused.Code != "":
		e.Code, e.Details = refused.Code, refused.Details
	case errors.As(err, &bad):
		e.Code, e.Details = "schema_invalid", map[string]any{"problems": bad.Problems}
	case errors.As(err, &c):
		e.Details = c.details
	}
	return e
}

// others is what went wrong besides the interruption, while things were closed; nil when nothing did.
func others(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, others(e))
		}
		return errors.Join(rest...)
	}
	if inner := errors.Unwrap(err); inner != nil {
		return others(inner)
	}
	return nil
}

// atStop is the error of a command that runs until interrupted: an interruption while it starts is a stop like any other.
func atStop(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return others(err)
}

// report says on stderr why the command failed, and returns the exit code.
func (c *cli) report(ctx context.Context, cmd string, args []string, err error) int {
	code, help := exitCode(err), ""
	if !c.ran {
		code, help = exitUsage, cmd+" --help"
	}
	err = c.explained(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err, code = cmp.Or(others(err), errors.New("interrupted")), exitFailed
	}
	var quiet *coded
	if c.ran && errors.As(err, &quiet) && quiet.err == nil {
		return code
	}
	if c.json || asksJSON(args) {
		e := jsonError(err, code)
		if help != "" {
			e.Details = map[string]any{"help": help}
		}
		_ = render.Value(c.err, map[string]*api.Error{"error": e}) // nobody is left to tell
		return code
	}
	_, _ = fmt.Fprintf(c.err, "factmill: %s\n", render.Block(message(err)))
	if help != "" {
		_, _ = fmt.Fprintf(c.err, "see: %s\n", help)
	}
	return code
}

// asksJSON looks for --json among arguments that could not be read to their end.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}
