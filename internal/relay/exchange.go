package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

// forwardPatience is how long a client may take for the next part of a request or of a
// response.
const forwardPatience = time.Minute

// exchange is a request and its response.
type exchange struct {
	*ForwardProxy
	w      http.ResponseWriter
	r      *http.Request // its context has the trace
	caller core.Caller
	jwt    string // that identified the caller, with its application; or ""
	line   trace.Line
	broken bool // the response was cut off
}

// send forwards the request and relays the response. The client may close its half
// of the connection after the request, so only a failed write ends the exchange.
func (x *exchange) send(to string) error {
	room := x.caller.Room(x.count)
	defer room.Leave()
	ctx := storage.OneWait(room.In(context.WithoutCancel(x.r.Context())))
	call := &Call{URL: to, Method: x.r.Method, Path: x.r.URL.EscapedPath(), Query: x.r.URL.RawQuery, Header: x.r.Header.Clone()}
	DropPrefixed(call.Header, "Proxy-")
	body := NewUpload(x.w, x.r, forwardPatience, bodyError)
	defer body.End()
	if !body.Done() {
		call.Body, call.ContentLength = body, x.r.ContentLength
	}
	answer, err := core.Do(ctx, x.caller, &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*Answer, error) {
		return x.Relay.Forward(ctx, op, call)
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_ = http.NewResponseController(x.w).EnableFullDuplex() // the destination may respond before it has read the request
	maps.Copy(x.w.Header(), answer.Header)
	x.line.Status = answer.Status
	x.broken = true // also if the relay panics
	_, x.broken = answer.CopyTo(x.w, x.r.Method, forwardPatience)
	return nil
}

// count counts tokens, or the request itself, against the limit of the caller.
func (x *exchange) count(cost int) error {
	if x.Limit != nil && !x.Limit(x.r, x.caller, cost) {
		return fault.New(fault.ErrBusy, "too many requests; try again later")
	}
	return nil
}

// bodyError returns the error for a body that cannot be read.
func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.New(fault.ErrTimeout, "the body did not arrive in time")
	}
	return fault.Field("", "must have a whole body: the body was cut off")
}

// refuse responds with an error, in the form that /proxy of the REST API has.
func (x *exchange) refuse(err error) {
	status, detail := fault.Status(err)
	detail = cmp.Or(detail, "The request could not be processed.")
	x.line.Reason = fault.Reason(err)
	if status >= http.StatusInternalServerError {
		x.line.Cause = err
	}
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	switch status {
	case http.StatusUnauthorized:
		status = http.StatusProxyAuthRequired
		header.Set("Proxy-Authenticate", `Basic realm="vault"`)
		header.Set("Connection", "close")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	}
	problem := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
	if bad, ok := errors.AsType[*fault.Invalid](err); ok {
		problem["errors"] = bad.Fields
		detail = fault.Detail(bad)
	}
	x.line.Status = status
	x.w.WriteHeader(status)
	// Some SDKs take a body without the member error for a success, whatever its status.
	body := map[string]any{"proxy_error": problem, "error": map[string]string{"message": detail}}
	_ = json.NewEncoder(x.w).Encode(body) // the client may have left
}
