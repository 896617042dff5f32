// Package fault defines the errors of the vault: their kinds, their texts,
// and the problems of an input.
//
// Internal packages return these errors. Package vault re-exports the kinds
// by value, and converts Invalid and Conflict to its own types, which are the
// same structs.
package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// The kinds of errors. Package vault documents them under the same names.
var (
	ErrInvalid         = errors.New("vault: invalid input")
	ErrUnauthenticated = errors.New("vault: the API key is missing, unknown, expired or revoked")
	ErrForbidden       = errors.New("vault: the caller has no permission for this")
	ErrNotFound        = errors.New("vault: not found")
	ErrConflict        = errors.New("vault: conflict")
	ErrInProgress      = New(ErrConflict, "a request with this idempotency key is being processed")
	ErrWithdrawn       = New(ErrConflict, "the stored answer was withdrawn")
	ErrTooLarge        = errors.New("vault: too large")
	ErrBusy            = script.ErrBusy
	ErrUnavailable     = storage.ErrUnavailable
	ErrSlow            = storage.ErrSlow
	ErrCode            = script.ErrInvalid
	ErrTimeout         = script.ErrTimeout
	ErrUnreachable     = errors.New("vault: the destination could not be reached")
	ErrNoRuntime       = errors.New("vault: Config.Runtime is not set, so code cannot run")
	ErrWrongKey        = errors.New("vault: this is not the master key that the database was encrypted with")
	ErrKeyDenied       = errors.New("vault: the holder of the key denies its use")
	ErrKeyUnavailable  = errors.New("vault: the master key does not work")
	ErrClosed          = storage.ErrClosed
	ErrInTx            = errors.New("vault: this cannot be done in a transaction of the application")
	ErrWebhook         = errors.New("vault: the webhook cannot be trusted")
	ErrPause           = errors.New("vault: no row is there for now")
	ErrAltered         = errors.New("vault: the database was altered")
)

// Errors that several packages return.
var (
	// ErrFaster means that other callers changed the same rows again and
	// again.
	ErrFaster = New(ErrConflict, "too many concurrent changes; try again")
	// These errors mean that the tenant has no such entity.
	ErrNoToken  = New(ErrNotFound, "token not found")
	ErrNoProxy  = New(ErrNotFound, "proxy not found")
	ErrNoTenant = New(ErrNotFound, "tenant not found")
	// ErrTokenExists means that the id of a token is taken.
	ErrTokenExists = New(ErrConflict, "a token with this id already exists")
)

// kindError is an error of a known kind with its own text, which has no prefix.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string { return prefix + e.text }
func (e *kindError) Unwrap() error { return e.kind }

// New returns an error that matches kind and has its own text, after the name of
// the package. The text names fields and rules, never a value.
func New(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}

// Permission returns the error for a missing permission.
func Permission(permission string) error {
	return New(ErrForbidden, "permission %s required", permission)
}

// PermissionOnToken returns the error for a permission that does not cover a
// token.
func PermissionOnToken(permission string) error {
	return New(ErrForbidden, "permission %s required on each container of the token", permission)
}

// Suspended returns ErrForbidden for a use of an entity that a restore brought back
// in an older state.
func Suspended(kind string) error {
	return New(ErrForbidden, "this %s is suspended, because a restore brought back an older state of it; the operator of the vault confirms it with tokenvault erase --keep", kind)
}

// LimitedTo returns the error for a token whose data may only be sent to
// destinations.
func LimitedTo(destinations string) error {
	return New(ErrForbidden, "the use of this token is limited to requests to %s", destinations)
}

// hostError is an error about data that was about to be sent to a host.
type hostError struct {
	error
	host string
}

func (e *hostError) Unwrap() error { return e.error }

// ForHost adds to an error the host that data was about to be sent to. The text
// stays the same.
func ForHost(err error, host string) error { return &hostError{err, host} }

// HostOf returns the host that [ForHost] added to an error, or "".
func HostOf(err error) string {
	if e, ok := errors.AsType[*hostError](err); ok {
		return e.host
	}
	return ""
}

// Invalid lists the problems of an input. It matches ErrInvalid.
type Invalid struct { //nolint:errname // it reads as a kind of fault
	// Fields maps the dotted path of a field (data.number, [2].data) to its
	// problems. The path of the whole input is "".
	Fields map[string][]string
}

// Error lists the fields and their messages, sorted by path.
func (e *Invalid) Error() string { return prefix + (*form.Problems)(e).String() }

// Is matches ErrInvalid.
func (e *Invalid) Is(target error) bool { return target == ErrInvalid }

// Conflict lists the values of a batch that are taken. It matches
// ErrConflict.
type Conflict struct { //nolint:errname // it reads as a kind of fault
	// Fields maps the path of a value to its problems.
	Fields map[string][]string
}

// Error lists the fields and their messages, sorted by path.
func (e *Conflict) Error() string { return prefix + form.Describe("conflict", e.Fields) }

// Is matches ErrConflict.
func (e *Conflict) Is(target error) bool { return target == ErrConflict }

// Of returns the problems of an input as an error, or nil if there are no
// problems.
func Of(bad *form.Problems) error {
	if !bad.Any() {
		return nil
	}
	return (*Invalid)(bad)
}

// Field returns an Invalid about one field.
func Field(path, format string, args ...any) error {
	return Of(form.Problem(path, format, args...))
}

// Input returns the error of a parser as an Invalid about the whole input. It
// returns errors of a context unchanged.
func Input(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return Of(form.Of("", err))
}

// Under moves the problems of an input below the path of a field. It returns
// other errors unchanged.
func Under(path string, err error) error {
	inner, ok := errors.AsType[*Invalid](err)
	if !ok {
		return err
	}
	bad := &form.Problems{}
	bad.AddAll(path, inner.Fields)
	return Of(bad)
}

// Fields returns the problems of an Invalid by field, and nil for other errors.
func Fields(err error) map[string][]string {
	if bad, ok := errors.AsType[*Invalid](err); ok {
		return bad.Fields
	}
	return nil
}

// CallerLeft returns the error of a context that has ended. It also returns
// an error if the deadline has passed but the timer has not fired, because
// connections watch the same deadline. Otherwise it returns nil.
func CallerLeft(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Guard returns the guard that rejected a change.
func Guard(err error) (*storage.Conflict, bool) { return errors.AsType[*storage.Conflict](err) }

const detailKey = "The key of this tenant is not available."

// statuses maps errors to the HTTP statuses of the REST API. The first row that
// matches counts. A row has a detail if the error's own text is not for callers.
var statuses = []struct {
	err    error
	status int
	detail string
}{
	{ErrUnauthenticated, http.StatusUnauthorized, Detail(ErrUnauthenticated)},
	{ErrForbidden, http.StatusForbidden, ""},
	{ErrTooLarge, http.StatusRequestEntityTooLarge, ""},
	{ErrInvalid, http.StatusBadRequest, "The request is invalid."},
	{ErrNotFound, http.StatusNotFound, ""},
	{ErrConflict, http.StatusConflict, ""},
	{ErrCode, http.StatusUnprocessableEntity, ""},
	{ErrBusy, http.StatusTooManyRequests, ""},
	{ErrTimeout, http.StatusRequestTimeout, ""},
	{ErrUnreachable, http.StatusBadGateway, ""},
	{ErrNoRuntime, http.StatusInternalServerError, "This server cannot run code: its vault was opened without a runtime."},
	{ErrSlow, http.StatusServiceUnavailable, "The database took too long for this request and was stopped. Ask for less, with another filter or a range of time."},
	{ErrKeyDenied, http.StatusServiceUnavailable, detailKey},
	{ErrKeyUnavailable, http.StatusServiceUnavailable, detailKey},
	{ErrUnavailable, http.StatusServiceUnavailable, Detail(ErrUnavailable)},
}

// Status returns the HTTP status of an error and the detail that a caller may
// see, which is a sentence of the vault and holds no text of a program around it. For
// an error that is not for callers, it returns 500 and no detail.
func Status(err error) (status int, detail string) {
	for _, row := range statuses {
		if !errors.Is(err, row.err) {
			continue
		}
		if row.detail == "" {
			return row.status, Detail(own(err, row.err))
		}
		return row.status, row.detail
	}
	return http.StatusInternalServerError, ""
}

// own returns the vault's own error in the tree of an error that matches kind: the
// first error of [New] that matches it, or kind itself. A text that a program wrapped
// around the error, or joined to it, is not a part of the result.
func own(err, kind error) error {
	switch e := err.(type) { //nolint:errorlint // it visits the tree itself
	case *kindError:
		if errors.Is(e, kind) {
			return e
		}
	case interface{ Unwrap() error }:
		return own(e.Unwrap(), kind)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if errors.Is(inner, kind) {
				return own(inner, kind)
			}
		}
	}
	return kind
}

// refused is an ErrUnauthenticated with a reason that the caller must not learn.
type refused struct{ reason string }

// Error returns the text of ErrUnauthenticated.
func (*refused) Error() string { return ErrUnauthenticated.Error() }
func (*refused) Unwrap() error { return ErrUnauthenticated }

// Refused returns an ErrUnauthenticated that equals any other for the caller. Only
// [Reason] has the reason.
func Refused(reason error) error { return &refused{Text(reason)} }

// Reason returns the reason of a Refused in an error, or "".
func Reason(err error) string {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.reason
	}
	return ""
}

// Panic describes a panic. The value of a panic may contain card data, so only its
// type is named, except for errors of the Go runtime.
func Panic(p any) error {
	if err, ok := p.(runtime.Error); ok {
		return fmt.Errorf("panic: %w\n%s", err, debug.Stack())
	}
	return fmt.Errorf("panic with a value of type %T\n%s", p, debug.Stack())
}

// prefix starts the text of every error of the vault.
const prefix = "vault: "

// prefixes are the package names at the start of error texts.
var prefixes = []string{prefix, "script: ", "storage: ", "httpserver: "}

// Text returns the text of an error without the package names at the start of
// its parts.
func Text(err error) string {
	s := err.Error()
	for _, p := range prefixes {
		s = strings.ReplaceAll(strings.TrimPrefix(s, p), ": "+p, ": ")
	}
	return s
}

// wrapError describes what failed. Its text is not for callers, because the text of
// the wrapped error may not be.
type wrapError struct {
	err  error
	text string
}

func (e *wrapError) Error() string { return prefix + e.text + ": " + Text(e.err) }
func (e *wrapError) Unwrap() error { return e.err }

// Wrap returns an error that describes what failed and wraps err. Its text
// names the vault once, whether or not err names it too.
func Wrap(err error, format string, args ...any) error {
	return &wrapError{err, fmt.Sprintf(format, args...)}
}

// Detail returns the text of an error as a sentence for a response: the
// result of Text, capitalized, with a full stop.
func Detail(err error) string {
	s := Text(err)
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// FromDetail returns the error of a kind from the detail of a response. It is
// the inverse of Detail. For an empty detail it returns the kind itself.
func FromDetail(kind error, detail string) error {
	s := strings.TrimSuffix(detail, ".")
	if s == "" {
		return kind
	}
	first, size := utf8.DecodeRuneInString(s)
	if next, _ := utf8.DecodeRuneInString(s[size:]); !unicode.IsUpper(next) { // an acronym stays
		s = string(unicode.ToLower(first)) + s[size:]
	}
	return &kindError{kind, s}
}
