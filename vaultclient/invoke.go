package vaultclient

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// InvokeProxy sends a request through a proxy of the vault. See
// [vault.Client.InvokeProxy]. Only the context limits it. It is never sent a
// second time, unless the program's own Transport does that.
//
// After a failure, InvokeProxy stops reading the body. It waits at most one
// second for a Read in progress, because a blocked Read cannot be
// interrupted.
//
// Headers with the API's prefix are not forwarded in either direction. The
// server decides MaxBody. If the call has no Accept-Encoding, the client
// sends identity. If the destination stops in the middle of its response,
// reading fails with [vault.ErrUnreachable].
func (c *Client) InvokeProxy(ctx context.Context, p vault.ProxyCall) (*vault.ProxyAnswer, error) {
	ctx, end := c.tell(ctx, &core.VerbInvokeProxy)
	answer, err := c.invokeProxy(ctx, p)
	end(err)
	return answer, err
}

func (c *Client) invokeProxy(ctx context.Context, p vault.ProxyCall) (*vault.ProxyAnswer, error) {
	op := core.VerbInvokeProxy.Name
	body := &sentBody{Reader: p.Body, reading: make(chan struct{}, 1)}
	req, err := c.proxyRequest(ctx, &p, body)
	if err != nil {
		return nil, err
	}
	res, err := c.opts.Transport.RoundTrip(req)
	if err != nil {
		body.end()
		return nil, c.lost(ctx, op, err)
	}
	if res.Header.Get(c.name.destinationStatus) == "" {
		err := c.proxyRefusal(ctx, op, res)
		res.Body.Close()
		body.end()
		return nil, err
	}
	egress.RemoveHopByHop(res.Header)
	c.dropOwn(res.Header)
	return &vault.ProxyAnswer{Status: res.StatusCode, Header: res.Header, Body: &answerBody{res.Body, ctx, body}}, nil
}

// proxyPath is where proxies are invoked.
const proxyPath = "/proxy"

// proxyRequest builds the request to the vault. It rejects anything that a
// server could mistake for a different request.
func (c *Client) proxyRequest(ctx context.Context, p *vault.ProxyCall, body *sentBody) (*http.Request, error) {
	if err := c.checkProxyCall(p); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, "/", nil)
	if err != nil {
		return nil, invalid("method", "must be the name of an HTTP method")
	}
	if req.URL, err = c.at(proxyPath+p.Path, p.Query); err != nil {
		return nil, err
	}
	if p.Body != nil {
		req.Body, req.ContentLength = body, p.ContentLength
		if req.ContentLength == 0 {
			req.ContentLength = -1
		}
	}
	if req.Header, err = c.proxyHeader(ctx, p); err != nil {
		return nil, err
	}
	sendOnce(req)
	return req, nil
}

// sendOnce prevents net/http from sending a request again when a reused
// connection breaks. Net/http does so for methods that it considers safe,
// if the request has no body. It also does so for requests with one of two
// headers, which it looks up only by canonical name. The bytes on the wire
// stay the same.
func sendOnce(req *http.Request) {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		if req.Body == nil || req.Body == http.NoBody {
			req.Body = io.NopCloser(strings.NewReader(""))
			req.TransferEncoding = []string{"identity"} // so that no header announces a body
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := req.Header[name]; ok {
			delete(req.Header, name)
			req.Header[strings.ToLower(name)] = values
		}
	}
}

// checkProxyCall rejects paths and queries that would not arrive unchanged.
func (c *Client) checkProxyCall(p *vault.ProxyCall) error {
	switch {
	case p.Method == http.MethodConnect:
		return invalid("method", "must not be CONNECT")
	case p.Path != "" && p.Path[0] != '/':
		return invalid("path", "must start with a slash")
	case hasDotSegment(p.Path):
		return invalid("path", "must not have dot segments")
	case strings.ContainsFunc(p.Query, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return invalid("query", "must not have spaces or control characters")
	}
	own := strings.ToLower(c.opts.Prefix) + "proxy-key"
	for pair := range strings.SplitSeq(p.Query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && strings.EqualFold(plain, own) {
			return invalid("query", "must not have the parameter "+own+", which names a proxy")
		}
	}
	return nil
}

// hasDotSegment reports whether a path could lead to another endpoint of the
// vault. A server in between may decode the path, or treat backslashes as
// slashes.
func hasDotSegment(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path // an invalid escape is rejected elsewhere
	}
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	return slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "." || name == ".."
	})
}

// proxyHeader returns the headers to forward, and the headers for the vault.
func (c *Client) proxyHeader(ctx context.Context, p *vault.ProxyCall) (http.Header, error) {
	header := http.Header{}
	for name, values := range p.Header {
		name = http.CanonicalHeaderKey(name)
		header[name] = append(header[name], values...)
	}
	egress.RemoveHopByHop(header)
	c.dropOwn(header)
	for _, name := range []string{"Host", "Content-Length", "Expect"} {
		header.Del(name)
	}
	if header.Get("Accept-Encoding") == "" {
		header.Set("Accept-Encoding", "identity") // otherwise net/http would request gzip and unpack it
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // otherwise net/http would send its own
	}
	destination := p.URL
	if p.Key != "" {
		destination = ""
	}
	apiKey, err := c.apiKey(ctx)
	if err != nil {
		return nil, err
	}
	setAll(header.Set, map[string]string{
		c.name.apiKey: apiKey, c.name.proxyKey: p.Key, c.name.proxyURL: destination,
		c.name.proxyKeepAlive: p.KeepAlive, c.name.proxyConnection: p.Connection,
	})
	c.setTrace(ctx, header)
	if err := egress.CheckHeader(header); err != nil {
		return nil, invalid("headers", err.Error())
	}
	return header, nil
}

// dropOwn removes the headers between the caller and the vault.
func (c *Client) dropOwn(header http.Header) {
	maps.DeleteFunc(header, func(name string, _ []string) bool { return c.isOwn(name) })
}

// proxyRefusal returns the error for a response that is not the
// destination's.
func (c *Client) proxyRefusal(ctx context.Context, op string, res *http.Response) error {
	a, err := c.read(ctx, res)
	switch {
	case err != nil:
		return c.lost(ctx, op, err)
	case int64(len(a.body)) > c.opts.MaxAnswer:
		return c.tooLarge(op, a)
	case c.isChosen(a):
		return c.chosen(a)
	}
	var body struct {
		Error errorBody `json:"proxy_error"`
	}
	e := a.refused(op, &body, &body.Error, proxyKinds)
	for _, field := range []string{"key", "url", "connection"} { // in REST they are headers
		header := c.opts.Prefix + "PROXY-" + strings.ToUpper(field)
		if messages := body.Error.Errors[header]; messages != nil {
			delete(body.Error.Errors, header)
			body.Error.Errors[field] = messages
		}
	}
	return e
}

// sentBody is the body of a request, which belongs to the caller. It is not
// read after the response is closed, or if there is no response.
type sentBody struct {
	io.Reader
	ended   atomic.Bool
	reading chan struct{} // full during a Read
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if b.ended.Load() {
		return 0, io.ErrClosedPipe
	}
	return b.Reader.Read(p)
}

// lastRead is how long to wait for a Read in progress.
const lastRead = time.Second

// end prevents further Reads, and waits for a Read in progress.
func (b *sentBody) end() {
	b.ended.Store(true)
	timer := time.NewTimer(lastRead)
	defer timer.Stop()
	select {
	case b.reading <- struct{}{}:
		<-b.reading
	case <-timer.C:
	}
}

// Close does nothing, because the body belongs to the caller.
func (b *sentBody) Close() error { return nil }

// answerBody is the body of a destination's response.
type answerBody struct {
	io.ReadCloser
	ctx  context.Context
	sent *sentBody
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	default:
		return n, fault.New(vault.ErrUnreachable, "the destination could not be reached, or its response was cut off or is not HTTP")
	}
}

func (b *answerBody) Close() error {
	b.sent.ended.Store(true)
	return b.ReadCloser.Close()
}
