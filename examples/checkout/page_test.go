package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// shopPage is a site under test, and a record of everything that its shop
// received.
type shopPage struct {
	*shop
	t              *testing.T
	page           string           // address of the shop
	api, fields    *httptest.Server // the vault, and its card fields
	privateKey     string
	clock          *atomic.Int64 // how far the vault's clock is ahead
	received, logs *record       // received are the bytes that reached the shop, on any connection
	around         http.HandlerFunc
	acquirer       atomic.Pointer[http.HandlerFunc] // nil for the example's own
	charges        atomic.Int64
	charged        atomic.Value // body of the last charge
}

// record collects bytes.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) contains(text string) bool {
	return r.matches(regexp.QuoteMeta(text))
}

func (r *record) matches(pattern string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return regexp.MustCompile(pattern).Match(r.buf.Bytes())
}

// holdsCode reports whether the record contains a security code as a separate
// number. It ignores longer numbers and ids, which may contain the digits by
// chance.
func (r *record) holdsCode(code string) bool {
	return r.matches(`(^|[^0-9a-f-])` + code + `($|[^0-9a-f-])`)
}

// recordedConn records the bytes that are read from a connection.
type recordedConn struct {
	net.Conn
	to *record
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.to.Write(p[:n])
	return n, err
}

// recordedListener records the bytes that are read from all connections.
type recordedListener struct {
	net.Listener
	to *record
}

func (l *recordedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recordedConn{conn, l.to}, nil
}

// newShopPage serves a site until the test ends.
func newShopPage(t *testing.T) *shopPage {
	t.Helper()
	w := &shopPage{t: t, clock: new(atomic.Int64), received: &record{}, logs: &record{}}
	charges := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.charges.Add(1)
		w.charged.Store(string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		if instead := w.acquirer.Load(); instead != nil {
			(*instead)(rw, r)
			return
		}
		acquirer{}.ServeHTTP(rw, r)
	}))
	front, api, fields := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	for _, s := range []*httptest.Server{charges, front, api, fields} {
		t.Cleanup(s.Close)
	}
	front.Listener = &recordedListener{front.Listener, w.received}
	v, err := openVault(t.Context(), func() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) })
	must.Do(t, err)
	t.Cleanup(func() { _ = v.Close() })
	w.page, w.api, w.fields = originOf(front.Listener), api, fields
	at := addresses{w.page, originOf(api.Listener), originOf(fields.Listener), charges.URL}
	w.shop, api.Config.Handler, fields.Config.Handler, err = newSite(t.Context(), v, at, slog.New(slog.NewTextHandler(w.logs, nil)))
	must.Do(t, err)
	handler := w.handler()
	w.around = handler.ServeHTTP
	front.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.around(rw, r) })
	w.vault.client = w.recordedClient(v)
	front.Start()
	api.Start()
	fields.Start()
	return w
}

// recordedClient replaces the key of the shop's server, and returns a client that
// records what it reads.
func (w *shopPage) recordedClient(v *vault.Vault) *vaultclient.Client {
	w.t.Helper()
	tenants := must.Get(v.ListTenants(w.t.Context(), vault.PageParams{Size: 1}))(w.t)
	c := v.Tenant(tenants.Data[0].ID)
	apps := must.Get(c.ListApplications(w.t.Context(), vault.ListApplicationsParams{Name: "Shop server"}))(w.t)
	app := must.Get(c.RegenerateKey(w.t.Context(), apps.Data[0].ID))(w.t)
	w.privateKey = app.Key
	client := must.Get(vaultclient.New(w.vault.url, app.Key, &vaultclient.Options{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &recordedConn{conn, w.received}, nil
		},
	}}))(w.t)
	return client
}

// orderPage creates an order and returns the address of its page.
func (w *shopPage) orderPage() string {
	w.t.Helper()
	res := must.Get(http.Get(w.page))(w.t)
	res.Body.Close()
	return res.Request.URL.String()
}

// answer is an HTTP response.
type answer struct {
	status int
	body   []byte
}

// send sends a request and returns the response.
func (w *shopPage) send(method, url, key, body string) *answer {
	w.t.Helper()
	req := must.Get(http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body)))(w.t)
	req.Header.Set("SVC-API-KEY", key)
	req.Header.Set("Origin", w.page)
	res := must.Get(http.DefaultClient.Do(req))(w.t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(w.t)
	return &answer{res.StatusCode, text}
}

// openSession opens a session as the page of an order does.
func (w *shopPage) openSession(order string) (vault.Session, *answer) {
	w.t.Helper()
	var s vault.Session
	must.Do(w.t, vault.JSON(w.send("POST", w.vault.url+"/sessions", w.vault.publicKey, "").body).Decode(&s))
	return s, w.send("POST", order+"/session", "", fmt.Sprintf(`{"nonce":%q}`, s.Nonce))
}

// newToken creates a token in a session for an order, as its page does.
func (w *shopPage) newToken(order, body string) string {
	w.t.Helper()
	session, res := w.openSession(order)
	must.Same(w.t, fmt.Sprint("authorize: ", res.body), http.StatusNoContent, res.status)
	var token vault.Token
	must.Do(w.t, vault.JSON(w.send("POST", w.vault.url+"/tokens", session.SessionKey, body).body).Decode(&token))
	return token.ID
}

// pay pays an order with a token as its page does.
func (w *shopPage) pay(order, token string) *answer {
	w.t.Helper()
	return w.send("POST", order+"/payment", "", fmt.Sprintf(`{"token":%q}`, token))
}
