package vaultclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/trace"
	"github.com/seed-72ea4aab/vault/script"
)

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	trace  string
	body   []byte
}

func (a *answer) isJSON() bool {
	typ, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return err == nil && typ == contentJSON
}

// fate is what the client knows about a failed call.
type fate uint8

const (
	final   fate = iota // retrying would not help
	undone              // it has not taken effect
	denied              // a server in between claims that it has not taken effect
	unknown             // it may have taken effect
)

// tell notifies the observer of a call, if there is an observer. The caller
// must call the function with the result.
func (c *Client) tell(ctx context.Context, verb *core.Verb) (context.Context, func(error)) {
	if c.opts.Observer == nil {
		return ctx, func(error) {}
	}
	t := trace.Of(ctx)
	return c.opts.Observer.Start(ctx, vault.Event{
		Kind: vault.EventCall, Name: verb.Kind, Method: verb.Name, TraceID: t.ID, Traceparent: t.Parent,
	})
}

// send sends a request until it succeeds or retrying is pointless.
func (c *Client) send(ctx context.Context, r *request) (*answer, error) {
	ctx, end := c.tell(ctx, r.verb)
	a, err := c.attempts(ctx, r)
	end(err)
	return a, err
}

func (c *Client) attempts(ctx context.Context, r *request) (*answer, error) {
	key, err := r.idempotencyKey(ctx)
	if err != nil {
		return nil, err
	}
	repeatable := !r.once || key != ""
	maybeDone := false
	for n := 1; ; n++ {
		a, fate, err := c.attempt(ctx, r, key)
		if err == nil {
			return a, nil
		}
		if maybeDone && r.method == http.MethodDelete && errors.Is(err, vault.ErrNotFound) {
			return a, nil // an attempt whose response was lost has deleted it
		}
		maybeDone = maybeDone || fate == unknown
		if fate == final || fate != undone && !repeatable || n >= c.opts.Retry.Attempts {
			return nil, err
		}
		pause, ok := c.pause(n, err)
		if !ok {
			return nil, err
		}
		if stopped := c.opts.Retry.Sleep(ctx, pause); stopped != nil {
			return nil, fmt.Errorf("vaultclient: %s: %w, while waiting to try again after: %w", r.verb.Name, stopped, err)
		}
	}
}

// pause returns how long to wait after the n-th attempt, and whether to retry
// at all. The random part keeps clients that failed together from retrying
// together.
func (c *Client) pause(n int, err error) (time.Duration, bool) {
	retry := &c.opts.Retry
	limit := pace.Backoff(n, retry.MinDelay, retry.MaxDelay)
	pause := time.Duration(rand.Int64N(int64(limit) + 1)) //nolint:gosec // spreads load, protects nothing
	var e *Error
	if errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause, pause <= retry.MaxDelay
}

// idempotencyKey returns the key for all attempts: the caller's or a random
// one. It returns "" for a call without a key.
func (r *request) idempotencyKey(ctx context.Context) (string, error) {
	if !r.once {
		return "", nil
	}
	key, given := ctx.Value(idempotencyKey{}).(string)
	switch {
	case !given && r.keyless:
		return "", nil
	case !given:
		return uuid.NewString(), nil
	}
	const maxLength = 255
	printable := func(c rune) bool { return c >= ' ' && c <= '~' }
	if key == "" || len(key) > maxLength || strings.TrimSpace(key) != key || strings.ContainsFunc(key, func(c rune) bool { return !printable(c) }) {
		return "", invalid("idempotency_key", "must have 1 to 255 printable ASCII characters, and must not start or end with a space")
	}
	return key, nil
}

// attempt sends a request once. For an error response, it returns both the
// response and the error.
func (c *Client) attempt(ctx context.Context, r *request, key string) (*answer, fate, error) {
	limited, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := c.request(limited, r, key)
	if err != nil {
		return nil, final, err
	}
	res, err := c.opts.Transport.RoundTrip(req)
	if err != nil {
		return nil, fateOf(ctx, err), c.lost(ctx, r.verb.Name, err)
	}
	defer res.Body.Close()
	a, err := c.read(limited, res)
	switch {
	case err != nil:
		return nil, fateOf(ctx, err), c.lost(ctx, r.verb.Name, err)
	case int64(len(a.body)) > c.opts.MaxAnswer:
		return a, final, c.tooLarge(r.verb.Name, a)
	case c.isChosen(a):
		return a, final, c.chosen(a)
	case a.status < 200 || a.status > 299:
		e := refusal(r.verb.Name, a)
		return a, statusFate(e), e
	case r.done != 0 && (a.status != r.done || a.trace == ""):
		return a, final, notAVault(r, a, fmt.Sprintf("it must have status %d and a trace id", r.done))
	}
	return a, final, nil
}

// read reads a response to its end, or to more than may be read. A server that sees
// the client leave may truncate its response, so the end of ctx is an error.
func (c *Client) read(ctx context.Context, res *http.Response) (a *answer, err error) {
	a = c.answer(res)
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, c.opts.MaxAnswer+1)); err == nil {
		err = ctx.Err()
	}
	return a, err
}

// answer returns a response whose body is not read yet.
func (c *Client) answer(res *http.Response) *answer {
	return &answer{status: res.StatusCode, header: res.Header, trace: res.Header.Get(c.name.traceID)}
}

// stream sends a request once, with a body that may be nil. If it succeeds, the body
// of the response is not read yet.
func (c *Client) stream(ctx context.Context, r *request, body io.Reader) (*answer, io.ReadCloser, error) {
	req, err := c.request(ctx, r, "")
	if err != nil {
		return nil, nil, err
	}
	if body != nil {
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(body), -1, nil
	}
	res, err := c.opts.Transport.RoundTrip(req)
	if err != nil {
		return nil, nil, c.lost(ctx, r.verb.Name, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		a, _ := c.read(ctx, res) // without its end, it is not from a vault
		return nil, nil, refusal(r.verb.Name, a)
	}
	return c.answer(res), res.Body, nil
}

// request builds the HTTP request of an attempt.
func (c *Client) request(ctx context.Context, r *request, key string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "/", bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("vaultclient: %s: the request cannot be built", r.verb.Name)
	}
	req.URL, err = c.at(r.path, r.query)
	if err != nil {
		return nil, err
	}
	apiKey, err := c.apiKey(ctx)
	if err != nil {
		return nil, err
	}
	req.Header.Set(c.name.apiKey, apiKey)
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", contentJSON)
	setAll(req.Header.Set, map[string]string{"Content-Type": r.typ, c.name.idempotencyKey: key})
	c.setTrace(ctx, req.Header)
	if r.shows {
		req.Header.Set("Prefer", "return=representation")
	}
	return req, nil
}

// setTrace adds the trace of the call to the request: see
// [vault.WithTraceID].
func (c *Client) setTrace(ctx context.Context, header http.Header) {
	t := trace.Of(ctx)
	t.Prefix = c.opts.Prefix
	t.SetHeaders(header)
}

// at returns the URL of an escaped path below the base URL.
func (c *Client) at(path, query string) (*url.URL, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, invalid("path", "has a % that is not followed by two hexadecimal digits")
	}
	u := *c.base
	u.RawPath = u.EscapedPath() + path
	u.Path += plain
	u.RawQuery = query
	return &u, nil
}

// statusFate returns the fate of a call with an error response. After an
// error of tenant code, a call is not retried.
func statusFate(e *Error) fate {
	var failed *script.Error
	if errors.As(e, &failed) {
		return final
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout:
		if e.own {
			return undone
		}
		return denied
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unknown
	}
	if errors.Is(e, vault.ErrInProgress) {
		return unknown
	}
	return final
}

// fateOf returns the fate of a call after an error of the transport.
func fateOf(ctx context.Context, err error) fate {
	var untrusted *tls.CertificateVerificationError
	var dial *net.OpError
	switch {
	case ctx.Err() != nil, errors.As(err, &untrusted):
		return final
	case errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return undone
	default:
		return unknown
	}
}

// setAll sets the values that are not empty.
func setAll(set func(name, value string), values map[string]string) {
	for name, value := range values {
		if value != "" {
			set(name, value)
		}
	}
}

// lost describes an error of the transport. It unwraps to its cause, but prints the
// cause only if it cannot contain a part of a response.
func (c *Client) lost(ctx context.Context, op string, err error) error {
	var untrusted *tls.CertificateVerificationError
	var network *net.OpError
	text := "the connection broke, or the response is not HTTP"
	switch {
	case ctx.Err() != nil:
		text, err = ctx.Err().Error(), ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no response within %s", c.opts.Timeout)
	case errors.As(err, &untrusted):
		text = untrusted.Error()
	case errors.As(err, &network):
		text = network.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = "the connection was closed before the whole response arrived"
	}
	return &textError{"vaultclient: " + op + ": " + text, []error{err}}
}
