package vaultclient_test

import (
	"context"
	"errors"
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

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

var generic = vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}

// TestLostResponsesAreRetried breaks the first attempt in every way. The call
// must still succeed and take effect once, and both attempts must have the
// same idempotency key.
func TestLostResponsesAreRetried(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]fault{
		"cut": cut, "lost": lose, "half an answer": half,
		"503": answer(503), "502": answer(502), "504": answer(504), "408": answer(408), "429": answer(429),
		"503 after it was done": afterwards(503), "504 after it was done": afterwards(504),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, first(happens))
			tok := must.Get(f.client(t, f.PrivateKey, vaultclient.Options{}).CreateToken(t.Context(), generic))(t)
			same(t, "the token", must.Get(f.Private.GetToken(t.Context(), tok.ID))(t).ID, tok.ID)
			same(t, "tokens", f.tokens(t), 1)
			keys := f.headers("SVC-IDEMPOTENCY-KEY")
			if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
				t.Errorf("idempotency keys %q", keys)
			}
		})
	}
}

// Calls that change nothing are retried without a key.
func TestReadsAreRetried(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*vaultclient.Client) error{
		"GetToken": func(c *vaultclient.Client) error { return must.Err(c.GetToken(t.Context(), "tok")) },
		"ListTokens": func(c *vaultclient.Client) error {
			return must.Err(c.ListTokens(t.Context(), vault.ListTokensParams{}))
		},
		"SearchTokens": func(c *vaultclient.Client) error {
			return must.Err(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:token"}))
		},
		"Detokenize": func(c *vaultclient.Client) error { return must.Err(c.Detokenize(t.Context(), "{{ tok }}")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, first(lose))
			must.Get(f.Private.CreateToken(t.Context(), vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: 1}))(t)
			must.Do(t, call(f.client(t, f.PrivateKey, vaultclient.Options{})))
			same(t, "idempotency keys", f.headers("SVC-IDEMPOTENCY-KEY"), []string{"", ""})
		})
	}
}

// TestDeleteAfterLostResponse distinguishes a token that a lost attempt has
// deleted from a token that never existed.
func TestDeleteAfterLostResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens fault
		id      string
		want    error
	}{
		"deleted by the lost attempt": {lose, "tok", nil},
		"deleted by the second":       {cut, "tok", nil},
		"never there":                 {pass, "nobody", vault.ErrNotFound},
		"surely not deleted before":   {answer(429), "nobody", vault.ErrNotFound},
		"perhaps deleted before":      {answer(503), "nobody", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, first(c.happens))
			must.Get(f.Private.CreateToken(t.Context(), vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: 1}))(t)
			err := f.client(t, f.PrivateKey, vaultclient.Options{}).DeleteToken(t.Context(), c.id)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if f.tokens(t) != 0 && c.id == "tok" {
				t.Error("the token still exists")
			}
		})
	}
}

// A permanent error costs only one request.
func TestPermanentErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	taken := vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: 1}
	for name, c := range map[string]struct {
		happens fault
		call    func(context.Context, *vaultclient.Client) error
		want    error
	}{
		"a taken id": {pass, func(ctx context.Context, c *vaultclient.Client) error {
			return must.Err(c.CreateToken(ctx, taken))
		}, vault.ErrConflict},
		"bad input": {pass, func(ctx context.Context, c *vaultclient.Client) error {
			return must.Err(c.Tokenize(ctx, vault.JSON("{")))
		}, vault.ErrInvalid},
		"no permission": {pass, func(ctx context.Context, c *vaultclient.Client) error { return must.Err(c.GetTenant(ctx)) }, vault.ErrForbidden},
		"not found": {pass, func(ctx context.Context, c *vaultclient.Client) error {
			return must.Err(c.GetToken(ctx, "nobody"))
		}, vault.ErrNotFound},
		"a redirect":       {answer(307, "Location", "/elsewhere"), func(ctx context.Context, c *vaultclient.Client) error { return must.Err(c.GetToken(ctx, "x")) }, vaultclient.ErrAnswer},
		"a page, with 200": {answer(200), func(ctx context.Context, c *vaultclient.Client) error { return must.Err(c.GetToken(ctx, "x")) }, vaultclient.ErrAnswer},
		"a page, with 404": {answer(404), func(ctx context.Context, c *vaultclient.Client) error { return must.Err(c.GetToken(ctx, "x")) }, vaultclient.ErrAnswer},
		"a page, with 413": {answer(413), func(ctx context.Context, c *vaultclient.Client) error { return must.Err(c.GetToken(ctx, "x")) }, vault.ErrTooLarge},
		"a call of a proxy": {answer(503), func(ctx context.Context, c *vaultclient.Client) error {
			return must.Err(c.InvokeProxy(ctx, vault.ProxyCall{Key: "k"}))
		}, vaultclient.ErrAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, c.happens)
			must.Get(f.Private.CreateToken(t.Context(), taken))(t)
			err := c.call(t.Context(), f.client(t, f.PrivateKey, vaultclient.Options{}))
			must.Match(t, "error", err, c.want)
			same(t, "requests", f.count(), 1)
			if err != nil && strings.Contains(err.Error(), "html") {
				t.Errorf("the error repeats the body: %v", err)
			}
		})
	}
}

// A key that is denied or unreachable looks the same to a client.
func TestUnavailableKey(t *testing.T) {
	t.Parallel()
	for _, err := range []error{vault.ErrKeyDenied, vault.ErrKeyUnavailable} {
		f := newFront(t, func(_ int, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("SVC-Trace-Id", "a")
			httpserver.WriteError(w, err)
		})
		_, got := f.client(t, f.PrivateKey, vaultclient.Options{}).GetToken(t.Context(), "tok")
		must.Match(t, fmt.Sprint(err, " became"), got, vault.ErrKeyUnavailable)
	}
}

// Pauses grow up to their limit, and their number is limited.
func TestPauses(t *testing.T) {
	t.Parallel()
	f := newFront(t, answer(503))
	c := f.client(t, f.PrivateKey, vaultclient.Options{Retry: vaultclient.Retry{Attempts: 9, MinDelay: time.Second, MaxDelay: 20 * time.Second}})
	_, err := c.GetToken(t.Context(), "tok")
	var e *vaultclient.Error
	if !errors.As(err, &e) || e.Status != 503 || e.TraceID != "" || !errors.Is(err, vaultclient.ErrAnswer) {
		t.Errorf("error %v", err)
	}
	if f.count() != 9 || len(f.pauses) != 8 {
		t.Fatalf("%d attempts, %d pauses", f.count(), len(f.pauses))
	}
	for i, pause := range f.pauses {
		if limit := min(20*time.Second, time.Second<<i); pause < 0 || pause > limit {
			t.Errorf("pause %d of %s, at most %s", i+1, pause, limit)
		}
	}
	if slices.Max(f.pauses) == slices.Min(f.pauses) {
		t.Error("the pauses are not random")
	}
}

// The client waits as long as the server requests, up to a limit.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	retry := vaultclient.Retry{MinDelay: 1, MaxDelay: time.Minute}
	for value, want := range map[string][2]time.Duration{
		"7": {7 * time.Second, 7 * time.Second}, "60": {time.Minute, time.Minute}, "junk": {0, 1}, "-5": {0, 1}, "": {0, 1},
		time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat): {20 * time.Second, 30 * time.Second},
		"Thu, 01 Jan 1970 00:00:00 GMT":                                {0, 1},
	} {
		f := newFront(t, first(answer(429, "Retry-After", value)))
		if _, err := f.client(t, f.PrivateKey, vaultclient.Options{Retry: retry}).CreateToken(t.Context(), generic); err != nil {
			t.Errorf("%q: %v", value, err)
		}
		if len(f.pauses) != 1 || f.pauses[0] < want[0] || f.pauses[0] > want[1] {
			t.Errorf("%q: pauses %v, want one from %s to %s", value, f.pauses, want[0], want[1])
		}
	}
	f := newFront(t, answer(429, "Retry-After", "61"))
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{Retry: retry}).CreateToken(t.Context(), generic)
	var e *vaultclient.Error
	if !errors.Is(err, vault.ErrBusy) || !errors.As(err, &e) || e.RetryAfter != 61*time.Second || f.count() != 1 || len(f.pauses) != 0 {
		t.Errorf("%d requests, pauses %v, error %v", f.count(), f.pauses, err)
	}
}

// A call does not outlive its context.
func TestContextEndsRetries(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFront(t, func(n int, w http.ResponseWriter, r *http.Request, vault http.Handler) {
		if n == 2 {
			cancel()
		}
		answer(503)(n, w, r, vault)
	})
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{Retry: vaultclient.Retry{Attempts: 50}}).CreateToken(ctx, generic)
	must.Match(t, "error", err, context.Canceled)
	same(t, "requests", f.count(), 2)
	// This part uses a real timer, and a pause that is too long to wait for.
	slow := newFront(t, answer(429, "Retry-After", "3600"))
	ctx, cancel = context.WithCancel(t.Context())
	c := must.Get(vaultclient.New(slow.Server.URL, slow.PrivateKey, &vaultclient.Options{
		Transport: whenRead{slow.Server.Client().Transport, cancel}, Retry: vaultclient.Retry{MaxDelay: 2 * time.Hour}}))(t)
	if _, err := c.GetToken(ctx, "tok"); !errors.Is(err, context.Canceled) || !errors.Is(err, vault.ErrBusy) {
		t.Errorf("error %v, want the context's error and the reason for the pause", err)
	}
}

// whenRead is a transport that calls a function when a response has been
// read.
type whenRead struct {
	http.RoundTripper
	do func()
}

func (a whenRead) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = &closing{res.Body, a.do}
	}
	return res, err
}

type closing struct {
	io.ReadCloser
	do func()
}

func (c *closing) Close() error {
	c.do()
	return c.ReadCloser.Close()
}

// TestRetryWhileFirstRequestIsInProgress loses the response to a request that the server is
// still handling. The client waits and then gets the response.
func TestRetryWhileFirstRequestIsInProgress(t *testing.T) {
	t.Parallel()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	g := &gate{Storage: store, reached: make(chan struct{}), open: make(chan struct{})}
	done := make(chan struct{})
	f := frontOf(t, vaulttest.OpenStorage(t, g, nil), first(func(_ int, _ http.ResponseWriter, r *http.Request, vault http.Handler) {
		g.shut.Store(true)
		r = r.Clone(context.WithoutCancel(r.Context()))
		go func() {
			defer close(done)
			vault.ServeHTTP(httptest.NewRecorder(), r)
		}()
		<-g.reached
		panic(http.ErrAbortHandler)
	}))
	var waits int
	c := f.client(t, f.PrivateKey, vaultclient.Options{Retry: vaultclient.Retry{Sleep: func(_ context.Context, d time.Duration) error {
		if waits++; waits == 2 { // after the response that the first request is in progress
			if d < time.Second {
				t.Errorf("waited %s, want at least a second", d)
			}
			g.shut.Store(false)
			close(g.open)
			<-done
		}
		return nil
	}}})
	tok := must.Get(c.CreateToken(t.Context(), generic))(t)
	same(t, "requests", f.count(), 3)
	same(t, "tokens", f.tokens(t), 1)
	must.Get(f.Private.GetToken(t.Context(), tok.ID))(t)
}

// gate is a storage whose writes can be blocked.
type gate struct {
	vault.Storage
	shut          atomic.Bool
	reached, open chan struct{}
}

func (g *gate) Write(ctx context.Context, c *storage.Change) error {
	if g.shut.Load() {
		close(g.reached)
		<-g.open
	}
	return g.Storage.Write(ctx, c)
}

// An unreachable server is retried, and the error names the reason.
func TestUnreachableServerIsRetried(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	listener.Close()
	attempts := 0
	c := must.Get(vaultclient.New("https://"+listener.Addr().String(), "key", &vaultclient.Options{
		Transport: &http.Transport{}, Retry: vaultclient.Retry{Sleep: func(context.Context, time.Duration) error { attempts++; return nil }}}))(t)
	_, err := c.CreateToken(t.Context(), generic)
	var dial *net.OpError
	if !errors.As(err, &dial) || !strings.Contains(err.Error(), "vaultclient: CreateToken: dial tcp 127.0.0.1") || attempts != 3 {
		t.Errorf("%d pauses, error %v", attempts, err)
	}
}

// TestUntrustedServer checks that a certificate of an unknown authority ends
// the call.
func TestUntrustedServer(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{Transport: transport}).GetToken(t.Context(), "tok")
	if err == nil || !strings.Contains(err.Error(), "certificate") || f.count() != 0 || len(f.pauses) != 0 {
		t.Errorf("%d requests, %d pauses, error %v", f.count(), len(f.pauses), err)
	}
}

// TestIdempotencyKeys checks which calls have keys, and the effect of a key
// that the caller chose.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	f := newFront(t, pass)
	c := f.client(t, f.PrivateKey, vaultclient.Options{})
	ctx := vaultclient.WithIdempotencyKey(t.Context(), "order 17")
	one := must.Get(c.CreateToken(ctx, generic))(t)
	again := must.Get(f.client(t, f.PrivateKey, vaultclient.Options{}).CreateToken(ctx, generic))(t)
	other := must.Get(c.CreateToken(t.Context(), generic))(t)
	same(t, "the second call with the key", again, one)
	if one.ID == other.ID {
		t.Error("a call without the key is a replay")
	}
	for _, call := range []func() error{
		func() error { return must.Err(c.PatchToken(ctx, one.ID, vault.JSON(`{"metadata":{"a":"b"}}`))) },
		func() error { return must.Err(c.Tokenize(ctx, "x")) },
		func() error { return must.Err(c.GetToken(ctx, one.ID)) },
		func() error { return must.Err(c.Detokenize(ctx, "x")) },
		func() error { return c.DeleteToken(ctx, one.ID) },
	} {
		must.Do(t, call())
	}
	got := f.headers("SVC-IDEMPOTENCY-KEY")
	if got[2] == "" || got[2] == "order 17" {
		t.Errorf("a random key is %q", got[2])
	}
	got[2] = "random"
	same(t, "keys", got, []string{"order 17", "order 17", "random", "order 17", "order 17", "", "", ""})
	before := f.count()
	for _, bad := range []string{"", " x", "a\nb", "ü", strings.Repeat("k", 256)} {
		_, err := c.CreateToken(vaultclient.WithIdempotencyKey(t.Context(), bad), generic)
		var invalid *vault.InvalidError
		if !errors.As(err, &invalid) || invalid.Fields["idempotency_key"] == nil {
			t.Errorf("key %q: %v", bad, err)
		}
	}
	same(t, "requests", f.count(), before)
}

// A client can be configured to try only once.
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	f := newFront(t, answer(503))
	_, err := f.client(t, f.PrivateKey, vaultclient.Options{Retry: vaultclient.Retry{Attempts: 1}}).GetToken(t.Context(), "tok")
	if err == nil || f.count() != 1 {
		t.Errorf("%d requests, error %v", f.count(), err)
	}
}
