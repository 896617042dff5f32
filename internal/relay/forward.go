package relay

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// ForwardProxy is an HTTP proxy for programs that cannot be changed. A program sends
// its requests through it with expressions where values belong. The proxy ends TLS
// with a certificate from its own authority, fills in the values, and sends the
// request on as [Relay.Forward] does.
//
// It serves HTTP/1.1 on any [http.Server], which also serves the requests inside of
// tunnels, with the server's time limits.
type ForwardProxy struct {
	Relay  *Relay
	Prefix string // of the API's headers, which are never sent
	// Limit, if not nil, reports whether a caller may send a request that costs as
	// many as this. A CONNECT costs one, and so does each request in its tunnel.
	Limit      func(r *http.Request, caller core.Caller, cost int) bool
	MaxTunnels int          // open ones of a tenant; 0 for 1,000
	Logger     *slog.Logger // gets a line for each request; may be nil

	authority *Authority
	tunnels   *slots
}

// Bounds of open tunnels.
const (
	defaultTunnels = 1000
	busyTenants    = 4        // as many can have all their tunnels open at the same time
	tunnelBytes    = 32 << 10 // memory of an open tunnel
)

// NewForwardProxy returns the forward proxy with these fields.
func NewForwardProxy(p ForwardProxy) *ForwardProxy {
	p.Prefix = cmp.Or(p.Prefix, trace.DefaultPrefix)
	p.Logger = cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	p.MaxTunnels = cmp.Or(p.MaxTunnels, defaultTunnels)
	p.authority = NewAuthority(p.Relay.Vault)
	p.tunnels = newSlots(busyTenants*p.MaxTunnels, p.MaxTunnels)
	return &p
}

// ServeHTTP implements [http.Handler].
func (p *ForwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start, header := time.Now(), http.CanonicalHeaderKey(p.Prefix+"TRACE-ID")
	t := trace.OfRequest(r, p.Prefix, header)
	w.Header()[header] = []string{t.ID}
	x := &exchange{ForwardProxy: p, w: w, r: r.WithContext(trace.With(r.Context(), t))}
	x.line = trace.Line{TraceID: t.ID, Method: r.Method, Route: "forward", Status: http.StatusOK}
	switch err := x.serve(); {
	case err != nil && x.broken:
		x.line.Cause = err // the response has begun
	case err != nil:
		x.refuse(err)
	}
	if r.Context().Err() != nil && (x.line.Cause != nil || x.broken) {
		x.line.Status, x.line.Cause = trace.StatusGone, nil
	}
	if x.caller.Vault != nil {
		x.line.Tenant, x.line.Application = x.caller.Tenant(), x.caller.ApplicationID()
	}
	x.line.Duration = time.Since(start)
	x.line.Log(r.Context(), p.Logger)
	if x.broken {
		panic(http.ErrAbortHandler)
	}
}

// serve handles the request. A panic counts as a failure of this request alone.
func (x *exchange) serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Panic(p)
		}
	}()
	in, _ := x.r.Context().Value(http.LocalAddrContextKey).(*tunnel)
	switch {
	case x.r.ProtoMajor != 1 || x.r.Header.Get("Upgrade") != "":
		return fault.Field("", "must be HTTP/1.1: the forward proxy supports neither HTTP/2 nor WebSocket")
	case in != nil:
		return x.inside(in)
	case x.r.Method == http.MethodConnect:
		return x.connect()
	}
	return x.plain()
}

// inside serves a request in a tunnel. The request must be for the host of the
// tunnel, because the client has checked the certificate of that host.
func (x *exchange) inside(in *tunnel) error {
	x.caller = in.caller
	if in.jwt != "" { // its issuer may have removed the key that signed it
		if err := x.identify(in.jwt); err != nil {
			return err
		}
	}
	if !in.slot.work() {
		return fault.New(fault.ErrBusy, "the tunnel has been closed for another tenant")
	}
	defer in.slot.rest()
	if hostOf(x.r.Host) != in.host {
		return fault.Field("headers.Host", "must be the host that the tunnel was opened to")
	}
	if err := x.count(1); err != nil {
		return err
	}
	return x.send("https://" + in.host)
}

// plain serves a request for an http URL, which only a vault in development allows.
func (x *exchange) plain() error {
	switch err := x.authenticate(); {
	case err != nil:
		return err
	case x.r.URL.Scheme != "http" || !x.Relay.Vault.AllowPrivate:
		return fault.Field("", "must be a CONNECT: the forward proxy sends https only")
	}
	return x.send("http://" + x.r.Host)
}

// authenticate sets the caller that the password of the request identifies: a key, or
// a JWT if the user is the id of an application. The request counts against the
// caller's limit.
func (x *exchange) authenticate() error {
	user, key, _ := (&http.Request{Header: http.Header{"Authorization": x.r.Header["Proxy-Authorization"]}}).BasicAuth()
	if !ids.ValidKey(key) {
		key = user + ":" + key
	}
	if err := x.identify(key); err != nil {
		return err
	}
	if x.caller.ByWorkload() {
		x.jwt = key
	}
	if err := x.count(1); err != nil { // refusals count too
		return err
	}
	if err := MayForward(x.caller.Grant()); err != nil {
		x.caller.Denied(x.r.Context(), "ForwardProxy", access.TokenUse, err)
		return err
	}
	return nil
}

// identify sets the caller that a key, or a JWT with its application, identifies.
func (x *exchange) identify(key string) error {
	caller, err := x.Relay.Vault.Authenticate(x.r.Context(), key)
	if err != nil {
		return err
	}
	if at, err := netip.ParseAddrPort(x.r.RemoteAddr); err == nil {
		caller.Identity = caller.From(at.Addr().Unmap().WithZone("").String())
	}
	x.caller = caller
	return nil
}

// hostOf returns the host of https requests to a host, in the form of a target, or "".
func hostOf(host string) string {
	return access.TargetOf("", &url.URL{Scheme: "https", Host: host}, false).Host
}
