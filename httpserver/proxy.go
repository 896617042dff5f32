package httpserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// proxyPath is where proxies are invoked, alone or with a suffix.
const proxyPath = "/proxy"

// proxySuffix returns the part of the path after /proxy, as it was sent.
func proxySuffix(u *url.URL) (suffix string, ok bool) {
	path := u.RawPath
	if path == "" {
		path = u.EscapedPath()
	}
	suffix, ok = strings.CutPrefix(path, proxyPath)
	return suffix, ok && (suffix == "" || suffix[0] == '/')
}

// serveProxy sends a request through a proxy. The response is the
// destination's, and one of our headers has its status. Without that header,
// the response is an error of the proxy itself.
func (h *handler) serveProxy(w http.ResponseWriter, r *http.Request, suffix string) {
	start := time.Now()
	x := &exchange{endpoint: h.proxy, w: w, r: r}
	x.ctx, x.trace = h.traced(r)
	body := &incoming{x: x, patience: newPatience(x.bodyTimeout(), minUploadRate)}
	defer body.end()
	defer x.end()
	res, a, cause := x.forward(suffix, body)
	x.read = body.isRead()
	var broken bool
	if res == nil {
		x.send(a)
	} else {
		a.status = res.Status
		a.streamed, broken = x.relay(res)
	}
	if r.Context().Err() != nil && (cause != nil || broken) {
		a.status, cause = statusGone, nil
	}
	x.report(a, cause, time.Since(start))
	if broken {
		panic(http.ErrAbortHandler) // so that the caller does not mistake half a response for a whole one
	}
}

// forward returns the destination's response. If the destination sent none,
// it returns a response of the server.
func (x *exchange) forward(suffix string, body *incoming) (res *vault.ProxyAnswer, a answer, cause error) {
	defer func() {
		if p := recover(); p != nil {
			res = nil
			a, cause = x.refuseProxy(panicError(p))
		}
	}()
	if x.handler.origins.admit(x.w.Header(), x.r) && isPreflight(x.r) {
		return nil, answer{status: http.StatusNoContent, header: x.handler.origins.preflightProxy(x.r)}, nil
	}
	res, err := x.invoke(suffix, body)
	if err != nil {
		a, cause = x.refuseProxy(err)
		return nil, a, cause
	}
	return res, answer{}, nil
}

// invoke calls the proxy as the caller, or without an identity if the request
// has no key.
func (x *exchange) invoke(suffix string, body *incoming) (*vault.ProxyAnswer, error) {
	h := x.handler
	err := h.checkDestination(x.r)
	if err != nil {
		return nil, err
	}
	if x.client, err = x.caller(); err != nil {
		return nil, err
	}
	call, err := x.proxyCall(suffix)
	if err != nil {
		return nil, err
	}
	if x.r.ContentLength != 0 && x.r.Body != nil {
		call.Body, call.ContentLength = body, x.r.ContentLength
	}
	if x.client != nil {
		if err := x.admit(x.client); err != nil {
			return nil, err
		}
		return x.client.InvokeProxy(x.ctx, call)
	}
	if err := x.admitAnonymous(call.Key); err != nil {
		return nil, err
	}
	return h.vault.InvokeProxy(x.ctx, call)
}

// admitAnonymous admits a proxy call without an API key. A proxy key that
// does not exist is not counted, because a caller can invent any number of
// those.
func (x *exchange) admitAnonymous(proxyKey string) error {
	if proxyKey == "" {
		return nil
	}
	caller, err := x.handler.vault.ProxyClient(x.ctx, proxyKey)
	if err != nil {
		return err
	}
	return x.admit(caller)
}

// proxyCall reads from the request which proxy to call and what to forward.
func (x *exchange) proxyCall(suffix string) (vault.ProxyCall, error) {
	h := x.handler
	call := vault.ProxyCall{
		Method: x.r.Method, Path: suffix, Header: h.forwardedHeader(x.r), MaxBody: h.opts.MaxBody,
		Origin: originOf(x.r, h.opts.TrustedProxies),
	}
	var inQuery []string
	call.Query, inQuery = cutParameter(x.r.URL.RawQuery, strings.ToLower(h.opts.Prefix+"PROXY-KEY"))
	bad := &vault.InvalidError{Fields: map[string][]string{}}
	one := func(name string, values []string) string {
		if len(values) > 1 {
			bad.Fields[name] = []string{"must be given only once"}
		}
		if len(values) == 0 {
			return ""
		}
		return values[0]
	}
	own := func(name string) string { return one(h.opts.Prefix+name, x.r.Header.Values(h.opts.Prefix+name)) }
	call.Key, call.URL = own("PROXY-KEY"), own("PROXY-URL")
	call.KeepAlive, call.Connection = own("PROXY-KEEP-ALIVE"), own("PROXY-CONNECTION")
	if call.Key == "" {
		call.Key = one(strings.ToLower(h.opts.Prefix)+"proxy-key", inQuery)
	}
	if len(bad.Fields) > 0 {
		return call, bad
	}
	return call, nil
}

// cutParameter removes a parameter from a query and leaves the rest
// unchanged.
func cutParameter(query, name string) (rest string, values []string) {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(key); err != nil || !strings.EqualFold(plain, name) {
			kept = append(kept, pair)
			continue
		}
		plain, err := url.QueryUnescape(value)
		if err != nil {
			plain = value
		}
		values = append(values, plain)
	}
	return strings.Join(kept, "&"), values
}

// proxyError is the body of an error of the proxy itself.
type proxyError struct {
	ProxyError json.RawMessage `json:"proxy_error"`
}

// refuseProxy returns the response to a request that failed before the
// destination responded.
func (x *exchange) refuseProxy(err error) (answer, error) {
	a, cause := x.refuse(err)
	if choseAnswer(err) {
		return a, cause
	}
	body, encErr := encode(proxyError{a.body})
	if encErr != nil {
		return answer{status: http.StatusInternalServerError}, errors.Join(cause, encErr)
	}
	a.body = body
	return a, cause
}

func hasPrefixFold(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// relay streams the destination's response to the caller. It returns how many
// bytes of the body were sent, and whether it had to stop early.
func (x *exchange) relay(res *vault.ProxyAnswer) (sent int, broken bool) {
	defer res.Body.Close()
	control := http.NewResponseController(x.w)
	if !x.read {
		_ = control.EnableFullDuplex() // the destination may still be reading
	}
	x.relayHeader(res)
	x.w.WriteHeader(res.Status)
	if x.r.Method == http.MethodHead {
		return 0, false
	}
	flush := res.Header.Get("Content-Length") == ""
	if flush {
		_ = control.Flush() // the first bytes may take long to arrive
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	for {
		n, readErr := res.Body.Read(*buffer)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(x.handler.opts.BodyTimeout))
			if _, err := x.w.Write((*buffer)[:n]); err != nil {
				return sent, true
			}
			sent += n
			if flush {
				_ = control.Flush()
			}
		}
		if readErr != nil {
			return sent, readErr != io.EOF
		}
	}
}

// buffers holds the buffers for copying responses.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// relayHeader sets the destination's headers and ours. If [Options.Origins]
// is set, it decides which pages may read the response, and the destination
// does not.
func (x *exchange) relayHeader(res *vault.ProxyAnswer) {
	h, header := x.handler, x.w.Header()
	if !h.opts.RawProxy {
		disarm(res.Header)
	}
	for name, values := range res.Header {
		if h.origins != nil && strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		header[name] = append(header[name], values...)
	}
	if header.Get("Content-Type") == "" {
		header["Content-Type"] = nil // net/http would guess one
	}
	header[h.header.traceID] = []string{x.trace}
	header[h.header.destinationStatus] = []string{strconv.Itoa(res.Status)}
}

// incoming is the body of a request to a proxy. It may be streamed for any
// length of time, but has a minimum rate. The goroutine that sends it to the
// destination may outlive the request.
type incoming struct {
	x        *exchange
	patience patience // how long the caller may still keep us waiting

	mu    sync.Mutex
	ended bool // the server has the connection back
	eof   bool
}

func (b *incoming) Read(p []byte) (int, error) {
	start := time.Now()
	if !b.wait(b.patience.until(start)) {
		return 0, io.ErrClosedPipe
	}
	n, err := b.x.r.Body.Read(p)
	b.patience.note(time.Since(start), n)
	switch {
	case err == io.EOF:
		b.wait(time.Time{})
		b.mu.Lock()
		b.eof = true
		b.mu.Unlock()
	case err != nil:
		return n, bodyError(err, 0)
	}
	return n, err
}

// wait sets the time by which the next bytes must arrive. It reports whether
// the connection may still be used.
func (b *incoming) wait(until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.x.deadline(until)
	}
	return !b.ended
}

func (b *incoming) isRead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.eof
}

// end returns the connection to the server, which waits briefly for the rest
// of the body.
func (b *incoming) end() {
	if !b.isRead() {
		b.wait(time.Now().Add(min(lingerTimeout, b.x.bodyTimeout())))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
