package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/script"
)

// Outcome is the outcome of a run. It contains nothing of the code's input or
// output.
type Outcome struct {
	Status int           `json:"status,omitempty"` // status of the response; zero if the code has not run
	Took   time.Duration `json:"took,omitempty"`
	Line   int           `json:"line,omitempty"` // line of the code with the error
}

// outcomeOf returns the outcome of a run with this error, which may be nil.
func outcomeOf(err error, took time.Duration) Outcome {
	out := Outcome{Status: 200, Took: took}
	if err == nil {
		return out
	}
	out.Status = HostError(err).Status
	if failed, ok := errors.AsType[*script.Error](err); ok {
		out.Line = failed.Line()
	}
	return out
}

// HostError returns the parts of an error that running code may see. For
// errors that are not meant for callers, it is only that the operation
// failed.
func HostError(err error) *script.HostError {
	if host, ok := errors.AsType[*script.HostError](err); ok {
		return host
	}
	if errors.Is(err, core.ErrRunFull) {
		return &script.HostError{
			Status: http.StatusRequestEntityTooLarge, Code: "ERR_BODY_TOO_LARGE",
			Message: fmt.Sprintf("the calls in progress hold more than %d MiB; wait for some of them to finish", core.MaxRunBytes>>20),
		}
	}
	if failed, ok := errors.AsType[*script.Error](err); ok {
		return &script.HostError{Status: failed.Status, Message: failed.Title, Errors: failed.Messages}
	}
	if fields := fault.Fields(err); fields != nil {
		return &script.HostError{Status: http.StatusBadRequest, Message: "One or more validation errors occurred.", Errors: fields}
	}
	status, detail := fault.Status(err)
	return &script.HostError{Status: status, Message: cmp.Or(detail, "the operation failed")}
}

// failedRun is the body of a callback for a failed run.
type failedRun struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors,omitempty"`
	// Response is the response that the code built, if any.
	Response *chosenResponse `json:"response,omitempty"`
}

type chosenResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// callbackError describes why a run failed, with the same error as the
// response of a synchronous run. A response that the code built is a part of
// it, so that receivers can distinguish it from a result.
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
			if r.Body != nil && !json.Valid(r.Body) { // a job that cannot be written would run forever
				out.Response.Body = jsonx.StringValue(string(r.Body)).JSON()
			}
		}
	case fault.Fields(err) != nil:
		out.Title, out.Detail = known.Message, "The request is invalid; errors lists what is wrong with each field."
	}
	return out
}
