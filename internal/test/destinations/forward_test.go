package destinations_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// gate is a till behind a forward proxy.
type gate struct {
	*till
	server  *httptest.Server
	proxy   string // address
	pass    string // key with a rule for the destination
	opened  int    // connections of clients
	openedM sync.Mutex
}

func newGate(t testing.TB, cfg vault.Config) *gate {
	t.Helper()
	g := &gate{till: newTill(t, cfg)}
	g.Clock.Advance(time.Since(g.Clock.Now())) // clients check certificates by their own clocks
	given.Update(t, g.Private, "card", `{"data":{"cvc":"737"}}`)
	g.server = httptest.NewUnstartedServer(g.ForwardProxy(nil))
	g.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			g.openedM.Lock()
			g.opened++
			g.openedM.Unlock()
		}
	}
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests break the handshake
	g.server.Start()
	t.Cleanup(g.server.Close)
	g.proxy = g.server.Listener.Addr().String()
	given.Create(t, g.Private, vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: "sk_live_secret"})
	_, g.pass = g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", g.to)})
	return g
}

// client returns Go's client with the proxy.
func (g *gate) client(t testing.TB, key string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(g.ca(t))
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword("x", key), Host: g.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: pool}, ExpectContinueTimeout: time.Minute,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (g *gate) ca(t testing.TB) []byte {
	t.Helper()
	return must.Get(g.ForwardCA(t.Context()))(t)
}

// do sends a request and returns the response with its body.
func do(t testing.TB, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res := must.Get(c.Do(req))(t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	return res, string(body)
}

func (g *gate) request(t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	return must.Get(http.NewRequestWithContext(t.Context(), method, g.url+path, body))(t)
}

// A program sends expressions through the proxy, and the destination gets the data.
func TestForwardProxy(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	g.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		rw.Header().Set("X-Auth", r.Header.Get("Authorization"))
		rw.Header().Set("Set-Cookie", "a=b")
		fmt.Fprint(rw, body, r.URL.RawQuery)
	}
	c := g.client(t, g.pass)
	for range 3 {
		req := g.request(t, "POST", "/v1/a%2Fb?k={{secret}}", strings.NewReader(cardExpression))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer {{ secret }}"}, "Svc-Api-Key": {"x"}, "Proxy-Foo": {"x"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
		res, body := do(t, c, req)
		given.Same(t, "sent", g.got.Header.Get("Authorization")+g.body+g.got.URL.RawQuery, `Bearer sk_live_secret{"number":"`+given.Visa+`"}k=sk_live_secret`)
		given.Same(t, "path", g.got.URL.EscapedPath(), "/v1/a%2Fb")
		given.Same(t, "own headers", g.got.Header.Get("Svc-Api-Key")+g.got.Header.Get("Proxy-Foo")+g.got.Header.Get("Proxy-Authorization")+g.got.Header.Get("Svc-Trace-Id"), "")
		given.Same(t, "trace", g.got.Header.Get("Traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		given.Same(t, "received", res.Header.Get("X-Auth")+body+res.Header.Get("Set-Cookie"), `Bearer {{ secret }}{"number":"{{ card }}"}k={{ secret }}a=b`)
	}
	given.Same(t, "connections", g.opened, 2) // of the client, and the tunnel in it
	found := given.Entries(t, g.Vault, vault.ListLogsParams{EntityID: "card", Operation: "use"})
	if len(found) != 3 || found[0].Message != "Token used in a request to "+g.to || found[0].Origin != "127.0.0.1" {
		t.Errorf("the log has %+v", found)
	}
	given.Same(t, "entries of the proxy", len(given.Entries(t, g.Vault, vault.ListLogsParams{EntityID: "forward", Operation: "use"})), 3)
}

// The proxy forwards every kind of exchange of HTTP/1.1.
func TestForwardProxyExchanges(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{MaxBytes: 1 << 20})
	c := g.client(t, g.pass)
	large := strings.Repeat("0123456789", 1<<20)
	echo := func(rw http.ResponseWriter, _ *http.Request, body string) { fmt.Fprint(rw, body) }
	for name, test := range map[string]struct {
		method, typ string
		body        string
		chunked     bool
		header      [2]string
		answer      func(http.ResponseWriter, *http.Request, string)
		status      int
		want        string
	}{
		"get":               {method: "GET", answer: echo, status: 200},
		"head":              {method: "HEAD", answer: func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.Header().Set("Content-Length", "7") }, status: 200},
		"chunked":           {method: "POST", typ: "text/plain", body: "<{{ card | json: '$.number' }}>", chunked: true, answer: echo, status: 200, want: "<{{ card }}>"},
		"100-continue":      {method: "PUT", typ: "text/plain", body: "<{{ card | json: '$.number' }}>", header: [2]string{"Expect", "100-continue"}, answer: echo, status: 200, want: "<{{ card }}>"},
		"large":             {method: "POST", typ: "application/octet-stream", body: large, chunked: true, answer: echo, status: 200, want: large},
		"large with length": {method: "POST", typ: "application/octet-stream", body: large, answer: echo, status: 200, want: large},
		"too large":         {method: "POST", typ: "application/json", body: `"` + large + `"`, answer: echo, status: 413},
		"too large chunks":  {method: "POST", typ: "application/json", body: `"` + large + `"`, chunked: true, answer: echo, status: 413},
		"no content":        {method: "DELETE", answer: func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(204) }, status: 204},
		"redirect": {method: "POST", typ: "text/plain", body: "{{ card | json: '$.number' }}", answer: func(rw http.ResponseWriter, r *http.Request, body string) {
			rw.Header().Set("Location", "/?"+body)
			rw.WriteHeader(302)
		}, status: 302},
	} {
		g.answer = test.answer
		var body io.Reader = strings.NewReader(test.body)
		if test.chunked {
			body = struct{ io.Reader }{body}
		}
		req := g.request(t, test.method, "/", body)
		req.Header.Set("Content-Type", test.typ)
		if test.header[0] != "" {
			req.Header.Set(test.header[0], test.header[1])
		}
		res, got := do(t, c, req)
		if res.StatusCode != test.status || test.want != "" && got != test.want {
			t.Errorf("%s: %s %.100q", name, res.Status, got)
		}
		if name == "redirect" {
			given.Same(t, "location", res.Header.Get("Location"), "/?{{ card }}")
		}
	}
}

// tunnelTo opens a tunnel by hand.
func (g *gate) tunnelTo(t testing.TB, key, host string) *tls.Conn {
	t.Helper()
	raw := must.Get(net.Dial("tcp", g.proxy))(t)
	t.Cleanup(func() { raw.Close() })
	req := &http.Request{Method: "CONNECT", URL: &url.URL{Host: host}, Host: host, Header: http.Header{}}
	basic := http.Request{Header: http.Header{}}
	basic.SetBasicAuth("anyone", key)
	req.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	must.Do(t, req.Write(raw))
	res := must.Get(http.ReadResponse(bufio.NewReader(raw), req))(t)
	given.Same(t, "CONNECT "+host, res.StatusCode, 200)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(g.ca(t))
	name, _, _ := net.SplitHostPort(host)
	return tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: name})
}

// A client that closes its half after the request gets the response. Early
// responses, slow readers and responses that are cut off pass as they are.
func TestForwardProxyTiming(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	release := make(chan struct{})
	g.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) { <-release; fmt.Fprint(rw, "late") }
	c := g.tunnelTo(t, g.pass, g.to)
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", g.to)
	must.Do(t, c.CloseWrite())
	close(release)
	res := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	body, err := io.ReadAll(res.Body)
	given.Same(t, "half-closed", string(body)+fmt.Sprint(err), "late<nil>")

	large := strings.Repeat("x", 8<<20)
	wide := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, large) }))
	defer wide.Close()
	to := wide.Listener.Addr().String()
	slow := g.tunnelTo(t, g.pass, to)
	fmt.Fprintf(slow, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", to)
	if res, err = http.ReadResponse(bufio.NewReaderSize(slow, 1000), nil); err != nil {
		t.Fatal(err)
	}
	req := g.request(t, "GET", "/", nil)
	req.URL.Host, req.Host = to, to
	_, other := do(t, g.client(t, g.pass), req) // while the slow one does not read
	given.Same(t, "beside a slow reader", len(other), len(large))
	body, err = io.ReadAll(res.Body)
	given.Same(t, "a slow reader", fmt.Sprint(len(body), err), fmt.Sprint(len(large), " <nil>"))

	for _, length := range []string{"100", ""} {
		g.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) {
			if length != "" {
				rw.Header().Set("Content-Length", length)
			}
			fmt.Fprint(rw, "half")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}
		if res, err = g.client(t, g.pass).Do(g.request(t, "GET", "/", nil)); err == nil {
			body, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		must.Match(t, fmt.Sprint("half a response looks whole: ", body), err, must.Text("EOF"))
	}
}

// A panic in the middle of a response cuts it off, and does not add an error to it.
func TestForwardProxyPanicInAResponse(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	var text strings.Builder
	proxy := g.ForwardProxy(&vault.ForwardOptions{Logger: slog.New(slog.NewJSONHandler(&text, nil))})
	g.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxy.ServeHTTP(fragile{w}, r) })
	g.answer = func(rw http.ResponseWriter, _ *http.Request, _ string) {
		fmt.Fprint(rw, "half")
		_ = http.NewResponseController(rw).Flush()
		fmt.Fprint(rw, "rest")
	}
	c := g.client(t, g.pass)
	res := must.Get(c.Do(g.request(t, "GET", "/", nil)))(t)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err == nil || strings.Contains(string(body), "error") {
		t.Errorf("the client got %q, %v", body, err)
	}
	c.CloseIdleConnections()
	g.server.Close() // it waits for the lines
	must.Contain(t, "log", text.String(), "panic with a value of type string")
	must.Lack(t, "log", text.String(), "42424242")
}

// fragile panics with a value when it writes the word rest.
type fragile struct{ http.ResponseWriter }

func (f fragile) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f fragile) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "rest") {
		panic("4242424242424242")
	}
	return f.ResponseWriter.Write(p)
}

// A destination that responds before it has read the request is heard, and gets the
// rest of the request.
func TestForwardProxyEarlyResponse(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	early := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_ = control.EnableFullDuplex()
		rw.WriteHeader(http.StatusTeapot)
		fmt.Fprint(rw, "early, ")
		_ = control.Flush()
		_, _ = io.Copy(rw, r.Body) // the test compares it
	}))
	early.StartTLS()
	defer early.Close()
	body, write := io.Pipe()
	defer write.Close()
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", early.URL, body))(t)
	req.Header.Set("Content-Type", "application/octet-stream")
	res := must.Get(g.client(t, g.pass).Do(req))(t)
	defer res.Body.Close()
	given.Same(t, "status", res.StatusCode, http.StatusTeapot)
	fmt.Fprint(write, "late")
	write.Close()
	all, err := io.ReadAll(res.Body)
	given.Same(t, "body", string(all)+fmt.Sprint(err), "early, late<nil>")
}

// Requests that the proxy refuses.
func TestForwardProxyRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{FullAudit: true})
	_, open := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{given.Rule(1, "/", vault.TransformReveal, "token:use")})
	_, public := g.NewApplication(t, g.Owner, vault.ApplicationPublic, []vault.AccessRule{given.Rule(1, "/", vault.TransformMask, "token:create")})
	_, elsewhere := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", "pay.test")})
	_, both := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/pci/", g.to), given.Rule(2, "/", vault.TransformReveal, "token:use")})
	basic := func(key string) string {
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth("x", key)
		return r.Header.Get("Authorization")
	}
	connect := func(host, authorization string) string {
		return "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\nProxy-Authorization: " + authorization + "\r\n\r\n"
	}
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"no key":                {"CONNECT " + g.to + " HTTP/1.1\r\nHost: " + g.to + "\r\n\r\n", 407},
		"another scheme":        {connect(g.to, "Bearer "+g.pass), 407},
		"an unknown key":        {connect(g.to, basic("key_prv_x")), 407},
		"no destinations":       {connect(g.to, basic(open)), 403},
		"a public key":          {connect(g.to, basic(public)), 403},
		"an address":            {connect("203.0.113.7:443", basic(g.pass)), 400},
		"no host":               {connect(":443", basic(g.pass)), 400},
		"not a proxy request":   {"GET / HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(g.pass) + "\r\n\r\n", 400},
		"https without CONNECT": {"GET " + g.url + "/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: " + basic(g.pass) + "\r\n\r\n", 400},
		"plain http, no key":    {"GET http://" + g.to + "/ HTTP/1.1\r\nHost: x\r\n\r\n", 407},
		"a port of 0":           {connect("pay.test:0", basic(g.pass)), 400},
		"a port too large":      {connect("pay.test:65536", basic(g.pass)), 400},
		"a user name":           {connect("api.stripe.com@pay.test:443", basic(g.pass)), 400},
		"a number as a host":    {connect("2130706433:443", basic(g.pass)), 400},
		"WebSocket":             {"GET http://" + g.to + "/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nProxy-Authorization: " + basic(g.pass) + "\r\n\r\n", 400},
	} {
		raw := must.Get(net.Dial("tcp", g.proxy))(t)
		_ = raw.SetDeadline(time.Now().Add(time.Minute)) // a tunnel would stay open
		fmt.Fprint(raw, test.request)
		res, err := http.ReadResponse(bufio.NewReader(raw), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, _ := io.ReadAll(res.Body) // for the message
		raw.Close()
		if res.StatusCode != test.status || (res.Header.Get("Proxy-Authenticate") != "") != (test.status == 407) {
			t.Errorf("%s: %s %v %s", name, res.Status, res.Header, body)
		}
	}
	inside := func(name, key, request string, status int, want string) {
		t.Helper()
		c := g.tunnelTo(t, key, g.to)
		fmt.Fprint(c, strings.ReplaceAll(request, "HOST", g.to))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		body, _ := io.ReadAll(res.Body) // for the message
		given.Same(t, name+": status", res.StatusCode, status)
		must.Contain(t, name+": body", string(body), want)
	}
	inside("another host", g.pass, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400, "headers.Host")
	inside("another URL", g.pass, "GET https://evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 400, "headers.Host")
	inside("a user name", g.pass, "GET / HTTP/1.1\r\nHost: evil.example@HOST\r\n\r\n", 400, "")
	inside("two hosts", g.pass, "GET / HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", 400, "")
	inside("no host", g.pass, "GET / HTTP/1.0\r\n\r\n", 400, "headers.Host")
	inside("two lengths", g.pass, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "")
	inside("an unknown transfer encoding", g.pass, "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\nab", 501, "")
	inside("a body that is cut off", g.pass, "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nx\r\n\r\n", 400, "cut off")
	inside("another port", g.pass, "GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", 400, "headers.Host")
	inside("WebSocket", g.pass, "GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 400, "WebSocket")
	inside("CONNECT", g.pass, "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\n\r\n", 400, "CONNECT")
	inside("HTTP/2", g.pass, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "HTTP/2")
	inside("not a request", g.pass, "\x00\x01\x02\r\n\r\n", 400, "")
	inside("a destination of others", elsewhere, "GET / HTTP/1.1\r\nHost: HOST\r\nX: {{ card | json: '$.number' }}\r\n\r\n", 403, "limited to requests to pay.test")
	inside("an unknown token", g.pass, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n{{ nobody }}", 400, "nobody")
	inside("unbound in a body", both, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n{{ secret }}", 403, "limited to destinations")
	inside("unbound in a header", both, "GET / HTTP/1.1\r\nHost: HOST\r\nX: Bearer {{ secret }}\r\n\r\n", 403, "limited to destinations")
	inside("unbound beside bound", both, "GET /?a={{card|json:'$.cvc'}} HTTP/1.1\r\nHost: HOST\r\nX: Bearer {{ secret }}\r\n\r\n", 403, "limited to destinations")
	given.Same(t, "connections to the destination", g.conn.Load(), 0)
	raw := g.tunnelTo(t, g.pass, g.to).NetConn()
	fmt.Fprintf(raw, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", g.to)
	if text, _ := io.ReadAll(raw); !bytes.HasPrefix(text, []byte("HTTP/1.0 400")) {
		t.Errorf("no TLS in a tunnel: %q", text)
	}
	h2 := g.tunnelTo(t, g.pass, g.to)
	raw = h2.NetConn()
	if err := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(t.Context()); err == nil {
		t.Error("HTTP/2 was negotiated")
	}
	if found := given.Entries(t, g.Vault, vault.ListLogsParams{Operation: vault.OperationDenied}); len(found) < 3 {
		t.Errorf("denials: %v", found)
	}
}

// A destination gets exactly one request for each request in a tunnel, at the host
// of the tunnel, without headers that concern one connection.
func TestForwardProxyAttacks(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	g.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		rw.Header().Set("Trailer", "X-Late")
		rw.Header().Set("Connection", "X-Hop")
		rw.Header().Set("X-Hop", "1")
		rw.Header().Set("Svc-Trace-Id", "theirs")
		fmt.Fprint(rw, r.Host, " ", r.URL.EscapedPath(), " ", body)
		rw.Header().Set("X-Late", "sk_live_secret")
	}
	for name, test := range map[string]struct{ request, path, body string }{
		"an absolute URL":         {"GET http://HOST/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", "/x", ""},
		"a path like a host":      {"GET //evil.example/x HTTP/1.1\r\nHost: HOST\r\n\r\n", "//evil.example/x", ""},
		"two kinds of framing":    {"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "/", "a"},
		"a trailer":               {"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTrailer: X-Hop\r\n\r\n1\r\na\r\n0\r\nX-Hop: {{ secret }}\r\n\r\n", "/", "a"},
		"a named header":          {"GET / HTTP/1.1\r\nHost: HOST\r\nConnection: X-Hop, TE\r\nX-Hop: 1\r\nTE: trailers\r\n\r\n", "/", ""},
		"headers of the proxy":    {"GET / HTTP/1.1\r\nHost: HOST\r\nPROXY-X-Hop: 1\r\nproxy-authorization: Basic eDp5\r\n\r\n", "/", ""},
		"an upgrade, second":      {"GET / HTTP/1.1\r\nHost: HOST\r\nUpgrade:\r\nUpgrade: websocket\r\n\r\n", "/", ""},
		"a name that looks alike": {"GET / HTTP/1.1\r\nHost: HOST\r\nX: a\r\nContent-length: 0\r\n\r\n", "/", ""},
	} {
		c := g.tunnelTo(t, g.pass, g.to)
		fmt.Fprint(c, strings.ReplaceAll(test.request, "HOST", g.to), "GET /next HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
		read := bufio.NewReader(c)
		res, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		body, _ := io.ReadAll(res.Body) // for the message
		given.Same(t, name, fmt.Sprint(res.StatusCode, " ", string(body)), fmt.Sprint("200 ", g.to, " ", test.path, " ", test.body))
		for header := range g.got.Header {
			if !slices.Contains([]string{"Accept-Encoding", "Content-Length", "X"}, header) {
				t.Errorf("%s: the destination got the header %s", name, header)
			}
		}
		if id := res.Header.Get("Svc-Trace-Id"); uuid.Validate(id) != nil || res.Header.Get("X-Hop") != "" || len(g.got.Trailer)+len(res.Trailer) != 0 {
			t.Errorf("%s: response headers %v, trailers %v, %v", name, res.Header, g.got.Trailer, res.Trailer)
		}
		if res, err = http.ReadResponse(read, nil); err != nil || res.StatusCode != 400 {
			t.Errorf("%s: the next request: %v, %v", name, res, err)
		}
	}
	raw := g.tunnelTo(t, g.pass, g.to).NetConn()
	other := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, ServerName: "evil.example"})
	if err := other.HandshakeContext(t.Context()); err != nil || other.ConnectionState().PeerCertificates[0].VerifyHostname("evil.example") == nil {
		t.Errorf("the certificate is for the name in the handshake: %v", err)
	}
	closed := vaulttest.Open(t, ":memory:", nil)
	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), "GET", "http://pay.test/", nil)
	_, key := closed.NewApplication(t, closed.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", "pay.test")})
	req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+key)))
	closed.ForwardProxy(nil).ServeHTTP(rec, req)
	given.Same(t, "plain http in production: status", rec.Code, 400)
	must.Contain(t, "plain http in production: body", rec.Body.String(), "https only")
}

// tenants returns keys of other tenants with a rule for the destination.
func (g *gate) tenants(t testing.TB, n int) (keys []string) {
	t.Helper()
	for range n {
		tenant := must.Get(g.CreateTenant(t.Context(), "Other"))(t)
		_, key := g.NewApplication(t, g.Tenant(tenant.ID), vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", g.to)})
		keys = append(keys, key)
	}
	return keys
}

// refusesTunnel checks that a CONNECT is refused.
func (g *gate) refusesTunnel(t testing.TB, name, key, text string) {
	t.Helper()
	res, err := g.client(t, key).Do(g.request(t, "GET", "/", nil))
	if err == nil {
		res.Body.Close()
	}
	must.Match(t, name, err, must.Text(text))
}

// Each tenant may have some tunnels open, and all tenants together four times as
// many. Four tenants cannot keep all tunnels from a fifth, which gets the place of
// an idle tunnel.
func TestForwardProxyTunnelLimit(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]int{"one": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, vault.Config{})
			g.server.Config.Handler = g.ForwardProxy(&vault.ForwardOptions{MaxTunnels: each})
			keys := append([]string{g.pass}, g.tenants(t, 4)...)
			var all []*tls.Conn
			for _, key := range keys[:4] {
				for range each {
					all = append(all, g.tunnelTo(t, key, g.to))
				}
			}
			g.refusesTunnel(t, "one more of a tenant", g.pass, "Too Many Requests")
			res, _ := do(t, g.client(t, keys[4]), g.request(t, "GET", "/", nil))
			given.Same(t, "a fifth tenant", res.StatusCode, 200)
			closed := 0
			for _, c := range all {
				_ = c.NetConn().SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // an open tunnel sends nothing
				if _, err := c.NetConn().Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					closed++
				}
			}
			given.Same(t, "tunnels that made room", closed, 1)
		})
	}
}

// A CONNECT passes the rate limit, and a caller that is over the limit gets neither
// a certificate nor a tunnel.
func TestForwardProxyLimitsConnect(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	var asked atomic.Int32
	allowed := 50
	g.server.Config.Handler = g.ForwardProxy(&vault.ForwardOptions{
		RateLimit: func(r *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
			given.Same(t, "method", r.Method, http.MethodConnect)
			given.Same(t, "tenant", c.TenantID(), g.Owner.TenantID())
			return time.Second, int(asked.Add(int32(cost))) <= allowed
		},
	})
	for i := range allowed {
		g.tunnelTo(t, g.pass, fmt.Sprintf("host-%d.example:443", i)).NetConn().Close()
	}
	g.refusesTunnel(t, "over the limit", g.pass, "Too Many Requests")
	given.Same(t, "asked", int(asked.Load()), allowed+1)
	_, public := g.NewApplication(t, g.Owner, vault.ApplicationPublic, []vault.AccessRule{given.Rule(1, "/", vault.TransformMask, "token:create")})
	g.refusesTunnel(t, "a key that may not use the proxy, over the limit", public, "Too Many Requests")
	given.Same(t, "asked for a key that may not use the proxy", int(asked.Load()), allowed+2)
}

// The certificates of one tenant do not replace the certificates of another.
func TestForwardCertificatesOfTenants(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	other := g.tenants(t, 1)[0]
	serial := func() string {
		c := tls.Client(g.tunnelTo(t, other, "pay.test:443").NetConn(), &tls.Config{InsecureSkipVerify: true})
		must.Do(t, c.HandshakeContext(t.Context()))
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	for n := range 1100 {
		g.tunnelTo(t, g.pass, fmt.Sprintf("h%d.example:443", n)).NetConn().Close()
	}
	given.Same(t, "after the flood of another tenant", serial(), first)
}

// Each request has a trace id and a line in the log.
func TestForwardProxyLog(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	var text strings.Builder
	g.server.Config.Handler = g.ForwardProxy(&vault.ForwardOptions{
		Prefix: "BT-", Logger: slog.New(slog.NewJSONHandler(&text, nil)),
		RateLimit: func(r *http.Request, _ *vault.Client, _ int) (time.Duration, bool) {
			if r.URL.Path == "/panic" {
				panic("4242424242424242")
			}
			return 0, true
		},
	})
	c := g.client(t, g.pass)
	for i, test := range []struct {
		path, id string
		status   int
	}{{"/a", "one", 200}, {"/../b", "two", 400}, {"/panic", "three", 500}} {
		req := g.request(t, "GET", test.path, nil)
		req.Header.Set("BT-Trace-Id", test.id)
		req.Header.Set("Authorization", "Bearer {{ secret }}")
		res, _ := do(t, c, req)
		given.Same(t, "response", fmt.Sprint(res.StatusCode, res.Header.Get("BT-Trace-Id")), fmt.Sprint(test.status, test.id))
		if i == 0 {
			given.Same(t, "sent", g.got.Header.Get("BT-Trace-Id")+g.got.Header.Get("Authorization"), "Bearer sk_live_secret")
		}
	}
	must.Match(t, "an unknown key opened a tunnel", must.Err(g.client(t, "key_prv_x").Do(g.request(t, "GET", "/", nil))), must.Text("Proxy Authentication Required"))
	c.CloseIdleConnections()
	g.server.Close() // it waits for the lines
	who := `,"tenant_id":"` + g.Acme.ID.String() + `","application_id":`
	for _, want := range []string{
		`"method":"CONNECT","route":"forward","status":200,`, `"trace_id":"one","method":"GET","route":"forward","status":200,`,
		`"trace_id":"two","method":"GET","route":"forward","status":400,`, `"level":"ERROR","msg":"request","trace_id":"three","method":"GET","route":"forward","status":500,`,
		`"method":"CONNECT","route":"forward","status":407,`, who, `panic with a value of type string`,
	} {
		must.Contain(t, "the log", text.String(), want)
	}
	for _, never := range []string{"42424242", "sk_live", "key_prv"} {
		must.Lack(t, "the log", text.String(), never)
	}
	given.Same(t, "lines with a caller", strings.Count(text.String(), who), 4)
}

// A rate limit counts requests, and the tokens beyond the first in each.
func TestForwardProxyRateLimit(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	left := 3
	g.server.Config.Handler = g.ForwardProxy(&vault.ForwardOptions{RateLimit: func(_ *http.Request, c *vault.Client, cost int) (time.Duration, bool) {
		left -= cost
		return time.Second, left >= 0 && c.ApplicationID() != uuid.Nil
	}})
	c := g.client(t, g.pass)
	for _, want := range []int{200, 429} {
		req := g.request(t, "POST", "/", strings.NewReader("{{ card | json: '$.cvc' }} {{ secret }}"))
		req.Header.Set("Content-Type", "text/plain")
		res, _ := do(t, c, req)
		given.Same(t, "status", res.StatusCode, want)
	}
}

// A session that ends while its tunnel is open is dead at once, and so is a key that
// loses its rule with destinations. The connection to the destination is open too.
func TestForwardProxyRevocation(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	s := must.Get(g.Public.CreateSession(t.Context()))(t)
	must.Do(t, g.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Rules: []vault.AccessRule{bound(1, "/", g.to)}}))
	app, key := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", g.to)})
	narrowed, other := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", g.to)})
	for name, test := range map[string]struct {
		key    string
		revoke func() error
		status int
	}{
		"session": {s.SessionKey, func() error {
			all, err := g.Owner.ListSessions(t.Context(), vault.PageParams{})
			if err != nil {
				return err
			}
			return g.Owner.DeleteSession(t.Context(), all.Data[0].ID)
		}, 407},
		"rule": {key, func() error {
			return must.Err(g.Owner.PatchApplication(t.Context(), app.ApplicationID(), map[string]any{"rules": nil, "permissions": []string{"token:use"}}))
		}, 403},
		"method": {other, func() error {
			return must.Err(g.Owner.PatchApplication(t.Context(), narrowed.ApplicationID(), map[string]any{"rules": []vault.AccessRule{bound(1, "/", "POST "+g.to)}}))
		}, 403},
	} {
		c := g.tunnelTo(t, test.key, g.to)
		read := bufio.NewReader(c)
		send := func() int {
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer {{ secret }}\r\n\r\n", g.to)
			res := must.Get(http.ReadResponse(read, nil))(t)
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
		given.Same(t, name+", before", send(), 200)
		must.Do(t, test.revoke())
		g.got = nil
		given.Same(t, name+", after", send(), test.status)
		given.Same(t, name+": it arrived after all", g.got != nil, false)
	}
}

// The authority is the same on all nodes. A former certificate signs for 7 days, or
// not at all.
func TestForwardCA(t *testing.T) {
	t.Parallel()
	all, clock := given.Nodes(t)
	certs := func(text []byte, err error) (found []*x509.Certificate) {
		t.Helper()
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			c := must.Get(x509.ParseCertificate(block.Bytes))(t)
			found = append(found, c)
		}
		if err != nil || len(found) == 0 {
			t.Fatalf("%d certificates, %v", len(found), err)
		}
		return found
	}
	first := certs(all[0].ForwardCA(t.Context()))
	given.Same(t, "certificates", len(first), 1)
	if c := first[0]; !c.IsCA || !c.MaxPathLenZero || !c.PermittedDNSDomainsCritical || len(c.PermittedIPRanges) != 2 || len(c.ExtKeyUsage) != 1 {
		t.Errorf("the certificate is not limited: %+v", c)
	}
	if other := certs(all[1].ForwardCA(t.Context())); !other[0].Equal(first[0]) {
		t.Error("nodes have different certificates")
	}
	second := certs(all[1].RotateForwardCA(t.Context(), nil))
	if len(second) != 2 || !second[1].Equal(first[0]) {
		t.Fatalf("after a rotation: %d certificates", len(second))
	}
	clock.Advance(7*24*time.Hour - time.Second)
	given.Same(t, "before 7 days", len(certs(all[0].ForwardCA(t.Context()))), 2)
	clock.Advance(2 * time.Second)
	if after := certs(all[0].ForwardCA(t.Context())); len(after) != 1 || !after[0].Equal(second[0]) {
		t.Errorf("after 7 days: %d certificates", len(after))
	}
	third := certs(all[0].RotateForwardCA(t.Context(), &vault.RotateCAOptions{Now: true, Domains: []string{"example.com"}}))
	if len(third) != 1 || third[0].Equal(second[0]) || len(third[0].PermittedDNSDomains) != 1 {
		t.Errorf("a rotation at once: %+v", third)
	}
}

// A running proxy shows certificates of the new authority within a second.
func TestForwardCAOfARunningProxy(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	issuer := func() string {
		c := g.tunnelTo(t, g.pass, g.to)
		must.Do(t, c.HandshakeContext(t.Context()))
		leaf := c.ConnectionState().PeerCertificates[0]
		if life := leaf.NotAfter.Sub(leaf.NotBefore); life > 25*time.Hour {
			t.Errorf("the certificate is valid for %s", life)
		}
		return leaf.Issuer.CommonName
	}
	old := issuer()
	must.Get(g.RotateForwardCA(t.Context(), nil))(t)
	given.Same(t, "issuer after a rotation", issuer(), old)
	_, err := g.RotateForwardCA(t.Context(), &vault.RotateCAOptions{Domains: []string{"stripe.com", "https://x"}})
	must.Match(t, "a domain with a scheme", err, vault.ErrInvalid)
	must.Get(g.RotateForwardCA(t.Context(), &vault.RotateCAOptions{Now: true, Domains: []string{"stripe.com"}}))(t)
	given.Eventually(t, "the new authority signs", func() bool {
		c := g.tunnelTo(t, g.pass, g.to)
		return c.HandshakeContext(t.Context()) == nil && c.ConnectionState().PeerCertificates[0].Issuer.CommonName != old
	})
	g.tunnelTo(t, g.pass, "api.stripe.com:443")
	_, err = g.client(t, g.pass).Get("https://api.stripe.com.evil.example")
	if err == nil || !strings.Contains(err.Error(), "not permitted by any constraint") {
		t.Errorf("a host outside the domains: %v", err)
	}
}

// A certificate is kept for the tunnels to a host, until it is about to expire or
// 1,000 others are kept.
func TestForwardCertificatesAreKept(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	serial := func() string {
		c := tls.Client(g.tunnelTo(t, g.pass, "pay.test:443").NetConn(), &tls.Config{InsecureSkipVerify: true})
		must.Do(t, c.HandshakeContext(t.Context()))
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	given.Same(t, "the second tunnel", serial(), first)
	for n := range 1000 {
		g.tunnelTo(t, g.pass, fmt.Sprintf("h%d.example:443", n)).NetConn().Close()
	}
	second := serial()
	g.Clock.Advance(23*time.Hour + time.Second)
	if third := serial(); second == first || third == second {
		t.Errorf("certificates %s, %s and %s", first, second, third)
	}
}

// Idle tunnels cost little, and end when the server shuts down.
func TestForwardProxyIdleTunnels(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	var tunnels []*tls.Conn
	for range 500 {
		c := g.tunnelTo(t, g.pass, g.to)
		must.Do(t, c.HandshakeContext(t.Context()))
		tunnels = append(tunnels, c)
	}
	given.Same(t, "connections to the destination", g.conn.Load(), 0)
	res, _ := do(t, g.client(t, g.pass), g.request(t, "GET", "/", nil))
	given.Same(t, "status", res.StatusCode, 200)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, g.server.Config.Shutdown(ctx))
	for _, c := range tunnels {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("a tunnel is open after the shutdown")
		}
	}
}
