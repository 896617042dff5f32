package httpserver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestRateLimitedRequestIs429WithRetryAfter(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{RateLimit: EachApplication(rate.Every(10*time.Second), 2)})
	w.do("GET", "/tokens", w.PrivateKey, "").want(t, 200)
	w.do("GET", "/tokens", w.PrivateKey, "").want(t, 200)
	res := w.do("GET", "/tokens", w.PrivateKey, "")
	res.wantError(t, 429)
	same(t, "Retry-After", res.Header.Get("Retry-After"), "10")
	w.do("GET", "/logs", w.ManagementKey, "").want(t, 200) // other applications are not limited
	w.do("GET", "/healthz", "", "").want(t, 200)
	w.do("GET", "/tokens", "", "").wantError(t, 401)
}

func TestASessionCountsAsItsApplication(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{RateLimit: EachApplication(rate.Every(time.Hour), 2)})
	key := w.do("POST", "/sessions", w.PublicKey, "").want(t, 201).text(t, "session_key")
	w.do("GET", "/permissions", key, "").want(t, 200)
	w.do("GET", "/permissions", key, "").wantError(t, 429)
	w.do("POST", "/sessions", w.PublicKey, "").wantError(t, 429)
}

func TestLimitersAreBounded(t *testing.T) {
	t.Parallel()
	l := &limiters{limit: 1, burst: 1, recent: map[uuid.UUID]*rate.Limiter{}}
	first := l.of([16]byte{1})
	for i := range 3 * maxLimiters {
		l.of([16]byte{2, byte(i), byte(i >> 8), byte(i >> 16)})
		if i%100 == 0 && l.of([16]byte{1}) != first {
			t.Fatal("an application in use lost its limiter")
		}
	}
	if n := len(l.recent) + len(l.old); n > 2*maxLimiters {
		t.Errorf("%d limiters are kept", n)
	}
}

func TestCORSIsOffByDefault(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	res := w.do("OPTIONS", "/tokens", "", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST")
	res.wantError(t, 405)
	for name := range res.Header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
			t.Errorf("%s is set", name)
		}
	}
}

func TestCORSLetsAPageTokenize(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{Origins: []string{"https://shop.example"}})
	pre := w.do("OPTIONS", "/tokens", "", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "content-type, svc-api-key").want(t, 204)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://shop.example", "Access-Control-Allow-Methods": "GET, HEAD, POST", "Vary": "Origin",
		"Access-Control-Allow-Headers": "Content-Type, Svc-Api-Key, Svc-Idempotency-Key, Svc-Trace-Id", "Access-Control-Max-Age": "600",
	} {
		same(t, name, pre.Header.Get(name), want)
	}
	for key, status := range map[string]int{w.PublicKey: 201, "": 401} { // a page can read errors too
		res := w.do("POST", "/tokens", key, card, "Origin", "https://shop.example").want(t, status)
		if res.Header.Get("Access-Control-Allow-Origin") != "https://shop.example" ||
			!strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Svc-Trace-Id") {
			t.Errorf("headers %v", res.Header)
		}
	}
	for _, origin := range []string{"https://evil.example", "null", "https://shop.example.evil.example", ""} {
		res := w.do("OPTIONS", "/tokens", "", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		res.want(t, 405).headers(t, "Access-Control-Allow-Origin", "", "Vary", "Origin")
	}
	w.do("OPTIONS", "/nope", "", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST").wantError(t, 404)
}

func TestCORSForAllOrigins(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{Origins: []string{"*"}})
	if got := w.do("GET", "/healthz", "", "", "Origin", "https://any.example").Header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("Access-Control-Allow-Origin %q", got)
	}
}

func TestResponseOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, &Options{MaxResponse: 3000})
	for range 10 {
		w.create(card) // the response to a write is never refused
	}
	w.do("GET", "/tokens", w.PrivateKey, "").wantError(t, 413)
	w.do("GET", "/tokens?size=2", w.PrivateKey, "").want(t, 200)
}

func TestPageWithTooMuchDataIs400(t *testing.T) {
	t.Parallel()
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 3000}), nil)
	for range 3 {
		w.create(`{"type":"token","data":"` + strings.Repeat("x", 2000) + `","metadata":{"a":"b"}}`)
	}
	for _, res := range map[string]*response{
		"list":   w.do("GET", "/tokens?size=2", w.PrivateKey, ""),
		"search": w.do("POST", "/tokens/search", w.PrivateKey, `{"query":"metadata.a:b","size":2}`),
	} {
		res.wantError(t, 400)
		res.has(t, `"size":["must be smaller`)
	}
	w.do("GET", "/tokens?size=1", w.PrivateKey, "").want(t, 200)
}
