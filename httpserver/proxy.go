package httpserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/trace"
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
	body := relay.NewUpload(w, r, x.bodyTimeout(), func(err error) error { return bodyError(err, 0) })
	defer body.End()
	defer x.end()
	res, a, cause := x.forward(suffix, body)
	x.read = body.Done()
	var broken bool
	if res == nil {
		x.send(a)
	} else {
		a.status = res.Status
		a.streamed, broken, cause = x.relay(res)
	}
	if r.Context().Err() != nil && (cause != nil || broken) {
		a.status, cause = trace.StatusGone, nil
	}
	x.report(a, cause, time.Since(start))
	if broken {
		panic(http.ErrAbortHandler) // so that the caller does not mistake half a response for a whole one
	}
}

// forward returns the destination's response. If the destination sent none,
// it returns a response of the server.
func (x *exchange) forward(suffix string, body *relay.Upload) (res *vault.ProxyAnswer, a answer, cause error) {
	defer func() {
		if p := recover(); p != nil {
			res = nil
			a, cause = x.refuseProxy(fault.Panic(p))
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
func (x *exchange) invoke(suffix string, body *relay.Upload) (*vault.ProxyAnswer, error) {
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
// bytes of the body were sent, and whether it had to stop early, which is a failure
// of the server after a panic.
func (x *exchange) relay(res *vault.ProxyAnswer) (sent int, broken bool, cause error) {
	defer res.Body.Close()
	defer func() {
		if p := recover(); p != nil {
			broken, cause = true, fault.Panic(p)
		}
	}()
	if !x.read {
		_ = http.NewResponseController(x.w).EnableFullDuplex() // the destination may still be reading
	}
	x.relayHeader(res)
	sent, broken = (*relay.Answer)(res).CopyTo(x.w, x.r.Method, x.handler.opts.BodyTimeout)
	return sent, broken, nil
}

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
	header[h.header.traceID] = []string{x.trace}
	header[h.header.destinationStatus] = []string{strconv.Itoa(res.Status)}
}
