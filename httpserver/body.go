package httpserver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// smallBody is the most memory, in bytes, that a Content-Length header can
// reserve. Beyond that, the buffer grows only with the bytes that have
// arrived.
const smallBody = 16 << 10

// body reads the body, within the limits on size and time.
func (x *exchange) body() ([]byte, error) {
	limit := x.handler.opts.MaxBody
	if x.r.Body == nil { // a request that did not come through a server
		return nil, nil
	}
	if x.r.ContentLength > limit {
		return nil, fault.New(vault.ErrTooLarge, "the body must have at most %d bytes", limit)
	}
	x.deadline(time.Now().Add(x.bodyTimeout()))
	body, err := x.receive(http.MaxBytesReader(x.w, x.r.Body, limit))
	if err != nil {
		return nil, bodyError(err, limit)
	}
	x.read = true
	x.deadline(time.Time{}) // otherwise it would end the request while it is being handled
	return body, x.room.Parse(x.ctx, body)
}

// receive reads a body to its end. The buffer grows with the bytes that have
// arrived, not with the announced length, because announcing costs nothing.
func (x *exchange) receive(from io.Reader) ([]byte, error) {
	size := smallBody
	if n := x.r.ContentLength; n >= 0 && n < smallBody {
		size = int(n) + 1 // so that the end is seen without another allocation
	}
	body := make([]byte, 0, size)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == cap(body):
			if err := x.room.Arrive(x.ctx, cap(body)); err != nil {
				_, _ = io.Copy(io.Discard, from) // a caller that is still sending may not read the response yet
				return nil, err
			}
			body = append(make([]byte, 0, 2*cap(body)), body...)
		}
	}
}

// bodyError turns an error of reading a body into an error for the caller.
func bodyError(err error, limit int64) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return fault.New(vault.ErrTooLarge, "the body must have at most %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlowBody
	case errors.Is(err, vault.ErrUnavailable), errors.Is(err, vault.ErrTooLarge):
		return err
	default:
		return invalid("", "The body was cut off.")
	}
}

// deadline sets the read deadline of the connection. It has no effect if the
// ResponseWriter cannot set one.
func (x *exchange) deadline(t time.Time) {
	if x.r.ContentLength != 0 {
		_ = http.NewResponseController(x.w).SetReadDeadline(t)
	}
}

// bodyTimeout returns how long a body may take to arrive:
// Options.BodyTimeout, or the server's ReadTimeout if that is shorter.
func (x *exchange) bodyTimeout() time.Duration {
	limit := x.handler.opts.BodyTimeout
	if srv := x.server(); srv != nil && srv.ReadTimeout > 0 {
		limit = min(limit, srv.ReadTimeout)
	}
	return limit
}

// server returns the [http.Server] that received the request, or nil if
// another kind of server did.
func (x *exchange) server() *http.Server {
	srv, _ := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	return srv
}
