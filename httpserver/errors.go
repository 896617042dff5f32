package httpserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/script"
)

// Errors of the REST layer itself. Errors of the vault pass through
// unchanged.
var (
	errNoRoute   = errors.New("httpserver: there is nothing at this path")
	errMethod    = errors.New("httpserver: this path does not support the method; the Allow header lists the ones it supports")
	errMediaType = errors.New("httpserver: the content type must be " + mergePatch)
	errRateLimit = errors.New("httpserver: too many requests; try again after the number of seconds in the Retry-After header")
	errSlowBody  = errors.New("httpserver: the body did not arrive in time")
	errNotReady  = errors.New("httpserver: the database is not responding, or cannot be written")
	errNoKey     = errors.New("httpserver: this node cannot use the master key")
	errDraining  = errors.New("httpserver: the server is shutting down")
)

// statuses are the HTTP statuses of these errors.
var statuses = map[error]int{
	errNoRoute: http.StatusNotFound, errMethod: http.StatusMethodNotAllowed, errMediaType: http.StatusUnsupportedMediaType,
	errRateLimit: http.StatusTooManyRequests, errSlowBody: http.StatusRequestTimeout,
	errNotReady: http.StatusServiceUnavailable, errNoKey: http.StatusServiceUnavailable, errDraining: http.StatusServiceUnavailable,
}

const (
	titleInvalid   = "One or more validation errors occurred."
	detailInvalid  = "The request is invalid; errors lists what is wrong with each field."
	detailInternal = "The request could not be processed."
	detailLogged   = detailInternal + " The server's log has the cause under the trace id of this response."
)

// refusal is an error with headers for the response.
type refusal struct {
	error
	header http.Header
}

func (r *refusal) Unwrap() error { return r.error }

// invalid returns an error about one field or parameter.
func invalid(path, format string, args ...any) error {
	return &vault.InvalidError{Fields: map[string][]string{path: {fmt.Sprintf(format, args...)}}}
}

// errorBody is the body of every error response.
type errorBody struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors,omitempty"`
}

// describe turns an error into the body that a caller sees. The cause of a
// server error is left out.
func describe(err error) errorBody {
	var b errorBody
	b.Status, b.Detail = fault.Status(err)
	b.Detail = cmp.Or(b.Detail, detailInternal)
	for own, status := range statuses {
		if errors.Is(err, own) {
			b.Status, b.Detail = status, fault.Detail(own)
		}
	}
	b.Title = http.StatusText(b.Status)
	if errors.Is(err, vault.ErrWithdrawn) {
		b.Title = fault.Detail(vault.ErrWithdrawn)
		b.Detail = "A token that the run used, or a cvc that it saw, no longer exists. The code does not run again under this idempotency key."
	}
	var bad *vault.InvalidError
	if errors.As(err, &bad) {
		b.Title, b.Errors = titleInvalid, firstFields(bad.Fields)
		if b.Status == http.StatusBadRequest {
			b.Detail = detailInvalid
		}
	}
	var taken *vault.ConflictError
	if errors.As(err, &taken) {
		b.Detail, b.Errors = "The request has values that are taken; errors lists them.", firstFields(taken.Fields)
	}
	var failed *script.Error
	if errors.As(err, &failed) && failed.Status != 0 {
		b.Title, b.Status, b.Detail, b.Errors = failed.Title, failed.Status, fault.Detail(failed), failed.Messages
	}
	return b
}

// Limits on the field names of a request that an error repeats.
const (
	maxErrors    = 100
	maxErrorPath = 1000 // bytes
)

// firstFields keeps the response small when a body has thousands of bad fields.
func firstFields(all map[string][]string) map[string][]string {
	kept := make(map[string][]string, min(len(all), maxErrors))
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if len(kept) == maxErrors {
			break
		}
		messages := all[path]
		kept[path[:min(len(path), maxErrorPath)]] = messages[:min(len(messages), maxErrors)]
	}
	return kept
}

// refuse returns the response to a request that failed. The second result is
// the cause if the server is at fault. It is nil if the caller or a tenant's
// code is at fault, or if the server is being stopped. The response mentions
// the log only if the cause is logged.
func refuse(err error, logged bool) (answer, error) {
	var failed *script.Error
	byCode := errors.As(err, &failed)
	if byCode && failed.Response != nil {
		return customAnswer(failed.Response), nil
	}
	body := describe(err)
	if logged && body.Detail == detailInternal {
		body.Detail = detailLogged
	}
	text, encErr := encode(body)
	if encErr != nil {
		return answer{status: http.StatusInternalServerError}, errors.Join(err, encErr)
	}
	a := answer{status: body.Status, body: text}
	var r *refusal
	switch {
	case errors.As(err, &r):
		a.header = r.header
	case body.Status == http.StatusTooManyRequests, body.Status == http.StatusServiceUnavailable && !byCode, errors.Is(err, vault.ErrInProgress):
		a.header = http.Header{headerRetryAfter: {"1"}}
	}
	if body.Status < http.StatusInternalServerError || byCode || errors.Is(err, errDraining) {
		return a, nil
	}
	return a, err
}

// StatusOf returns the HTTP status that [WriteError] gives an error.
func StatusOf(err error) int {
	a, _ := refuse(arrived(err), false)
	return a.status
}

// arrived converts the errors of reading a body to errors of this package.
func arrived(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return bodyError(err, over.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlowBody
	}
	return err
}

// WriteError writes an error as a response, in the form of the REST API. It
// is for a program's own handlers that call the vault. An error of the vault
// gets the same status and the same sentence as in the REST API. An error of
// [http.MaxBytesReader] gets a 413, and a body that did not arrive in time
// gets a 408. Any other error gets a 500. A response that a tenant's code
// built cannot act as a page of the program: see [Options.RawProxy].
//
// Only sentences of the vault leave the program. Text that the program wrapped
// around an error of the vault, or joined to it, does not. A program that
// makes a [vault.InvalidError] chooses the sentences in it.
//
// [ErrorWriter] also logs the cause of a 500.
func WriteError(w http.ResponseWriter, err error) {
	_, _ = writeError(w, arrived(err), nil, defaultPrefix)
}

// ErrorWriter writes errors as [WriteError] does. It also gives each response
// the trace id of its request, and logs under it why the server failed:
//
//	errs := &httpserver.ErrorWriter{Logger: logger}
//	mux.HandleFunc("GET /patients/{id}", func(w http.ResponseWriter, r *http.Request) {
//		if err := show(w, r); err != nil {
//			errs.Write(w, r, fmt.Errorf("show a patient: %w", err))
//		}
//	})
type ErrorWriter struct {
	// Logger gets a line for each error with a status of 500 or more, with the
	// whole text of the error, the program's own text included. Default: no
	// logging.
	Logger *slog.Logger

	// Prefix starts the name of the header with the trace id, as in
	// [Options.Prefix]. Default "SVC-".
	Prefix string
}

// Write writes an error as the response to a request.
func (e *ErrorWriter) Write(w http.ResponseWriter, r *http.Request, err error) {
	prefix := cmp.Or(e.Prefix, defaultPrefix)
	name := namesOf(prefix).traceID
	id := trace.OfRequest(r, prefix, name).ID
	w.Header().Set(name, id)
	status, cause := writeError(w, arrived(err), e.Logger, prefix)
	if e.Logger != nil && cause != nil && r.Context().Err() == nil {
		e.Logger.ErrorContext(r.Context(), "request", "trace_id", id, "method", trace.MethodLabel(r.Method),
			"route", cmp.Or(r.Pattern, unmatched), "status", status, "error", cause.Error())
	}
}

// writeError writes an error, and returns the status and the cause if the
// server is at fault.
func writeError(w http.ResponseWriter, err error, logger *slog.Logger, prefix string) (int, error) {
	a, cause := refuse(err, logger != nil)
	if choseAnswer(err) {
		disarmChosen(a.header, prefix)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	maps.Copy(header, a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // if the caller has gone, there is no one to report the error to
	return a.status, cause
}

// refuse returns the response to this request, which failed. A response that
// a tenant's code built cannot set the server's own headers. A header marks
// it, because otherwise its body could pass for an error of the vault. A
// browser does not run it, because the page would belong to the vault's
// origin.
func (x *exchange) refuse(err error) (a answer, cause error) {
	a, cause = refuse(err, x.handler.logs)
	if choseAnswer(err) {
		if prefix := x.handler.opts.Prefix; x.handler.opts.RawProxy {
			maps.DeleteFunc(a.header, func(name string, _ []string) bool { return owns(name, prefix) })
		} else {
			disarmChosen(a.header, prefix)
		}
		a.header.Set(x.handler.header.custom, "true")
	}
	return a, cause
}

// choseAnswer reports whether a tenant's code built the whole response.
func choseAnswer(err error) bool {
	var failed *script.Error
	return errors.As(err, &failed) && failed.Response != nil
}
