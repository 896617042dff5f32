// Package egress sends HTTP requests to destinations that tenants choose: where
// their proxies point, where their callbacks go, what their code fetches. A
// tenant must not reach through it what only this machine can reach, so a
// request is refused before the first packet unless the [Policy] allows the
// address that is really dialed. Checking at that moment, and not when a name
// is first looked up, means that changing a DNS record in between gains an
// attacker nothing.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/share"
)

// Policy says where requests may go and what they may cost. The zero value is
// the strict policy: https with TLS 1.2 or later, any port, public addresses
// only, with the limits given at each field.
type Policy struct {
	// AllowHTTP admits plain http beside https.
	AllowHTTP bool
	// AllowPrivate admits every address: loopback, private networks, and the
	// metadata services of clouds. It is for tests and closed networks.
	AllowPrivate bool
	// AllowPrefixes admits addresses that are not public, such as those of a
	// payment gateway on a private line.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes refuses addresses, public ones too, and overrides everything
	// that allows them. Public addresses of your own that trust this machine,
	// and the prefix of a NAT64 gateway other than the well-known one, belong
	// here.
	DenyPrefixes []netip.Prefix
	// Ports are the only ports that may be reached. None means any port: real
	// gateways use many, and on public addresses a port protects little.
	Ports []uint16

	// RootCAs verify destinations; nil means those of the system.
	RootCAs *x509.CertPool
	// Lookup resolves host names; nil means the resolver of the system. Its
	// answers are held to the policy like any other.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// UseEnvironmentProxy sends requests through the proxy that HTTPS_PROXY,
	// HTTP_PROXY and NO_PROXY name. That proxy then resolves names and dials
	// for us, so it must refuse private addresses itself. This policy applies
	// to its own address: list it in AllowPrefixes if it is private.
	UseEnvironmentProxy bool

	// Observe, unless it is nil, is told of each request that is sent.
	Observe Observe

	// MaxConnsPerTenant limits the requests that one tenant has in progress in
	// this process, including those whose responses are still being read; 0
	// means 100. Calls of its proxies without an API key do not count. They have
	// half as many of their own.
	MaxConnsPerTenant int
	// DialTimeout bounds name lookup and connecting; 0 means 10 seconds.
	DialTimeout time.Duration
	// TLSTimeout bounds the TLS handshake; 0 means 10 seconds.
	TLSTimeout time.Duration
	// HeaderTimeout limits the wait for the response headers once the request
	// is written; 0 means 5 minutes, a safety net for callers whose contexts
	// have no deadline. Only the context limits the body.
	HeaderTimeout time.Duration
	// MaxHeaderBytes limits the response headers; 0 means 64 KiB.
	MaxHeaderBytes int64
}

// Observe is called when a request is about to be sent. It returns the context
// that the request goes on with, and a function that is called with the outcome
// when its answer has begun. It may set headers of the request.
type Observe func(req *http.Request, tenant string) (context.Context, func(error))

// Client sends requests under a policy. It is safe for use by many goroutines.
type Client struct {
	guard   guard
	pools   pools
	observe Observe
}

// New returns a client for a policy, which must not be changed afterwards.
func New(p Policy) *Client {
	orDefault(&p.MaxConnsPerTenant, 100)
	orDefault(&p.DialTimeout, 10*time.Second)
	orDefault(&p.TLSTimeout, 10*time.Second)
	orDefault(&p.HeaderTimeout, 5*time.Minute)
	orDefault(&p.MaxHeaderBytes, 64<<10)

	c := &Client{guard: newGuard(p), observe: p.Observe}
	d := &dialer{
		Dialer: net.Dialer{Timeout: p.DialTimeout, Control: c.guard.control},
		lookup: p.Lookup,
	}
	c.pools.all = map[string]*pool{}
	c.pools.places = share.New[string](share.Limits{Each: p.MaxConnsPerTenant})
	c.pools.strangers = share.New[string](share.Limits{Each: max(1, p.MaxConnsPerTenant/2)})
	c.pools.connect = func() *http.Transport { return p.transport(d) }
	return c
}

// transport returns a pool of connections that the dialer makes.
func (p *Policy) transport(d *dialer) *http.Transport {
	// Only HTTP/1.1: a connection then carries one request at a time, and a
	// response that is not read waits at the destination, not in buffers here.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:            d.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.RootCAs},
		Protocols:              protocols,
		DisableCompression:     true,
		TLSHandshakeTimeout:    p.TLSTimeout,
		ResponseHeaderTimeout:  p.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: p.MaxHeaderBytes,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleTimeout,
	}
	if p.UseEnvironmentProxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

func orDefault[T int | int64 | time.Duration](value *T, preset T) {
	if *value <= 0 {
		*value = preset
	}
}

// Do sends a request for a tenant and returns the destination's response as it
// came: redirects are not followed, bodies not decompressed, cookies not kept.
// No two tenants share a connection. The context of the request ends it, even
// while the body is read.
//
// The response body must be closed, which ends the request as far as the
// tenant's limit is concerned. The body of the request is always closed.
//
// Errors are [ErrForbidden], [ErrBusy], [context.DeadlineExceeded] for anything
// that took too long, [context.Canceled] when the caller gave up, and
// [ErrUnreachable] for everything else, and so are those of reading the body.
// Their texts contain nothing of the request and nothing about the network
// here.
func (c *Client) Do(req *http.Request, tenant string) (*http.Response, error) {
	return c.observed(req, tenant, false)
}

// DoForStranger is Do for a stranger who calls a proxy of a tenant. Strangers have
// places of their own, so that they cannot take those of the tenant.
func (c *Client) DoForStranger(req *http.Request, tenant string) (*http.Response, error) {
	return c.observed(req, tenant, true)
}

func (c *Client) observed(req *http.Request, tenant string, stranger bool) (*http.Response, error) {
	if c.observe == nil {
		return c.do(req, tenant, stranger)
	}
	ctx, end := c.observe(req, tenant)
	resp, err := c.do(req.WithContext(ctx), tenant, stranger)
	end(err)
	return resp, err
}

func (c *Client) do(req *http.Request, tenant string, stranger bool) (*http.Response, error) {
	connections, err := c.admit(req, tenant, stranger)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	var x exchange
	resp, err := connections.RoundTrip(req.WithContext(x.traced(req.Context())))
	if err == nil && x.surplus() {
		resp.Body.Close()
		_ = x.conn.Close()
		err = errSurplus
	}
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body.Close()
		err = errSwitched
	}
	if err != nil {
		c.pools.give(connections, stranger)
		return nil, explain(req.Context(), err)
	}
	release := sync.OnceFunc(func() { c.pools.give(connections, stranger) })
	resp.Body = &body{ReadCloser: resp.Body, ctx: req.Context(), release: release}
	return resp, nil
}

// admit refuses a request that the policy forbids, and returns the tenant's
// connections for one that it allows.
func (c *Client) admit(req *http.Request, tenant string, stranger bool) (*pool, error) {
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

// CheckURL checks a URL before it is stored, as far as that is possible without
// asking the DNS: that it is absolute and https (or http, where the policy
// admits it), at most [MaxURLLength] bytes, without credentials and fragment,
// and that its host is a name or an address that the policy allows. The address
// behind a name is checked whenever a request is sent.
func (c *Client) CheckURL(text string) (*url.URL, error) { return c.guard.checkURL(text) }

// Close closes the idle connections. Requests in progress go on.
func (c *Client) Close() { c.pools.close() }

// body is the body of a response; closing it frees the tenant's slot.
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
