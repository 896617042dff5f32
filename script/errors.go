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
	ErrInvalid = errors.New("vault: the code cannot be used")
	// ErrBusy means that the runtime cannot accept more runs, because too
	// many are running or waiting. Try again later.
	ErrBusy = errors.New("vault: too many requests")
	// ErrTimeout means that the code was stopped at its deadline; see
	// [Timeout]. The vault also uses it for destinations that do not respond.
	ErrTimeout = errors.New("vault: the destination or the code took too long")
	// ErrClosed means that the runtime has been closed.
	ErrClosed = errors.New("script: the runtime is closed")
)

// ErrorKind is the reason why a run of tenant code returned no result.
type ErrorKind string

// The ways in which tenant code fails.
const (
	// Thrown: the code threw an error, or returned a promise that was rejected.
	Thrown ErrorKind = "thrown"
	// Invalid: the code does not compile, throws while loading, or exports no
	// function. This error matches [ErrInvalid].
	Invalid ErrorKind = "invalid"
	// Timeout: the run was stopped at its deadline. This error matches
	// [ErrTimeout].
	Timeout ErrorKind = "timeout"
	// Memory: the run was stopped because it used too much memory.
	Memory ErrorKind = "memory"
	// Stack: the code called itself too deeply.
	Stack ErrorKind = "stack"
	// Crash: the process that ran the code died for another reason.
	Crash ErrorKind = "crash"
	// Output: the result is too large, cannot be encoded as JSON, or does not
	// have the required form.
	Output ErrorKind = "output"
	// Deadlock: the code waits for a promise that nothing can settle any
	// more.
	Deadlock ErrorKind = "deadlock"
	// Depth: reactors and proxies called each other more than three deep.
	Depth ErrorKind = "depth"
)

// DefaultTitle is the title of an error of tenant code, unless the code
// throws an error class with its own title.
const DefaultTitle = "Reactor Runtime Error"

// Error is an error of tenant code. Its fields come from the tenant and are
// sent to the caller. Messages may contain anything, including card numbers.
// The method Error therefore names only the kind and the lines, and is safe
// to log.
type Error struct {
	Kind   ErrorKind
	Status int    // status of the response, 400 to 599
	Title  string // title of the response
	// Messages is the errors property of the response. A plain error has its
	// message under "error".
	Messages map[string][]string
	// Name is the class of the thrown error, as the code named it.
	Name string
	// Frames are the positions in the tenant's code where the error occurred,
	// innermost first. Code that is not the tenant's is left out.
	Frames []Frame
	// Response, if set, is the whole response. The code chose it by throwing
	// a CustomHttpResponseError.
	Response *Response
}

// Line returns the line of tenant code where the error occurred, or 0.
func (e *Error) Line() int {
	if len(e.Frames) == 0 {
		return 0
	}
	return e.Frames[0].Line
}

// Frame is a position in tenant code. Lines and columns start at 1.
type Frame struct {
	Function string // empty outside functions
	Line     int
	Column   int
}

// Response is a whole HTTP response that tenant code built. The REST API adds
// its own headers, and sets no cookies for it.
type Response struct {
	Status int
	Header http.Header
	// Body is the JSON of the body that the code provided. A JSON string is
	// sent as its text.
	Body []byte
}

// Error returns the kind of failure and the lines. It contains no text from
// the code.
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

// Is matches [ErrInvalid] for code that cannot be used, and [ErrTimeout] for
// code that took too long.
func (e *Error) Is(target error) bool {
	return target == ErrInvalid && e.Kind == Invalid || target == ErrTimeout && e.Kind == Timeout
}

// HostError is an error of [Host.Call] that running code may read. In the
// code it is an Error with these properties.
type HostError struct {
	Status  int    // an HTTP status, or 0 without a response
	Code    string // for programs, such as ECONNREFUSED; may be empty
	Message string
	Errors  map[string][]string // by field; may be nil
}

// Error returns the message.
func (e *HostError) Error() string { return e.Message }
