// Package fault classifies the errors that a stage returns, so that one runner can decide what happens to the message.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class says what the runner does with the message whose handling failed.
type Class int

const (
	// Transient: the same message may succeed later; it is handed back with a delay.
	Transient Class = iota
	// Document: the document (or source) itself is at fault; the job's error policy decides. No dead letter.
	Document
	// Permanent: no retry can help and nobody expected it; the message is parked as a dead letter and its document fails.
	Permanent
	// Interrupted: the service is stopping; the message is handed back at once and nothing failed.
	Interrupted
	// Unserved: this service cannot serve the job's settings; the message is handed back and the service is not ready.
	Unserved
)

func (c Class) String() string {
	switch c {
	case Document:
		return "document"
	case Permanent:
		return "permanent"
	case Interrupted:
		return "interrupted"
	case Unserved:
		return "unserved"
	default:
		return "transient"
	}
}

// Error is an error with a class and a stable code.
type Error struct {
	Class Class
	// Code is stable: scripts and dashboards use it.
	Code string
	// Delay before the message is tried again; zero lets the runner choose by attempt. Transient only.
	Delay time.Duration
	// Pause asks the runner to stop pulling while the dependency is down instead of burning deliveries. Transient only.
	Pause bool
	// Items is how many records a source at fault holds, where that is known. Document only.
	Items int
	Err   error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Code
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Bad says that the document or source is at fault.
func Bad(code, format string, args ...any) error {
	return &Error{Class: Document, Code: code, Err: fmt.Errorf(format, args...)}
}

// Fatal says that no retry can help.
func Fatal(code, format string, args ...any) error {
	return &Error{Class: Permanent, Code: code, Err: fmt.Errorf(format, args...)}
}

// Retry says that the message may succeed after delay (zero: the runner chooses).
func Retry(code string, delay time.Duration, err error) error {
	return &Error{Class: Transient, Code: code, Delay: delay, Err: err}
}

// Down says that a dependency is away: pulling pauses until it is back.
func Down(code string, err error) error {
	return &Error{Class: Transient, Code: code, Pause: true, Err: err}
}

// CannotServe says that this service's settings differ from the job's.
func CannotServe(format string, args ...any) error {
	return &Error{Class: Unserved, Code: "settings_differ", Err: fmt.Errorf(format, args...)}
}

// Of returns the classified error in err's chain. A cancelled context is Interrupted; anything unclassified is Transient
// with code "internal".
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Class: Interrupted, Code: "interrupted", Err: err}
	}
	return &Error{Class: Transient, Code: "internal", Err: err}
}
