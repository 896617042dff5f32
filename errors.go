package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Errors that operations return; use errors.Is. An error's text
// names fields and rules and is fit to be shown to the caller; it never holds
// a value that a caller sent or that the vault keeps.
var (
	// ErrInvalid means that the input breaks a rule; see [InvalidError].
	ErrInvalid = errors.New("invalid input")
	// ErrUnauthenticated means that the key is missing, unknown, expired or revoked.
	ErrUnauthenticated = errors.New("the API key is missing, unknown, expired or revoked")
	// ErrForbidden means that the caller is known but has no right to this.
	ErrForbidden = errors.New("the caller has no permission for this")
	// ErrNotFound means that the caller's tenant has no such entity. An entity
	// of another tenant gives the same error.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that something unique is taken or was used up: a token
	// id, a session's nonce, an idempotency key whose request is under way.
	ErrConflict = errors.New("conflict")
	// ErrInProgress means that a request with the same idempotency key is under
	// way. When it has succeeded, asking again gives its answer. It matches
	// ErrConflict.
	ErrInProgress = errorf(ErrConflict, "A request with this idempotency key is being processed.")
	// ErrWithdrawn means that the answer which an idempotency key keeps is not given
	// any more: a token that the run used is gone, or the cvc that it saw. The run
	// is not repeated. It matches ErrConflict.
	ErrWithdrawn = errorf(ErrConflict, "The stored answer was withdrawn.")
	// ErrTooLarge means that the input is over a limit of size.
	ErrTooLarge = errors.New("too large")
	// ErrBusy means that a limit on work under way is reached; try again later.
	ErrBusy = script.ErrBusy
	// ErrUnavailable means that the vault cannot serve this now, though it could
	// at another time. Try again after a moment. Nothing was changed; only when the
	// connection to the database was lost during a write, and could not be replaced
	// in time, is that not known. The error says so then, and the same key of
	// [Client.Once] finds out.
	ErrUnavailable = storage.ErrUnavailable
	// ErrCode means that reactor or transform code does not compile, throws
	// while it is loaded, or exports no function.
	ErrCode = script.ErrInvalid
	// ErrTimeout means that the destination of a proxy did not answer in time, or
	// that code of the tenant was stopped at the end of its time. When the time of
	// the caller's own context is over, the error is [context.DeadlineExceeded]
	// instead.
	ErrTimeout = script.ErrTimeout
	// ErrUnreachable means that the destination of a proxy could not be reached,
	// or that its response cannot be used.
	ErrUnreachable = errors.New("the destination could not be reached")
	// ErrNoRuntime means that code cannot run, because [Config].Runtime is not
	// set.
	ErrNoRuntime = errors.New("vault: Config.Runtime is not set, so code cannot run")
	// ErrWrongKey means that the database was sealed under another master key.
	ErrWrongKey = errors.New("vault: this is not the master key that the database was encrypted with")
	// ErrKeyUnavailable means that the master key neither opened what it had to
	// nor what it had just sealed itself, or sealed nothing: the service that
	// keeps it is down, or denies us its use. The error wraps the key's own.
	ErrKeyUnavailable = errors.New("vault: the master key does not work")
	// ErrClosed means that the vault has been closed.
	ErrClosed = storage.ErrClosed
)

// InvalidError says what is wrong with an input. It matches ErrInvalid.
type InvalidError struct {
	// Fields maps the dotted path of a field (data.number, [2].data) to what is
	// wrong with it. The path of the input as a whole is "".
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *InvalidError) Error() string { return (*form.Problems)(e).String() }

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ConflictError says which values of a batch are taken. It matches ErrConflict.
type ConflictError struct {
	// Fields maps the path of a value to what is wrong with it, as those of an
	// InvalidError.
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *ConflictError) Error() string { return form.Describe("conflict", e.Fields) }

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// asInvalid returns what was found wrong with an input as an error; nil when
// nothing was. The two types are the same struct, so that rooms behind this one
// can collect problems and callers still find them in a public type.
func asInvalid(bad *form.Problems) error {
	if !bad.Any() {
		return nil
	}
	return (*InvalidError)(bad)
}

// invalid returns an InvalidError about one field.
func invalid(path, format string, args ...any) error {
	bad := &form.Problems{}
	bad.Add(path, format, args...)
	return asInvalid(bad)
}

// invalidErr returns what a parser said as an InvalidError about the whole
// input.
func invalidErr(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err // the caller has gone: the input may be right
	}
	bad := &form.Problems{}
	bad.AddErr("", err)
	return asInvalid(bad)
}

// callerLeft returns the error of a context that has ended, or whose time is over
// though its timer has not told so yet: connections watch the same deadline. It
// is nil for one that goes on.
func callerLeft(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// underPath puts what is wrong with an input under the path of a field. Other
// errors stay as they are.
func underPath(path string, err error) error {
	inner, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return err
	}
	bad := &form.Problems{}
	bad.AddAll(path, inner.Fields)
	return asInvalid(bad)
}

// fieldsOf returns what an error says of the fields of an input; nil when it is
// about something else.
func fieldsOf(err error) map[string][]string {
	if bad, ok := errors.AsType[*InvalidError](err); ok {
		return bad.Fields
	}
	return nil
}

// kindError is an error of a known kind with a text of its own.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// errorf returns an error that matches kind and reads as the text says.
func errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}

// asConflict returns the guard that refused a change.
func asConflict(err error) (*storage.Conflict, bool) {
	var c *storage.Conflict
	return c, errors.As(err, &c)
}
