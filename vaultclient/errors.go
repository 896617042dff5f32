package vaultclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/script"
)

// ErrAnswer means that a response does not come from a vault: a redirect, a
// page of another server, or JSON of another form. The call may or may not
// have taken effect.
var ErrAnswer = errors.New("vaultclient: the response is not from a vault")

// ErrUnseen means that a patch took effect, but its result could not be read.
// The error also wraps the reason, usually [vault.ErrForbidden], because the
// key may change the entity but not read it.
var ErrUnseen = errors.New("vaultclient: the change was made, but its result could not be read")

// Error is an error response. It unwraps to the error that the vault would
// return in process, or to [ErrAnswer], and has the same text. For an
// internal error of the server, it unwraps to neither.
type Error struct {
	// Status is the status of the response.
	Status int
	// TraceID identifies the request in the server's log. It is empty if the
	// response is not from the vault.
	TraceID string
	// RetryAfter is the pause that the server requests, or 0.
	RetryAfter time.Duration

	err error
	// own means that the response came from the vault itself, not from a
	// server in between.
	own bool
}

// Error returns the reason why the vault rejected the call.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error of package vault.
func (e *Error) Unwrap() error { return e.err }

// textError is an error with its own text that wraps others.
type textError struct {
	text string
	errs []error
}

func (e *textError) Error() string   { return e.text }
func (e *textError) Unwrap() []error { return e.errs }

// failure returns an error of a kind about a call.
func failure(kind error, op, format string, args ...any) error {
	return &textError{"vaultclient: " + op + ": " + fmt.Sprintf(format, args...), []error{kind}}
}

// errorBody is the body of an error of the vault.
type errorBody struct {
	Title  string              `json:"title"`
	Status int                 `json:"status"`
	Detail string              `json:"detail"`
	Errors map[string][]string `json:"errors"`
}

// kinds maps statuses to errors.
var kinds = map[int]error{
	http.StatusBadRequest:            vault.ErrInvalid,
	http.StatusUnauthorized:          vault.ErrUnauthenticated,
	http.StatusForbidden:             vault.ErrForbidden,
	http.StatusNotFound:              vault.ErrNotFound,
	http.StatusConflict:              vault.ErrConflict,
	http.StatusRequestEntityTooLarge: vault.ErrTooLarge,
	http.StatusUnprocessableEntity:   vault.ErrCode,
	http.StatusTooManyRequests:       vault.ErrBusy,
	http.StatusServiceUnavailable:    vault.ErrUnavailable,
}

// proxyKinds maps the statuses of a proxy's own responses to errors.
var proxyKinds = func() map[int]error {
	all := maps.Clone(kinds)
	all[http.StatusRequestTimeout], all[http.StatusBadGateway] = vault.ErrTimeout, vault.ErrUnreachable
	return all
}()

// strangeKinds maps statuses to errors if the response came from a server in
// between. The meaning of other statuses, such as 404, is then unknown.
var strangeKinds = map[int]error{
	http.StatusRequestEntityTooLarge:       vault.ErrTooLarge,
	http.StatusRequestURITooLong:           vault.ErrTooLarge,
	http.StatusRequestHeaderFieldsTooLarge: vault.ErrTooLarge,
	http.StatusTooManyRequests:             vault.ErrBusy,
}

// detailKey is the detail of a response when the master key or the tenant's own key
// is denied or unreachable. The response does not say which.
const detailKey = "The key of this tenant is not available."

// refusal returns the error for an error response.
func refusal(op string, a *answer) *Error {
	var body errorBody
	return a.refused(op, &body, &body, kinds)
}

// refused returns the error for a response whose JSON is read into a value that has
// the error body.
func (a *answer) refused(op string, into any, body *errorBody, kinds map[int]error) *Error {
	e := &Error{Status: a.status, TraceID: a.trace, RetryAfter: egress.RetryAfter(a.header)}
	if !a.isJSON() || json.Unmarshal(a.body, into) != nil || body.Title == "" || body.Status != a.status {
		e.err = strange(op, a)
		return e
	}
	e.own = a.trace != ""
	e.err = known(op, e, body, kinds)
	return e
}

// known returns the error that an error body describes.
func known(op string, e *Error, body *errorBody, kinds map[int]error) error {
	if failed := scriptError(body); failed != nil {
		return failed
	}
	kind, detail := kinds[body.Status], body.Detail[:min(len(body.Detail), maxDetail)]
	switch {
	case kind == nil:
		return fmt.Errorf("vaultclient: %s: status %d: %s (trace id %s)", op, body.Status, detail, e.TraceID)
	case errors.Is(kind, vault.ErrInvalid) && len(body.Errors) > 0:
		return &vault.InvalidError{Fields: body.Errors}
	case errors.Is(kind, vault.ErrConflict) && len(body.Errors) > 0:
		return &vault.ConflictError{Fields: body.Errors}
	case errors.Is(kind, vault.ErrConflict) && body.Title == fault.Detail(vault.ErrWithdrawn):
		return vault.ErrWithdrawn
	case errors.Is(kind, vault.ErrConflict) && e.RetryAfter > 0:
		return vault.ErrInProgress
	case errors.Is(kind, vault.ErrUnavailable) && detail == detailKey:
		return vault.ErrKeyUnavailable
	case errors.Is(kind, vault.ErrUnauthenticated):
		return kind
	default:
		return fault.FromDetail(kind, detail)
	}
}

// maxDetail is how many bytes of a response an error repeats.
const maxDetail = 10_000

// strange returns the error for a response without the error body of a vault.
// The error repeats nothing of the body.
func strange(op string, a *answer) error {
	switch {
	case strangeKinds[a.status] != nil:
		return failure(strangeKinds[a.status], op, "status %d", a.status)
	case a.status >= 300 && a.status <= 399:
		return failure(ErrAnswer, op, "status %d; redirects are not followed, because they would get the API key", a.status)
	default:
		return failure(ErrAnswer, op, "status %d, and the response is not from a vault; is the URL the one where the vault is mounted?", a.status)
	}
}

// notAVault returns the error for a response with a status of success that
// does not come from a vault.
func notAVault(r *request, a *answer, why string) error {
	return &Error{Status: a.status, TraceID: a.trace,
		err: failure(ErrAnswer, r.verb.Name, "the response is not from a vault: %s", why)}
}

// tooLarge returns the error for a response that is larger than allowed.
func (c *Client) tooLarge(op string, a *answer) error {
	return &Error{Status: a.status, TraceID: a.trace, err: failure(vault.ErrTooLarge, op,
		"the response has more than %d bytes; ask for less at a time, or raise Options.MaxAnswer", c.opts.MaxAnswer)}
}

// failedCode matches the vault's description of an error of tenant code: its
// kind and the lines in the code.
var failedCode = regexp.MustCompile(`^The code failed \(([a-z]+)\)((?:(?: at|, called from) line [0-9]{1,9})*)\.$`)

var lineNumber = regexp.MustCompile(`[0-9]+`)

// scriptError returns the error of tenant code that a body describes, or nil.
func scriptError(body *errorBody) *script.Error {
	match := failedCode.FindStringSubmatch(body.Detail)
	if match == nil {
		return nil
	}
	e := &script.Error{Kind: script.ErrorKind(match[1]), Status: body.Status, Title: body.Title, Messages: body.Errors}
	for _, text := range lineNumber.FindAllString(match[2], -1) {
		line, _ := strconv.Atoi(text) // has at most nine digits
		e.Frames = append(e.Frames, script.Frame{Line: line})
	}
	return e
}

// byServer are headers that a server sets itself, even if code has set them.
var byServer = map[string]bool{
	"Cache-Control": true, "Content-Security-Policy": true, "X-Content-Type-Options": true, "Content-Length": true, "Date": true, "Vary": true,
}

// plainText is the content type of a body that code returned as a string.
const plainText = "text/plain; charset=utf-8"

// isChosen reports whether tenant code built the whole response. Its body may
// look like anything, even like an error of the vault.
func (c *Client) isChosen(a *answer) bool { return a.header.Get(c.name.custom) != "" }

// chosen returns the error of code that built the whole response.
func (c *Client) chosen(a *answer) *Error {
	res := &script.Response{Status: a.status, Header: http.Header{}, Body: a.body}
	for name, values := range a.header {
		if !byServer[name] && !c.isOwn(name) {
			res.Header[name] = values
		}
	}
	switch res.Header.Get("Content-Type") {
	case plainText:
		res.Body, _ = vault.EncodeJSON(string(a.body)) // cannot fail for a string
		fallthrough
	case contentJSON:
		res.Header.Del("Content-Type")
	}
	return &Error{Status: a.status, TraceID: a.trace,
		err: &script.Error{Kind: script.Thrown, Status: a.status, Response: res}}
}

// isOwn reports whether a header has the API's prefix.
func (c *Client) isOwn(name string) bool {
	n := len(c.opts.Prefix)
	return len(name) >= n && strings.EqualFold(name[:n], c.opts.Prefix)
}
