package vault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/egress"
)

// send calls the destination and returns its answer, whose body is still to
// come.
func (inv *invocation) send(ctx context.Context) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	wait := newPatience(inv.v.cfg.ProxyTimeout, func() { cancel(ErrTimeout) })
	sent := &sentBody{Reader: inv.stream, wait: wait}
	req, err := inv.request(ctx, sent)
	if err != nil {
		wait.end()
		cancel(nil)
		return nil, err
	}
	res, err := inv.v.egress.Do(req, inv.tenant.String())
	wait.end()
	if err != nil {
		defer cancel(nil)
		if failed := sent.failure(); failed != nil {
			return nil, failed // the caller's body broke off, and not the destination
		}
		return nil, sendError(ctx, err)
	}
	res.Body = &answerBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, wait: wait}
	return res, nil
}

// request builds the request to the destination.
func (inv *invocation) request(ctx context.Context, stream *sentBody) (*http.Request, error) {
	// A body in memory can be sent again when an idle connection turns out to be
	// dead; a stream cannot.
	req, err := http.NewRequestWithContext(ctx, inv.Method, "/", bytes.NewReader(inv.out.body))
	if err != nil {
		return nil, invalid("method", "must be the name of an HTTP method")
	}
	req.URL, req.Header = inv.target, inv.out.header
	if inv.stream != nil {
		req.Body, req.GetBody, req.ContentLength = stream, nil, inv.ContentLength
		if req.ContentLength == 0 {
			req.ContentLength = -1
		}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = []string{""} // else net/http would name itself
	}
	if inv.proxy.ResponseTransform != nil {
		req.Header.Set("Accept-Encoding", "identity") // what the transform can read
	}
	if inv.TraceID != "" {
		req.Header.Set(inv.OwnPrefix+"TRACE-ID", inv.TraceID)
	}
	if inv.KeepAlive != "" {
		req.Header.Set("Keep-Alive", inv.KeepAlive)
	}
	switch connection := strings.ToLower(inv.Connection); connection {
	case "close":
		req.Close = true
	case "keep-alive":
		req.Header.Set("Connection", connection)
	}
	if err := egress.CheckHeader(req.Header); err != nil {
		return nil, invalid("headers", "%s", err.Error())
	}
	return req, nil
}

// sendError says in the vault's own errors why there is no answer.
func sendError(ctx context.Context, err error) error {
	switch {
	case context.Cause(ctx) == ErrTimeout, errors.Is(err, context.DeadlineExceeded):
		return errorf(ErrTimeout, "The destination did not answer in time.")
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, egress.ErrBusy):
		return errorf(ErrBusy, "Too many requests of this tenant are under way; try again later.")
	case errors.Is(err, egress.ErrForbidden):
		return errorf(ErrUnreachable, "The destination is not allowed: %s.", err)
	default:
		return &kindError{ErrUnreachable, "The destination could not be reached, or its answer was broken off or is not HTTP."}
	}
}

// patience ends a request when the destination has kept us waiting for too
// long. Time that passes while we wait for the caller does not count.
type patience struct {
	limit time.Duration
	timer *time.Timer

	mu       sync.Mutex
	answered bool // what is left of the request's body does not matter any more
}

// newPatience starts to wait.
func newPatience(limit time.Duration, lose func()) *patience {
	return &patience{limit: limit, timer: time.AfterFunc(limit, lose)}
}

// pause and resume stand around reads of the request's body.
func (p *patience) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.timer.Stop()
	}
}

func (p *patience) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.timer.Reset(p.limit)
	}
}

// end stops waiting for an answer: there is one, or none will come.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = true
	p.timer.Stop()
}

// sentBody is the body of a request. It remembers why it could not be read.
type sentBody struct {
	io.Reader
	wait *patience

	mu  sync.Mutex
	err error
}

func (b *sentBody) Read(p []byte) (int, error) {
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
func (b *sentBody) Close() error { return nil }

func (b *sentBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// answerBody is the body of an answer, as long as the destination does not fall
// silent.
type answerBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   *patience
	whole  bool // the time is for all of it, not for each piece
}

// hurry gives the destination no more time for the whole body than it otherwise
// has for each piece: nobody sees anything of it before it is complete.
func (b *answerBody) hurry() {
	b.whole = true
	b.wait.timer.Reset(b.wait.limit)
}

func (b *answerBody) Read(p []byte) (int, error) {
	if !b.whole {
		b.wait.timer.Reset(b.wait.limit)
		defer b.wait.timer.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = sendError(b.ctx, err)
	}
	return n, err
}

func (b *answerBody) Close() error {
	b.wait.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
