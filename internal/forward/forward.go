// Package forward is an HTTP proxy for programs that cannot be changed. A program
// sends its requests through it with expressions where values belong. The proxy
// ends TLS with a certificate of its own authority, fills in the values, and sends
// the request to the destination through package relay.
package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/relay"
)

// Proxy is the forward proxy. It serves HTTP/1.1 on any [http.Server], which also
// serves the requests inside of tunnels, with the server's time limits.
type Proxy struct {
	Relay     *relay.Relay
	Authority *Authority
	Prefix    string // of the API's headers, which are never sent
	// Limit, if not nil, reports whether a caller may send a request that costs as
	// many as this.
	Limit func(r *http.Request, caller core.Caller, cost int) bool
}

// tunnel is the local address of a connection inside of a CONNECT, so that
// net/http hands it to the handler.
type tunnel struct {
	net.Addr
	caller core.Caller
	target access.Target
}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, _ := r.Context().Value(http.LocalAddrContextKey).(*tunnel)
	var err error
	switch {
	case r.ProtoMajor != 1 || r.Header.Get("Upgrade") != "":
		err = fault.Field("", "must be HTTP/1.1: the forward proxy supports neither HTTP/2 nor WebSocket")
	case in != nil:
		err = p.inside(w, r, in)
	case r.Method == http.MethodConnect:
		err = p.connect(w, r)
	default:
		err = p.plain(w, r)
	}
	if err != nil {
		refuse(w, err)
	}
}

// connect opens a tunnel. Nothing is resolved or dialled before a request arrives
// in it.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) error {
	caller, err := p.caller(r)
	if err != nil {
		return err
	}
	target := access.TargetOf(&url.URL{Scheme: "https", Host: r.Host}, false)
	if target == "" {
		return fault.Field("", "must be a CONNECT to a host and a port")
	}
	cert, err := p.Authority.certificate(r.Context(), hostname(target))
	if err != nil {
		return err
	}
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return errors.New("vault: the forward proxy needs a server of net/http")
	}
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(raw, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return raw.Close()
	}
	inner := &conn{raw, buffered, &tunnel{raw.LocalAddr(), caller, target}}
	_ = server.Serve(&once{conn: tls.Server(inner, &tls.Config{ // it returns at once, and the server keeps the connection
		Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
	})})
	return nil
}

// inside serves a request in a tunnel. The request must be for the host of the
// tunnel, because the client has checked the certificate of that host.
func (p *Proxy) inside(w http.ResponseWriter, r *http.Request, in *tunnel) error {
	if access.TargetOf(&url.URL{Scheme: "https", Host: r.Host}, false) != in.target {
		return fault.Field("headers.Host", "must be the host that the tunnel was opened to")
	}
	return p.send(w, r, in.caller, "https://"+string(in.target))
}

// plain serves a request for an http URL, which only a vault in development allows.
func (p *Proxy) plain(w http.ResponseWriter, r *http.Request) error {
	caller, err := p.caller(r)
	switch {
	case err != nil:
		return err
	case r.URL.Scheme != "http" || !p.Relay.Vault.AllowPrivate:
		return fault.Field("", "must be a CONNECT: the forward proxy sends https only")
	}
	return p.send(w, r, caller, "http://"+r.Host)
}

// caller returns the caller that the password of a request identifies.
func (p *Proxy) caller(r *http.Request) (core.Caller, error) {
	_, key, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	caller, err := p.Relay.Vault.Authenticate(r.Context(), key)
	if err != nil {
		return caller, err
	}
	from, _, _ := strings.Cut(r.RemoteAddr, "%") // without a zone
	if at, err := netip.ParseAddrPort(from); err == nil {
		from = at.Addr().Unmap().String()
	}
	caller.Identity = caller.From(from)
	if err := relay.MayForward(caller.Grant()); err != nil {
		caller.Denied(r.Context(), "ForwardProxy", access.TokenUse, err)
		return caller, err
	}
	return caller, nil
}

// hostname returns the host of a target without its port.
func hostname(t access.Target) string {
	return (&url.URL{Host: string(t)}).Hostname()
}

// conn is the client's end of a tunnel.
type conn struct {
	net.Conn
	from io.Reader // what the server has read already, and the connection
	addr *tunnel
}

func (c *conn) Read(p []byte) (int, error) { return c.from.Read(p) }
func (c *conn) LocalAddr() net.Addr        { return c.addr }

// once is a listener that accepts one connection.
type once struct {
	conn net.Conn // nil once it is accepted
}

func (l *once) Accept() (net.Conn, error) {
	c := l.conn
	if c == nil {
		return nil, net.ErrClosed
	}
	l.conn = nil
	return c, nil
}

func (l *once) Addr() net.Addr { return &net.TCPAddr{} }

// Close closes a connection that the server did not accept.
func (l *once) Close() error {
	if l.conn == nil {
		return nil
	}
	return l.conn.Close()
}
