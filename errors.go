package vault

import (
	"errors"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Errors that operations return; use errors.Is. An error's text
// names fields and rules and is fit to be shown to the caller; it never holds
// a value that a caller sent or that the vault keeps.
var (
	// ErrInvalid means that the input breaks a rule; see [InvalidError].
	ErrInvalid = fault.ErrInvalid
	// ErrUnauthenticated means that the key is missing, unknown, expired or revoked.
	ErrUnauthenticated = fault.ErrUnauthenticated
	// ErrForbidden means that the caller is known but has no right to this.
	ErrForbidden = fault.ErrForbidden
	// ErrNotFound means that the caller's tenant has no such entity. An entity
	// of another tenant gives the same error.
	ErrNotFound = fault.ErrNotFound
	// ErrConflict means that something unique is taken or was used up: a token
	// id, a session's nonce, an idempotency key whose request is under way.
	ErrConflict = fault.ErrConflict
	// ErrInProgress means that a request with the same idempotency key is under
	// way. When it has succeeded, asking again gives its answer. It matches
	// ErrConflict.
	ErrInProgress = fault.ErrInProgress
	// ErrWithdrawn means that the answer which an idempotency key keeps is not given
	// any more: a token that the run used is gone or was changed, or the cvc that it
	// saw is gone. The run is not repeated. It matches ErrConflict.
	ErrWithdrawn = fault.ErrWithdrawn
	// ErrTooLarge means that the input is over a limit of size.
	ErrTooLarge = fault.ErrTooLarge
	// ErrBusy means that a limit on work under way is reached; try again later.
	ErrBusy = fault.ErrBusy
	// ErrUnavailable means that the vault cannot serve this now, though it could
	// at another time. Try again after a moment. Nothing was changed; only when the
	// connection to the database was lost during a write, and could not be replaced
	// in time, is that not known. The error says so then, and the same key of
	// [Client.Once] finds out.
	ErrUnavailable = fault.ErrUnavailable
	// ErrCode means that reactor or transform code does not compile, throws
	// while it is loaded, or exports no function.
	ErrCode = fault.ErrCode
	// ErrTimeout means that the destination of a proxy did not answer in time, or
	// that code of the tenant was stopped at the end of its time. When the time of
	// the caller's own context is over, the error is [context.DeadlineExceeded]
	// instead.
	ErrTimeout = fault.ErrTimeout
	// ErrUnreachable means that the destination of a proxy could not be reached,
	// or that its response cannot be used.
	ErrUnreachable = fault.ErrUnreachable
	// ErrNoRuntime means that code cannot run, because [Config].Runtime is not
	// set.
	ErrNoRuntime = fault.ErrNoRuntime
	// ErrWrongKey means that the database was sealed under another master key.
	ErrWrongKey = fault.ErrWrongKey
	// ErrKeyUnavailable means that the master key neither opened what it had to
	// nor what it had just sealed itself, or sealed nothing: the service that
	// keeps it is down, or denies us its use. The error wraps the key's own.
	ErrKeyUnavailable = fault.ErrKeyUnavailable
	// ErrClosed means that the vault has been closed.
	ErrClosed = fault.ErrClosed
	// ErrInTx means that an operation cannot be part of a transaction of the
	// application: see [Client.InTx].
	ErrInTx = fault.ErrInTx
	// ErrWebhook means that a request is not a callback of a vault, or an old one.
	ErrWebhook = fault.ErrWebhook
)

// InvalidError says what is wrong with an input. It matches ErrInvalid.
type InvalidError struct {
	// Fields maps the dotted path of a field (data.number, [2].data) to what is
	// wrong with it. The path of the input as a whole is "".
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *InvalidError) Error() string { return (*fault.Invalid)(e).Error() }

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ConflictError says which values of a batch are taken. It matches ErrConflict.
type ConflictError struct {
	// Fields maps the path of a value to what is wrong with it, as those of an
	// InvalidError.
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *ConflictError) Error() string { return (*fault.Conflict)(e).Error() }

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// public returns an error of a room in the types of this package. It is called
// where an operation returns to its caller.
func public(err error) error {
	switch e := err.(type) { //nolint:errorlint // wrapped ones are looked for below
	case nil:
		return nil
	case *fault.Invalid:
		return (*InvalidError)(e)
	case *fault.Conflict:
		return (*ConflictError)(e)
	}
	if e, ok := errors.AsType[*fault.Invalid](err); ok {
		return &publicError{err, (*InvalidError)(e)}
	}
	if e, ok := errors.AsType[*fault.Conflict](err); ok {
		return &publicError{err, (*ConflictError)(e)}
	}
	return err
}

// publicError is an error that wraps one of a room, and the same in a type of
// this package.
type publicError struct{ err, public error }

func (e *publicError) Error() string   { return e.err.Error() }
func (e *publicError) Unwrap() []error { return []error{e.public, e.err} }

// internal returns an error that this package gave to a caller in the types of
// rooms.
func internal(err error) error {
	if e, ok := errors.AsType[*InvalidError](err); ok {
		return (*fault.Invalid)(e)
	}
	if e, ok := errors.AsType[*ConflictError](err); ok {
		return (*fault.Conflict)(e)
	}
	return err
}

// fieldsOf returns what an error says of the fields of an input; nil when it is
// about something else.
func fieldsOf(err error) map[string][]string { return fault.Fields(internal(err)) }
