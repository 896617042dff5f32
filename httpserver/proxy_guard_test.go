package httpserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// TestProxyRefusesPrivateAddresses requests addresses that only this machine
// can reach. The policy is the default one, and a server listens on loopback.
func TestProxyRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	dest := newDestination(t, nil)
	_, port, err := net.SplitHostPort(dest.Listener.Addr().String())
	must.Do(t, err)
	for _, host := range []string{
		"127.0.0.1", "localhost", "foo.localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[::127.0.0.1]",
		"2130706433", "0177.0.0.1", "0x7f.1", "127.1", "0", "0.0.0.0", "[::]",
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "224.0.0.1", "168.63.129.16",
	} {
		target := "https://" + host + ":" + port + "/"
		res := w.do("GET", "/proxy/latest/meta-data", w.PrivateKey, "", "SVC-PROXY-URL", target)
		if body := res.wantProxyError(t, 400); body["errors"] == nil {
			t.Errorf("%s: %v", host, body)
		}
		create := w.do("POST", "/proxies", w.ManagementKey, `{"name":"x","destination_url":"`+target+`"}`)
		same(t, host+": status of the create", create.StatusCode, 400)
	}
	for _, target := range []string{"http://example.com/", "gopher://example.com/", "file:///etc/passwd", "https:example.com", "//example.com", "https://a:b@example.com/", "https://example.com:0/", "https://exa mple.com/"} {
		w.do("GET", "/proxy", w.PrivateKey, "", "SVC-PROXY-URL", target).wantProxyError(t, 400)
	}
	same(t, "requests to loopback", dest.count(), 0)
}

// TestProxyUsesTheCurrentPolicy stores a proxy under one policy and invokes it
// under a stricter one.
func TestProxyUsesTheCurrentPolicy(t *testing.T) {
	t.Parallel()
	dest := newDestination(t, nil)
	path := t.TempDir() + "/vault.db"
	key := vault.NewKey()
	reopen := func(cfg vault.Config) *vault.Vault {
		store := must.Get(sqlite.Open(t.Context(), path))(t)
		return must.Get(vault.Open(t.Context(), store, key, &cfg))(t)
	}
	v := reopen(vault.Config{Egress: trusting(dest.Server)})
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	x := must.Get(v.Tenant(tenant.ID).CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: dest.URL}))(t)
	must.Do(t, v.Close())
	v = reopen(vault.Config{})
	defer v.Close()
	_, err := v.Tenant(tenant.ID).InvokeProxy(t.Context(), vault.ProxyCall{Key: x.Key, Method: "GET"})
	same(t, "status", describe(err).Status, http.StatusBadGateway)
	same(t, "requests", dest.count(), 0)
}

// TestProxySmuggling sends raw requests that two servers could parse
// differently. None may arrive as more than one request, or as a different
// one.
func TestProxySmuggling(t *testing.T) { //nolint:tparallel // each case looks at what arrived since it began
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	x := w.proxy(nil)
	auth := "Host: x\r\nSVC-API-KEY: " + w.PrivateKey + "\r\nSVC-PROXY-KEY: " + x.Key + "\r\nConnection: close\r\n"
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, tc := range map[string]struct{ request, arrives string }{
		"two lengths":            {"POST /proxy HTTP/1.1\r\n" + auth + "Content-Length: 3\r\nContent-Length: 40\r\n\r\nabc" + smuggled, ""},
		"length and chunks":      {"POST /proxy HTTP/1.1\r\n" + auth + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, "POST / "},
		"two encodings":          {"POST /proxy HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled, ""},
		"obscured encoding":      {"POST /proxy HTTP/1.1\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled, ""},
		"space before the colon": {"POST /proxy HTTP/1.1\r\n" + auth + "Content-Length : 3\r\n\r\nabc" + smuggled, ""},
		"folded header":          {"GET /proxy HTTP/1.1\r\n" + auth + "X-A: 1\r\n Content-Length: 5\r\n\r\n", "GET / "},
		"bare CR":                {"GET /proxy HTTP/1.1\r\n" + auth + "X-A: 1\rContent-Length: 5\r\n\r\n", ""},
		"CR and LF in the path":  {"GET /proxy/a%0d%0aX:1 HTTP/1.1\r\n" + auth + "\r\n", "GET /a%0d%0aX:1 "},
		"CR and LF in the query": {"GET /proxy?a=%0d%0aX:1 HTTP/1.1\r\n" + auth + "\r\n", "GET /?a=%0d%0aX:1 "},
		"space in the path":      {"GET /proxy/a b HTTP/1.1\r\n" + auth + "\r\n", ""},
		"space in the query":     {"GET /proxy?a b HTTP/1.1\r\n" + auth + "\r\n", ""},
		"absolute form":          {"GET http://evil.example/proxy/a HTTP/1.1\r\n" + auth + "\r\n", "GET /a "},
		"absolute form, proxy":   {"GET http://evil.example/ HTTP/1.1\r\n" + auth + "\r\n", ""},
		"CONNECT":                {"CONNECT evil.example:443 HTTP/1.1\r\n" + auth + "\r\n", ""},
		"CONNECT to the path":    {"CONNECT /proxy HTTP/1.1\r\n" + auth + "\r\n", ""},
		"method of its own":      {"G=T /proxy HTTP/1.1\r\n" + auth + "\r\n", ""},
		"hop-by-hop key":         {"GET /proxy HTTP/1.1\r\n" + strings.Replace(auth, "close", "close, SVC-API-KEY, Host, SVC-TRACE-ID", 1) + "\r\n", "GET / "},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.dest.count()
			conn := must.Get(net.Dial("tcp", w.front.Listener.Addr().String()))(t)
			defer conn.Close()
			must.Get(io.WriteString(conn, tc.request))(t)
			_, _ = io.ReadAll(conn) // whatever the response is
			var got []string
			w.dest.mu.Lock()
			for _, r := range w.dest.got[before:] {
				got = append(got, r.Method+" "+r.RequestURI+" "+r.body)
				if r.Header.Get("SVC-TRACE-ID") == "" || r.Header.Get("SVC-API-KEY") != "" || "https://"+r.Host != w.dest.URL {
					t.Errorf("headers: %s %v", r.Host, r.Header)
				}
			}
			w.dest.mu.Unlock()
			var want []string
			if tc.arrives != "" {
				want = []string{tc.arrives}
			}
			same(t, "arrived", got, want)
		})
	}
}

func TestSlowProxyCallerIsNotTheDestinationsFault(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, &Options{BodyTimeout: 100 * time.Millisecond}, nil)
	x := w.proxy(nil)
	for _, typ := range []string{"text/plain", "image/png"} {
		conn := must.Get(net.Dial("tcp", w.front.Listener.Addr().String()))(t)
		defer conn.Close()
		head := "POST /proxy HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: " + w.PrivateKey + "\r\nSVC-PROXY-KEY: " + x.Key + "\r\nContent-Type: " + typ + "\r\nContent-Length: 10\r\n\r\nabc"
		roundTrip(t, conn, head).wantProxyError(t, 408)
	}
}

func TestProxyCORS(t *testing.T) {
	t.Parallel()
	answer := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		rw.Header().Set("Vary", "Accept")
	}
	w := newProxyVault(t, nil, &Options{Origins: []string{"https://shop.example"}}, answer)
	x := w.proxy(anonymous)
	send := func(w *proxyVault, x *vault.Proxy, method, origin string, header ...string) *response {
		return w.call(w.request(method, "/proxy/x", "", append(header, "SVC-PROXY-KEY", x.Key, "Origin", origin)...))
	}
	res := send(w, x, "GET", "https://shop.example").wantDestination(t, 200, "")
	if got := res.Header["Access-Control-Allow-Origin"]; !slices.Equal(got, []string{"https://shop.example"}) ||
		!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Svc-Proxy-Destination-Status") || len(res.Header["Vary"]) != 2 {
		t.Errorf("headers: %v", res.Header)
	}
	if res := send(w, x, "GET", "https://evil.example"); res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("the destination admitted a page of an unknown origin")
	}
	before := w.dest.count()
	res = send(w, x, "OPTIONS", "https://shop.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization, svc-proxy-key")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Headers") != "authorization, svc-proxy-key" || !strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "PATCH") || w.dest.count() != before {
		t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
	}
	plain := newProxyVault(t, nil, nil, answer)
	if res := send(plain, plain.proxy(anonymous), "OPTIONS", "https://shop.example", "Access-Control-Request-Method", "POST"); res.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Error("without configured origins the destination must decide")
	}
}

func TestProxyIsRateLimitedAndNotIdempotent(t *testing.T) {
	t.Parallel()
	limiter := rate.NewLimiter(rate.Every(time.Hour), 2)
	w := newProxyVault(t, nil, &Options{RateLimit: func(_ *http.Request, _ *vault.Client, cost int) (time.Duration, bool) {
		return time.Hour, limiter.AllowN(time.Now(), cost)
	}}, nil)
	x := w.proxy(nil)
	for range 2 {
		res := w.invoke(x, "POST", "", "same", "SVC-IDEMPOTENCY-KEY", "k", "Content-Type", "text/plain").wantDestination(t, 200, "")
		same(t, "replayed", res.Header.Get("SVC-IDEMPOTENT-REPLAYED"), "")
	}
	same(t, "requests at the destination", w.dest.count(), 2)
	if res := w.invoke(x, "POST", "", ""); res.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	} else {
		res.wantProxyError(t, 429)
	}
}

// Calls without an API key count for each proxy, and not for its application.
func TestAnonymousProxyCallsAreRateLimited(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	each := EachApplication(rate.Every(time.Hour), 3)
	w := newProxyVault(t, nil, &Options{RateLimit: func(r *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
		asked.Add(1)
		return each(r, c, cost)
	}}, nil)
	app := must.Get(w.Private.OwnApplication(t.Context()))(t)
	both := func(p *vault.ProxyParams) {
		anonymous(p)
		p.ApplicationID = app.ID
	}
	first, second, closed := w.proxy(both), w.proxy(both), w.proxy(nil)
	call := func(key string) *response {
		return w.call(w.request("GET", "/proxy", "", "SVC-PROXY-KEY", key))
	}
	for range 3 {
		call(first.Key).wantDestination(t, 200, "")
	}
	for range 2 {
		res := call(first.Key)
		res.wantProxyError(t, 429)
		same(t, "Retry-After", res.Header.Get("Retry-After"), "3600")
	}
	call(second.Key).wantDestination(t, 200, "")
	w.invoke(first, "GET", "", "").wantDestination(t, 200, "")
	same(t, "requests at the destination", w.dest.count(), 5)

	before := asked.Load()
	for i := range 5 {
		call(fmt.Sprintf("unknown%d", i)).wantProxyError(t, 404)
	}
	call(closed.Key).wantProxyError(t, 401)
	call("").wantProxyError(t, 400)
	same(t, "calls without a proxy reached the limiter", asked.Load(), before)
}

func TestProxyUnderAPrefixOfTheMux(t *testing.T) {
	t.Parallel()
	w := newProxyVault(t, nil, nil, nil)
	x := w.proxy(anonymous)
	mounted := httptest.NewServer(http.StripPrefix("/vault", w.h))
	defer mounted.Close()
	r := w.request("GET", "/", "", "SVC-PROXY-KEY", x.Key)
	r.URL.Host, r.URL.Path, r.URL.RawPath = mounted.Listener.Addr().String(), "/vault/proxy/a/b//", "/vault/proxy/a%2Fb//"
	w.call(r).wantDestination(t, 200, "")
	same(t, "arrived", w.dest.last(t).RequestURI, "/a%2Fb//")
}

func TestProxyPanicsAreErrorsOfTheProxy(t *testing.T) {
	t.Parallel()
	w, store := breakableVault(t)
	var cause any = errBroken
	store.panics.Store(&cause)
	r := request(t, "/proxy", w.PrivateKey, "{{tok}}")
	r.Header.Set("SVC-PROXY-URL", "https://example.com/")
	res := w.serve(r)
	res.wantProxyError(t, 500)
	res.lacks(t, errBroken.Error())
}

// A panic while a response is relayed cuts the response, and its value goes nowhere.
func TestPanicWhileRelaying(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	x := &exchange{endpoint: &endpoint{handler: &handler{}}, w: w, r: httptest.NewRequest(http.MethodGet, "/", nil)}
	_, broken, cause := x.relay(&vault.ProxyAnswer{Status: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(exploding{})})
	if !broken || cause == nil || strings.Contains(cause.Error(), "4242") {
		t.Errorf("broken %t: %v", broken, cause)
	}
}

type exploding struct{}

func (exploding) Read([]byte) (int, error) { panic("4242424242424242") }
