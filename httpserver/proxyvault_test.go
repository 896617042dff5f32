package httpserver

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// proxyVault is a vault behind a real listener, and a destination behind TLS
// with its own certificate authority.
type proxyVault struct {
	*restVault
	front *httptest.Server
	dest  *destination
	http  *http.Client // follows no redirects, decompresses nothing
}

// destination is a server that records requests.
type destination struct {
	*httptest.Server
	answer http.HandlerFunc

	mu  sync.Mutex
	got []*received
}

// received is a request as it arrived.
type received struct {
	*http.Request
	body string
}

func newDestination(t testing.TB, answer http.HandlerFunc) *destination {
	t.Helper()
	d := &destination{answer: answer}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a truncated body is kept as it is
		d.mu.Lock()
		d.got = append(d.got, &received{r, string(body)})
		d.mu.Unlock()
		if d.answer != nil {
			d.answer(w, r)
		}
	}))
	t.Cleanup(d.Close)
	return d
}

// last returns the request that arrived last.
func (d *destination) last(t testing.TB) *received {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.got) == 0 {
		t.Fatal("nothing arrived at the destination")
	}
	return d.got[len(d.got)-1]
}

func (d *destination) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.got)
}

// trusting returns an egress policy that allows the given servers.
func trusting(servers ...*httptest.Server) vault.EgressPolicy {
	pool := x509.NewCertPool()
	for _, s := range servers {
		pool.AddCert(s.Certificate())
	}
	return vault.EgressPolicy{AllowPrivate: true, RootCAs: pool}
}

func newProxyVault(t testing.TB, cfg *vault.Config, opts *Options, answer http.HandlerFunc) *proxyVault {
	t.Helper()
	w := &proxyVault{dest: newDestination(t, answer)}
	var c vault.Config
	if cfg != nil {
		c = *cfg
	}
	if c.Egress.RootCAs == nil {
		c.Egress = trusting(w.dest.Server)
	}
	w.restVault = restVaultOf(t, vaulttest.Open(t, ":memory:", &c), opts)
	w.front = httptest.NewServer(w.h)
	t.Cleanup(w.front.Close)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	w.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w
}

// proxy stores a proxy to the destination.
func (w *proxyVault) proxy(change func(*vault.ProxyParams)) *vault.Proxy {
	w.t.Helper()
	p := vault.ProxyParams{Name: "gateway", DestinationURL: w.dest.URL}
	if change != nil {
		change(&p)
	}
	return must.Get(w.Management.CreateProxy(w.t.Context(), p))(w.t)
}

// anonymous makes a proxy that can be called without a key.
func anonymous(p *vault.ProxyParams) { p.RequireAuth = new(bool) }

// token stores a generic token under an id.
func (w *proxyVault) token(id string, data any) { //nolint:unparam // a test shows the id that its expressions name
	w.t.Helper()
	must.Get(w.Private.CreateToken(w.t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data}))(w.t)
}

// request builds a request to the front. Headers come in pairs.
func (w *proxyVault) request(method, path, body string, header ...string) *http.Request {
	w.t.Helper()
	r := must.Get(http.NewRequestWithContext(w.t.Context(), method, w.front.URL+path, strings.NewReader(body)))(w.t)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// call sends a request and reads the whole response.
func (w *proxyVault) call(r *http.Request) *response {
	w.t.Helper()
	res := must.Get(w.http.Do(r))(w.t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(w.t)
	return &response{res, string(body)}
}

// invoke calls a proxy with the private key.
func (w *proxyVault) invoke(x *vault.Proxy, method, suffix, body string, header ...string) *response {
	w.t.Helper()
	header = append([]string{"SVC-API-KEY", w.PrivateKey, "SVC-PROXY-KEY", x.Key}, header...)
	return w.call(w.request(method, "/proxy"+suffix, body, header...))
}

// wantProxyError requires an error of the proxy itself.
func (r *response) wantProxyError(t testing.TB, status int) map[string]any {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, status, r.body)
	}
	same(t, "the destination's status", r.Header.Get("SVC-PROXY-DESTINATION-STATUS"), "")
	if r.Header.Get("SVC-TRACE-ID") == "" {
		t.Error("no trace id")
	}
	var body struct {
		Error map[string]any `json:"proxy_error"`
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Error["status"] != float64(status) || body.Error["title"] == "" || body.Error["detail"] == "" {
		t.Fatalf("not a proxy error: %s", r.body)
	}
	return body.Error
}

// wantDestination requires a response of the destination.
func (r *response) wantDestination(t testing.TB, status int, body string) *response {
	t.Helper()
	if r.StatusCode != status || r.Header.Get("SVC-PROXY-DESTINATION-STATUS") != strconv.Itoa(status) {
		t.Fatalf("status %d, destination %q, want %d: %s", r.StatusCode, r.Header.Get("SVC-PROXY-DESTINATION-STATUS"), status, r.body)
	}
	same(t, "body", r.body, body)
	return r
}
