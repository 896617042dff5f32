package vaultclient_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url, key string
		opts     *vaultclient.Options
	}{
		"no URL":                     {"", "key", nil},
		"no scheme":                  {"vault.example", "key", nil},
		"another scheme":             {"ftp://vault.example", "key", nil},
		"no host":                    {"https:///path", "key", nil},
		"broken":                     {"https://vault.example/%zz-hunter2", "key", nil},
		"a user":                     {"https://me:hunter2@vault.example", "key", nil},
		"a query":                    {"https://vault.example?a=hunter2", "key", nil},
		"a fragment":                 {"https://vault.example#hunter2", "key", nil},
		"plain http":                 {"http://vault.example", "key", nil},
		"plain http, almost here":    {"http://127.0.0.1.example", "key", nil},
		"no key":                     {"https://vault.example", "", nil},
		"a key with a line break":    {"https://vault.example", "hunter2\n", nil},
		"a key that is too long":     {"https://vault.example", strings.Repeat("hunter2", 200), nil},
		"a prefix that is no header": {"https://vault.example", "key", &vaultclient.Options{Prefix: "A B"}},
		"a user agent with breaks":   {"https://vault.example", "key", &vaultclient.Options{UserAgent: "a\nb"}},
		"a negative timeout":         {"https://vault.example", "key", &vaultclient.Options{Timeout: -1}},
		"a negative bound":           {"https://vault.example", "key", &vaultclient.Options{MaxAnswer: -1}},
		"negative attempts":          {"https://vault.example", "key", &vaultclient.Options{Retry: vaultclient.Retry{Attempts: -1}}},
		"too many attempts":          {"https://vault.example", "key", &vaultclient.Options{Retry: vaultclient.Retry{Attempts: 101}}},
		"a negative delay":           {"https://vault.example", "key", &vaultclient.Options{Retry: vaultclient.Retry{MaxDelay: -1}}},
	} {
		client, err := vaultclient.New(c.url, c.key, c.opts)
		if err == nil || client != nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error may repeat a secret: %v", name, err)
		}
	}
	for _, url := range []string{"http://localhost:8080", "http://127.0.0.2", "http://[::1]:1/x/", "https://vault.example/a%2Fb"} {
		must.Match(t, url, must.Err(vaultclient.New(url, "key", nil)), nil)
	}
	must.Get(vaultclient.New("http://vault.example", "key", &vaultclient.Options{AllowPlainHTTP: true}))(t)
}

// A client works with a handler below a path, with or without a trailing
// slash, and with another header prefix.
func TestMounted(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	mux := http.NewServeMux()
	mux.Handle("/vault/v1/", http.StripPrefix("/vault/v1", httpserver.Handler(v.Vault, &httpserver.Options{Prefix: "BT-"})))
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	for i, path := range []string{"/vault/v1", "/vault/v1/"} {
		c := must.Get(vaultclient.New(srv.URL+path, v.PrivateKey, &vaultclient.Options{Transport: srv.Client().Transport, Prefix: "BT-"}))(t)
		id := fmt.Sprint("umlaut ü ", i)
		key := fmt.Sprint("create ", i)
		ctx := vaultclient.WithIdempotencyKey(t.Context(), key)
		for range 2 { // the second time with the idempotency key; otherwise the id would be taken
			same(t, path, must.Get(c.CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}))(t).ID, id)
		}
		_, err := c.GetToken(t.Context(), "nobody")
		var e *vaultclient.Error
		if !errors.As(err, &e) || e.TraceID == "" {
			t.Errorf("%s: no trace id in %v", path, err)
		}
	}
	if _, err := newClient(t, srv, v.PrivateKey, nil).GetToken(t.Context(), "tok"); !errors.Is(err, vaultclient.ErrAnswer) || errors.Is(err, vault.ErrNotFound) {
		t.Errorf("outside of the mount: %v, want ErrAnswer", err)
	}
}

// The path of the vault and token ids stay escaped, and impossible token ids
// are kept out of paths.
func TestPathsStayEscaped(t *testing.T) {
	t.Parallel()
	f := newFront(t, answer(404))
	for base, mount := range map[string]string{"": "", "/x%2Fy/": "/x%2Fy", "/ü": "/%C3%BC"} {
		c := must.Get(vaultclient.New(f.Server.URL+base, "key", &vaultclient.Options{Transport: f.Server.Client().Transport}))(t)
		for id, want := range map[string]string{
			"a b,ü;": "/tokens/a%20b%2C%C3%BC%3B", "...": "/tokens/...",
			"": "/tokens/-", "..": "/tokens/-", "search": "/tokens/-", "a/b?c": "/tokens/-", "../applications/key": "/tokens/-",
			`..\applications`: "/tokens/-", "%2e%2e": "/tokens/-", "a\r\nb": "/tokens/-", "a\xff\xffb": "/tokens/-", " ab": "/tokens/-",
		} {
			must.Match(t, "no error", must.Err(c.GetToken(t.Context(), id)), must.Text("the response is not from a vault"))
			f.mu.Lock()
			if got := f.seen[len(f.seen)-1].RequestURI; got != mount+want+"?transform=true" {
				t.Errorf("below %q the path of %q is %s, want %s", base, id, got, mount+want)
			}
			f.mu.Unlock()
		}
	}
}

// Neither the key nor a body is sent to the target of a redirect.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := newFront(t, answer(status, "Location", elsewhere.URL))
		c := f.client(t, f.PrivateKey, vaultclient.Options{})
		_, getErr := c.GetToken(t.Context(), "tok")
		_, createErr := c.CreateToken(t.Context(), generic)
		for _, err := range []error{getErr, createErr} {
			var e *vaultclient.Error
			if !errors.Is(err, vaultclient.ErrAnswer) || !errors.As(err, &e) || e.Status != status {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	same(t, "visits", visits.Load(), 0)
}

// TestResponsesThatAreNotFromAVault sends responses that no vault sends.
func TestResponsesThatAreNotFromAVault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typ, body string
		want      error
	}{
		"nothing":             {"application/json", "", vaultclient.ErrAnswer},
		"garbage":             {"application/json", "4242424242424242 garbage", vaultclient.ErrAnswer},
		"cut off":             {"application/json", `{"id":"4242424242424242`, vaultclient.ErrAnswer},
		"of another form":     {"application/json", `{"id":4242424242424242}`, vaultclient.ErrAnswer},
		"an array":            {"application/json", `["4242424242424242"]`, vaultclient.ErrAnswer},
		"two documents":       {"application/json", `{"id":"a"}{"id":"b"}`, vaultclient.ErrAnswer},
		"another type":        {"text/html", `{"id":"a"}`, vaultclient.ErrAnswer},
		"a broken type":       {"/;;", `{"id":"a"}`, vaultclient.ErrAnswer},
		"more than allowed":   {"application/json", `{"id":"` + strings.Repeat("4", 2000) + `"}`, vault.ErrTooLarge},
		"an unknown field":    {"application/json; charset=utf-8", `{"id":"a","new":1}`, nil},
		"exactly the allowed": {"application/json", `{"id":"` + strings.Repeat("4", 1000-9) + `"}`, nil},
	} {
		f := newFront(t, func(_ int, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", c.typ)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := f.client(t, f.PrivateKey, vaultclient.Options{MaxAnswer: 1000}).GetToken(t.Context(), "tok")
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || f.count() != 1 {
			t.Errorf("%s: %d requests, error %v, want %v", name, f.count(), err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "42424242") {
			t.Errorf("%s: the error repeats the response: %v", name, err)
		}
	}
}

// Only a limited part of an endless response is read.
func TestEndlessResponseIsBounded(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	f := newFront(t, func(_ int, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		defer close(ended)
		w.Header().Set("Content-Type", "application/json")
		for {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
				return
			}
		}
	})
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{MaxAnswer: 1 << 20}).GetToken(t.Context(), "tok")
	must.Match(t, "error", err, vault.ErrTooLarge)
	<-ended // the client has closed the connection
}

// Each attempt has a time limit, whether the response does not start or does
// not end.
func TestSlowResponsesTimeOut(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]bool{"no answer": false, "an answer that stalls": true} {
		f := newFront(t, func(_ int, w http.ResponseWriter, r *http.Request, _ http.Handler) {
			if begins {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		c := f.client(t, f.PrivateKey, vaultclient.Options{Timeout: 30 * time.Millisecond, Retry: vaultclient.Retry{Attempts: 2}})
		_, err := c.GetToken(t.Context(), "tok")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no response within 30ms") || len(f.pauses) != 1 {
			t.Errorf("%s: %d pauses, error %v", name, len(f.pauses), err)
		}
	}
}

// If the server does not speak HTTP, the error contains none of its bytes.
func TestNonHTTPResponseIsNotQuoted(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 4242424242424242\r\n\r\n")
			conn.Close()
		}
	}()
	c := must.Get(vaultclient.New("http://"+listener.Addr().String(), "key", &vaultclient.Options{
		Transport: &http.Transport{}, Retry: vaultclient.Retry{Attempts: 1}}))(t)
	_, err := c.GetToken(t.Context(), "tok")
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err.Error()), "42424242") {
		t.Errorf("error %v", err)
	}
	_, err = c.InvokeProxy(t.Context(), vault.ProxyCall{Key: "k"})
	if err == nil || strings.Contains(err.Error(), "42424242") {
		t.Errorf("error %v", err)
	}
}

// TestNothingShowsTheKey prints a client in every way, and the errors of
// calls that fail in every way.
func TestNothingShowsTheKey(t *testing.T) {
	t.Parallel()
	const body = "body-hunter2"
	echoed := func(_ int, w http.ResponseWriter, r *http.Request, _ http.Handler) { // a server that repeats everything
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		sent, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%v %s", r.Header, sent)
	}
	var out bytes.Buffer
	for _, happens := range []fault{cut, lose, half, answer(503), answer(301), echoed, pass} {
		f := newFront(t, happens)
		for _, key := range []string{f.PrivateKey, f.ManagementKey} {
			c := f.client(t, key, vaultclient.Options{Timeout: 5 * time.Second})
			_, createErr := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeCard, Data: body, Metadata: map[string]string{"a": body}})
			_, proxyErr := c.InvokeProxy(t.Context(), vault.ProxyCall{Key: "proxykey-hunter2", Method: "POST", Body: strings.NewReader(body), Query: "q=" + body})
			_, ephemeralErr := c.InvokeProxy(t.Context(), vault.ProxyCall{URL: "https://me:proxykey-hunter2@x.example", Header: http.Header{"Authorization": {body}}})
			deleteErr := c.DeleteToken(t.Context(), "nobody")
			fmt.Fprintf(&out, "%v %+v %#v %s %q %v %+v\n", c, c, c, c, c, *c, *c)
			for _, err := range []error{createErr, proxyErr, ephemeralErr, deleteErr} {
				fmt.Fprintf(&out, "%v %+v %q\n", err, err, err)
				slog.New(slog.NewJSONHandler(&out, nil)).Error("failed", "error", err, "client", c)
			}
			must.Lack(t, "what is printed", out.String(), key)
		}
	}
	must.Lack(t, "what is printed", out.String(), "hunter2")
	must.Contain(t, "the printed client", out.String(), "vaultclient https://127.0.0.1")
}

// The trace id in an error identifies the request in the server's log.
func TestErrorHasTheTraceID(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	v := vaulttest.New(t)
	srv := httptest.NewTLSServer(httpserver.Handler(v.Vault, &httpserver.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))}))
	c := newClient(t, srv, v.PrivateKey, nil)
	_, err := c.GetToken(t.Context(), "nobody")
	srv.Close() // so that everything is logged
	var e *vaultclient.Error
	if !errors.As(err, &e) || e.Status != 404 || e.TraceID == "" || !strings.Contains(log.String(), e.TraceID) {
		t.Errorf("error %#v, log %s", e, log.String())
	}
}

// A 500 is an error of no known kind. It names the trace id and is not
// retried.
func TestServerErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	f := newFront(t, func(_ int, w http.ResponseWriter, r *http.Request, v http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		v.ServeHTTP(w, r.WithContext(ctx)) // the database no longer responds
	})
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{}).ListTokens(t.Context(), vault.ListTokensParams{})
	var e *vaultclient.Error
	if !errors.As(err, &e) || e.Status != 500 || !strings.Contains(err.Error(), e.TraceID) || problemOf(err).Kinds != nil || f.count() != 1 {
		t.Errorf("%d requests, error %v", f.count(), err)
	}
}

// Iterators request pages that fit into the limit for responses.
func TestAllTokensOfAnySize(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	reader, key := f.NewApplication(t, f.Owner, vault.ApplicationPrivate, []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"}}})
	for i := range 40 {
		f.Clock.Advance(time.Second)
		must.Get(f.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("x", 1000*(i%7))}))(t)
	}
	collect := func(c vault.API) (all []string, last error) {
		for tok, err := range c.AllTokens(t.Context(), vault.ListTokensParams{}) {
			if err != nil {
				return all, err
			}
			all = append(all, tok.ID)
		}
		return all, nil
	}
	want := must.Get(collect(reader))(t)
	for _, limit := range []int64{20_000, 60_000, 1 << 20} {
		got, err := collect(f.client(t, key, vaultclient.Options{MaxAnswer: limit}))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("responses of %d bytes: %v, -want +got %s", limit, err, diff)
		}
	}
	_, err := collect(f.client(t, key, vaultclient.Options{MaxAnswer: 3000}))
	must.Match(t, "a token that fits into no response", err, vault.ErrTooLarge)
}

// TestConcurrentCalls uses one client from many goroutines, with a server that
// sometimes fails.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	f := newFront(t, func(n int, w http.ResponseWriter, r *http.Request, v http.Handler) {
		switch n % 5 {
		case 0:
			lose(n, w, r, v)
		case 1:
			answer(503)(n, w, r, v)
		default:
			v.ServeHTTP(w, r)
		}
	})
	c := f.client(t, f.PrivateKey, vaultclient.Options{Retry: vaultclient.Retry{Attempts: 50}})
	const callers, each = 16, 5
	var all sync.Map
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				tok, err := c.CreateToken(t.Context(), generic)
				if err != nil {
					t.Error(err)
					return
				}
				must.Match(t, "GetToken", must.Err(c.GetToken(t.Context(), tok.ID)), nil)
				all.Store(tok.ID, true)
			}
		})
	}
	wg.Wait()
	distinct := 0
	all.Range(func(any, any) bool { distinct++; return true })
	if n := f.tokens(t); n != callers*each || distinct != n {
		t.Errorf("%d tokens, %d responses, want %d", n, distinct, callers*each)
	}
}

// Text that is not UTF-8 is rejected. JSON would replace it.
func TestInvalidUTF8IsRefused(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	c := f.client(t, f.ManagementKey, vaultclient.Options{})
	_, createErr := c.CreateToken(t.Context(), vault.TokenParams{ID: "bad\xff", Type: vault.TypeGeneric, Data: 1})
	_, metadataErr := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: 1, Metadata: map[string]string{"k": "\xff"}})
	_, ruleErr := c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Rules: []vault.AccessRule{{Permissions: []vault.Permission{"\xff"}}}})
	_, codeErr := c.CreateReactor(t.Context(), vault.ReactorParams{Name: "a", Code: "\xff", Configuration: map[string]string{}})
	_, transformErr := c.CreateProxy(t.Context(), vault.ProxyParams{Name: "a", RequestTransform: &vault.ProxyTransform{Code: "\xff"}})
	for i, err := range []error{createErr, metadataErr, ruleErr, codeErr, transformErr} {
		must.Match(t, fmt.Sprint(i), err, vault.ErrInvalid)
	}
	same(t, "requests", f.count(), 0)
}
