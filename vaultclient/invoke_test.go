package vaultclient_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// An untrusted query cannot send a request through another proxy.
func TestProxyIsNotChosenByAQuery(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	c := f.client(t, f.PrivateKey, vaultclient.Options{})
	for _, query := range []string{"svc-proxy-key=other", "a=b&SVC-Proxy-Key=other", "svc%2Dproxy-key", "a&%73vc-proxy-key=x&b"} {
		_, err := c.InvokeProxy(t.Context(), vault.ProxyCall{URL: "https://destination.example", Query: query})
		var bad *vault.InvalidError
		if !errors.As(err, &bad) || bad.Fields["query"] == nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	same(t, "requests", f.count(), 0)
}

// Only the client sets headers with the API's prefix.
func TestProxyIsNotChosenByAHeader(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{}).InvokeProxy(t.Context(), vault.ProxyCall{
		URL: "https://localhost", Header: http.Header{"svc-proxy-key": {"other"}, "Svc-Api-Key": {"other"}, "SVC-Else": {"x"}}})
	if !errors.Is(err, vault.ErrInvalid) && !errors.Is(err, vault.ErrUnreachable) {
		t.Errorf("error %v, want a forbidden destination", err)
	}
	for name, want := range map[string]string{"SVC-PROXY-KEY": "", "SVC-API-KEY": f.PrivateKey, "SVC-ELSE": "", "SVC-PROXY-URL": "https://localhost"} {
		if got := f.headers(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// The start of a response arrives before the rest is sent. The same holds for
// a request.
func TestProxyResponsesStream(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan string), make(chan struct{})
	dest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		piece := make([]byte, 3)
		_, _ = io.ReadFull(r.Body, piece)
		arrived <- string(piece)
		_, _ = io.WriteString(w, "one")
		_ = control.Flush()
		<-release
		_, _ = io.WriteString(w, "two")
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(dest.Close)
	pool := x509.NewCertPool()
	pool.AddCert(dest.Certificate())
	f := frontOf(t, vaulttest.Open(t, ":memory:", &vault.Config{Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: pool}}), pass)
	body, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, _ = io.WriteString(feed, "abc") // and then neither more nor the end
	}()
	got := make(chan string)
	go func() {
		defer close(got)
		a, err := f.client(t, f.PrivateKey, vaultclient.Options{}).InvokeProxy(t.Context(), vault.ProxyCall{
			URL: dest.URL, Method: "POST", Body: body, ContentLength: -1, Header: http.Header{"Content-Type": {"application/octet-stream"}}})
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Body.Close()
		for {
			piece := make([]byte, 3)
			if _, err := io.ReadFull(a.Body, piece); err != nil {
				return
			}
			got <- string(piece)
		}
	}()
	for _, step := range []struct {
		from <-chan string
		want string
	}{{arrived, "abc"}, {got, "one"}} {
		same(t, "step", <-step.from, step.want)
	}
	close(release)
	feed.Close()
	same(t, "response", <-got, "two")
	<-got
}

// TestInvokeProxyIsSentOnce breaks reused connections after the request has
// arrived. By default, net/http would send some of these requests again.
func TestInvokeProxyIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]vault.ProxyCall{
		"GET":                    {Method: "GET"},
		"no method":              {},
		"an empty body":          {Method: "GET", Body: http.NoBody},
		"HEAD":                   {Method: "HEAD"},
		"OPTIONS":                {Method: "OPTIONS"},
		"TRACE":                  {Method: "TRACE"},
		"an idempotency key":     {Method: "POST", Header: http.Header{"idempotency-key": {"k"}}},
		"the same, another name": {Method: "DELETE", Header: http.Header{"X-Idempotency-Key": {"k"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newBreaking(t)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			c := must.Get(vaultclient.New("http://"+srv.Addr().String(), "key", &vaultclient.Options{Transport: transport}))(t)
			call.Key = "k"
			a := must.Get(c.InvokeProxy(t.Context(), call))(t)
			a.Body.Close()
			must.Match(t, "no error although the connection broke", must.Err(c.InvokeProxy(t.Context(), call)), must.Text("the connection was closed before the whole response arrived"))
			seen := srv.requests()
			same(t, "len(seen)", len(seen), 2)
			for _, r := range seen {
				same(t, "a body is announced: length", []any{len(r.TransferEncoding), r.ContentLength}, []any{0, int64(0)})
				if want := len(call.Header) != 0; (r.Header.Get("Idempotency-Key")+r.Header.Get("X-Idempotency-Key") == "k") != want {
					t.Errorf("headers %v", r.Header)
				}
			}
		})
	}
}

// breaking is a server that responds to the first request of each connection,
// and drops the connection instead of responding to the second one.
type breaking struct {
	net.Listener
	mu   sync.Mutex
	seen []*http.Request
}

func newBreaking(t *testing.T) *breaking {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &breaking{Listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.serve(conn)
		}
	}()
	return b
}

func (b *breaking) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := range 2 {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.seen = append(b.seen, r)
		b.mu.Unlock()
		if n == 0 {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSVC-PROXY-DESTINATION-STATUS: 200\r\n\r\n")
		}
	}
}

func (b *breaking) requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

// heldBody is a body whose first Read blocks until it is released.
type heldBody struct {
	begun, release chan struct{}
	first          sync.Once
	mu             sync.Mutex
	reads, ended   int
}

func newHeldBody() *heldBody {
	return &heldBody{begun: make(chan struct{}), release: make(chan struct{})}
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.reads++
	b.mu.Unlock()
	b.first.Do(func() {
		close(b.begun)
		<-b.release
	})
	b.mu.Lock()
	b.ended++
	b.mu.Unlock()
	return copy(p, "x"), nil
}

func (b *heldBody) counts() (reads, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads, b.ended
}

// After a failed call, the body is no longer used, and a blocked Read does
// not delay the call for long.
func TestBodyIsNotReadAfterFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused, blocks bool
	}{
		"refused": {refused: true}, "canceled": {}, "refused, and the body blocks": {refused: true, blocks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := newHeldBody()
			var release sync.Once
			free := func() { release.Do(func() { close(body.release) }) }
			t.Cleanup(free)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFront(t, func(_ int, w http.ResponseWriter, r *http.Request, _ http.Handler) {
				<-body.begun
				if !c.blocks {
					time.AfterFunc(50*time.Millisecond, free) // after the call has failed, if it does not wait
				}
				if !c.refused {
					cancel()
					_, _ = io.Copy(io.Discard, r.Body) // until the client has left
					return
				}
				w.Header().Set("Connection", "close")
				answer(403)(0, w, r, nil)
			})
			_, err := f.client(t, f.PrivateKey, vaultclient.Options{}).InvokeProxy(ctx, vault.ProxyCall{Key: "k", Method: "POST", Body: body})
			must.Match(t, "error", err, map[bool]error{true: vaultclient.ErrAnswer, false: context.Canceled}[c.refused])
			reads, ended := body.counts()
			if under := reads - ended; (under == 1) != c.blocks {
				t.Errorf("%d reads are in progress", under)
			}
			free()
			f.Server.Close() // the connection has ended, so no more reads start
			if after, _ := body.counts(); after != reads {
				t.Errorf("%d reads started after the call failed", after-reads)
			}
		})
	}
}

// An oversized response that code built in place of a proxy's is an error,
// and is not truncated.
func TestProxyErrorResponseIsBounded(t *testing.T) {
	t.Parallel()
	f := newFront(t, func(_ int, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("SVC-CUSTOM-RESPONSE", "true")
		_, _ = io.WriteString(w, strings.Repeat("x", 1001))
	})
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{MaxAnswer: 1000}).InvokeProxy(t.Context(), vault.ProxyCall{Key: "k"})
	var failed *script.Error
	if !errors.Is(err, vault.ErrTooLarge) || errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
}

// A client without a key can call only proxies that require no
// authentication.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	v, dest := newVault(t, 0)
	f := frontOf(t, v, pass)
	c := must.Get(vaultclient.NewAnonymous(f.URL, &vaultclient.Options{Transport: f.Server.Client().Transport}))(t)
	app := v.Private.ApplicationID()
	proxy := func(auth bool) string {
		return must.Get(v.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: dest.URL, RequireAuth: &auth, ApplicationID: app}))(t).Key
	}
	tok := must.Get(v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "in clear"}))(t)
	answer, err := read(c.InvokeProxy(t.Context(), vault.ProxyCall{Key: proxy(false), Method: "POST", Body: strings.NewReader("{{ " + tok.ID + " }}"),
		Header: http.Header{"Content-Type": {"text/plain"}, "Svc-Api-Key": {v.PrivateKey}}}))
	if err != nil || !strings.Contains(fmt.Sprintf("%+v", answer), "in clear") {
		t.Errorf("%+v, %v", answer, err)
	}
	if got := f.headers("SVC-API-KEY"); len(got) != 1 || got[0] != "" {
		t.Errorf("the client sent the key %q", got)
	}
	for name, p := range map[string]vault.ProxyCall{"a proxy that requires a key": {Key: proxy(true)}, "a URL": {URL: dest.URL}} {
		must.Match(t, name, must.Err(c.InvokeProxy(t.Context(), p)), vault.ErrUnauthenticated)
	}
	must.Match(t, "an unknown proxy", must.Err(c.InvokeProxy(t.Context(), vault.ProxyCall{Key: "nope"})), vault.ErrNotFound)
	must.Match(t, "plain http was accepted", must.Err(vaultclient.NewAnonymous("http://vault.example", nil)), must.Text("the URL must be https"))
	must.Match(t, "New accepts a missing key", must.Err(vaultclient.New(f.URL, "", nil)), must.Text("the API key must have 1 to 1000"))
}
