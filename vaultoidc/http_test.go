package vaultoidc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// served is a vault behind its REST API, with a provider as its issuer.
type served struct {
	*vaulttest.Vault
	t   testing.TB
	p   *provider
	v   *Verifier
	api http.Handler
	log records
}

// records keeps the request log.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *records) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

// newServed returns a vault with the clock of its provider.
func newServed(t testing.TB) *served {
	t.Helper()
	s := &served{t: t, p: all(t)}
	s.v = verifier(t, s.p)
	s.Vault = vaulttest.Open(t, ":memory:", &vault.Config{Identities: s.v, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	s.advance(0)
	s.api = httpserver.Handler(s.Vault.Vault, &httpserver.Options{Logger: slog.New(slog.NewJSONHandler(&s.log, nil))})
	return s
}

// advance moves the clocks.
func (s *served) advance(d time.Duration) {
	s.Clock.Advance(d)
	s.p.set(func() { s.p.clock.now = s.Clock.Now() })
}

// application returns an application with an identity of the provider.
func (s *served) application(claims map[string]any) *vault.Application {
	s.t.Helper()
	return must.Get(s.Owner.CreateApplication(s.t.Context(), vault.ApplicationParams{
		Name: "workload", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create", "token:use"}, CreateKey: new(false),
		Identities: []vault.Identity{{Issuer: s.p.url, Audience: "vault", Claims: claims}},
	}))(s.t)
}

// do sends a request with headers, and returns the response and its text: status,
// headers and body.
func (s *served) do(method, path string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "https://vault.example"+path, strings.NewReader(`{}`))
	r.Header.Set("SVC-TRACE-ID", "trace")
	for n := 0; n < len(headers); n += 2 {
		r.Header.Add(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	resp := w.Result()
	defer resp.Body.Close()
	return resp, fmt.Sprintln(resp.StatusCode, resp.Header, w.Body)
}

// own is a route that any caller may use.
const own = "/applications/key"

// A JWT takes the place of an API key, or is in Authorization beside the application.
// Below /proxy, Authorization belongs to the destination.
func TestHeadersOfAWorkload(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop"}).ID.String()
	jwt := s.p.sign(t, "rsa", rsaKey(), nil)
	var got http.Header
	destination := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(destination.Close)
	for name, c := range map[string]struct {
		path    string
		headers []string
		status  int
	}{
		"in place of a key":           {own, []string{"SVC-API-KEY", app + ":" + jwt}, 200},
		"a bearer token":              {own, []string{"SVC-APPLICATION", app, "Authorization", "Bearer " + jwt}, 200},
		"another case of the scheme":  {own, []string{"SVC-APPLICATION", app, "Authorization", "bearer " + jwt}, 200},
		"another scheme":              {own, []string{"SVC-APPLICATION", app, "Authorization", "Basic " + jwt}, 401},
		"no bearer token":             {own, []string{"SVC-APPLICATION", app}, 401},
		"no application":              {own, []string{"Authorization", "Bearer " + jwt}, 401},
		"two applications":            {own, []string{"SVC-APPLICATION", app, "SVC-APPLICATION", app, "Authorization", "Bearer " + jwt}, 401},
		"two bearer tokens":           {own, []string{"SVC-APPLICATION", app, "Authorization", "Bearer " + jwt, "Authorization", "Bearer " + jwt}, 401},
		"a key as bearer token":       {own, []string{"SVC-APPLICATION", app, "Authorization", "Bearer " + s.PrivateKey}, 401},
		"both headers":                {own, []string{"SVC-API-KEY", app + ":" + jwt, "SVC-APPLICATION", app, "Authorization", "Bearer " + jwt}, 400},
		"both headers, and a key":     {own, []string{"SVC-API-KEY", s.PrivateKey, "SVC-APPLICATION", app}, 400},
		"both headers, to a proxy":    {"/proxy", []string{"SVC-API-KEY", s.PrivateKey, "SVC-APPLICATION", app, "SVC-PROXY-URL", destination.URL}, 400},
		"through a proxy":             {"/proxy", []string{"SVC-API-KEY", app + ":" + jwt, "Authorization", "Bearer theirs", "SVC-PROXY-URL", destination.URL}, 200},
		"a bearer token to a proxy":   {"/proxy", []string{"SVC-APPLICATION", app, "Authorization", "Bearer " + jwt, "SVC-PROXY-URL", destination.URL}, 401},
		"a bearer token below /proxy": {"/proxy/a", []string{"SVC-APPLICATION", app, "Authorization", "Bearer " + jwt, "SVC-PROXY-URL", destination.URL}, 401},
	} {
		method := http.MethodGet
		if strings.HasPrefix(c.path, "/proxy") {
			method = http.MethodPost
		}
		resp, text := s.do(method, c.path, c.headers...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s", name, text)
		}
		must.Lack(t, name, text, jwt)
	}
	must.Same(t, "what the destination gets", []string{"Bearer theirs", "", ""}, []string{got.Get("Authorization"), got.Get("Svc-Api-Key"), got.Get("Svc-Application")})
	page := must.Get(s.Owner.ListLogs(t.Context(), vault.ListLogsParams{ActorType: vault.ActorApplication}))(t)
	for _, e := range page.Data {
		must.Same(t, "actor", app+" repo:acme/shop", e.ActorID.String()+" "+e.ActorName)
	}
}

// Each forgery gets the response to an unknown key: in status, headers and body. Only
// the request log has the reason.
func TestRefusedResponses(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop", "/k/uid": "7", "n": json.Number("1")}).ID.String()
	claims := map[string]any{"k": map[string]any{"uid": "7"}, "n": 1}
	good := s.p.sign(t, "rsa", rsaKey(), claims)
	resp, text := s.do(http.MethodGet, own, "SVC-API-KEY", app+":"+good)
	must.Same(t, "the good JWT, "+text, http.StatusOK, resp.StatusCode)
	all := map[string]string{}
	for name, f := range forgeries(t, s.p) {
		all[name] = app + ":" + f.jwt
	}
	changed := func(name string, value any) string {
		c := maps.Clone(claims)
		c[name] = value
		return app + ":" + s.p.sign(t, "rsa", rsaKey(), c)
	}
	for _, value := range []any{"repo:acme/shop-evil", "repo:acme/sho", "Repo:acme/shop", "repo:acme/shop ", "repo:acme/ſhop", 1, true, nil, map[string]any{"sub": "repo:acme/shop"}, []any{[]any{"repo:acme/shop"}}, []any{}} {
		all[fmt.Sprint("sub ", value)] = changed("sub", value)
	}
	for _, value := range []any{"1", json.Number("1.0"), json.Number("10e-1"), true, 2} {
		all[fmt.Sprintf("n %#v", value)] = changed("n", value)
	}
	for _, value := range []any{[]any{map[string]any{"uid": "7"}}, map[string]any{"uid": 7}, map[string]any{"UID": "7"}, "7"} {
		all[fmt.Sprint("k ", value)] = changed("k", value)
	}
	for _, value := range []any{"vault2", "Vault", []any{}, []any{"x"}, []any{[]any{"vault"}}, nil, map[string]any{"vault": 1}} {
		all[fmt.Sprint("aud ", value)] = changed("aud", value)
	}
	all["another application"] = s.Private.ApplicationID().String() + ":" + good
	all["no application"] = "0192f1c8-2f4e-7000-8000-000000000001:" + good
	all["no id"] = "x:" + good
	all["a JWT alone"] = good
	_, want := s.do(http.MethodGet, own, "SVC-API-KEY", "key_prv_unknown")
	before := s.p.count()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, got := s.do(http.MethodGet, own, "SVC-API-KEY", all[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		id, jwt, _ := strings.Cut(all[name], ":")
		if _, got := s.do(http.MethodGet, own, "SVC-APPLICATION", id, "Authorization", "Bearer "+jwt); got != want {
			t.Errorf("%s, as a bearer token: %s, want %s", name, got, want)
		}
	}
	must.Same(t, "requests to the issuer", before, s.p.count()) // the keys were fetched less than ten seconds ago
	must.Contain(t, "the request log", s.log.text.String(), `"reason":"the claim sub has another value"`)
	must.Lack(t, "the request log", s.log.text.String(), "shop-evil")
}

// An issuer that does not respond makes its own JWTs a 503, once its keys are too old,
// and nothing else.
func TestUnavailableResponses(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop"}).ID.String()
	none := s.Private.ApplicationID().String()
	statuses := func(what string, want ...int) {
		t.Helper()
		jwt := s.p.sign(t, "rsa", rsaKey(), nil)
		evil := s.p.sign(t, "rsa", otherRSA(), nil)
		var got []int
		for _, key := range []string{app + ":" + jwt, app + ":" + evil, none + ":" + jwt, s.PrivateKey} {
			resp, _ := s.do(http.MethodGet, own, "SVC-API-KEY", key)
			if got = append(got, resp.StatusCode); resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: a 503 without Retry-After", what)
			}
		}
		must.Same(t, what, want, got)
		s.v.settle()
	}
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	s.p.set(func() { s.p.respond = down })
	statuses("before the first response", 503, 503, 401, 200)
	s.p.set(func() { s.p.respond = nil })
	s.advance(10 * time.Second)
	statuses("the issuer responds", 200, 401, 401, 200)
	s.p.set(func() { s.p.respond = down })
	s.advance(59 * time.Minute)
	statuses("during the hour", 200, 401, 401, 200)
	s.advance(5 * time.Minute) // the JWT of the last round is no longer remembered
	statuses("after the hour", 503, 503, 401, 200)
	s.p.set(func() { s.p.respond = nil })
	s.advance(10 * time.Second)
	statuses("the issuer is back", 200, 401, 401, 200)
}

// A key that the issuer has removed is refused at most ten minutes later, although its
// JWTs were remembered until then.
func TestRemovedKeyOverHTTP(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop"}).ID.String()
	key := app + ":" + s.p.sign(t, "rsa", rsaKey(), nil)
	call := func() int {
		resp, _ := s.do(http.MethodGet, own, "SVC-API-KEY", key)
		return resp.StatusCode
	}
	must.Same(t, "before", http.StatusOK, call())
	s.p.set(func() { s.p.keys = []jose.JSONWebKey{public("other", otherRSA())} })
	last := time.Duration(0)
	for after := time.Duration(0); after <= 10*time.Minute; after += 30 * time.Second {
		if call() == http.StatusOK {
			last = after
		}
		s.v.settle()
		s.advance(30 * time.Second)
	}
	if last >= 10*time.Minute {
		t.Errorf("the JWT still works after %s", last)
	}
	must.Same(t, "after ten minutes", http.StatusUnauthorized, call())
}

// A person can see the request log, but no JWT is in it.
func TestRequestLogHasNoJWT(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	app := s.application(map[string]any{"sub": "repo:acme/shop"}).ID.String()
	for _, jwt := range []string{s.p.sign(t, "rsa", rsaKey(), nil), s.p.sign(t, "rsa", otherRSA(), nil), s.p.sign(t, "none", rsaKey(), nil)} {
		s.do(http.MethodGet, own, "SVC-API-KEY", app+":"+jwt)
		s.do(http.MethodGet, own, "SVC-APPLICATION", app, "Authorization", "Bearer "+jwt)
		for _, part := range strings.Split(jwt, ".") {
			must.Lack(t, "the request log", s.log.text.String(), part)
		}
	}
}

// BenchmarkRequests sends requests to the REST API with an API key and with a JWT that
// is remembered, in turns, and reports how many requests with the JWT there are for one
// with the key in the same time.
func BenchmarkRequests(b *testing.B) {
	s := newServed(b)
	app := s.application(map[string]any{"sub": "repo:acme/shop"})
	k := must.Get(s.Owner.CreateApplicationKey(b.Context(), app.ID, vault.ApplicationKeyParams{}))(b)
	jwt := app.ID.String() + ":" + s.p.sign(b, "rsa", rsaKey(), nil)
	const batch = 200
	send := func(key string) time.Duration {
		began := time.Now()
		for range batch {
			if resp, text := s.do(http.MethodPost, "/detokenize", "SVC-API-KEY", key); resp.StatusCode != http.StatusOK {
				b.Fatal(text)
			}
		}
		return time.Since(began)
	}
	send(k.Key)
	send(jwt)
	var byKey, byJWT time.Duration
	for b.Loop() {
		byKey += send(k.Key)
		byJWT += send(jwt)
	}
	b.ReportMetric(float64(byKey)/float64(byJWT), "jwt/key")
	b.ReportMetric(float64(b.N*batch)/byKey.Seconds(), "key/s")
	b.ReportMetric(float64(b.N*batch)/byJWT.Seconds(), "jwt/s")
}

// The holder of a management key learns why a JWT matches or does not, and the JWT's
// values do not come back.
func TestExplainOverHTTP(t *testing.T) {
	t.Parallel()
	s := newServed(t)
	for name, c := range map[string]struct {
		subject string
		forge   bool
		want    string
	}{
		"a match":        {"repo:acme/shop", false, `"allowed":true,"reason":"Identity 1 of the application matches the JWT, which is valid.","identities":[{"issuer":"ISSUER","audience":"vault","matches":true}]`},
		"another claim":  {"repo:acme/evil", false, `"allowed":false,"reason":"No identity of the application matches the JWT.","identities":[{"issuer":"ISSUER","audience":"vault","matches":false,"reason":"`},
		"a false signer": {"repo:acme/shop", true, `"allowed":false,"reason":"The claims match, but the JWT is refused: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := s.application(map[string]any{"sub": "repo:acme/shop"})
			jwt := s.p.sign(t, "rsa", rsaKey(), map[string]any{"sub": c.subject})
			if c.forge {
				jwt = jwt[:strings.LastIndexByte(jwt, '.')+1] + strings.Repeat("A", 342)
			}
			body := fmt.Sprintf(`{"application_id":%q,"jwt":%q}`, app.ID, jwt)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://vault.example/permissions/explain", strings.NewReader(body))
			r.Header.Set("SVC-API-KEY", s.ManagementKey)
			w := httptest.NewRecorder()
			s.api.ServeHTTP(w, r)
			want := strings.ReplaceAll(c.want, "ISSUER", s.p.url)
			if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, want) || strings.Contains(got, "evil") {
				t.Errorf("%d %s\nwant %s", w.Code, got, want)
			}
		})
	}
}
