package relay

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// connect opens a tunnel. Nothing is resolved or dialled before a request arrives
// in it.
func (x *exchange) connect() error {
	if err := x.authenticate(); err != nil {
		return err
	}
	host := hostOf(x.r.Host)
	if host == "" {
		return fault.Field("", "must be a CONNECT to a host and a port")
	}
	server, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return errors.New("vault: the forward proxy needs a server of net/http")
	}
	room := x.caller.Room(nil)
	if err := room.Reserve(x.r.Context(), tunnelBytes); err != nil {
		return err
	}
	opened, err := x.open(room, host, server)
	if !opened {
		room.Leave()
	}
	return err
}

// open opens a tunnel in a room, which the tunnel leaves when it ends. Only a
// caller that was admitted gets as far as a new certificate.
func (x *exchange) open(room *admission.Room, host string, server *http.Server) (opened bool, err error) {
	place := x.tunnels.take(x.caller.Tenant())
	if place == nil {
		return false, fault.New(fault.ErrBusy, "too many tunnels are open: a tenant may have %d, and all tenants together %d", x.MaxTunnels, busyTenants*x.MaxTunnels)
	}
	defer func() {
		if !opened {
			place.give()
		}
	}()
	cert, err := x.authority.certificate(x.r.Context(), room, x.caller.Tenant(), (&url.URL{Host: host}).Hostname())
	if err != nil {
		return false, err
	}
	raw, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return false, err
	}
	inner := &tunnel{Conn: raw, Addr: raw.LocalAddr(), from: buffered, caller: x.caller, jwt: x.jwt, host: host, slot: place}
	inner.leave = sync.OnceFunc(func() {
		place.give()
		room.Leave()
	})
	place.opened(func() { _ = inner.Close() })                                // the client sees the end of the connection
	_, _ = io.WriteString(raw, "HTTP/1.1 200 Connection Established\r\n\r\n") // if it fails, so does the handshake
	conns := make(once, 1)
	conns <- tls.Server(inner, &tls.Config{
		Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
	})
	close(conns)
	_ = server.Serve(conns) // it returns at once, and the server keeps the connection
	return true, nil
}

// tunnel is the client's end of a CONNECT. It is also the local address of its
// connection, so that net/http hands it to the handler.
type tunnel struct {
	net.Conn
	net.Addr
	from   io.Reader // bytes that the server has read already, then the connection
	caller core.Caller
	jwt    string // that identified the caller, with its application; or ""
	host   string
	slot   *slot
	leave  func()
}

func (t *tunnel) Read(p []byte) (int, error) { return t.from.Read(p) }
func (t *tunnel) LocalAddr() net.Addr        { return t }

func (t *tunnel) Close() error {
	t.leave()
	return t.Conn.Close()
}

// once is a listener with one connection.
type once chan net.Conn

func (l once) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l once) Addr() net.Addr { return &net.TCPAddr{} }

// Close closes the connection if the server did not accept it.
func (l once) Close() error {
	for c := range l {
		_ = c.Close() // nothing was sent on it
	}
	return nil
}
