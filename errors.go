package vault

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Errors that operations return, to be told by errors.Is. An error's text
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
	// ErrTooLarge means that the input is over a limit of size.
	ErrTooLarge = errors.New("too large")
	// ErrBusy means that a limit on work under way is reached; try again later.
	ErrBusy = script.ErrBusy
	// ErrCode means that reactor or transform code does not compile, throws
	// while it is loaded, or exports no function.
	ErrCode = script.ErrInvalid
	// ErrTimeout means that the destination of a proxy did not answer in time.
	ErrTimeout = errors.New("the destination did not answer in time")
	// ErrUnreachable means that the destination of a proxy could not be reached,
	// or that what it answered is of no use.
	ErrUnreachable = errors.New("the destination could not be reached")
	// ErrNoRuntime means that code cannot run, because [Config].Runtime is not
	// set.
	ErrNoRuntime = errors.New("vault: Config.Runtime is not set, so code cannot run")
	// ErrWrongKey means that the database was sealed under another master key.
	ErrWrongKey = errors.New("vault: the master key is not the one that this database was sealed under")
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
func (e *InvalidError) Error() string {
	paths := make([]string, 0, len(e.Fields))
	for p := range e.Fields {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	var b strings.Builder
	b.WriteString("invalid input")
	for _, p := range paths {
		for _, m := range e.Fields[p] {
			b.WriteString("; ")
			if p != "" {
				b.WriteString(p + ": ")
			}
			b.WriteString(m)
		}
	}
	return b.String()
}

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// maxProblems bounds the fields that an error is about, and the messages about
// each: a document can have a million of them.
const maxProblems = 1000

// add records a message about a field.
func (e *InvalidError) add(path, format string, args ...any) {
	if e.Fields == nil {
		e.Fields = map[string][]string{}
	}
	known := len(e.Fields[path])
	if known == 0 && len(e.Fields) >= maxProblems || known >= maxProblems {
		return
	}
	e.Fields[path] = append(e.Fields[path], fmt.Sprintf(format, args...))
}

// addErr records what a parser or another check said, under a path.
func (e *InvalidError) addErr(path string, err error) {
	var inner *InvalidError
	var syntax *jsonx.Error
	var expression *expr.Error
	switch {
	case errors.As(err, &inner):
		for p, msgs := range inner.Fields {
			for _, m := range msgs {
				e.add(joinPath(path, p), "%s", m)
			}
		}
	case errors.As(err, &syntax):
		e.add(joinPath(path, syntax.Path), "%s", syntax.Msg)
	case errors.As(err, &expression):
		e.add(joinPath(path, expression.Path), "%s (at byte %d of the expression)", expression.Msg, expression.Offset)
	default:
		e.add(path, "%s", err.Error())
	}
}

// addUnknown records the fields of which a check of the same input said that
// they do not exist, each once.
func (e *InvalidError) addUnknown(err error) {
	var inner *InvalidError
	if !errors.As(err, &inner) {
		return
	}
	for path, messages := range inner.Fields {
		if slices.Contains(messages, unknownField) && !slices.Contains(e.Fields[path], unknownField) {
			e.add(path, unknownField)
		}
	}
}

// invalidErr returns what a parser said as an InvalidError about the whole
// input.
func invalidErr(err error) error {
	bad := &InvalidError{}
	bad.addErr("", err)
	return bad
}

// err returns the error, or nil when nothing was recorded.
func (e *InvalidError) err() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// invalid returns an InvalidError about one field.
func invalid(path, format string, args ...any) error {
	e := &InvalidError{}
	e.add(path, format, args...)
	return e
}

// joinPath puts a path behind another: a.b, a[0].
func joinPath(head, tail string) string {
	if head == "" || tail == "" || tail[0] == '[' {
		return head + tail
	}
	return head + "." + tail
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
