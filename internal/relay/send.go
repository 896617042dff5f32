package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/egress"
)

// Request is a request to a destination. Its method and headers must have
// been checked.
type Request struct {
	Method string
	URL    *url.URL
	Message
	// Stream, if not nil, replaces Message.Body and is not held in memory. It
	// has ContentLength bytes; 0 and -1 mean unknown.
	Stream        io.Reader
	ContentLength int64
	Close         bool // do not reuse the connection
	// BodyOnly refuses expressions elsewhere that name tokens which may only be
	// used in a body, because the sender expects the data there.
	BodyOnly bool
	// BoundOnly refuses tokens whose use is not limited to destinations.
	BoundOnly bool
}

// ErrSilent is the cause of a context that ended because the destination was
// silent for too long.
var ErrSilent = errors.New("the destination was silent for too long")

// send calls the destination of a request for a caller and returns its response. The
// body is not read yet.
func (r *Relay) send(ctx context.Context, caller egress.Caller, out *Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	wait := &stopwatch{limit: r.Timeout, timer: time.AfterFunc(r.Timeout, func() { cancel(ErrSilent) })}
	body := &requestBody{Reader: out.Stream, wait: wait}
	req, err := out.build(ctx, body)
	if err != nil {
		wait.end()
		cancel(nil)
		return nil, err
	}
	res, err := r.Egress.DoAs(req, caller)
	wait.end()
	if err != nil {
		defer cancel(nil)
		if failed := body.failure(); failed != nil {
			return nil, failed // reading the caller's body failed, not the destination
		}
		return nil, sendError(ctx, err)
	}
	res.Body = &answerBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, wait: wait}
	return res, nil
}

// build returns the HTTP request. A body in memory can be sent again if an
// idle connection turns out to be dead; a stream cannot.
func (r *Request) build(ctx context.Context, stream io.ReadCloser) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, "/", bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.URL, req.Header, req.Close = r.URL, r.Header, r.Close
	if r.Stream != nil {
		req.Body, req.GetBody, req.ContentLength = stream, nil, r.ContentLength
		if req.ContentLength == 0 {
			req.ContentLength = -1
		}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = []string{""} // otherwise net/http would send its own
	}
	return req, nil
}

// stopwatch ends a request if the destination takes too long. Time spent
// waiting for the caller does not count.
type stopwatch struct {
	limit time.Duration
	timer *time.Timer

	mu    sync.Mutex
	ended bool // the rest of the request's body no longer matters
}

// pause stops the time before the request's body is read, and starts it again
// afterwards.
func (w *stopwatch) pause(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case on:
		w.timer.Stop()
	default:
		w.timer.Reset(w.limit)
	}
}

// end ends the wait: there is a response, or there will be none.
func (w *stopwatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}

// requestBody is the body of a request. It records why reading it failed.
type requestBody struct {
	io.Reader
	wait *stopwatch

	mu  sync.Mutex
	err error
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.wait.pause(true)
	n, err := b.Reader.Read(p)
	b.wait.pause(false)
	if err != nil && err != io.EOF {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

// Close does nothing, because the body belongs to the caller.
func (b *requestBody) Close() error { return nil }

func (b *requestBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// answerBody is the body of a response. Reading fails if the destination is
// silent for too long.
type answerBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   *stopwatch
	whole  bool // the time limit applies to the whole body, not to each part
}

// Hurry limits the time for the whole body of a response to the time for one
// part. It is for responses that are useless until they are complete.
func Hurry(res *http.Response) {
	if b, ok := res.Body.(*answerBody); ok {
		b.whole = true
		b.wait.timer.Reset(b.wait.limit)
	}
}

func (b *answerBody) Read(p []byte) (int, error) {
	if !b.whole {
		b.wait.timer.Reset(b.wait.limit)
		defer b.wait.timer.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		return n, sendError(b.ctx, err)
	}
	return n, err
}

func (b *answerBody) Close() error {
	b.wait.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
