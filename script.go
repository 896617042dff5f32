package vault

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/limits"
)

// ScriptErrorKind says how a run of tenant code ended when it did not return.
type ScriptErrorKind string

// The ways in which tenant code fails.
const (
	// ScriptThrown: the code threw an error, or returned a promise that was rejected.
	ScriptThrown ScriptErrorKind = "thrown"
	// ScriptInvalid: the code does not compile, throws while it is loaded, or
	// exports no function. Such an error matches ErrCode.
	ScriptInvalid ScriptErrorKind = "invalid"
	// ScriptTimeout: the run was stopped at its deadline.
	ScriptTimeout ScriptErrorKind = "timeout"
	// ScriptMemory: the run was stopped because it used too much memory.
	ScriptMemory ScriptErrorKind = "memory"
	// ScriptStack: the code called itself too deeply.
	ScriptStack ScriptErrorKind = "stack"
	// ScriptCrash: the process that ran the code died for another reason.
	ScriptCrash ScriptErrorKind = "crash"
	// ScriptOutput: the result is larger than allowed, cannot be written as JSON,
	// or is not of the form that it has to have.
	ScriptOutput ScriptErrorKind = "output"
	// ScriptDeadlock: the code waits for a promise that nothing can settle any more.
	ScriptDeadlock ScriptErrorKind = "deadlock"
	// ScriptDepth: reactors and proxies called each other more than three deep.
	ScriptDepth ScriptErrorKind = "depth"
)

// ScriptTitle is the title of every error of tenant code that does not choose
// one by throwing a class of its own.
const ScriptTitle = "Reactor Runtime Error"

// ScriptError is an error of tenant code. Its fields belong to the tenant and
// go into the answer to the caller: Messages may hold anything, card numbers
// included. Error therefore names only the kind and the lines, and is fit for
// a log.
type ScriptError struct {
	Kind   ScriptErrorKind
	Status int    // of the answer, 400 to 599
	Title  string // of the answer
	// Messages is the errors property of the answer. A plain error has its
	// message under "error".
	Messages map[string][]string
	// Name is the class of the thrown error, as the code named it.
	Name string
	// Frames are the places in the tenant's own code where the error arose,
	// innermost first. Code that is not the tenant's is left out.
	Frames []ScriptFrame
	// Response, when set, is the answer that the code chose in full by
	// throwing a CustomHttpResponseError.
	Response *ScriptResponse
}

// ScriptFrame is a place in tenant code, counted from 1.
type ScriptFrame struct {
	Function string // empty outside functions
	Line     int
	Column   int
}

// ScriptResponse is an HTTP answer that tenant code made by itself.
type ScriptResponse struct {
	Status  int
	Headers map[string]string
	// Body is the JSON text of what the code gave; a JSON string stands for
	// its own text.
	Body []byte
}

// Error says how the code failed and on which line. It holds nothing that the
// code wrote.
func (e *ScriptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the code failed (%s)", e.Kind)
	for i, f := range e.Frames {
		if i == 0 {
			b.WriteString(" at line ")
		} else {
			b.WriteString(", called from line ")
		}
		fmt.Fprintf(&b, "%d", f.Line)
	}
	return b.String()
}

// Is matches ErrCode for code that cannot be used at all.
func (e *ScriptError) Is(target error) bool {
	return target == ErrCode && e.Kind == ScriptInvalid
}

// HostError is an error of Host.Call that running code may read: it arrives
// there as an Error with these properties. Of other errors the code sees the
// text only when they match one of this package's sentinels.
type HostError struct {
	Status  int    // as an HTTP status; 0 when there was no answer
	Code    string // for programs, like ECONNREFUSED; may be empty
	Message string
	Errors  map[string][]string // by field; may be nil
}

// Error returns the message.
func (e *HostError) Error() string { return e.Message }

// AsHostError returns what running code may know of an error of Host.Call.
func AsHostError(err error) *HostError {
	var host *HostError
	if errors.As(err, &host) {
		return host
	}
	if errors.Is(err, limits.ErrFull) {
		return &HostError{
			Status: http.StatusRequestEntityTooLarge, Code: "ERR_BODY_TOO_LARGE",
			Message: fmt.Sprintf("the calls under way hold more than %d MiB; wait for some of them", limits.MaxBytes>>20),
		}
	}
	var script *ScriptError
	if errors.As(err, &script) {
		return &HostError{Status: script.Status, Message: script.Title, Errors: script.Messages}
	}
	var bad *InvalidError
	if errors.As(err, &bad) {
		return &HostError{Status: http.StatusBadRequest, Message: "One or more validation errors occurred.", Errors: bad.Fields}
	}
	for _, known := range hostErrors {
		if errors.Is(err, known.err) {
			return &HostError{Status: known.status, Message: err.Error()}
		}
	}
	return &HostError{Status: http.StatusInternalServerError, Message: "the operation failed"}
}

// hostErrors are the sentinels whose text is made for callers.
var hostErrors = []struct {
	err    error
	status int
}{
	{ErrInvalid, http.StatusBadRequest},
	{ErrUnauthenticated, http.StatusUnauthorized},
	{ErrForbidden, http.StatusForbidden},
	{ErrNotFound, http.StatusNotFound},
	{ErrConflict, http.StatusConflict},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrBusy, http.StatusTooManyRequests},
	{ErrCode, http.StatusUnprocessableEntity},
	{ErrTimeout, http.StatusRequestTimeout},
	{ErrUnreachable, http.StatusBadGateway},
}
