package egress

import (
	"context"
	"errors"
	"net"
)

// The errors of a request, in addition to the two errors of package context.
var (
	// ErrForbidden means that the policy refuses the request, or that it
	// cannot be sent safely. Nothing was sent.
	ErrForbidden = errors.New("the destination is not allowed")
	// ErrBusy means that the tenant has too many requests in progress.
	ErrBusy = errors.New("too many requests are in progress")
	// ErrTooLong means that an anonymous call lasted too long. It comes with
	// context.DeadlineExceeded.
	ErrTooLong = errors.New("a call without an API key took too long")
	// ErrUnreachable means that the destination could not be found, connected
	// to or trusted, or that its response was cut off or is not HTTP.
	ErrUnreachable = errors.New("the destination could not be reached")
)

var (
	errTooMany  = &failure{kind: ErrBusy, text: "this tenant has too many requests in progress; try again later"}
	errSurplus  = &failure{kind: ErrUnreachable, text: "the destination responded before it was sent a request"}
	errSwitched = &failure{kind: ErrUnreachable, text: "the destination switched to another protocol"}
)

// failure is an error with a fixed text. Errors from the network name
// addresses and quote what was received. A failure unwraps to its cause, for
// errors.Is and errors.As, but never prints it.
type failure struct {
	kind  error
	text  string
	cause error // may be nil
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

func forbidden(text string) error { return &failure{kind: ErrForbidden, text: text} }

// explain turns an error of the transport into a failure.
func explain(ctx context.Context, err error) error {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	var slow net.Error
	switch {
	case errors.Is(context.Cause(ctx), ErrTooLong):
		return &failure{context.DeadlineExceeded, ErrTooLong.Error(), ErrTooLong}
	case errors.Is(ctx.Err(), context.Canceled):
		return &failure{context.Canceled, "the request was canceled", err}
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return &failure{context.DeadlineExceeded, "the destination did not respond in time", err}
	default:
		return &failure{ErrUnreachable, ErrUnreachable.Error(), err}
	}
}
