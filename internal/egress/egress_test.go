package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers returns a resolver that returns one result after another, and then
// repeats the last. A result is a list of addresses.
func answers(texts ...string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			var m dnsmessage.Message
			text := make([]byte, 1024)
			n, _ := theirs.Read(text)
			if m.Unpack(text[min(n, 2):n]) != nil { // the length comes first
				return
			}
			m.Response, m.Additionals = true, nil
			name, v4 := m.Questions[0].Name, m.Questions[0].Type == dnsmessage.TypeA
			i := int(asked.Load())
			if v4 {
				i = int(asked.Add(1)) - 1
			}
			for text := range strings.FieldsSeq(texts[min(i, len(texts)-1)]) {
				ip := netip.MustParseAddr(text)
				var body dnsmessage.ResourceBody = &dnsmessage.AAAAResource{AAAA: ip.As16()}
				if v4 && ip.Is4() {
					body = &dnsmessage.AResource{A: ip.As4()}
				}
				if v4 == ip.Is4() {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: body})
				}
			}
			packed, _ := m.AppendPack(make([]byte, 2))
			binary.BigEndian.PutUint16(packed, uint16(len(packed)-2))
			_, _ = theirs.Write(packed)
		}()
		return ours, nil
	}}
}

// failing returns a resolver whose server cannot be reached.
func failing(dial func(context.Context) error) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, dial(ctx) }}
}

// destination starts a TLS server on loopback. It returns its URL, with the
// name example.com, and a policy that allows only this server.
func destination(t *testing.T, settings *tls.Config, handler http.HandlerFunc) (string, Policy) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = settings
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return "https://example.com:" + port, Policy{
		AllowPrefixes: prefixes("127.0.0.1/32"), RootCAs: roots, resolver: answers("127.0.0.1"),
	}
}

func newClient(t *testing.T, p Policy) *Client {
	t.Helper()
	c := New(p)
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *Client, url string) (*http.Response, error) {
	t.Helper()
	return c.Do(request(t, t.Context(), "GET", url, nil), "tenant")
}

func request(t *testing.T, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	return must.Get(http.NewRequestWithContext(ctx, method, url, body))(t)
}

// readAll returns the body of a response and closes it.
func readAll(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (%v)", err, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(t)
	return string(text)
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

// TestRefusedBeforeAnyPacket sends requests to a listener on loopback in
// every spelling. Then it checks that its own connection is the first to
// arrive.
func TestRefusedBeforeAnyPacket(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::1]",
		"2130706433", "0177.0.0.1", "0x7f.1", "127.1", "127.0.0.1.",
	} {
		c := newClient(t, Policy{AllowHTTP: true, resolver: answers("127.0.0.1")})
		must.Fail(get(t, c, "http://"+host+":"+port))(t, host, ErrForbidden)
	}
	// The dialer refuses too, even if the URL is allowed.
	for host, resolver := range map[string]*net.Resolver{
		"127.0.0.1": nil, "localhost": nil, "0.0.0.0": nil, "[::ffff:127.0.0.1]": nil,
		"a.example": answers("127.0.0.1"), "b.example": answers("0.0.0.0"),
		"c.example": answers("::ffff:127.0.0.1"),
	} {
		c := newClient(t, Policy{AllowHTTP: true, resolver: resolver})
		if _, err := c.pools.connect().RoundTrip(request(t, t.Context(), "GET", "http://"+host+":"+port, nil)); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s at the dialer: %v, want ErrForbidden", host, err)
		}
	}
	own := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	defer own.Close()
	first := must.Get(listener.Accept())(t)
	defer first.Close()
	must.Same(t, "a refused request has connected", own.LocalAddr().String(), first.RemoteAddr().String())
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	url, policy := destination(t, nil, ok)
	policy.resolver = answers("127.0.0.1", "127.0.0.2")
	c := newClient(t, policy)
	must.Get(c.CheckURL(url))(t)
	req := request(t, t.Context(), "GET", url, nil)
	req.Close = true // so that the next request looks up the name again
	resp, err := c.Do(req, "tenant")
	if got := readAll(t, resp, err); got != "ok" {
		t.Fatalf("the allowed address responds with %q", got)
	}
	must.Fail(get(t, c, url))(t, "after the name moved", ErrForbidden)
}

// TestLookupTriesAll has a name with a refused address before a good one.
func TestLookupTriesAll(t *testing.T) {
	t.Parallel()
	url, policy := destination(t, nil, ok)
	policy.resolver = answers("127.0.0.2 127.0.0.1")
	resp, err := get(t, newClient(t, policy), url)
	must.Same(t, "the response", "ok", readAll(t, resp, err))
	for name, resolver := range map[string]*net.Resolver{
		"empty":  answers(""),
		"failed": failing(func(context.Context) error { return errors.New("resolver 10.0.0.2 is down") }),
	} {
		policy.resolver = resolver
		if _, err := get(t, newClient(t, policy), url); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "10.0.0.2") {
			t.Errorf("%s result: %v, want ErrUnreachable", name, err)
		}
	}
}

func TestResponsesAreUnchanged(t *testing.T) {
	t.Parallel()
	var paths atomic.Int64
	url, policy := destination(t, nil, func(w http.ResponseWriter, r *http.Request) {
		paths.Add(1)
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("X-Asked", r.Header.Get("Accept-Encoding"))
		io.WriteString(w, "not really gzip")
	})
	c := newClient(t, policy)
	resp, err := get(t, c, url+"/redirect")
	readAll(t, resp, err)
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "https://169.254.169.254/latest/meta-data/" || paths.Load() != 1 {
		t.Errorf("a redirect came as %d to %q after %d requests", resp.StatusCode, resp.Header.Get("Location"), paths.Load())
	}
	resp, err = get(t, c, url)
	if got := readAll(t, resp, err); got != "not really gzip" || resp.Header.Get("X-Asked") != "" {
		t.Errorf("body %q, Accept-Encoding %q", got, resp.Header.Get("X-Asked"))
	}
}

// TestEnvironmentProxy runs in a separate process, because net/http reads the
// environment only once.
func TestEnvironmentProxy(t *testing.T) {
	const alone = "EGRESS_TEST_ALONE"
	if os.Getenv(alone) == "" {
		t.Parallel()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironmentProxy$")
		child.Env = append(os.Environ(), alone+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	url, policy := destination(t, nil, ok)
	resp, err := get(t, newClient(t, policy), url)
	if got := readAll(t, resp, err); got != "ok" || asked.Load() != 0 {
		t.Errorf("without UseEnvironmentProxy: response %q, %d requests at the proxy", got, asked.Load())
	}
	policy.UseEnvironmentProxy = true
	if _, err := get(t, newClient(t, policy), url); !errors.Is(err, ErrUnreachable) || asked.Load() != 1 {
		t.Errorf("with UseEnvironmentProxy: %v, %d requests at the proxy", err, asked.Load())
	}
	keep := Caller{Tenant: "tenant", Keep: &Keep{"1", always}}
	if _, err := newClient(t, policy).DoAs(request(t, t.Context(), "GET", url, nil), keep); !errors.Is(err, ErrUnreachable) || asked.Load() != 2 {
		t.Errorf("with a connection of its own: %v, %d requests at the proxy", err, asked.Load())
	}
	policy.AllowPrefixes = nil
	if _, err := get(t, newClient(t, policy), url); !errors.Is(err, ErrForbidden) || asked.Load() != 2 {
		t.Errorf("a proxy that is not allowed: %v, %d requests there", err, asked.Load())
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings *tls.Config
		spoil    func(*Policy)
		want     error
	}{
		"1.1":           {settings: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, want: ErrUnreachable},
		"1.2":           {settings: &tls.Config{MaxVersion: tls.VersionTLS12}},
		"1.3":           {settings: &tls.Config{MinVersion: tls.VersionTLS13}},
		"unknown CA":    {spoil: func(p *Policy) { p.RootCAs = x509.NewCertPool() }, want: ErrUnreachable},
		"offers HTTP/2": {settings: &tls.Config{NextProtos: []string{"h2", "http/1.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, policy := destination(t, test.settings, ok)
			if test.spoil != nil {
				test.spoil(&policy)
			}
			resp, err := get(t, newClient(t, policy), url)
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if test.want == nil {
				if readAll(t, resp, err); resp.ProtoMajor != 1 {
					t.Errorf("the response came over %s", resp.Proto)
				}
			}
		})
	}
	url, policy := destination(t, nil, ok)
	if _, err := get(t, newClient(t, policy), strings.Replace(url, "example.com", "example.org", 1)); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a certificate for another name: %v, want ErrUnreachable", err)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	url, policy := destination(t, nil, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // a response might still reach a client that is about to hang up
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	must.Do(t, err)
	t.Cleanup(func() { silent.Close() })

	const short = 100 * time.Millisecond
	soon := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		t.Cleanup(cancel)
		return ctx
	}
	for name, test := range map[string]struct {
		url   string
		ctx   func(*testing.T) context.Context
		limit func(*Policy)
	}{
		"context":        {url: url, ctx: soon},
		"header":         {url: url, limit: func(p *Policy) { p.HeaderTimeout = short }},
		"TLS":            {url: "https://" + silent.Addr().String(), limit: func(p *Policy) { p.TLSTimeout = short }},
		"TLS by context": {url: "https://" + silent.Addr().String(), ctx: soon},
		"lookup": {url: url, limit: func(p *Policy) {
			p.DialTimeout = short
			p.resolver = failing(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy, ctx := policy, t.Context()
			if test.limit != nil {
				test.limit(&policy)
			}
			if test.ctx != nil {
				ctx = test.ctx(t)
			}
			_, err := newClient(t, policy).Do(request(t, ctx, "GET", test.url, nil), "tenant")
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
				t.Errorf("%v, want context.DeadlineExceeded", err)
			}
		})
	}
}

func TestTenantLimit(t *testing.T) {
	t.Parallel()
	url, policy := destination(t, nil, ok)
	policy.MaxConnsPerTenant = 2
	c := newClient(t, policy)
	do := func(tenant, url string) (*http.Response, error) {
		return c.Do(request(t, t.Context(), "GET", url, nil), tenant)
	}
	for range 3 { // failed requests hold nothing
		must.Fail(do("a", strings.Replace(url, "example.com", "example.org", 1)))(t, "another host", ErrUnreachable)
	}
	first := must.Get(do("a", url))(t)
	second := must.Get(do("a", url))(t)
	sent := &closing{Reader: strings.NewReader("body")}
	if _, err := c.Do(request(t, t.Context(), "POST", url, sent), "a"); !errors.Is(err, ErrBusy) || !sent.closed {
		t.Errorf("a third request: %v, want ErrBusy; its body is closed: %v", err, sent.closed)
	}
	resp, err := do("b", url)
	readAll(t, resp, err)

	first.Body.Close()
	first.Body.Close() // releases one place, not two
	third := must.Get(do("a", url))(t)
	must.Fail(do("a", url))(t, "closing twice gave two slots", ErrBusy)
	second.Body.Close()
	third.Body.Close()
	wantNoneInProgress(t, c)
}

// wantNoneInProgress checks that no request is left in progress.
func wantNoneInProgress(t *testing.T, c *Client) {
	t.Helper()
	for tenant, p := range c.pools.all {
		if p.used != 0 {
			t.Errorf("%d requests of tenant %s are still in progress", p.used, tenant)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// A tenant reuses its own connections, and no other tenant's.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	url, policy := destination(t, nil, ok)
	c := newClient(t, policy)
	var reused []bool
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) }}
	for _, tenant := range []string{"a", "a", "b", "a", "b"} {
		ctx := httptrace.WithClientTrace(t.Context(), trace)
		resp, err := c.Do(request(t, ctx, "GET", url, nil), tenant)
		readAll(t, resp, err)
	}
	must.Same(t, "reused", []bool{false, true, false, true, true}, reused)
}

// Only the most recent tenants keep their connections, and tenants with a
// request in progress.
func TestFewTenantsKeepConnections(t *testing.T) {
	t.Parallel()
	p := &pools{connect: func() *http.Transport { return new(http.Transport) }, all: map[string]*pool{}}
	p.slots = share.New[string](share.Limits{Each: 1})
	busy := p.take("busy", nil)
	for i := range maxResting + 10 {
		p.give(p.take(strconv.Itoa(i), nil), nil)
	}
	p.give(p.take("10", nil), nil) // is now the most recent
	p.give(p.take("new", nil), nil)
	for tenant, want := range map[string]bool{"busy": true, "9": false, "10": true, "11": false, "12": true, "new": true} {
		if _, kept := p.all[tenant]; kept != want {
			t.Errorf("tenant %s is kept: %v, want %v", tenant, kept, want)
		}
	}
	must.Same(t, "tenants are idle", maxResting, p.resting.Len())
	p.resting.Front().Value.(*pool).since = time.Now().Add(-idleTimeout)
	p.give(busy, nil)
	if _, kept := p.all["12"]; kept || len(p.all) != maxResting {
		t.Errorf("a tenant whose connections have ended is kept: %v, of %d", kept, len(p.all))
	}
}
