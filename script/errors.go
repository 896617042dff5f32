package script

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Errors of a runtime, for use with errors.Is.
var (
	// ErrInvalid means that code cannot be used at all; see [Invalid].
	ErrInvalid = errors.New("script: the code cannot be used")
	// ErrBusy means that the runtime has as many runs in progress and waiting
	// as it accepts; try again later.
	ErrBusy = errors.New("script: too many requests")
	// ErrTimeout means that the code was stopped at the end of its time; see
	// [Timeout]. The vault uses it for destinations that do not answer, too.
	ErrTimeout = errors.New("script: the destination or the code took too long")
	// ErrClosed means that the runtime has been closed.
	ErrClosed = errors.New("script: the runtime is closed")
)

// ErrorKind says why a run of tenant code did not return a result.
type ErrorKind string

// The ways in which tenant code fails.
const (
	// Thrown: the code threw an error, or returned a promise that was rejected.
	Thrown ErrorKind = "thrown"
	// Invalid: the code does not compile, throws while loading, or
	// exports no function. Such an error matches [ErrInvalid].
	Invalid ErrorKind = "invalid"
	// Timeout: the run was stopped at its deadline. Such an error matches
	// [ErrTimeout].
	Timeout ErrorKind = "timeout"
	// Memory: the run was stopped because it used too much memory.
	Memory ErrorKind = "memory"
	// Stack: the code called itself too deeply.
	Stack ErrorKind = "stack"
	// Crash: the process that ran the code died for another reason.
	Crash ErrorKind = "crash"
	// Output: the result is larger than allowed, cannot be written as JSON, or
	// is not of the form that it has to have.
	Output ErrorKind = "output"
	// Deadlock: the code waits for a promise that nothing can settle any more.
	Deadlock ErrorKind = "deadlock"
	// Depth: reactors and proxies called each other more than three deep.
	Depth ErrorKind = "depth"
)

// DefaultTitle is the title of every error of tenant code that does not choose
// one by throwing a class of its own.
const DefaultTitle = "Reactor Runtime Error"

// Error is an error of tenant code. Its fields belong to the tenant and go into
// the answer to the caller: Messages may hold anything, card numbers included.
// The method Error therefore names only the kind and the lines, and is fit for
// a log.
type Error struct {
	Kind   ErrorKind
	Status int    // of the answer, 400 to 599
	Title  string // of the answer
	// Messages is the errors property of the answer. A plain error has its
	// message under "error".
	Messages map[string][]string
	// Name is the class of the thrown error, as the code named it.
	Name string
	// Frames are the places in the tenant's own code where the error arose,
	// innermost first. Code that is not the tenant's is left out.
	Frames []Frame
	// Response, when set, is the answer that the code chose in full by
	// throwing a CustomHttpResponseError.
	Response *Response
}

// Frame is a place in tenant code, counted from 1.
type Frame struct {
	Function string // empty outside functions
	Line     int
	Column   int
}

// Response is an HTTP answer that tenant code wrote in full. The REST API adds
// headers of its own, and sets no cookies for it.
type Response struct {
	Status int
	Header http.Header
	// Body is the JSON text of what the code gave; a JSON string stands for
	// its own text.
	Body []byte
}

// Error says how the code failed and on which line. It holds nothing that the
// code wrote.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "script: the code failed (%s)", e.Kind)
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

// Is matches [ErrInvalid] for code that cannot be used at all, and [ErrTimeout]
// for code that took too long.
func (e *Error) Is(target error) bool {
	return target == ErrInvalid && e.Kind == Invalid || target == ErrTimeout && e.Kind == Timeout
}

// HostError is an error of [Host.Call] that running code may read: it arrives
// there as an Error with these properties.
type HostError struct {
	Status  int    // as an HTTP status; 0 when there was no answer
	Code    string // for programs, like ECONNREFUSED; may be empty
	Message string
	Errors  map[string][]string // by field; may be nil
}

// Error returns the message.
func (e *HostError) Error() string { return e.Message }
