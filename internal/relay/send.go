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

// Request is what goes to a destination. Its method and headers must have been
// checked.
type Request struct {
	Method string
	URL    *url.URL
	Message
	// Stream, when set, is the body in place of Message.Body, and not held in
	// memory. It has ContentLength bytes; 0 and -1 mean that this is unknown.
	Stream        io.Reader
	ContentLength int64
	Close         bool // the connection is not used again
}

// Sender sends requests.
type Sender struct {
	Client *egress.Client
	// Stranger says that a stranger calls, who has places apart from the tenant's.
	Stranger bool
	// Timeout is how long a destination may be silent: before its answer, and
	// between one piece of the answer and the next.
	Timeout time.Duration
	// Explain turns an error of the connection into one for the caller.
	Explain func(ctx context.Context, err error) error
}

// ErrSilent is the cause of a context that ended because the destination was
// silent for too long.
var ErrSilent = errors.New("the destination was silent for too long")

// Send calls the destination for a tenant and returns its answer, whose body is
// still to come.
func (s *Sender) Send(ctx context.Context, tenant string, r *Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	wait := newStopwatch(s.Timeout, func() { cancel(ErrSilent) })
	body := &requestBody{Reader: r.Stream, wait: wait}
	req, err := r.build(ctx, body)
	if err != nil {
		wait.end()
		cancel(nil)
		return nil, err
	}
	do := s.Client.Do
	if s.Stranger {
		do = s.Client.DoForStranger
	}
	res, err := do(req, tenant)
	wait.end()
	if err != nil {
		defer cancel(nil)
		if failed := body.failure(); failed != nil {
			return nil, failed // the caller's body broke off, and not the destination
		}
		return nil, s.Explain(ctx, err)
	}
	res.Body = &answerBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, wait: wait, explain: s.Explain}
	return res, nil
}

// build makes the request. A body in memory can be sent again when an idle
// connection turns out to be dead; a stream cannot.
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
		req.Header["User-Agent"] = []string{""} // else net/http would name itself
	}
	return req, nil
}

// stopwatch ends a request when the destination has kept us waiting for too
// long. Time that passes while we wait for the caller does not count.
type stopwatch struct {
	limit time.Duration
	timer *time.Timer

	mu    sync.Mutex
	ended bool // what is left of the request's body does not matter any more
}

// newStopwatch starts to count. expire is called when the limit is reached.
func newStopwatch(limit time.Duration, expire func()) *stopwatch {
	return &stopwatch{limit: limit, timer: time.AfterFunc(limit, expire)}
}

// pause and resume stand around reads of the request's body.
func (w *stopwatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.timer.Stop()
	}
}

func (w *stopwatch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.timer.Reset(w.limit)
	}
}

// end stops waiting for an answer: there is one, or none will come.
func (w *stopwatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}

// requestBody is the body of a request. It remembers why it could not be read.
type requestBody struct {
	io.Reader
	wait *stopwatch

	mu  sync.Mutex
	err error
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.wait.pause()
	n, err := b.Reader.Read(p)
	b.wait.resume()
	if err != nil && err != io.EOF {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

// Close does nothing: the body belongs to the caller.
func (b *requestBody) Close() error { return nil }

func (b *requestBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// answerBody is the body of an answer, as long as the destination does not fall
// silent.
type answerBody struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wait    *stopwatch
	explain func(context.Context, error) error
	whole   bool // the time is for all of it, not for each piece
}

// Hurry gives the destination no more time for the whole body of an answer than
// it otherwise has for each piece: it is of no use before it is complete.
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
		return n, b.explain(b.ctx, err)
	}
	return n, err
}

func (b *answerBody) Close() error {
	b.wait.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
