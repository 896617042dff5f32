package forward

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/storage"
)

// patience is how long a client may take for the next part of a request or of a
// response.
const patience = time.Minute

// exchange is a request and its response. The goroutine that sends the body of the
// request may outlive the exchange.
type exchange struct {
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.Reader

	mu    sync.Mutex
	ended bool
}

// send forwards a request and relays the response. The client may close its half
// of the connection after the request, so only a failed write ends the relay.
func (p *Proxy) send(w http.ResponseWriter, r *http.Request, caller core.Caller, to string) error {
	count := func(cost int) error {
		if p.Limit != nil && !p.Limit(r, caller, cost) {
			return fault.New(fault.ErrBusy, "too many requests; try again later")
		}
		return nil
	}
	if err := count(1); err != nil {
		return err
	}
	room := caller.Room(count)
	defer room.Leave()
	ctx := trace.With(storage.OneWait(room.In(context.WithoutCancel(r.Context()))), trace.Trace{Prefix: p.Prefix})
	call := &relay.Call{URL: to, Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone()}
	relay.DropPrefixed(call.Header, "Proxy-")
	x := &exchange{w: w, control: http.NewResponseController(w), body: r.Body}
	defer x.end()
	if r.ContentLength != 0 {
		call.Body, call.ContentLength = x, r.ContentLength
	}
	answer, err := core.Do(ctx, caller, &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*relay.Answer, error) {
		return p.Relay.Forward(ctx, op, call)
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	x.relay(r.Method, answer)
	return nil
}

// Read reads the body of the request.
func (x *exchange) Read(p []byte) (int, error) {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	_ = x.control.SetReadDeadline(time.Now().Add(patience))
	x.mu.Unlock()
	n, err := x.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.New(fault.ErrTimeout, "the body was cut off or did not arrive in time")
	}
	return n, err
}

// end gives the connection back to the server.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

// relay sends the response of the destination to the client. If it is cut off, so
// is the connection to the client.
func (x *exchange) relay(method string, answer *relay.Answer) {
	_ = x.control.EnableFullDuplex() // the destination may respond before it has read the request
	header := x.w.Header()
	for name, values := range answer.Header {
		header[name] = values
	}
	if header.Get("Content-Type") == "" {
		header["Content-Type"] = nil // net/http would guess one
	}
	x.w.WriteHeader(answer.Status)
	if method == http.MethodHead {
		return
	}
	buffer := make([]byte, 32<<10)
	for flush := header.Get("Content-Length") == ""; ; {
		n, err := answer.Body.Read(buffer)
		_ = x.control.SetWriteDeadline(time.Now().Add(patience))
		if _, failed := x.w.Write(buffer[:n]); failed != nil || err != nil && err != io.EOF {
			panic(http.ErrAbortHandler) // so that half a response is not mistaken for a whole one
		}
		if err == io.EOF {
			return
		}
		if flush {
			_ = x.control.Flush()
		}
	}
}

// statuses maps errors to HTTP statuses. An error that matches no row is a 500.
var statuses = []struct {
	err    error
	status int
}{
	{fault.ErrUnauthenticated, http.StatusProxyAuthRequired},
	{fault.ErrForbidden, http.StatusForbidden},
	{fault.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{fault.ErrInvalid, http.StatusBadRequest},
	{fault.ErrBusy, http.StatusTooManyRequests},
	{fault.ErrTimeout, http.StatusRequestTimeout},
	{fault.ErrUnreachable, http.StatusBadGateway},
	{fault.ErrUnavailable, http.StatusServiceUnavailable},
}

// refuse responds with an error, in the form that /proxy of the REST API has.
func refuse(w http.ResponseWriter, err error) {
	status, detail := http.StatusInternalServerError, "The request could not be processed."
	for _, row := range statuses {
		if errors.Is(err, row.err) {
			status, detail = row.status, fault.Detail(err)
			break
		}
	}
	problem := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
	if fields := fault.Fields(err); fields != nil {
		problem["errors"] = fields
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	switch status {
	case http.StatusProxyAuthRequired:
		header.Set("Proxy-Authenticate", `Basic realm="vault"`)
		header.Set("Connection", "close")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	// Some SDKs take a body without the member error for a success, whatever its status.
	body := map[string]any{"proxy_error": problem, "error": map[string]string{"message": detail}}
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}
