package vault

import (
	"errors"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Errors that operations return; use errors.Is. The text of an error names fields
// and rules and may be shown to the caller. It never holds a value that a caller
// sent or that the vault stores.
var (
	// ErrInvalid means that the input breaks a rule; see [InvalidError].
	ErrInvalid = fault.ErrInvalid
	// ErrUnauthenticated means that the key is missing, unknown, expired or revoked.
	ErrUnauthenticated = fault.ErrUnauthenticated
	// ErrForbidden means that the caller is known but lacks the right.
	ErrForbidden = fault.ErrForbidden
	// ErrNotFound means that the caller's tenant has no such entity. An entity
	// of another tenant gives the same error.
	ErrNotFound = fault.ErrNotFound
	// ErrConflict means that something unique is taken or used up: a token id, a
	// session's nonce, or an idempotency key whose request is running.
	ErrConflict = fault.ErrConflict
	// ErrInProgress means that a request with the same idempotency key is running.
	// Once that request has succeeded, a retry gets its response. It matches
	// ErrConflict.
	ErrInProgress = fault.ErrInProgress
	// ErrWithdrawn means that the response stored under an idempotency key is no
	// longer returned. A token that the run used was deleted or changed, or the cvc
	// that it saw was deleted. The run is not repeated. It matches ErrConflict.
	ErrWithdrawn = fault.ErrWithdrawn
	// ErrTooLarge means that the input exceeds a size limit.
	ErrTooLarge = fault.ErrTooLarge
	// ErrBusy means that a limit on concurrent work is reached; try again later.
	ErrBusy = fault.ErrBusy
	// ErrUnavailable means that the vault cannot serve the call now. Try again
	// after a moment. Nothing was changed, with one exception: if the connection to
	// the database was lost during a write and could not be replaced in time, the
	// outcome is unknown. The error then says so, and a retry with the same key of
	// [Client.Once] resolves it.
	ErrUnavailable = fault.ErrUnavailable
	// ErrCode means that reactor or transform code does not compile, throws
	// while it is loaded, or exports no function.
	ErrCode = fault.ErrCode
	// ErrTimeout means that the destination of a proxy did not respond in time, or
	// that tenant code was stopped at its time limit. When the caller's own context
	// expires, the error is [context.DeadlineExceeded] instead.
	ErrTimeout = fault.ErrTimeout
	// ErrUnreachable means that the destination of a proxy could not be reached,
	// or that its response cannot be used.
	ErrUnreachable = fault.ErrUnreachable
	// ErrNoRuntime means that code cannot run because [Config].Runtime is not set.
	ErrNoRuntime = fault.ErrNoRuntime
	// ErrWrongKey means that the database was sealed under another master key.
	ErrWrongKey = fault.ErrWrongKey
	// ErrKeyDenied means that the holder of the master key denies its use: the key
	// is disabled or deleted, or its permissions do not include this vault. A master
	// key that is a program's own [AEAD] returns an error that wraps ErrKeyDenied to
	// take part: see [Config].KeyAge.
	ErrKeyDenied = fault.ErrKeyDenied
	// ErrKeyUnavailable means that the master key does not work: it can neither
	// open an existing ciphertext nor open what it has just sealed, or it cannot
	// seal. The service that holds the key is down. A running vault returns it when
	// [Config].KeyGrace is over. The error of [Open] wraps the key's own error.
	ErrKeyUnavailable = fault.ErrKeyUnavailable
	// ErrClosed means that the vault has been closed.
	ErrClosed = fault.ErrClosed
	// ErrInTx means that an operation cannot be part of a transaction of the
	// application: see [Client.InTx].
	ErrInTx = fault.ErrInTx
	// ErrWebhook means that a request is not a callback of a vault, or is too old.
	ErrWebhook = fault.ErrWebhook
)

// InvalidError lists what is wrong with an input. It matches ErrInvalid.
type InvalidError struct {
	// Fields maps the dotted path of a field (data.number, [2].data) to the
	// problems of the field. The path of the input as a whole is "".
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *InvalidError) Error() string { return (*fault.Invalid)(e).Error() }

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ConflictError lists the values of a batch that are taken. It matches ErrConflict.
type ConflictError struct {
	// Fields maps the path of a value to its problems, as in an InvalidError.
	Fields map[string][]string
}

// Error lists the fields and their messages in the order of the paths.
func (e *ConflictError) Error() string { return (*fault.Conflict)(e).Error() }

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// public converts an error of an internal package to the types of this package. It
// is called where an operation returns to its caller.
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

// publicError wraps an internal error together with its counterpart in the types of
// this package.
type publicError struct{ err, public error }

func (e *publicError) Error() string   { return e.err.Error() }
func (e *publicError) Unwrap() []error { return []error{e.public, e.err} }

// internal converts an error that this package returned to a caller back to the
// internal types.
func internal(err error) error {
	if e, ok := errors.AsType[*InvalidError](err); ok {
		return (*fault.Invalid)(e)
	}
	if e, ok := errors.AsType[*ConflictError](err); ok {
		return (*fault.Conflict)(e)
	}
	return err
}
