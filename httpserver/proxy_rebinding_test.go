package httpserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// movingName replaces the resolver of the system. It resolves every name to
// one IPv4 address, which can change.
func movingName(t *testing.T) *atomic.Pointer[netip.Addr] {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	var at atomic.Pointer[netip.Addr]
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5 // root, type, class
			if n < end {
				continue
			}
			isA := buf[end-3] == 1
			out := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, buf[12:end]...)
			if isA {
				out[7] = 1
				ip := at.Load().As4()
				out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				out = append(out, ip[:]...)
			}
			_, _ = conn.WriteTo(out, from)
		}
	}()
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = old; conn.Close(); <-done })
	return &at
}

// The name of a destination moves to an internal address after the proxy was
// stored and used. The address that is dialed must be checked. The test
// replaces the resolver of the whole process, so it is not parallel.
func TestProxyRebinding(t *testing.T) {
	at := movingName(t)
	good, bad := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	dest := newDestination(t, nil)
	_, port, _ := net.SplitHostPort(dest.Listener.Addr().String())
	var inner atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("only Linux has the whole of 127.0.0.0/8: ", err)
	}
	internal := &httptest.Server{Listener: l, Config: &http.Server{
		ConnState: func(net.Conn, http.ConnState) { inner.Add(1) }, Handler: http.NotFoundHandler(),
	}}
	internal.StartTLS()
	defer internal.Close()

	policy := trusting(dest.Server)
	policy.AllowPrivate, policy.AllowPrefixes = false, []netip.Prefix{netip.PrefixFrom(good, 32)}
	w := newProxyWorld(t, &vault.Config{Egress: policy}, nil, nil)
	at.Store(&good)
	x := w.proxy(func(p *vault.ProxyParams) { p.DestinationURL = "https://example.com:" + port + "/" })
	call := func() *response {
		return w.call(w.request("GET", "/proxy/a", "", "SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key, "SVC-PROXY-CONNECTION", "close"))
	}
	call().wantDestination(t, 200, "")
	at.Store(&bad)
	call().wantProxyError(t, 502)
	if inner.Load() != 0 || dest.count() != 1 {
		t.Errorf("%d connections, %d requests", inner.Load(), dest.count())
	}
	at.Store(&good)
	call().wantDestination(t, 200, "")
}

// A request that a rule does not permit is refused before its name is resolved. A
// permitted name that resolves to a private address is not dialed. The test
// replaces the resolver of the whole process, so it is not parallel.
func TestNothingIsResolvedForAnotherHost(t *testing.T) {
	at := movingName(t)
	private := netip.MustParseAddr("127.0.0.1")
	at.Store(&private)
	resolver, asked := net.DefaultResolver.Dial, atomic.Int64{}
	net.DefaultResolver.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		asked.Add(1)
		return resolver(ctx, network, address)
	}
	dest := newDestination(t, nil)
	_, port, _ := net.SplitHostPort(dest.Listener.Addr().String())
	policy := trusting(dest.Server)
	policy.AllowPrivate = false
	w := newProxyWorld(t, &vault.Config{Egress: policy}, nil, nil)
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "Till", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
		{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:use"}, Destinations: []string{"pay.example:" + port}},
	}}))(t)
	tok := must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "a secret text"}))(t)
	call := func(url string) *response {
		return w.call(w.request("POST", "/proxy", "{{ "+tok.ID+" }}", "SVC-API-KEY", app.Key, "SVC-PROXY-URL", url, "Content-Type", "text/plain"))
	}
	call("https://other.example:"+port).wantProxyError(t, 403)
	same(t, "questions", asked.Load(), 0)
	call("https://PAY.example.:"+port).wantProxyError(t, 502)
	if asked.Load() == 0 || dest.count() != 0 {
		t.Errorf("%d queries and %d requests for a private address", asked.Load(), dest.count())
	}
}
