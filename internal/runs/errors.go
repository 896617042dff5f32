package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/limits"
	"github.com/seed-72ea4aab/vault/script"
)

// Outcome says how a run went. It holds nothing that the code was given or wrote.
type Outcome struct {
	Status int           `json:"status,omitempty"` // of the response; zero when the code has not run
	Took   time.Duration `json:"took,omitempty"`
	Line   int           `json:"line,omitempty"` // of the code, at which the error arose
}

// outcomeOf describes a run that gave this error, or none.
func outcomeOf(err error, took time.Duration) Outcome {
	out := Outcome{Status: 200, Took: took}
	if err == nil {
		return out
	}
	out.Status = HostError(err).Status
	if line, ok := ErrorLine(err); ok {
		out.Line = line
	}
	return out
}

// ErrorLine returns the line of tenants' code at which an error of a run arose.
func ErrorLine(err error) (line int, ok bool) {
	var failed *script.Error
	if !errors.As(err, &failed) || len(failed.Frames) == 0 {
		return 0, false
	}
	return failed.Frames[0].Line, true
}

// HostError returns what running code may know of an error: those that are made
// for callers, and of any other that the operation failed.
func HostError(err error) *script.HostError {
	var host *script.HostError
	if errors.As(err, &host) {
		return host
	}
	if errors.Is(err, limits.ErrFull) {
		return &script.HostError{
			Status: http.StatusRequestEntityTooLarge, Code: "ERR_BODY_TOO_LARGE",
			Message: fmt.Sprintf("the calls in progress hold more than %d MiB; wait for some of them to finish", limits.MaxBytes>>20),
		}
	}
	var failed *script.Error
	if errors.As(err, &failed) {
		return &script.HostError{Status: failed.Status, Message: failed.Title, Errors: failed.Messages}
	}
	if fields := fault.Fields(err); fields != nil {
		return &script.HostError{Status: http.StatusBadRequest, Message: "One or more validation errors occurred.", Errors: fields}
	}
	if errors.Is(err, fault.ErrUnavailable) { // its own text may say where the database is
		return &script.HostError{Status: http.StatusServiceUnavailable, Message: fault.Detail(fault.ErrUnavailable)}
	}
	for _, known := range hostErrors {
		if errors.Is(err, known.err) {
			return &script.HostError{Status: known.status, Message: fault.Detail(err)}
		}
	}
	return &script.HostError{Status: http.StatusInternalServerError, Message: "the operation failed"}
}

// hostErrors are the sentinels whose text is made for callers.
var hostErrors = []struct {
	err    error
	status int
}{
	{fault.ErrInvalid, http.StatusBadRequest},
	{fault.ErrUnauthenticated, http.StatusUnauthorized},
	{fault.ErrForbidden, http.StatusForbidden},
	{fault.ErrNotFound, http.StatusNotFound},
	{fault.ErrConflict, http.StatusConflict},
	{fault.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{fault.ErrBusy, http.StatusTooManyRequests},
	{fault.ErrCode, http.StatusUnprocessableEntity},
	{fault.ErrTimeout, http.StatusRequestTimeout},
	{fault.ErrUnreachable, http.StatusBadGateway},
}

// failedRun is the body of a callback about a run that failed.
type failedRun struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors,omitempty"`
	// Response is what the code chose to answer with, if it did.
	Response *chosenResponse `json:"response,omitempty"`
}

type chosenResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// callbackError describes why a run failed: the same error that a synchronous
// run answers with. An answer that the code chose in full is a part of it, so
// that receivers can tell it from a result.
func callbackError(err error) failedRun {
	known := HostError(err)
	out := failedRun{Title: http.StatusText(known.Status), Status: known.Status, Detail: known.Message, Errors: known.Errors}
	var failed *script.Error
	switch {
	case errors.As(err, &failed):
		out.Title, out.Detail = failed.Title, fault.Detail(failed)
		if r := failed.Response; r != nil {
			out.Response = &chosenResponse{r.Status, map[string]string{}, json.RawMessage(r.Body)}
			for name, values := range r.Header {
				out.Response.Headers[name] = strings.Join(values, ", ")
			}
			if r.Body != nil && !json.Valid(r.Body) { // a job that cannot be written would be run for ever
				out.Response.Body = jsonx.StringValue(string(r.Body)).JSON()
			}
		}
	case fault.Fields(err) != nil:
		out.Title, out.Detail = known.Message, "The request is invalid; errors lists what is wrong with each field."
	}
	return out
}
