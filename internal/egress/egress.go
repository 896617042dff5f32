// Package egress sends HTTP requests to destinations that tenants choose: the
// destinations of proxies, the URLs of callbacks and the URLs that code
// fetches. A tenant must not reach addresses that only this machine can
// reach. A request is therefore refused before the first packet unless the
// [Policy] allows the address that is dialed. The check happens when dialing,
// not when a name is first resolved, so an attacker gains nothing by changing
// a DNS record in between.
//
// It also promises that tenants share no connection, that each has a bounded number of
// requests in progress, and that a redirect is returned and not followed. It knows neither tokens nor rights: package relay judges
// where data may go, and package runs where a callback goes.
//
// Begin with [Client.DoAs]. The check of addresses is in guard.go, and the connections
// of requests with [Keep], which callers of one tenant do not share, in kept.go.
package egress

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
)

// Policy defines where requests may go, and their limits. The zero value is
// strict: https with TLS 1.2 or later, any port, only public addresses, and
// the default limit of each field.
type Policy struct {
	// AllowHTTP allows plain http in addition to https.
	AllowHTTP bool
	// AllowPrivate allows loopback and private networks, for tests and closed
	// networks. Link-local addresses, at which clouds serve the credentials of
	// a machine, need AllowPrefixes.
	AllowPrivate bool
	// AllowPrefixes allows addresses that are not public, such as a payment
	// gateway on a private line.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes refuses addresses, even public ones. It overrides
	// everything that allows them. List here your own public addresses that
	// trust this machine, and the prefix of a NAT64 gateway other than the
	// well-known one.
	DenyPrefixes []netip.Prefix
	// Ports lists the only ports that may be reached. Empty means any port,
	// because real gateways use many, and on public addresses a port protects
	// little.
	Ports []uint16

	// RootCAs verifies destinations. Nil means the system's certificate
	// authorities.
	RootCAs *x509.CertPool
	// UseEnvironmentProxy sends requests through the proxy in HTTPS_PROXY,
	// HTTP_PROXY and NO_PROXY. That proxy then resolves names and dials, so
	// it must refuse private addresses itself. This policy applies to the
	// proxy's own address: list it in AllowPrefixes if it is private.
	UseEnvironmentProxy bool

	// Observe, if not nil, is called for each request that is sent.
	Observe Observe

	// MaxConnsPerTenant limits the requests that one tenant has in progress
	// in this process, including those whose responses are still being read.
	// 0 means 100. Anonymous calls of its proxies do not count; each proxy has
	// a separate limit of half as many.
	MaxConnsPerTenant int
	// DialTimeout limits name lookup and connecting. 0 means 10 seconds.
	DialTimeout time.Duration
	// TLSTimeout limits the TLS handshake. 0 means 10 seconds.
	TLSTimeout time.Duration
	// HeaderTimeout limits the wait for the response headers after the
	// request is written. 0 means 5 minutes, which is a safety net for
	// contexts without a deadline. Only the context limits the body.
	HeaderTimeout time.Duration

	resolver *net.Resolver // set by tests
}

// Observe is called before a request is sent. It returns the context for the
// request, and a function that is called with the outcome when the response
// starts. It may set headers of the request.
type Observe func(req *http.Request, tenant string) (context.Context, func(error))

// Intercept is called with each new connection pool, if it is set. The simulator sets
// it, because nothing in a test with simulated time can reach a network.
var Intercept func(*http.Transport)

// maxHeaderBytes limits the size of the response headers.
const maxHeaderBytes = 64 << 10

// Client sends requests under a policy. It is safe for concurrent use.
type Client struct {
	guard   guard
	pools   pools
	kept    *kept
	observe Observe
}

// New returns a client for a policy, which must not be changed afterwards.
func New(p Policy) *Client {
	p.MaxConnsPerTenant = cmp.Or(max(p.MaxConnsPerTenant, 0), 100)
	p.DialTimeout = cmp.Or(max(p.DialTimeout, 0), 10*time.Second)
	p.TLSTimeout = cmp.Or(max(p.TLSTimeout, 0), 10*time.Second)
	p.HeaderTimeout = cmp.Or(max(p.HeaderTimeout, 0), 5*time.Minute)
	c := &Client{guard: newGuard(&p), observe: p.Observe}
	d := &net.Dialer{Timeout: p.DialTimeout, Control: c.guard.control, Resolver: p.resolver}
	c.pools.all = map[string]*pool{}
	c.pools.slots = share.New[string](share.Limits{Each: p.MaxConnsPerTenant})
	c.pools.strangers = strangers{each: max(1, p.MaxConnsPerTenant/2), crowded: maxCrowded, calls: map[string]*list.List{}}
	c.pools.connect = func() *http.Transport { return p.transport(d) }
	c.kept = newKept(&p, d.DialContext)
	return c
}

// transport returns a connection pool that uses the dialer. Its connections
// count the bytes read.
func (p *Policy) transport(d *net.Dialer) *http.Transport {
	// Use only HTTP/1.1: a connection then has one request at a time, and an
	// unread response waits at the destination, not in buffers here.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.RootCAs},
		Protocols:              protocols,
		DisableCompression:     true,
		TLSHandshakeTimeout:    p.TLSTimeout,
		ResponseHeaderTimeout:  p.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleTimeout,
	}
	if p.UseEnvironmentProxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	if Intercept != nil {
		Intercept(t)
	}
	return t
}

// Do sends a request for a tenant and returns the destination's response
// unchanged. It does not follow redirects, decompress bodies or keep cookies.
// Tenants do not share connections. The context of the request ends it, even
// while the body is read.
//
// The response body must be closed, which ends the request for the tenant's
// limit. The body of the request is always closed.
//
// Errors, including errors of reading the body, are [ErrForbidden],
// [ErrBusy], [context.DeadlineExceeded] for any timeout, [context.Canceled]
// if the caller gave up, and [ErrUnreachable] for everything else. Their
// texts contain nothing of the request and nothing about the network of this
// machine.
func (c *Client) Do(req *http.Request, tenant string) (*http.Response, error) {
	return c.DoAs(req, Caller{Tenant: tenant})
}

// Caller is who sends a request.
type Caller struct {
	Tenant string
	// Stranger is the proxy of the tenant that an anonymous call came through, or
	// empty. Each proxy has a separate limit, so that anonymous calls cannot use up the
	// limit of the tenant or of another proxy. A call fails with [ErrTooLong] after a
	// minute, and while its proxy has no free slot after ten seconds.
	Stranger string
	// Keep, if not nil, gives the request a connection that only requests of the same
	// holder use, and hides it from package httptrace. With
	// [Policy.UseEnvironmentProxy], the connection is used once.
	Keep *Keep
}

// DoAs is Do for a caller.
func (c *Client) DoAs(req *http.Request, caller Caller) (*http.Response, error) {
	if c.observe == nil {
		return c.do(req, caller)
	}
	ctx, end := c.observe(req, caller.Tenant)
	resp, err := c.do(req.WithContext(ctx), caller)
	end(err)
	return resp, err
}

func (c *Client) do(req *http.Request, caller Caller) (*http.Response, error) {
	var stranger *anonymous
	if caller.Stranger != "" {
		var ctx context.Context
		ctx, stranger = begin(req.Context(), caller.Tenant, caller.Stranger)
		req = req.WithContext(ctx)
	}
	connections, err := c.admit(req, caller.Tenant, stranger)
	if err != nil {
		stranger.stop()
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	release := sync.OnceFunc(func() {
		c.pools.give(connections, stranger)
		stranger.stop()
	})
	resp, err := c.send(req, caller, connections)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		err = errSwitched
	}
	if err != nil {
		err = explain(req.Context(), err)
		release()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, ctx: req.Context(), release: release}
	return resp, nil
}

// send sends a request on a connection of the caller or of its tenant.
func (c *Client) send(req *http.Request, caller Caller, connections *pool) (*http.Response, error) {
	if caller.Keep != nil {
		req = req.WithContext(Untraced(req.Context()))
		if connections.Proxy == nil {
			return c.kept.roundTrip(req, caller.Tenant, caller.Keep)
		}
		caller.Keep.Carry(nil)
		single := c.pools.connect()
		single.DisableKeepAlives = true
		return single.RoundTrip(req)
	}
	var x exchange
	traced := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: x.begin})
	resp, err := connections.RoundTrip(req.WithContext(traced))
	if err == nil && x.surplus() {
		resp.Body.Close()
		_ = x.conn.Close()
		err = errSurplus
	}
	return resp, err
}

// admit refuses a request that the policy forbids. For an allowed request it
// returns the tenant's connections.
func (c *Client) admit(req *http.Request, tenant string, stranger *anonymous) (*pool, error) {
	if err := c.guard.checkParsed(req.URL); err != nil {
		return nil, err
	}
	if req.Method == http.MethodConnect {
		return nil, forbidden("CONNECT requests are not allowed")
	}
	if err := CheckHeader(req.Header); err != nil {
		return nil, err
	}
	if connections := c.pools.take(tenant, stranger); connections != nil {
		return connections, nil
	}
	return nil, errTooMany
}

// CheckURL checks a URL before it is stored, without DNS lookups. The URL
// must be absolute, https (or http, if the policy allows it), at most
// [MaxURLLength] bytes, and without credentials or a fragment. Its host must
// be a name or an allowed address. The address of a name is checked whenever
// a request is sent.
func (c *Client) CheckURL(text string) (*url.URL, error) { return c.guard.checkURL(text) }

// Close closes the idle connections. Requests in progress continue.
func (c *Client) Close() {
	c.pools.close()
	c.kept.close()
}

// body is the body of a response. Closing it frees the tenant's slot.
type body struct {
	io.ReadCloser
	ctx     context.Context
	release func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		return n, explain(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// The errors of a request, in addition to the two errors of package context.
var (
	// ErrForbidden means that the policy refuses the request, or that it
	// cannot be sent safely. Nothing was sent.
	ErrForbidden = errors.New("the destination is not allowed")
	// ErrBusy means that the tenant has too many requests in progress.
	ErrBusy = errors.New("too many requests are in progress")
	// ErrTooLong means that an anonymous call lasted too long. It comes with
	// context.DeadlineExceeded.
	ErrTooLong = errors.New("a call without an API key took too long")
	// ErrUnreachable means that the destination could not be found, connected
	// to or trusted, or that its response was cut off or is not HTTP.
	ErrUnreachable = errors.New("the destination could not be reached")
)

var (
	errTooMany  = &failure{kind: ErrBusy, text: "this tenant has too many requests in progress; try again later"}
	errSurplus  = &failure{kind: ErrUnreachable, text: "the destination responded before it was sent a request"}
	errSwitched = &failure{kind: ErrUnreachable, text: "the destination switched to another protocol"}
)

// failure is an error with a fixed text. Errors from the network name
// addresses and quote what was received. A failure unwraps to its cause, for
// errors.Is and errors.As, but never prints it.
type failure struct {
	kind  error
	text  string
	cause error // may be nil
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

func forbidden(text string) error { return &failure{kind: ErrForbidden, text: text} }

// explain turns an error of the transport into a failure.
func explain(ctx context.Context, err error) error {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	var slow net.Error
	switch {
	case errors.Is(context.Cause(ctx), ErrTooLong):
		return &failure{context.DeadlineExceeded, ErrTooLong.Error(), ErrTooLong}
	case errors.Is(ctx.Err(), context.Canceled):
		return &failure{context.Canceled, "the request was canceled", err}
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return &failure{context.DeadlineExceeded, "the destination did not respond in time", err}
	default:
		return &failure{ErrUnreachable, ErrUnreachable.Error(), err}
	}
}

// countedConn is a connection that counts the bytes read and written.
type countedConn struct {
	net.Conn
	read, written atomic.Int64
	broken        atomic.Bool // writing has failed
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// exchange is a request and its response on a connection of a [pool].
//
// A destination may send more than its response. net/http closes a connection
// with leftover bytes, but a request at the same moment may still get the
// connection, and read the leftover bytes as its response. Such a response
// needs no bytes from the network, and is recognized by that.
type exchange struct {
	conn   net.Conn
	count  *atomic.Int64 // nil for a new connection
	before int64
}

// begin records the number of bytes read before the request is written.
func (x *exchange) begin(info httptrace.GotConnInfo) {
	*x = exchange{conn: info.Conn}
	if !info.Reused {
		return
	}
	conn := info.Conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		x.count, x.before = &counted.read, counted.read.Load()
	}
}

// surplus reports whether the response arrived before the request was sent.
func (x *exchange) surplus() bool { return x.count != nil && x.count.Load() == x.before }
