package fault

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

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
	{ErrInvalid, http.StatusBadRequest, "The request is invalid; errors lists what is wrong with each field."},
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
// see. For an error that is not for callers, it returns 500 and no detail.
func Status(err error) (status int, detail string) {
	for _, row := range statuses {
		if !errors.Is(err, row.err) {
			continue
		}
		if row.detail == "" {
			return row.status, Detail(err)
		}
		return row.status, row.detail
	}
	return http.StatusInternalServerError, ""
}

// Panic describes a panic. The value of a panic may contain card data, so only its
// type is named, except for errors of the Go runtime.
func Panic(p any) error {
	if err, ok := p.(runtime.Error); ok {
		return fmt.Errorf("panic: %w\n%s", err, debug.Stack())
	}
	return fmt.Errorf("panic with a value of type %T\n%s", p, debug.Stack())
}
